"""Writes are all or nothing, under names that no other process can have."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from orchestrator.system.staging import (
    MANY,
    STALE_SECONDS,
    part_of,
    remove_leftovers,
    remove_no_file,
    sync_tree,
    write_bytes,
    write_text,
)


def test_a_file_is_written_whole_with_its_folder(tmp_path: Path) -> None:
    write_text(tmp_path / "a" / "b.txt", "ä\r\n")
    assert (tmp_path / "a" / "b.txt").read_bytes() == "ä\r\n".encode()
    assert [p.name for p in (tmp_path / "a").iterdir()] == ["b.txt"]


def test_a_failed_write_leaves_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x"
    write_bytes(path, b"old")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_bytes(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_what_is_no_plain_file_is_removed(tmp_path: Path) -> None:
    for name in ("file", "folder", "pipe", "link", "missing"):
        path = tmp_path / name
        if name == "file":
            path.touch()
        elif name == "folder":
            (path / "inner").mkdir(parents=True)
        elif name == "pipe":
            os.mkfifo(path)
        elif name == "link":
            path.symlink_to(tmp_path / "file")
        remove_no_file(path)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_no_two_parts_have_one_name(tmp_path: Path) -> None:
    assert len({part_of(tmp_path / "x") for _ in range(100)}) == 100
    assert len(part_of(tmp_path / ("ä" * 127)).name.encode()) <= 255


def test_of_many_files_the_disk_is_told_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    monkeypatch.setattr("os.sync", lambda: told.append("all"))
    monkeypatch.setattr("os.fsync", lambda descriptor: told.append("one"))
    for number in range(MANY - 1):
        (tmp_path / str(number)).touch()
    sync_tree(tmp_path)
    assert told == ["one"] * MANY  # and the folder itself
    (tmp_path / "one more").touch()
    told.clear()
    sync_tree(tmp_path)
    assert told == ["all"]


def test_links_are_entries_of_their_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As musl's package has one: its loader is a link to its libc."""
    synced: list[str] = []
    monkeypatch.setattr(
        "os.fsync", lambda fd: synced.append(Path(f"/proc/self/fd/{fd}").readlink().name)
    )
    (tmp_path / "libc.so").touch()
    (tmp_path / "loader").symlink_to("libc.so")
    (tmp_path / "nowhere").symlink_to("gone")
    (tmp_path / "here").symlink_to(".")
    sync_tree(tmp_path)
    assert sorted(synced) == sorted(["libc.so", tmp_path.name])


def test_what_killed_processes_left_is_removed_after_a_day(tmp_path: Path) -> None:
    staging = tmp_path / "staging"
    left = [
        part_of(tmp_path / "objects/ab/x.o"),
        part_of(tmp_path / "generated/abc") / "ATen/x.h",
        staging / "generated-1/x.h",
        staging / "a file",
    ]
    kept = [tmp_path / "objects/ab/x.o", tmp_path / "objects/a.part", tmp_path / "objects/.x"]
    for path in (*left, *kept):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("1")
    remove_leftovers(tmp_path, staging)
    assert all(path.exists() for path in (*left, *kept))
    old = time.time() - STALE_SECONDS - 60
    for path in sorted(tmp_path.rglob("*"), reverse=True):
        os.utime(path, (old, old))
    fresh = part_of(tmp_path / "objects/ab/y.o")
    fresh.write_text("1")
    (staging / "link").symlink_to(tmp_path / "objects")
    os.utime(staging / "link", (old, old), follow_symlinks=False)
    remove_leftovers(tmp_path, staging)
    assert {path for path in tmp_path.rglob("*") if path.is_file()} == {*kept, fresh}
    assert list(staging.iterdir()) == []
    remove_leftovers(tmp_path / "gone", tmp_path / "gone/staging")
