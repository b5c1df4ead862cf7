"""The store gives out what it was given, or nothing."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrator.cache import store as module
from orchestrator.cache.store import ObjectStore, Restored

NAME = "objects/ab/abcd.o"
CODE = hashlib.sha256(b"code" * 1000).hexdigest()


@pytest.fixture
def store(tmp_path: Path) -> ObjectStore:
    """A store that holds one object."""
    made = tmp_path / "first" / "made.o"
    made.parent.mkdir()
    made.write_bytes(b"code" * 1000)
    store = ObjectStore((tmp_path / "cache",))
    assert store.put(NAME, made)
    return store


def entry(store: ObjectStore) -> Path:
    (path,) = (store.folders[0] / "objects/ab").iterdir()
    return path


def test_an_entry_is_named_by_its_action_and_its_content(store: ObjectStore) -> None:
    sha256 = "eabb4b87e9e31ffc5e2ef5e7c8f50e6c93b5bbb45b7abb7d2b9d0f8b0e6d7b4f"
    name = entry(store).name
    assert name.startswith("abcd.")
    assert name.endswith(".o")
    assert len(name) == len(f"abcd.{sha256}.o")
    names = [NAME, "objects/ab/abce.o", "objects/cd/cd.o"]
    assert store.listed(names) == {NAME}
    assert store.named_digests(names) == {NAME: CODE}


def test_it_is_given_out_as_a_link(store: ObjectStore, tmp_path: Path) -> None:
    place = tmp_path / "second" / "x.o"
    restored = store.restore({NAME: place, "objects/cd/cd.o": tmp_path / "other.o"})
    assert restored == Restored({NAME: CODE}, ())
    assert place.samefile(entry(store))
    before = place.stat()
    assert store.restore({NAME: place}).present == {NAME}
    assert place.stat() == before
    assert [p.name for p in place.parent.iterdir()] == ["x.o"]


def test_an_entry_is_on_the_disk_before_it_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a power loss no name refers to an empty file."""
    made = tmp_path / "made.o"
    made.write_bytes(b"code")
    done: list[tuple[str, int]] = []
    fsync, replace = os.fsync, Path.replace

    def synced(descriptor: int) -> None:
        done.append(("synced", os.fstat(descriptor).st_ino))
        fsync(descriptor)

    def named(self: Path, other: Path) -> Path:
        done.append(("named", self.stat().st_ino))
        return replace(self, other)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(Path, "replace", named)
    store = ObjectStore((tmp_path / "cache",))
    assert store.put(NAME, made)
    file, folder = made.stat().st_ino, entry(store).parent.stat().st_ino
    assert done == [("synced", file), ("named", file), ("synced", folder)]


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "emptied": lambda data: b"",
    "cut short": lambda data: data[:-1],
    "longer": lambda data: data + b"\0",
    "a bit": lambda data: data[:100] + bytes([data[100] ^ 1]) + data[101:],
}


@pytest.mark.parametrize("how", DAMAGES)
def test_a_damaged_entry_is_never_given_out(how: str, store: ObjectStore, tmp_path: Path) -> None:
    damaged, place = entry(store), tmp_path / "x.o"
    assert store.restore({NAME: place}).present
    # in place, so that the workspace's link is damaged with it
    damaged.write_bytes(DAMAGES[how](damaged.read_bytes()))
    restored = store.restore({NAME: place})
    assert restored == Restored({}, (damaged.name,))
    assert not damaged.exists()
    assert not place.exists()


def folder(path: Path) -> None:
    path.mkdir()
    (path / "x").touch()


def link(path: Path) -> None:
    """To the right content, which somebody may change after it was checked."""
    other = path.with_name("other")
    other.write_bytes(b"code" * 1000)
    path.symlink_to(other)


def loop(path: Path) -> None:
    path.symlink_to(path.name)


@pytest.mark.parametrize("make", [folder, link, loop, os.mkfifo])
def test_what_is_no_file_is_replaced(
    make: Callable[[Path], None], store: ObjectStore, tmp_path: Path
) -> None:
    """Beside the store, and in it."""
    place, kept = tmp_path / "x.o", entry(store)
    make(place)
    assert store.restore({NAME: place}).present == {NAME}
    assert place.samefile(kept)
    assert not place.is_symlink()
    made = tmp_path / "made.o"
    place.rename(made)
    kept.unlink()
    make(kept)
    assert store.restore({NAME: place}) == Restored({}, (kept.name,))
    assert not os.path.lexists(kept)
    assert store.put(NAME, made)
    make(place)
    kept.unlink()
    assert store.restore({NAME: place}) == Restored({}, ())
    assert not os.path.lexists(place)


def test_a_folder_of_entries_that_is_a_loop_of_links(store: ObjectStore, tmp_path: Path) -> None:
    (store.folders[0] / "loop").symlink_to("loop")
    assert store.restore({"loop/abcd.o": tmp_path / "x.o"}) == Restored({}, ())


def test_what_lies_in_the_workspace_is_checked_too(store: ObjectStore, tmp_path: Path) -> None:
    place = tmp_path / "x.o"
    # of a compiler that was killed
    place.write_bytes(b"half")
    assert store.restore({NAME: place}).present == {NAME}
    assert place.read_bytes() == b"code" * 1000
    stray = tmp_path / "y.o"
    stray.write_bytes(b"half")
    assert store.restore({"objects/cd/cd.o": stray}).present == frozenset()
    assert not stray.exists()


def test_an_object_that_is_made_again_takes_the_place_of_a_damaged_one(
    store: ObjectStore, tmp_path: Path
) -> None:
    damaged, made = entry(store), tmp_path / "again.o"
    made.write_bytes(damaged.read_bytes())
    damaged.write_bytes(b"")
    assert store.put(NAME, made)
    assert entry(store).read_bytes() == b"code" * 1000


def test_two_contents_of_one_action_lie_beside_each_other(
    store: ObjectStore, tmp_path: Path
) -> None:
    other = tmp_path / "other.o"
    other.write_bytes(b"the same code, at another time")
    assert store.put(NAME, other)
    first, second = sorted((store.folders[0] / "objects/ab").iterdir())
    first.write_bytes(b"")
    place = tmp_path / "x.o"
    restored = store.restore({NAME: place})
    whole = hashlib.sha256(second.read_bytes()).hexdigest()
    assert restored == Restored({NAME: whole}, (first.name,))
    assert place.samefile(second)


def test_another_file_system_gets_copies(
    store: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: Path, target: Path) -> None:
        raise OSError(18, "Invalid cross-device link")

    monkeypatch.setattr(Path, "hardlink_to", refuse)
    place = tmp_path / "x.o"
    assert store.restore({NAME: place}).present == {NAME}
    assert not place.samefile(entry(store))
    assert store.put("objects/ef/ef.o", place)
    assert store.restore({"objects/ef/ef.o": place}).present


def test_a_cache_that_is_read_only_is_read_and_another_folder_written(
    store: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put = module._store

    def refuse(target: Path, path: Path) -> bool:
        return not target.is_relative_to(store.folders[0]) and put(target, path)

    monkeypatch.setattr(module, "_store", refuse)
    both = ObjectStore((*store.folders, tmp_path / "own"))
    made = tmp_path / "made.o"
    made.write_bytes(b"new")
    assert both.put("objects/ef/ef.o", made)
    restored = both.restore({NAME: tmp_path / "x.o", "objects/ef/ef.o": tmp_path / "y.o"})
    assert restored.present == {NAME, "objects/ef/ef.o"}


def test_nowhere_to_write_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    made = tmp_path / "made.o"
    made.write_bytes(b"new")
    assert not ObjectStore((tmp_path / "file",)).put(NAME, made)
    assert not ObjectStore((tmp_path / "cache",)).put(NAME, tmp_path / "missing.o")


def test_an_object_from_the_future_gets_todays_time(store: ObjectStore, tmp_path: Path) -> None:
    os.utime(entry(store), (time.time() + 10**6,) * 2)
    place = tmp_path / "x.o"
    store.restore({NAME: place})
    assert place.stat().st_mtime <= time.time()
    os.utime(place, (time.time() + 10**6,) * 2)
    assert store.restore({NAME: place}) == Restored({NAME: CODE}, ())
    assert place.stat().st_mtime <= time.time()
