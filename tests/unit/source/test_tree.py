"""The digest of a source tree depends on the files that count, and on nothing else."""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.source.tree import (
    TreeEmptyError,
    TreeLinkError,
    TreeNameError,
    TreeRules,
    digest_files,
    tree_digest,
    tree_files,
)

RULES = TreeRules(("LICENSE", "src/**/*.h", "src/*.c", "gen/out"), ("src/test/**",))


def fill(root: Path, files: dict[str, str]) -> Path:
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    return root


FILES = {"LICENSE": "free", "src/a.h": "a", "src/deep/er/b.h": "b", "src/c.c": "c", "gen/out": ""}
REST = {"README": "r", "src/deep/d.c": "d", "src/test/e.h": "e", "other/f.h": "f", "src/g.o": "g"}


def test_only_what_counts_is_listed_sorted(tmp_path: Path) -> None:
    root = fill(tmp_path, FILES | REST)
    assert tree_files(root, RULES) == (
        "LICENSE",
        "gen/out",
        "src/a.h",
        "src/c.c",
        "src/deep/er/b.h",
    )


def test_the_digest_ignores_what_does_not_count(tmp_path: Path) -> None:
    bare = tree_digest(fill(tmp_path / "archive", FILES), RULES)
    assert tree_digest(fill(tmp_path / "checkout", FILES | REST), RULES) == bare


def test_the_digest_is_the_one_that_sha256sum_gives(tmp_path: Path) -> None:
    fill(tmp_path, FILES | REST)
    paths = " ".join(tree_files(tmp_path, RULES))
    command = f"sha256sum {paths} | sha256sum"
    done = subprocess.run(command, shell=True, cwd=tmp_path, capture_output=True, text=True)
    assert tree_digest(tmp_path, RULES) == done.stdout.split()[0]


@pytest.mark.parametrize(
    "change",
    [{"src/a.h": "A"}, {"src/new.h": ""}, {"src/a.h": "b", "src/deep/er/b.h": "a"}],
    ids=["content", "one more", "swapped"],
)
def test_the_digest_sees_each_change(tmp_path: Path, change: dict[str, str]) -> None:
    before = tree_digest(fill(tmp_path, FILES), RULES)
    assert tree_digest(fill(tmp_path, change), RULES) != before


def test_a_renamed_file_changes_the_digest(tmp_path: Path) -> None:
    before = tree_digest(fill(tmp_path, FILES), RULES)
    (tmp_path / "src/a.h").rename(tmp_path / "src/z.h")
    assert tree_digest(tmp_path, RULES) != before


@pytest.mark.parametrize(
    ("glob", "path", "counts"),
    [
        ("a/**/*.h", "a/x.h", True),
        ("a/**/*.h", "a/b/c/x.h", True),
        ("a/**/*.h", "b/x.h", False),
        ("a/*.h", "a/b/x.h", False),
        ("a/**", "a/b/c", True),
        ("**/x?.h", "p/q/xy.h", True),
        ("**/x?.h", "xy.h", True),
        ("**/x?.h", "x/.h", False),
        ("a.h", "aXh", False),
        ("a+(b)/[c]", "a+(b)/[c]", True),
        ("**", "any/thing", True),
    ],
)
def test_globs(glob: str, path: str, counts: bool) -> None:
    assert TreeRules((glob,)).counts(path) is counts


@pytest.mark.parametrize("glob", ["**", "**/*.h", "*/a.h"])
def test_a_glob_without_a_head_walks_the_whole_tree(tmp_path: Path, glob: str) -> None:
    assert TreeRules((glob, "src/**")).folders() == ("",)
    assert tree_files(fill(tmp_path, {"src/a.h": ""}), TreeRules((glob,))) == ("src/a.h",)


def test_a_folder_inside_another_is_walked_once() -> None:
    assert TreeRules(("a/b/*.h", "a/**/*.c", "ab/*.h")).folders() == ("a", "ab")


NAMES = st.text("ab-", min_size=1, max_size=3)


@settings(deadline=None)
@given(st.dictionaries(NAMES, st.text("xy"), min_size=1))
def test_every_file_counts_in_the_digest(files: dict[str, str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = fill(Path(folder), files)
        paths = sorted(files)
        before = digest_files(root, paths)
        for path, text in files.items():
            (root / path).write_text(text + "!")
            assert digest_files(root, paths) != before
            (root / path).write_text(text)
        assert digest_files(root, paths) == before
        assert digest_files(root, paths[1:]) != before


def test_another_folder_is_not_a_source_tree(tmp_path: Path) -> None:
    with pytest.raises(TreeEmptyError) as caught:
        tree_files(fill(tmp_path, REST), RULES)
    assert caught.value.render() == (
        "error: this folder is not the expected source tree\n"
        "  expected: files such as LICENSE, src/**/*.h, src/*.c\n"
        f"  seen:     none of them in {tmp_path}\n"
        "  do:       name the root of its checkout or of its unpacked archive"
    )


@pytest.mark.parametrize("path", ["LICENSE", "src/a.h", "src/deep", "src"])
def test_links_are_refused_where_files_count(tmp_path: Path, path: str) -> None:
    root = fill(tmp_path / "tree", FILES)
    (root / path).rename(tmp_path / "moved")
    (root / path).symlink_to(tmp_path / "moved")
    with pytest.raises(TreeLinkError) as caught:
        tree_digest(root, RULES)
    assert caught.value.expected == f"a file or folder at {path}"
    assert caught.value.seen == f"a link to {tmp_path / 'moved'}"


def test_links_elsewhere_do_not_matter(tmp_path: Path) -> None:
    before = tree_digest(fill(tmp_path, FILES), RULES)
    (tmp_path / "docs").symlink_to("src")
    (tmp_path / "src/notes.md").symlink_to("a.h")
    assert tree_digest(tmp_path, RULES) == before


@pytest.mark.parametrize("name", [b"\xff.h", b"a\nb.h", b"a\tb.h", b"a\x7f.h"])
@pytest.mark.parametrize("folder", ["src", "src/deep"])
def test_names_that_are_not_one_line_of_text_are_refused(
    tmp_path: Path, name: bytes, folder: str
) -> None:
    root = fill(tmp_path, FILES)
    (root / folder).mkdir(exist_ok=True)
    (root / folder / os.fsdecode(name)).touch()
    with pytest.raises(TreeNameError) as caught:
        tree_digest(root, RULES)
    assert caught.value.render() == (
        "error: a file name in the source tree is not a single line of UTF-8\n"
        f"  seen:     {folder.encode() + b'/' + name!r} in {root}\n"
        "  do:       remove the file, or use a checkout or archive without it"
    )


def test_names_of_files_that_do_not_count_do_not_matter(tmp_path: Path) -> None:
    before = tree_digest(fill(tmp_path, FILES), RULES)
    (tmp_path / "src" / os.fsdecode(b"\xff.txt")).touch()
    assert tree_digest(tmp_path, RULES) == before


def test_special_files_are_refused_where_files_count(tmp_path: Path) -> None:
    root = fill(tmp_path, FILES)
    os.mkfifo(root / "src/pipe.h")
    with pytest.raises(TreeLinkError) as caught:
        tree_digest(root, RULES)
    assert caught.value.render() == (
        "error: the source tree contains a pipe, socket or device\n"
        "  expected: a file at src/pipe.h\n"
        "  do:       use a checkout or archive with plain files in these folders"
    )
