"""Folders of ours, and `clean`: what carries our marker goes, and nothing else."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from orchestrator import cli
from orchestrator.deliver.files import write_package
from orchestrator.system.folders import (
    MARKER,
    FolderIsLinkError,
    FolderNotOursError,
    FolderUnusableError,
    ensure_folder,
    is_ours,
    remove_folder,
)
from orchestrator.system.workspace_lock import RUNS, workspace_lock

WORKSPACE = f"""\
version: 1
runtime: {{pytorch: 1.13.1, tree: "{"0" * 64}", sources: [path: here]}}
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "workspace"
    root.mkdir()
    (root / "WORKSPACE").write_text(WORKSPACE)
    return root


def _clean(root: Path, *words: str) -> int:
    return cli.main(["clean", *words], env={"ORCHESTRATOR_CACHE": "../cache"}, cwd=root)


def _tree(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*"))


def test_a_made_folder_carries_the_marker(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    assert ensure_folder(folder, "cache") == folder
    assert _tree(tmp_path) == ["a", "a/b", f"a/b/{MARKER}"]
    assert (folder / MARKER).read_text() == (
        "A folder of libtorch-orchestrator (cache). `orchestrator clean` may remove it.\n"
    )
    (folder / "kept").touch()
    ensure_folder(folder, "cache")
    assert _tree(folder) == [MARKER, "kept"]


def test_a_made_folder_has_the_users_mode(tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    ensure_folder(tmp_path / "ours", "state")
    assert (tmp_path / "ours").stat().st_mode == (tmp_path / "plain").stat().st_mode


@pytest.mark.parametrize(
    ("where", "seen"),
    [
        ("file", "Not a directory: {}/file"),
        ("file/below", "File exists: {}/file"),
    ],
)
def test_a_path_at_which_no_folder_can_be(tmp_path: Path, where: str, seen: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(FolderUnusableError) as caught:
        ensure_folder(tmp_path / where, "cache")
    assert caught.value.render() == (
        f"error: the folder {tmp_path / where} cannot be made\n"
        f"  seen:     {seen.format(tmp_path)}\n"
        "  do:       set ORCHESTRATOR_CACHE to a folder of yours"
    )


def test_an_empty_folder_is_taken_over(tmp_path: Path) -> None:
    # What another process left when it was killed while it took the folder over.
    (tmp_path / f"{MARKER}.123").touch()
    ensure_folder(tmp_path, "cache")
    assert is_ours(tmp_path)


def test_a_folder_with_other_files_is_not_taken_over(tmp_path: Path) -> None:
    for name in ("thesis.tex", "a", "b", "c"):
        (tmp_path / name).touch()
    with pytest.raises(FolderNotOursError) as caught:
        ensure_folder(tmp_path, "cache")
    assert caught.value.render() == (
        f"error: {tmp_path} holds files and does not carry our marker\n"
        "  expected: a folder of ours, or an empty one\n"
        "  seen:     a, b, c, ...\n"
        "  do:       set ORCHESTRATOR_CACHE to another folder, a new or an empty one"
    )


def test_a_folder_that_another_process_makes_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "ours"
    exists = Path.exists

    def late(path: Path) -> bool:
        found = exists(path)
        if path == folder and not found:
            folder.mkdir()
            (folder / MARKER).write_text("theirs")
        return found

    monkeypatch.setattr(Path, "exists", late)
    ensure_folder(folder, "cache")
    assert _tree(tmp_path) == ["ours", f"ours/{MARKER}"]
    assert (folder / MARKER).read_text() == "theirs"


def test_removal_counts_bytes_and_does_not_follow_links(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("precious")
    folder = ensure_folder(tmp_path / "ours", "state")
    (folder / "sub").mkdir()
    (folder / "sub" / "file").write_bytes(b"x" * 1000)
    (folder / "to_folder").symlink_to(outside)
    (folder / "broken").symlink_to("nowhere")
    os.link(outside / "precious", folder / "second_name")
    (folder / "sub").chmod(0o500)
    links = len(str(outside)) + len("nowhere")
    assert remove_folder(folder) == 1000 + links + 79
    assert _tree(tmp_path) == ["outside", "outside/precious"]


def test_an_interrupted_removal_can_be_done_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = ensure_folder(tmp_path / "ours", "state")
    for name in "abc":
        (folder / name).touch()
    unlink = Path.unlink

    def interrupted(path: Path, missing_ok: bool = False) -> None:
        if path.name == "b":
            raise KeyboardInterrupt
        unlink(path, missing_ok)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", interrupted)
        with pytest.raises(KeyboardInterrupt):
            remove_folder(folder)
    assert is_ours(folder)
    remove_folder(folder)
    assert not folder.exists()


def test_removal_refuses_a_folder_without_the_marker(tmp_path: Path) -> None:
    (tmp_path / "precious").touch()
    with pytest.raises(FolderNotOursError) as caught:
        remove_folder(tmp_path)
    assert caught.value.render() == (
        f"error: {tmp_path} does not carry our marker, so it is not removed\n"
        f"  expected: a file {MARKER} in it\n"
        "  do:       remove it by hand, if nothing in it is wanted"
    )


def test_removal_refuses_a_link(tmp_path: Path) -> None:
    folder = ensure_folder(tmp_path / "ours", "state")
    link = tmp_path / "link"
    link.symlink_to(folder)
    with pytest.raises(FolderIsLinkError) as caught:
        remove_folder(link)
    assert caught.value.render() == (
        f"error: {link} is a symbolic link, and links are not followed\n"
        f"  seen:     a link to {folder}\n"
        "  do:       remove the link by hand"
    )


@pytest.mark.parametrize("length", [1, 100_000])
def test_clean_removes_state_and_dist(
    length: int, root: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["orchestrator", "x" * length])
    for folder in (root / ".orchestrator", root / "dist", root.parent / "cache"):
        ensure_folder(folder, "state")
        (folder / "file").write_bytes(b"x" * 1921)
    assert _clean(root) == 0
    # The lock that was held meanwhile counts too; its size is not fixed.
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"removed {root}/dist (2,000 bytes)"
    assert lines[1].startswith(f"removed {root}/.orchestrator (2,")
    assert lines[2].startswith("freed 4,")
    assert _tree(root) == ["WORKSPACE"]
    assert is_ours(root.parent / "cache")


def test_clean_removes_the_cache_when_asked(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ensure_folder(root.parent / "cache", "cache")
    assert _clean(root, "--cache") == 0
    assert not (root.parent / "cache").exists()
    assert capsys.readouterr().out.endswith("freed 79 bytes\n")


def test_clean_with_nothing_to_do(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _clean(root, "--cache") == 0
    assert capsys.readouterr().out == "nothing to remove\n"
    assert _tree(root) == ["WORKSPACE"]


def test_clean_refuses_before_it_removes_anything(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for folder in (root / ".orchestrator", root / "dist"):
        ensure_folder(folder, "state")
    (root.parent / "cache").mkdir()
    assert _clean(root, "--cache") == 1
    assert "cache does not carry our marker" in capsys.readouterr().err
    assert is_ours(root / ".orchestrator")
    assert is_ours(root / "dist")


def test_clean_does_not_disturb_a_build(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ensure_folder(root / "dist", "dist")
    with workspace_lock(root / ".orchestrator", True, print, command="orchestrator build //..."):
        assert _clean(root) == 1
    err = capsys.readouterr().err
    assert err.startswith("error: another process is using this workspace\n  seen:     process ")
    assert is_ours(root / "dist")


def test_clean_does_not_disturb_a_run(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ensure_folder(root / ".orchestrator", "state")
    with workspace_lock(root / ".orchestrator" / RUNS, True, print, command="run"):
        assert _clean(root) == 1
    err = capsys.readouterr().err
    assert err.startswith("error: another process is using this workspace\n  seen:     process ")
    assert is_ours(root / ".orchestrator")


def test_clean_keeps_files_beside_our_packages(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    packages = ensure_folder(root / "dist", "dist") / "camera/packages"
    for name in ("ours.deb", "changed.deb"):
        write_package(packages / name, name, lambda file: file.write(b"ours"))
    (packages / "changed.deb").write_text("mine")
    (packages / "mine.txt").write_text("mine")
    (root / "dist/camera/linux").mkdir()
    outside = root / "outside"
    outside.mkdir()
    (root / "dist/reader").mkdir()
    (root / "dist/reader/packages").symlink_to(outside)
    assert _clean(root) == 0
    assert _tree(root / "dist") == [
        MARKER,
        "camera",
        "camera/packages",
        "camera/packages/changed.deb",
        "camera/packages/mine.txt",
        "reader",
        "reader/packages",
    ]
    assert outside.is_dir()
    lines = capsys.readouterr().out.splitlines()
    assert lines[-4:-1] == [
        f"kept {packages}/changed.deb, which the orchestrator did not write",
        f"kept {packages}/mine.txt, which the orchestrator did not write",
        f"kept {root}/dist/reader/packages, which the orchestrator did not write",
    ]
    (packages / "changed.deb").unlink()
    (packages / "mine.txt").unlink()
    (root / "dist/reader/packages").unlink()
    assert _clean(root) == 0
    assert not (root / "dist").exists()


def test_what_would_be_removed(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    state = ensure_folder(root / ".orchestrator", "state")
    (state / "sub").mkdir()
    (state / "sub/file").write_bytes(b"x" * 1000)
    dist = ensure_folder(root / "dist", "dist")
    (dist / "camera/packages").mkdir(parents=True)
    (dist / "camera/packages/mine.txt").write_text("mine")
    ensure_folder(root.parent / "cache", "cache")
    before = _tree(root.parent)
    assert _clean(root, "--cache", "--dry-run") == 0
    told = capsys.readouterr().out
    # the workspace is locked meanwhile
    lock = "workspace/.orchestrator/lock"
    assert _tree(root.parent) == sorted([*before, lock])
    assert _clean(root, "--cache") == 0
    done = capsys.readouterr().out
    for would, does in (("remove", "removed"), ("keep", "kept"), ("free", "freed")):
        told = told.replace(f"would {would}", does)
    assert told == done
    assert f"removed {dist} (0 bytes)\n" in done
    assert f"kept {dist}/camera/packages/mine.txt, which the orchestrator did not write\n" in done
    assert (dist / "camera/packages/mine.txt").read_text() == "mine"
