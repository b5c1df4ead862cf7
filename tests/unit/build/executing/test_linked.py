"""Linked files are compared with what was noted of them, whatever their times say."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path

import pytest

from orchestrator.build.executing.linked import (
    Checked,
    Known,
    as_noted,
    made_files,
    note_linked,
    outdated,
    remove_unknown,
)

FILES = ("lib/a.so", "lib/b.a")


def noted(
    note: Path, files: Iterable[Path], before: Checked, identity: str | None = None
) -> list[str]:
    """Note files as a build does; the names of those that ninja has made."""
    made = made_files(files, before)
    note_linked(note, files, before, {p: Known(one, identity) for p, one in made.items()})
    return sorted(path.name for path in made)


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    """Two linked files, noted."""
    paths = [tmp_path / name for name in FILES]
    for path in paths:
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"linked {path.name}")
    noted(tmp_path / "note.json", paths, remove_unknown(tmp_path / "note.json", ()))
    return paths


def removed(files: list[Path], note: Path) -> list[str]:
    """Names of those that a build's check removes."""
    remove_unknown(note, files)
    return [path.name for path in files if not os.path.lexists(path)]


def test_what_is_as_noted_stays(files: list[Path], tmp_path: Path) -> None:
    before = remove_unknown(tmp_path / "note.json", files)
    assert (sorted(before.digests), before.changed) == (files, ())
    assert all(path.is_file() for path in files)


@pytest.mark.parametrize("kind", ["flipped", "empty", "link", "folder", "pipe"])
def test_another_content_with_the_same_times_is_removed(
    kind: str, files: list[Path], tmp_path: Path
) -> None:
    path, facts = files[1], files[1].stat()
    text = path.read_bytes()
    path.unlink()
    if kind == "link":
        (tmp_path / "elsewhere").write_bytes(text)
        path.symlink_to(tmp_path / "elsewhere")
    elif kind == "folder":
        (path / "inside").mkdir(parents=True)
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.write_bytes(bytes([text[0] ^ 1]) + text[1:] if kind == "flipped" else b"")
        os.utime(path, ns=(facts.st_atime_ns, facts.st_mtime_ns))
    before = remove_unknown(tmp_path / "note.json", files)
    assert not os.path.lexists(path)
    assert files[0].is_file()
    # of what is no plain file nothing is told: nobody took it for ours
    assert before.changed == ((path,) if kind in {"flipped", "empty"} else ())


@pytest.mark.parametrize("text", [None, "", "{", "[]", "{}", '{"format": 3, "linked": {}}', "1"])
def test_without_its_note_all_is_linked_again(
    text: str | None, files: list[Path], tmp_path: Path
) -> None:
    note = tmp_path / "note.json"
    note.unlink()
    if text is not None:
        note.write_text(text)
    assert removed(files, note) == ["a.so", "b.a"]


def test_other_builds_of_the_workspace_keep_their_files(files: list[Path], tmp_path: Path) -> None:
    note = tmp_path / "note.json"
    other = tmp_path / "lib/c.so"
    before = remove_unknown(note, [other])
    other.write_text("linked")
    noted(note, [other], before)
    assert removed([*files, other], note) == []
    # one that is gone is forgotten: whoever puts a file there did not link it
    files[0].unlink()
    noted(note, [other], remove_unknown(note, [other]))
    files[0].write_text("linked a.so")
    assert removed([*files, other], note) == ["a.so"]


def test_what_a_link_writes_anew_is_noted_as_it_is_now(files: list[Path], tmp_path: Path) -> None:
    note = tmp_path / "note.json"
    before = remove_unknown(note, files)
    files[0].write_text("another")
    noted(note, files, before)
    assert removed(files, note) == []
    assert files[0].read_text() == "another"


def test_a_workspace_may_move(files: list[Path], tmp_path: Path) -> None:
    moved = tmp_path.with_name(f"{tmp_path.name}-moved")
    tmp_path.rename(moved)
    assert removed([moved / name for name in FILES], moved / "note.json") == []
    moved.rename(tmp_path)


def test_what_ninja_has_made_is_told(files: list[Path], tmp_path: Path) -> None:
    note = tmp_path / "note.json"
    before = remove_unknown(note, files)
    assert noted(note, files, before) == []
    files[0].unlink()
    files[0].write_text("linked a.so")
    assert noted(note, files, before) == ["a.so"]


def test_a_file_is_vouched_for_under_the_identity_of_its_link(
    files: list[Path], tmp_path: Path
) -> None:
    note = tmp_path / "note.json"
    wanted = dict.fromkeys(files, "this link")
    assert as_noted(note, wanted) == {}
    files[0].write_text("of this link")
    noted(note, files[:1], remove_unknown(note, ()), "this link")
    sha256 = hashlib.sha256(b"of this link").hexdigest()
    assert as_noted(note, wanted) == {files[0]: Known(sha256, "this link")}
    assert as_noted(note, dict.fromkeys(files, "another link")) == {}
    files[0].write_text("damaged")
    assert as_noted(note, wanted) == {}


def test_what_another_link_made_is_older_than_everything_and_others_links_to_it_are_not(
    files: list[Path], tmp_path: Path
) -> None:
    note, kept = tmp_path / "note.json", tmp_path / "kept"
    kept.hardlink_to(files[0])
    facts = kept.stat()
    before = outdated(remove_unknown(note, files), files[:1])
    assert [path.stat().st_mtime < 10 for path in files] == [True, False]
    assert files[0].read_text() == "linked a.so"
    assert (kept.stat().st_mtime_ns, kept.stat().st_ino) == (facts.st_mtime_ns, facts.st_ino)
    # ninja has made nothing, and it is still known
    assert noted(note, files, before) == []
    assert removed(files, note) == []
