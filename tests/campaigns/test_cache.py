"""Builds that share a cache: killed, at once, in containers, over damaged and read-only ones.

The builds are small ones (toy_build.py), whose store, ninja file and ninja are those of real ones.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from harness import Campaign
from toy_build import expected, library

ROOT = Path(__file__).parents[2]
COUNT = 12
# A namespace of processes of its own, as in a container: process numbers are small, and the same.
CONTAINER = ("unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc")


def start(
    root: Path, cache: Path, inside: Sequence[str] = (), count: int = COUNT
) -> subprocess.Popen[str]:
    script = Path(__file__).with_name("toy_build.py")
    return subprocess.Popen(
        [*inside, sys.executable, str(script), str(root), str(cache), str(count)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def finished(process: subprocess.Popen[str]) -> str:
    """What a build that must succeed says."""
    said, _ = process.communicate(timeout=120)
    assert process.returncode == 0, said
    return said


def is_right(root: Path) -> bool:
    return library(root).read_text() == expected(COUNT)


def test_a_build_that_is_interrupted_takes_nothing_from_another(
    campaign: Campaign, tmp_path: Path
) -> None:
    for number, rng in campaign.tries(short=4, long=100):
        cache = tmp_path / f"cache {number}"
        one, other = tmp_path / f"{number} one", tmp_path / f"{number} other"
        first, second = start(one, cache), start(other, cache)
        time.sleep(rng.uniform(0.2, 1.2))
        how = rng.choice([signal.SIGINT, signal.SIGKILL])
        # to the whole group, as a terminal and a container's end do; or to the process alone
        if rng.random() < 0.5:
            os.killpg(first.pid, how)
        else:
            first.send_signal(how)
        finished(second)
        assert is_right(other), f"try {number}"
        said, _ = first.communicate(timeout=120)
        assert first.returncode in (0, 130, -signal.SIGINT, -signal.SIGKILL), (number, said)
        finished(start(one, cache))
        assert is_right(one), f"try {number}"


@pytest.mark.parametrize("count", [2, 4])
def test_containers_with_the_same_process_numbers_share_a_cache(
    count: int, campaign: Campaign, tmp_path: Path
) -> None:
    for number, _ in campaign.tries(short=1, long=25):
        cache = tmp_path / f"cache {number}"
        roots = [tmp_path / f"{number} {name}" for name in range(count)]
        for process in [start(root, cache, CONTAINER) for root in roots]:
            finished(process)
        assert all(map(is_right, roots)), f"try {number}"
        assert not list(cache.rglob("*.part"))


def _flipped(data: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(data))
    return data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :]


DAMAGES: dict[str, Callable[[bytes, random.Random], bytes]] = {
    "emptied": lambda data, rng: b"",
    "cut short": lambda data, rng: data[: rng.randrange(len(data))],
    "one bit": _flipped,
}


@pytest.mark.parametrize("how", DAMAGES)
def test_each_damaged_object_is_found_and_made_again(
    how: str, campaign: Campaign, tmp_path: Path
) -> None:
    cache, root = tmp_path / "cache", tmp_path / "root"
    finished(start(root, cache))
    for number, rng in campaign.tries(short=2, long=COUNT):
        objects = sorted((cache / "objects").rglob("*.o"))
        assert len(objects) == COUNT
        damaged = objects[number % COUNT]
        damaged.write_bytes(DAMAGES[how](damaged.read_bytes(), rng))
        # by turns the workspace that has a link to it, and a new one
        where = root if number % 2 else tmp_path / f"root {number}"
        said = finished(start(where, cache))
        assert "1 damaged object in the cache: removed, to be compiled again" in said
        assert is_right(where), f"try {number}"


def test_a_cache_that_is_read_only_serves(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    finished(start(tmp_path / "first", cache))
    root = tmp_path / "second"
    mount = f'mount --bind "{cache}" "{cache}" && mount -o remount,bind,ro "{cache}" && exec "$@"'
    inside = ("unshare", "--user", "--map-root-user", "--mount", "sh", "-c", mount, "sh")
    finished(start(root, cache, inside))
    assert is_right(root)
    # and one object more, which it cannot keep
    before = sorted(cache.rglob("*"))
    finished(start(root, cache, inside, count=COUNT + 1))
    assert library(root).read_text() == expected(COUNT + 1)
    assert sorted(cache.rglob("*")) == before
    assert len(list((root / "state/store").rglob("*.o"))) == 1


def test_a_full_disk_at_every_write(campaign: Campaign, tmp_path: Path) -> None:
    """A small file system, larger at each try: the build fails and says so, or is right."""
    root, disk = tmp_path / "root", tmp_path / "disk"
    disk.mkdir()
    build = f'"{sys.executable}" "{Path(__file__).with_name("toy_build.py")}" "$1/root" "$1/cache"'
    script = f"""
mount -t tmpfs -o size=$2k none "$1" || exit 99
{build} {COUNT} > "$3" 2>&1
code=$?
mount -o remount,size=64m "$1" || exit 99
{build} {COUNT} >> "$3" 2>&1 || exit 98
cp "$1/root/state/library.so" "$3.so"
exit $code
"""
    codes = set()
    sizes = [4 * pages for pages in range(1, 120)]
    for number, _ in campaign.tries(short=6, long=len(sizes)):
        size = sizes[number] if campaign.long else sizes[number * len(sizes) // 6]
        log = tmp_path / f"{number}.log"
        argv = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script, "sh"]
        done = subprocess.run(
            [*argv, str(disk), str(size), str(log)],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            check=False,
        )
        codes.add(done.returncode)
        said = log.read_text()
        assert done.returncode in (0, 1), f"try {number}, {size} KB: {said}"
        if done.returncode:
            words = ("No space left", "no space left", "printf: I/O error")  # the last are dash's
            assert any(word in said for word in words), f"try {number}: {said}"
        assert Path(f"{log}.so").read_text() == expected(COUNT), f"try {number}, {size} KB: {said}"
    assert codes == {0, 1}
    assert not root.exists()
