"""Fetching: verified, once, all or nothing; every way and failure, interruptions, full disks."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tarfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import yaml
from golden_files import Golden

from orchestrator.build.workshop.fetch import (
    MARKER,
    CacheFullError,
    CacheReadOnlyError,
    FetchedRuntime,
    LibraryRules,
    LibraryUnknownError,
    RuntimeUnavailableError,
    SourceMismatchError,
    fetch_runtime,
    fetch_runtimes,
    read_marker,
)
from orchestrator.context import Context
from orchestrator.errors import OrchestratorError
from orchestrator.pytorch.dialect import Dialect
from orchestrator.pytorch.dialects import load_version
from orchestrator.pytorch.v1_13.dialect import DIALECT
from orchestrator.source.tree import TreeEmptyError, TreeRules, tree_digest
from orchestrator.source.unpack import ArchiveMismatchError
from orchestrator.system.process import LOCAL, Command, Finished
from orchestrator.values.config.workspace import RuntimePin

CASES = Path(__file__).parents[3] / "failing/runtime"
RULES = TreeRules(("LICENSE", "src/**/*.cpp"))
FILES = {"LICENSE": "free\n", "src/a.cpp": "int a;\n", "src/in/b.cpp": "int b;\n", "README": "no\n"}


def fill(root: Path, files: dict[str, str]) -> Path:
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    return root


def small_version(folder: Path) -> dict[str, Dialect]:
    """A version 0.1.0, whose tree is that of `RULES`; `folder` has its facts."""
    data = DIALECT.facts.model_dump(mode="json")
    tree = {"include": list(RULES.include), "exclude": []}
    data |= {"version": "0.1.0", "tree": tree, "debian_suites": [], "disk_mb": 1}
    folder.mkdir(exist_ok=True)
    (folder / "facts.yaml").write_text(yaml.safe_dump(data))
    return {"0.1.0": replace(DIALECT, version="0.1.0", folder=folder)}


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


class World:
    """A workspace, its cache and a source tree, under one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.source = fill(folder / "source", FILES)
        self.digest = tree_digest(self.source, RULES)
        self.cache = folder / "cache"
        self.env = {"PATH": os.environ["PATH"], "HOME": str(folder)}
        self.said: list[str] = []
        self.dialects = small_version(folder / "data")

    @property
    def context(self) -> Context:
        root = self.folder
        return Context(root, self.cache, root / ".orchestrator", root / "dist", self.env)

    def pin(self, *sources: object, **third: object) -> RuntimePin:
        given = sources or ({"path": "source"},)
        return RuntimePin.model_validate(
            {"pytorch": "0.1.0", "tree": self.digest, "sources": given, "third_party": third}
        )

    def fetch(self, pin: RuntimePin | None = None, verify: bool = False) -> FetchedRuntime:
        return fetch_runtime(
            pin or self.pin(), self.context, self.said.append, verify=verify, dialects=self.dialects
        )

    def left(self) -> list[str]:
        """What is in the cache, without the lock."""
        found = (f.relative_to(self.cache).as_posix() for f in self.cache.rglob("*"))
        return sorted(path for path in found if path != "runtime/.lock")


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


NOTHING = ["runtime", "staging"]


def test_a_folder(world: World) -> None:
    fetched = world.fetch()
    assert fetched == FetchedRuntime(
        "0.1.0", world.cache / f"runtime/0.1.0-{world.digest[:12]}", world.digest, {}
    )
    inside = {f.relative_to(fetched.tree).as_posix() for f in fetched.tree.rglob("*")}
    assert inside == {MARKER, "LICENSE", "src", "src/a.cpp", "src/in", "src/in/b.cpp"}
    assert tree_digest(fetched.tree, RULES) == world.digest
    assert json.loads((fetched.tree / MARKER).read_text()) == {
        "digest": world.digest,
        "files": 3,
        "bytes": 19,
        "way": "path source",
    }
    assert world.said == [
        "PyTorch 0.1.0: trying path source",
        f"PyTorch 0.1.0: verified, in {fetched.tree}",
    ]
    assert [entry.name for entry in (world.cache / "staging").iterdir()] == []


def test_the_second_time_nothing_is_done(world: World) -> None:
    first = world.fetch()
    shutil.rmtree(world.source)
    world.said.clear()
    assert world.fetch() == first
    assert world.said == []


def test_a_tree_fetched_again_is_not_newer(world: World) -> None:
    times = []
    for _ in range(2):
        tree = world.fetch().tree
        times.append([(f, f.stat().st_mtime) for f in sorted(tree.rglob("*.cpp"))])
        shutil.rmtree(world.cache)
    assert times[0] == times[1]


@pytest.mark.parametrize("path", ["$SRC", "${SRC}", "~/source", "source", "{absolute}/source"])
def test_how_a_path_may_be_written(world: World, path: str) -> None:
    world.env["SRC"] = str(world.source)
    path = path.replace("{absolute}", str(world.folder))
    assert read_marker(world.fetch(world.pin({"path": path})).tree)


def test_an_archive(world: World) -> None:
    with tarfile.open(world.folder / "a.tar.xz", "w:xz") as tar:
        tar.add(world.source, "pytorch-v0.1.0")
    marker = read_marker(world.fetch(world.pin({"path": "a.tar.xz"})).tree)
    assert marker
    assert (marker.files, marker.way) == (3, "path a.tar.xz")


@pytest.fixture
def remote(world: World) -> str:
    """A git remote with the tag v1, and a newer commit on its branch."""
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "init.defaultBranch=main"]
    for argv in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "1"], ["tag", "v1"]):
        subprocess.run([*git, *argv], cwd=world.source, check=True)
    (world.source / "src/a.cpp").write_text("int newer;\n")
    subprocess.run([*git, "commit", "-qam", "2"], cwd=world.source, check=True)
    return f"file://{world.source}"


def test_git(world: World, remote: str) -> None:
    fetched = world.fetch(world.pin({"git": {"remote": remote, "tag": "v1"}}))
    assert (fetched.tree / "src/a.cpp").read_text() == "int a;\n"
    assert not (fetched.tree / ".git").exists()
    assert world.said[1:3] == [f"git: asking {remote} for v1", "git: cloning v1"]


def test_a_relative_remote_counts_from_the_workspace(world: World, remote: str) -> None:
    assert world.fetch(world.pin({"git": {"remote": "source", "tag": "v1"}})).digest == world.digest


def test_git_whatever_the_users_line_endings(world: World, remote: str) -> None:
    (world.folder / ".gitconfig").write_text("[core]\n\tautocrlf = true\n")
    assert world.fetch(world.pin({"git": {"remote": remote, "tag": "v1"}})).digest == world.digest


@pytest.mark.parametrize(
    ("tag", "reason"),
    [("v2", "{remote} has no tag v2"), ("--upload-pack=evil", "{remote} has no tag --upload-pack")],
)
def test_git_without_the_tag(world: World, remote: str, tag: str, reason: str) -> None:
    with pytest.raises(RuntimeUnavailableError) as caught:
        world.fetch(world.pin({"git": {"remote": remote, "tag": tag}}))
    assert reason.format(remote=remote) in str(caught.value.details)
    assert world.left() == NOTHING


def test_a_remote_that_looks_like_an_option(world: World) -> None:
    remote = f"--upload-pack=touch {world.folder}/evil;"
    with pytest.raises(RuntimeUnavailableError):
        world.fetch(world.pin({"git": {"remote": remote, "tag": str(world.source)}}))
    assert not (world.folder / "evil").exists()


def test_a_machine_without_git(world: World, remote: str) -> None:
    world.env["PATH"] = str(world.folder)
    with pytest.raises(RuntimeUnavailableError) as caught:
        world.fetch(world.pin({"git": {"remote": remote, "tag": "v1"}}))
    assert caught.value.details == f"git {remote} v1: git is not installed"


def test_the_next_way_is_tried_and_the_reason_told(world: World) -> None:
    pin = world.pin({"path": "$UNSET"}, {"path": "gone"}, {"path": "source"})
    assert read_marker(world.fetch(pin).tree)
    assert world.said[:4] == [
        "PyTorch 0.1.0: trying path $UNSET",
        "PyTorch 0.1.0: not this way: it uses an unset variable",
        "PyTorch 0.1.0: trying path gone",
        f"PyTorch 0.1.0: not this way: {world.folder}/gone does not exist",
    ]


@pytest.mark.parametrize("path", ["n" * 300, "d/" * 2047])
def test_a_path_that_no_file_can_have(world: World, path: str) -> None:
    with pytest.raises(RuntimeUnavailableError) as caught:
        world.fetch(world.pin({"path": path}))
    assert str(caught.value.details).endswith(": the path is too long")


def test_a_source_that_may_not_be_read(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    file = world.source / "src/a.cpp"
    copy = shutil.copyfile

    def refused(source: Path, into: Path) -> None:
        # root may read everything: the refusal is a fake
        if source == file:
            raise PermissionError(errno.EACCES, "Permission denied", str(source))
        copy(source, into)

    monkeypatch.setattr("orchestrator.source.places.shutil.copyfile", refused)
    with pytest.raises(RuntimeUnavailableError) as caught:
        world.fetch()
    assert caught.value.details == f"path source: {file} is not readable"


def library_pin(world: World, tree: str, name: str = "fast") -> RuntimePin:
    """A pin of a library, in the folder `fast`, that has one source."""
    fill(world.folder / "fast", {"LICENSE": "free\n", "src/fast.c": "int f;\n", "x": "no\n"})
    sources = [{"path": "fast"}]
    libraries = {name: {"tree": tree, "sources": sources}}
    return RuntimePin.model_validate(world.pin().model_dump() | {"libraries": libraries})


FAST = LibraryRules({"fast": TreeRules(("LICENSE", "src/*.c"))})


def archived_library(world: World, tree: str, sha256: str, *urls: str) -> RuntimePin:
    """A pin of the library with a path that is not there, and these archives."""
    archives = [{"archive": {"url": url, "sha256": sha256}} for url in urls]
    libraries = {"fast": {"tree": tree, "sources": [{"path": "$FAST_SOURCE"}, *archives]}}
    return RuntimePin.model_validate(world.pin().model_dump() | {"libraries": libraries})


def fetch_with_library(
    world: World, pin: RuntimePin, libraries: LibraryRules = FAST
) -> FetchedRuntime:
    return fetch_runtime(
        pin, world.context, world.said.append, dialects=world.dialects, libraries=libraries
    )


def test_a_library(world: World) -> None:
    library_pin(world, "0" * 64)
    tree = tree_digest(world.folder / "fast", FAST.trees["fast"])
    found = fetch_with_library(world, library_pin(world, tree)).libraries["fast"]
    assert found == world.cache / f"runtime/fast-{tree[:12]}"
    assert (found / "src/fast.c").is_file()
    assert not (found / "x").exists()


def test_a_library_that_is_another(world: World) -> None:
    with pytest.raises(SourceMismatchError) as caught:
        fetch_with_library(world, library_pin(world, "0" * 64))
    assert caught.value.what == "fast from path fast is not the pinned source tree"
    assert caught.value.expected == "tree " + "0" * 64


def test_a_library_that_nobody_knows(world: World) -> None:
    with pytest.raises(LibraryUnknownError) as caught:
        fetch_with_library(world, library_pin(world, "0" * 64, name="slow"))
    assert (caught.value.expected, caught.value.seen) == ("one of fast", "slow")


def test_third_party_headers(world: World) -> None:
    files = {"LICENSE.rst": "l", "inc/fmt/core.h": "c", "inc/fmt/x.hpp": "x", "src/f.cc": "no"}
    fill(world.folder / "fmt", files)
    rules = TreeRules(("inc/**", "LICENSE*"))
    digest = tree_digest(world.folder / "fmt", rules)
    fmt = {"tree": digest, "include": "inc", "sources": [{"path": "fmt"}]}
    include = world.fetch(world.pin(fmt=fmt)).third_party["fmt"]
    assert include == world.cache / f"runtime/fmt-{digest[:12]}/inc"
    inside = sorted(f.relative_to(include.parent).as_posix() for f in include.parent.rglob("*"))
    assert inside == [MARKER, "LICENSE.rst", "inc", "inc/fmt", "inc/fmt/core.h", "inc/fmt/x.hpp"]


CASE_NAMES = sorted(file.parent.name for file in CASES.glob("*/pin.yaml"))


@pytest.mark.parametrize("name", CASE_NAMES)
def test_failing_cases(name: str, tmp_path: Path, golden: Golden) -> None:
    case = CASES / name
    pin = RuntimePin.model_validate(yaml.safe_load((case / "pin.yaml").read_text()))
    env = {"PATH": os.environ["PATH"]}
    cache = tmp_path / "cache"
    context = Context(case, cache, tmp_path, tmp_path, env)
    with pytest.raises(OrchestratorError) as caught:
        fetch_runtime(pin, context, lambda text: None, dialects=small_version(tmp_path))
    text = caught.value.render().replace(str(case), "<workspace>").replace(str(cache), "<cache>")
    golden(case / "expected.txt", text + "\n")
    staging = cache / "staging"
    assert not staging.exists() or list(staging.iterdir()) == []


def test_a_mismatch_ends_the_fetch(world: World) -> None:
    (world.source / "src/a.cpp").write_text("int changed;\n")
    with pytest.raises(SourceMismatchError):
        world.fetch(world.pin({"path": "source"}, {"path": "$NEVER"}))
    assert world.said == ["PyTorch 0.1.0: trying path source"]
    assert world.left() == NOTHING


@pytest.mark.parametrize("damage", ["changed", "lost", "marker lost", "marker cut", "all lost"])
def test_verify_mends(world: World, damage: str) -> None:
    tree = world.fetch().tree
    if damage == "changed":
        (tree / "src/a.cpp").write_text("int A;\n")
    elif damage == "lost":
        (tree / "src/a.cpp").unlink()
    elif damage == "marker lost":
        (tree / MARKER).unlink()
    elif damage == "marker cut":
        (tree / MARKER).write_text("{")
    else:
        shutil.rmtree(tree)
    world.said.clear()
    world.fetch(verify=True)
    assert tree_digest(tree, RULES) == world.digest
    assert read_marker(tree)
    told = "PyTorch 0.1.0: files were changed or lost; fetching it again"
    assert (told in world.said) is (damage in ("changed", "lost"))
    assert len(world.left()) == len([*NOTHING, tree, *tree.rglob("*")])


def test_verify_leaves_a_whole_tree_alone(world: World) -> None:
    tree = world.fetch().tree
    before = tree.stat().st_ino
    world.said.clear()
    world.fetch(verify=True)
    assert world.said == [f"PyTorch 0.1.0: hashing {tree}"]
    assert tree.stat().st_ino == before


@pytest.mark.parametrize("there", [True, False])
def test_verify_hashes_a_tree_of_several_pins_once(world: World, there: bool) -> None:
    other = world.pin({"path": "gone"})
    assert other != world.pin()
    if there:
        world.fetch()
    world.said.clear()
    one, two = fetch_runtimes(
        [world.pin(), other],
        world.context,
        world.said.append,
        verify=True,
        dialects=world.dialects,
    )
    assert one == two
    hashing = f"PyTorch 0.1.0: hashing {one.tree}"
    assert world.said.count(hashing) == there, "a tree that was just fetched was verified, too"


def test_a_marker_of_another_tree_is_not_believed(world: World) -> None:
    tree = world.fetch().tree
    marker = json.loads((tree / MARKER).read_text())
    (tree / MARKER).write_text(json.dumps(marker | {"digest": "0" * 64}))
    world.fetch()
    assert read_marker(tree).digest == world.digest  # type: ignore[union-attr]


def test_two_fetches_at_once(world: World) -> None:
    (world.cache / "runtime").mkdir(parents=True)
    with (world.cache / "runtime/.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        thread = threading.Thread(target=world.fetch)
        thread.start()
        wait_until(lambda: bool(world.said))
        assert world.said == ["another process is fetching the runtime; waiting for it"]
        time.sleep(0.1)
        assert world.left() == ["runtime"]
    thread.join()
    assert world.said[-1].startswith("PyTorch 0.1.0: verified")


def test_what_another_process_fetched_meanwhile_is_taken(world: World) -> None:
    """The second one waits for the first, then finds the tree."""
    first = world.fetch()
    hidden = world.folder / "hidden"
    first.tree.rename(hidden)
    with (world.cache / "runtime/.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        world.said.clear()
        thread = threading.Thread(target=world.fetch)
        thread.start()
        wait_until(lambda: bool(world.said))
        hidden.rename(first.tree)
    thread.join()
    assert world.said == ["another process is fetching the runtime; waiting for it"]


SCRIPT = """
import os, sys
from pathlib import Path
sys.path.insert(0, {tests!r})
from test_fetch_story import World
world = World(Path({folder!r}))
world.env["PATH"] = os.environ["PATH"]
try:
    world.fetch(world.pin({source!r}))
except Exception as error:
    print(type(error).__name__, error.render() if hasattr(error, "render") else error)
"""


def start(
    world: World,
    source: object,
    env: Mapping[str, str] = os.environ,
    before: Callable[[], None] | None = None,
) -> subprocess.Popen[str]:
    """The same fetch in a process of its own."""
    tests, root = Path(__file__).parent, Path(__file__).parents[4]
    script = SCRIPT.format(tests=str(tests), folder=str(world.folder), source=source)
    return subprocess.Popen(
        [sys.executable, "-c", script],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**env, "PYTHONPATH": f"{root}{os.pathsep}{root / 'tests/support'}"},
        preexec_fn=before,
    )


@pytest.fixture
def slow_git(world: World) -> dict[str, str]:
    """An environment whose git never comes back, and says where its child is."""
    tools = world.folder / "bin"
    tools.mkdir()
    (tools / "git").write_text(f"#!/bin/sh\nsleep 1000 &\necho $! > {world.folder}/child\nwait\n")
    (tools / "git").chmod(0o755)
    return {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}"}


def wait_for_child(world: World) -> int:
    file = world.folder / "child"
    wait_until(lambda: file.exists() and bool(file.read_text().strip()))
    # On a busy machine the child may be further than the parent, which is still starting it.
    time.sleep(0.5)
    return int(file.read_text())


def ended(pid: int) -> bool:
    """Whether the process has ended; a zombie has."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().split()[2] == "Z"
    except FileNotFoundError:
        return True


def test_ctrl_c_leaves_nothing(world: World, slow_git: dict[str, str]) -> None:
    process = start(world, {"git": {"remote": "r", "tag": "t"}}, env=slow_git)
    child = wait_for_child(world)
    assert len(list((world.cache / "staging").iterdir())) == 1
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert "KeyboardInterrupt" in err
    wait_until(lambda: ended(child))
    assert world.left() == NOTHING
    assert read_marker(world.fetch().tree)


def test_a_killed_fetch_is_cleared_by_the_next(world: World, slow_git: dict[str, str]) -> None:
    process = start(world, {"git": {"remote": "r", "tag": "t"}}, env=slow_git)
    child = wait_for_child(world)
    process.kill()
    process.communicate()
    os.kill(child, signal.SIGKILL)
    assert len(world.left()) > len(NOTHING)
    tree = world.fetch().tree
    assert list((world.cache / "staging").iterdir()) == []
    assert tree_digest(tree, RULES) == world.digest


def test_other_staging_folders_are_left_alone(world: World) -> None:
    (world.cache / "staging/objects").mkdir(parents=True)
    world.fetch()
    assert (world.cache / "staging/objects").is_dir()


def test_what_others_left_in_staging_goes_after_a_day(world: World) -> None:
    old = time.time() - 25 * 3600
    for name in ("staging/generated-12", "objects/ab/.x.o.0123456789abcdef.part"):
        (world.cache / name).mkdir(parents=True)
        os.utime(world.cache / name, (old, old))
    world.fetch()
    assert list((world.cache / "staging").iterdir()) == []
    assert list((world.cache / "objects/ab").iterdir()) == []


@pytest.fixture
def small_disk(world: World, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """A cache folder on a disk of 96 kB; without the right to mount, one that says it is full."""
    world.cache.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=96k", "tmpfs", str(world.cache)]
    mounted = subprocess.run(mount, capture_output=True).returncode == 0
    if not mounted:

        def full(*arguments: object) -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        monkeypatch.setattr("orchestrator.source.places.shutil.copyfile", full)
    yield world
    if mounted:
        subprocess.run(["umount", str(world.cache)], check=True)


def test_a_disk_that_fills_up(small_disk: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("orchestrator.build.workshop.fetch._room", lambda cache, megabytes: None)
    fill(small_disk.source, {"src/big.cpp": "x" * 200_000})
    with pytest.raises(CacheFullError) as caught:
        small_disk.fetch()
    assert caught.value.render() == (
        "error: the cache folder has too little room for the runtime\n"
        f"  expected: about 1 MB free in {small_disk.cache}\n"
        "  seen:     No space left on device\n"
        "  do:       make room, or set ORCHESTRATOR_CACHE to a folder on another disk"
    )
    assert small_disk.left() == NOTHING


def test_too_little_room_is_told_before_the_fetch(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage(world.folder)._replace(free=300_000)
    monkeypatch.setattr("orchestrator.build.workshop.fetch.shutil.disk_usage", lambda path: usage)
    with pytest.raises(CacheFullError) as caught:
        world.fetch()
    assert caught.value.seen == "0 MB free"
    assert world.said == []


def test_a_client_that_fills_the_disk(world: World) -> None:
    tools = world.folder / "bin"
    tools.mkdir()
    words = "fatal: write error: No space left on device"
    (tools / "git").write_text(f"#!/bin/sh\necho '{words}' >&2\nexit 1\n")
    (tools / "git").chmod(0o755)
    world.env["PATH"] = f"{tools}:{os.environ['PATH']}"
    with pytest.raises(CacheFullError):
        world.fetch(world.pin({"git": {"remote": "r", "tag": "t"}}, {"path": "source"}))


def test_a_file_size_limit(world: World) -> None:
    fill(world.source, {"src/big.cpp": "x" * 80_000})
    world.digest = tree_digest(world.source, RULES)

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (64_000, 64_000))

    with tarfile.open(world.folder / "a.tar.gz", "w:gz") as tar:
        tar.add(world.source, "top")
    process = start(world, {"path": "a.tar.gz"}, before=limit)
    out, said = process.communicate()
    assert out.startswith("CacheFullError error: the cache folder has too little room"), said
    assert "seen:     File too large" in out
    assert world.left() == NOTHING


def test_a_cache_folder_below_a_file(world: World) -> None:
    (world.folder / "file").touch()
    world.cache = world.folder / "file/cache"
    with pytest.raises(CacheReadOnlyError) as caught:
        world.fetch()
    assert caught.value.render() == (
        "error: the cache folder cannot be written to\n"
        f"  expected: a folder that you may write to at {world.cache}\n"
        f"  seen:     Not a directory: {world.cache}/runtime\n"
        "  do:       set ORCHESTRATOR_CACHE to a folder of yours"
    )


def test_a_read_only_cache_folder(world: World) -> None:
    world.cache.mkdir()
    world.cache.chmod(0o555)
    load_version("0.1.0", world.dialects)
    user = os.geteuid()
    if user == 0:  # root may write everywhere
        os.seteuid(65534)
    try:
        with pytest.raises(CacheReadOnlyError) as caught:
            world.fetch()
    finally:
        os.seteuid(user)
        world.cache.chmod(0o755)
    assert caught.value.seen
    assert caught.value.seen.startswith("Permission denied: ")


def test_a_whole_cache_may_be_read_only(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is locked or written where nothing is missing."""
    first = world.fetch()
    before = world.left()

    def refuse(*arguments: object, **options: object) -> int:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr("orchestrator.system.locks.file_lock", refuse)
    monkeypatch.setattr("orchestrator.build.workshop.fetch.file_lock", refuse)
    assert world.fetch() == first
    assert world.left() == before


@pytest.mark.parametrize(
    ("code", "out", "err", "reason"),
    [
        (1, "", "E: first\nE: then\nlast\n", "E: first"),
        (1, "said\nlast\n", "", "last"),
        (1, "", "", "no output"),
        (None, "", "Cloning\n", "timed out (Cloning)"),
    ],
)
def test_the_reason_that_is_told(code: int | None, out: str, err: str, reason: str) -> None:
    assert Finished((), code, out.encode(), err.encode()).reason() == reason


def test_a_client_that_takes_too_long_is_stopped_with_its_children(world: World) -> None:
    file = world.folder / "child"
    script = f"sleep 1000 & echo $! > {file}; echo began; wait"
    done = LOCAL.run(Command(["sh", "-c", script], world.env, world.folder, 0.5))
    assert (done.code, done.out) == (None, "began\n")
    wait_until(lambda: ended(int(file.read_text())))


@contextmanager
def serving(folder: Path) -> Iterator[str]:
    """The address of a server of the files in a folder."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, format: str, *arguments: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=folder)) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def served_archive(folder: Path, name: str, source: Path, top: str) -> str:
    """Put an archive of a tree where it is served; its sha256."""
    folder.mkdir(exist_ok=True)
    with tarfile.open(folder / name, "w:gz") as archive:
        archive.add(source, top)
    return hashlib.sha256((folder / name).read_bytes()).hexdigest()


def test_an_archive_by_its_url(world: World, tmp_path: Path) -> None:
    """From a real server; a mirror that is gone is a reason to try the next one."""
    served = tmp_path / "served"
    sha256 = served_archive(served, "pytorch-0.1.0.tar.gz", world.source, "pytorch-0.1.0")
    with serving(served) as mirror:
        urls = [f"{mirror}/old.tar.gz", f"{mirror}/pytorch-0.1.0.tar.gz"]
        pin = world.pin(*({"archive": {"url": url, "sha256": sha256}} for url in urls))
        fetched = world.fetch(pin)
    assert tree_digest(fetched.tree, RULES) == world.digest
    assert world.said == [
        f"PyTorch 0.1.0: trying archive {urls[0]}",
        f"downloading {urls[0]}",
        f"PyTorch 0.1.0: not this way: {urls[0]}: HTTP 404 File not found",
        f"PyTorch 0.1.0: trying archive {urls[1]}",
        f"downloading {urls[1]}",
        f"unpacking {urls[1]}",
        f"PyTorch 0.1.0: verified, in {fetched.tree}",
    ]


@pytest.mark.parametrize(
    ("flat", "top"),
    [
        (False, "fast-1.0"),
        # Debian's, and one that a host of git repositories makes of the same commit
        (True, "."),
        (True, "fast-4ea82e5"),
    ],
)
def test_a_library_comes_from_an_archive_by_its_url(
    flat: bool, top: str, world: World, tmp_path: Path
) -> None:
    """As PyTorch does: in the order of its sources, whatever the archive's form."""
    library_pin(world, "0" * 64)
    rules = TreeRules(("LICENSE", "src/*.c"), flat=flat)
    tree = tree_digest(world.folder / "fast", rules)
    sha256 = served_archive(tmp_path / "served", "fast.tar.gz", world.folder / "fast", top)
    with serving(tmp_path / "served") as mirror:
        urls = [f"{mirror}/gone.tar.gz", f"{mirror}/fast.tar.gz"]
        found = fetch_with_library(
            world, archived_library(world, tree, sha256, *urls), LibraryRules({"fast": rules})
        )
    folder = world.cache / f"runtime/fast-{tree[:12]}"
    assert found.libraries["fast"] == folder
    inside = sorted(f.relative_to(folder).as_posix() for f in folder.rglob("*"))
    assert inside == [MARKER, "LICENSE", "src", "src/fast.c"]
    assert world.said[2:] == [
        "fast: trying path $FAST_SOURCE",
        "fast: not this way: it uses an unset variable",
        f"fast: trying archive {urls[0]}",
        f"downloading {urls[0]}",
        f"fast: not this way: {urls[0]}: HTTP 404 File not found",
        f"fast: trying archive {urls[1]}",
        f"downloading {urls[1]}",
        f"unpacking {urls[1]}",
        f"fast: verified, in {folder}",
    ]


def test_a_flat_archive_of_something_else(world: World, tmp_path: Path) -> None:
    """Nothing in it counts, with or without a folder at its top."""
    other = fill(tmp_path / "other", {"doc/a.txt": "a", "b.txt": "b"})
    served_archive(tmp_path, "other.tar.gz", other, ".")
    pin = library_pin(world, "0" * 64).model_dump()
    pin["libraries"]["fast"]["sources"] = [{"path": str(tmp_path / "other.tar.gz")}]
    flat = LibraryRules({"fast": TreeRules(("LICENSE", "src/*.c"), flat=True)})
    with pytest.raises(TreeEmptyError):
        fetch_with_library(world, RuntimePin.model_validate(pin), flat)


def test_a_librarys_archive_is_held_to_its_digest_and_to_the_trees(
    world: World, tmp_path: Path
) -> None:
    library_pin(world, "0" * 64)
    sha256 = served_archive(tmp_path / "served", "fast.tar.gz", world.folder / "fast", "fast-1.0")
    with serving(tmp_path / "served") as mirror:
        url = f"{mirror}/fast.tar.gz"
        with pytest.raises(ArchiveMismatchError) as other_archive:
            fetch_with_library(world, archived_library(world, "0" * 64, "1" * 64, url))
        with pytest.raises(SourceMismatchError) as other_tree:
            fetch_with_library(world, archived_library(world, "0" * 64, sha256, url))
    assert other_archive.value.render() == (
        f"error: {url}: the downloaded archive does not match the pinned digest\n"
        f"  expected: sha256 {'1' * 64}\n"
        f"  seen:     sha256 {sha256}\n"
        "  do:       check the pin in WORKSPACE; if it is right, do not use this URL"
    )
    assert other_tree.value.what == f"fast from archive {url} is not the pinned source tree"
    assert not list((world.cache / "runtime").glob("fast-*"))
