"""The store of shards: what is there is checked, what is damaged made again, nothing blocks."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest
from toy_shards import CONTENT, Toy

from orchestrator.build.development import development
from orchestrator.build.development.shard_files import forget_old, forget_old_bases, in_use
from orchestrator.cache.pruning import entries


@pytest.fixture(autouse=True)
def unpatched(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a toy puts into the module is taken back."""
    monkeypatch.setattr(development, "compile_objects", None)
    monkeypatch.setattr(development, "lacks_of_cxx", None)
    monkeypatch.setattr(development, "link_addon", None)


def only_entry(cache: Path) -> Path:
    (found,) = (cache / "shards").glob("*/*.so")
    return found


def test_what_one_workspace_made_another_takes_from_the_store(tmp_path: Path) -> None:
    one, other = Toy(tmp_path / "one", tmp_path), Toy(tmp_path / "other", tmp_path)
    assert one.put() == 7
    assert other.put() is None
    assert other.made == 0
    assert other.path.read_bytes() == CONTENT


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"",
        lambda data: data[:100],
        lambda data: data[:100] + bytes([data[100] ^ 1]) + data[101:],
        lambda data: data + b"\0",
    ],
)
def test_a_damaged_one_is_told_dropped_and_made_again(
    tmp_path: Path, damage: Callable[[bytes], bytes]
) -> None:
    toy = Toy(tmp_path, tmp_path / "cache")
    toy.put()
    # the entry and the workspace's file are one
    only_entry(tmp_path / "cache").write_bytes(damage(CONTENT))
    assert toy.put() == 7
    assert toy.said == ["aaaaaaaaaaaa... in the store is damaged: removed, and made again"]
    assert toy.path.read_bytes() == only_entry(tmp_path / "cache").read_bytes() == CONTENT
    assert toy.put() is None


def test_a_file_in_its_place_that_the_store_does_not_know_is_not_opened(tmp_path: Path) -> None:
    toy = Toy(tmp_path, tmp_path / "cache")
    toy.path.parent.mkdir(parents=True)
    toy.path.write_bytes(b"of somebody else")
    assert toy.put() == 7
    assert toy.path.read_bytes() == CONTENT


def test_a_store_that_cannot_be_written_does_not_hinder(tmp_path: Path) -> None:
    """A file stands where its folder should be, for root may write anywhere."""
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache/shards").write_text("")
    toy = Toy(tmp_path, tmp_path / "cache")
    assert toy.put() == 7
    assert toy.path.read_bytes() == CONTENT
    # the workspace's own folder has it
    assert toy.put() is None


KILLED = """
import sys, time
from pathlib import Path
sys.path[:0] = {path!r}
from toy_shards import Toy
toy = Toy(Path({root!r}), Path({cache!r}))
link = toy.link
def slow(*words, **how):
    made = link(*words, **how)
    with made.open("ab") as file:
        for _ in range(400):
            file.write(b"x" * 20000)
            print("working", flush=True)
            time.sleep(0.0005)
    made.write_bytes(toy.content)
    return made
toy.link = slow
toy.put()
print("done", flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize("lines", [0, 1, 30, 401])
def test_killed_in_the_middle_it_leaves_nothing_that_blocks_or_is_opened(
    tmp_path: Path, lines: int
) -> None:
    cache = tmp_path / "cache"
    path = [str(Path(__file__).parents[3] / "support"), *sys.path]
    text = KILLED.format(path=path, root=str(tmp_path), cache=str(cache))
    with subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        for _ in range(lines):
            process.stdout.readline()
        process.send_signal(signal.SIGKILL)
    toy = Toy(tmp_path, cache)
    began = time.monotonic()
    assert toy.put() == (None if lines == 401 else 7)
    assert time.monotonic() - began < 5
    assert toy.said == []
    assert toy.path.read_bytes() == CONTENT


def put_in(folders: tuple[str, str]) -> bytes:
    root, cache = map(Path, folders)
    toy = Toy(root, cache)
    toy.put()
    return toy.path.read_bytes()


def test_processes_at_once_have_the_same(tmp_path: Path) -> None:
    folders = [(str(tmp_path / str(n)), str(tmp_path / "cache")) for n in range(12)]
    with ProcessPoolExecutor(4) as pool:
        assert set(pool.map(put_in, folders)) == {CONTENT}
    assert only_entry(tmp_path / "cache").read_bytes() == CONTENT


def test_what_a_workspace_links_is_held_and_old_ones_are_let_go(tmp_path: Path) -> None:
    toy = Toy(tmp_path, tmp_path / "cache")
    toy.put()
    assert [one.is_held for one in entries(tmp_path / "cache")] == [True]
    for number in range(20):
        path = toy.path.with_name(f"libdevelopment_{number:02}.so")
        path.write_bytes(b"")
        os.utime(path, (2**31 + number, 2**31 + number))
    forget_old(toy.path.parent)
    left = sorted(path.name for path in toy.path.parent.iterdir())
    assert left == [f"libdevelopment_{number:02}.so" for number in range(4, 20)]
    assert [one.is_held for one in entries(tmp_path / "cache")] == [False]


def test_what_another_process_is_about_to_open_is_not_let_go(tmp_path: Path) -> None:
    paths = [tmp_path / f"libdevelopment_{number:02}.so" for number in range(20)]
    for number, path in enumerate(paths):
        path.write_bytes(b"")
        os.utime(path, (number, number))
    with in_use(paths[1]), in_use(paths[1]):
        forget_old(tmp_path)
        assert sorted(tmp_path.iterdir()) == [paths[1], *paths[4:]]
    forget_old(tmp_path)
    assert sorted(tmp_path.iterdir()) == paths[4:]


def test_bases_of_other_releases_are_let_go_and_their_shards_with_them(tmp_path: Path) -> None:
    """Each base that stays links its entry of the store, which nothing prunes then."""
    store, folder = tmp_path / "cache/shards/ab", tmp_path / "state/development"
    store.mkdir(parents=True)
    libraries = [folder / str(number) / "libdevelopment_torch.so" for number in range(7)]
    for number, library in enumerate(libraries):
        entry = store / f"{number}-base.{64 * 'a'}.so"
        entry.write_bytes(b"x")
        library.parent.mkdir(parents=True)
        library.hardlink_to(entry)
        (library.parent / "driver").touch()
        os.utime(library, (number, number))
    (folder / "shards").mkdir()
    (folder / "link").mkdir()
    with in_use(libraries[1]):
        forget_old_bases(folder)
    left = {path.name for path in folder.iterdir()}
    assert left == {"1", "3", "4", "5", "6", "link", "shards"}
    held = [entry.path.name[0] for entry in entries(tmp_path / "cache") if entry.is_held]
    assert held == ["1", "3", "4", "5", "6"]
    forget_old_bases(folder)
    assert {path.name for path in folder.iterdir()} == left - {"1"}
