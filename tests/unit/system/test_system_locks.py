"""Locks between processes: told where there are none, held also on what can only be read."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from test_fetch_story import World

from orchestrator.source.debian import binary_packages
from orchestrator.system.folders import MARKER, ensure_folder, is_ours, remove_folder
from orchestrator.system.locks import LocksUnsupportedError, file_lock, holders, is_held
from orchestrator.system.workspace_lock import (
    CacheInUseError,
    cache_alone,
    cache_in_use,
    workspace_lock,
)

HINT = "keep the workspace and the cache folder (ORCHESTRATOR_CACHE) on a local disk"
USER = """
import sys
from pathlib import Path
from orchestrator.system.workspace_lock import cache_in_use
def told(text):
    print(text, flush=True)
with cache_in_use(Path(sys.argv[1]), told):
    print("used", flush=True)
    sys.stdin.readline()
"""


def never(given: object) -> None:
    raise AssertionError(given)


def use(cache: Path) -> subprocess.Popen[str]:
    """A process that uses the cache until it is told to end; says what it is told, and `used`."""
    return subprocess.Popen(
        [sys.executable, "-c", USER, str(cache)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def line(process: subprocess.Popen[str]) -> str:
    assert process.stdout
    return process.stdout.readline().rstrip()


@contextmanager
def nobody() -> Iterator[None]:
    """As a user who may read and not write; root may write everywhere."""
    user = os.geteuid()
    if user == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(user)


@pytest.fixture(params=[errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP])
def without_locks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """A file system without flock(2); what it says."""

    def flock(descriptor: int, mode: int) -> None:
        raise OSError(request.param, os.strerror(request.param))

    monkeypatch.setattr(fcntl, "flock", flock)
    return os.strerror(request.param)


def test_a_file_system_without_locks(tmp_path: Path, without_locks: str) -> None:
    with (
        pytest.raises(LocksUnsupportedError) as caught,
        file_lock(tmp_path / "lock", never, before=lambda: None),
    ):
        pass
    assert caught.value.render() == (
        f"error: the file system of {tmp_path} has no file locks\n"
        "  expected: flock(2), as local disks have, and NFS with its lock service\n"
        f"  seen:     {without_locks}\n"
        f"  do:       {HINT}"
    )


def test_who_only_asks_does_not_wait(tmp_path: Path) -> None:
    file = tmp_path / "lock"
    assert not is_held(file)
    # a lock belongs to an open file: another one of this process is as another process's
    with file_lock(file, never, before=lambda: None):
        assert is_held(file)
    assert not is_held(file)
    with file_lock(file, never, before=lambda: None, shared=True):
        assert not is_held(file)


@pytest.mark.usefixtures("without_locks")
def test_where_there_are_no_locks_none_is_held(tmp_path: Path) -> None:
    (tmp_path / "lock").touch()
    assert not is_held(tmp_path / "lock")


@pytest.mark.parametrize(
    "act",
    [
        lambda folder: workspace_lock(folder / "state", False, never).__enter__(),
        lambda folder: cache_alone(ensure_folder(folder / "cache", "cache")).__enter__(),
        lambda folder: World(folder).fetch(),
        lambda folder: binary_packages(["one"], folder / "tools", os.environ, never),
    ],
    ids=["workspace", "clean", "fetch", "packages"],
)
def test_whoever_needs_a_lock_says_so(
    tmp_path: Path, without_locks: str, act: Callable[[Path], object]
) -> None:
    with pytest.raises(LocksUnsupportedError) as caught:
        act(tmp_path)
    assert caught.value.hint == HINT


def test_a_cache_is_used_where_nothing_can_be_locked(tmp_path: Path, without_locks: str) -> None:
    with cache_in_use(tmp_path / "cache", never):
        assert is_ours(tmp_path / "cache")


def test_a_failure_while_the_cache_is_used_is_let_through(tmp_path: Path) -> None:
    with pytest.raises(LocksUnsupportedError), cache_in_use(tmp_path, never):
        raise LocksUnsupportedError("of another lock")
    with cache_alone(tmp_path):
        pass


def test_several_use_a_cache_and_one_removes_it(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    with use(cache) as first, use(cache) as second, cache_in_use(cache, never):
        assert line(first) == line(second) == "used"
        with pytest.raises(CacheInUseError) as caught, cache_alone(cache):
            pass
        first.communicate("\n")
        second.communicate("\n")
    lines = caught.value.render().splitlines()
    assert lines[0] == f"error: other processes use the cache folder {cache}"
    for process in (first, second):
        assert re.search(rf"process {process.pid}: .*python\S* -c ", lines[1])
    assert lines[-1] == "  do:       wait for them to end, or stop them"
    with cache_alone(cache):
        remove_folder(cache)
    assert not cache.exists()


def test_whoever_waits_for_the_removal_gets_a_new_cache(tmp_path: Path) -> None:
    cache = ensure_folder(tmp_path / "cache", "cache")
    (cache / "objects").mkdir()
    with cache_alone(cache):
        user = use(cache)
        assert re.match(rf"waiting for process {os.getpid()}: ", line(user))
        remove_folder(cache)
    assert line(user) == "used"
    assert [entry.name for entry in cache.iterdir()] == [MARKER]
    # and it is the new folder's lock that it holds
    with pytest.raises(CacheInUseError), cache_alone(cache):
        pass
    user.communicate("\n")


@pytest.fixture
def readable() -> Iterator[Path]:
    """A folder that every user can get to, which pytest's own is not."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def test_a_cache_that_can_only_be_read(readable: Path) -> None:
    """Nothing is made in it, and still nobody removes it meanwhile."""
    cache = ensure_folder(readable / "cache", "cache")
    cache.chmod(0o555)
    with nobody(), cache_in_use(cache, never):
        with pytest.raises(PermissionError):
            (cache / "x").touch()
        with pytest.raises(CacheInUseError), cache_alone(cache):
            pass
    assert [entry.name for entry in cache.iterdir()] == [MARKER]


def test_a_cache_on_a_read_only_disk(tmp_path: Path) -> None:
    cache = ensure_folder(tmp_path / "cache", "cache")
    made = subprocess.run(["mount", "--bind", cache, cache], capture_output=True).returncode == 0
    if made:  # else the right to mount is missing, and the test above is all there is
        subprocess.run(["mount", "-o", "remount,ro,bind", cache], check=True)
    try:
        with cache_in_use(cache, never), pytest.raises(CacheInUseError), cache_alone(cache):
            pass
    finally:
        if made:
            subprocess.run(["umount", cache], check=True)


def test_a_lock_file_that_may_not_be_made(readable: Path) -> None:
    readable.chmod(0o555)
    with (
        nobody(),
        pytest.raises(PermissionError, match="lock"),
        file_lock(readable / "lock", never, before=lambda: None),
    ):
        pass


def test_a_folder_that_is_never_made(tmp_path: Path) -> None:
    with (
        pytest.raises(FileNotFoundError),
        file_lock(tmp_path / "gone/lock", never, before=lambda: None),
    ):
        pass


def test_who_holds_a_lock_is_not_known_everywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreadable(path: Path, *arguments: object, **options: object) -> str:
        raise FileNotFoundError

    with file_lock(tmp_path / "lock", never, before=lambda: None) as descriptor:
        assert holders(descriptor) == []  # this process itself is not told
        monkeypatch.setattr(Path, "read_text", unreadable)
        assert holders(descriptor) == []


WORKSPACE = f"""\
version: 1
runtime: {{pytorch: 1.13.1, tree: "{"0" * 64}", sources: [git: {{remote: r, tag: t}}]}}
"""


def test_clean_leaves_the_cache_to_a_fetch_of_another_workspace(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "WORKSPACE").write_text(WORKSPACE)
    tools, began = tmp_path / "bin", tmp_path / "began"
    tools.mkdir()
    (tools / "git").write_text(f"#!/bin/sh\necho > {began}\nread line < {began}.fifo\nexit 1\n")
    (tools / "git").chmod(0o755)
    os.mkfifo(f"{began}.fifo")
    path = f"{tools}:{os.environ['PATH']}"
    env = {**os.environ, "ORCHESTRATOR_CACHE": str(tmp_path / "cache"), "PATH": path}
    command = [sys.executable, "-m", "orchestrator", "--workspace"]
    clean = [*command, str(tmp_path / "two"), "clean", "--cache"]
    fetch = subprocess.Popen(
        [*command, str(tmp_path / "one"), "fetch"], env=env, stderr=subprocess.DEVNULL
    )
    while not began.exists():
        assert fetch.poll() is None
    refused = subprocess.run(clean, env=env, capture_output=True, text=True)
    assert refused.returncode == 1
    assert refused.stderr.startswith(
        f"error: other processes use the cache folder {tmp_path}/cache\n"
        f"  seen:     process {fetch.pid}: "
    )
    assert (tmp_path / "cache/staging").is_dir()
    Path(f"{began}.fifo").write_text("\n")
    assert fetch.wait() == 1
    assert subprocess.run(clean, env=env, stdout=subprocess.DEVNULL).returncode == 0
    assert not (tmp_path / "cache").exists()


COMMANDS = Path(__file__).parents[3] / "orchestrator/commands"


@pytest.mark.parametrize("file", sorted(COMMANDS.glob("*.py")), ids=lambda file: file.stem)
def test_every_verb_that_uses_the_cache_holds_its_lock(file: Path) -> None:
    text = file.read_text()
    made = ("load(context", "load(self.context")
    uses = (*made, "fetch_runtimes(", "resolve_toolchain(", "parts(cache)")
    # the second is the first, and makes the store smaller at its end
    held = any(word in text for word in ("cache_in_use(", "store_in_use("))
    assert held == any(word in text for word in uses)
