"""Folders that say what they hold."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from orchestrator.system.sums import SUMS, is_whole, publish


def staged(tmp_path: Path, text: str = "a") -> Path:
    folder = tmp_path / "staged"
    (folder / "b").mkdir(parents=True)
    (folder / "b/c").write_text(text)
    (folder / "a").write_text("")
    return folder


def test_a_folder_is_published_with_its_sums(tmp_path: Path) -> None:
    target = tmp_path / "x/target"
    publish(staged(tmp_path), target)
    assert is_whole(target)
    assert (target / SUMS).read_text() == (
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855  a\n"
        "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb  b/c\n"
    )


@pytest.mark.parametrize("how", ["emptied", "missing", "more", "no sums", "sums in no encoding"])
def test_a_damaged_folder_is_not_whole_and_is_replaced(how: str, tmp_path: Path) -> None:
    target = tmp_path / "target"
    publish(staged(tmp_path), target)
    match how:
        case "emptied":
            (target / "b/c").write_text("")
        case "missing":
            (target / "a").unlink()
        case "more":
            (target / "d").touch()
        case "no sums":
            (target / SUMS).unlink()
        case _:
            (target / SUMS).write_bytes(b"\xff")
    assert not is_whole(target)
    publish(staged(tmp_path), target)
    assert is_whole(target)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["target"]


def test_another_processs_folder_stays(tmp_path: Path) -> None:
    target = tmp_path / "target"
    publish(staged(tmp_path, "theirs"), target)
    publish(staged(tmp_path, "ours"), target)
    assert (target / "b/c").read_text() == "theirs"


def test_all_is_on_the_disk_before_the_folder_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: set[int] = set()
    at_rename: list[set[int]] = []
    fsync, rename = os.fsync, Path.rename

    def sync(descriptor: int) -> None:
        synced.add(os.fstat(descriptor).st_ino)
        fsync(descriptor)

    def named(self: Path, other: Path) -> Path:
        at_rename.append(set(synced))
        return rename(self, other)

    monkeypatch.setattr(os, "fsync", sync)
    monkeypatch.setattr(Path, "rename", named)
    target = tmp_path / "target"
    publish(staged(tmp_path), target)
    inside = {path.stat().st_ino for path in (target, *target.rglob("*"))}
    assert len(inside) == 5
    assert inside <= at_rename[0]
    assert target.parent.stat().st_ino in synced
