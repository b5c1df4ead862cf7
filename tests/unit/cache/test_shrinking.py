"""The store stays below its size by itself: what goes, what stays, and who is told."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from orchestrator.build.workshop.invocation import Invocation, load
from orchestrator.build.workshop.store_in_use import store_in_use
from orchestrator.cache.pruning import PRUNED, TEXTS, Removed, entries, prune_texts, shrink
from orchestrator.cache.store import ObjectStore
from orchestrator.commands.cache import _WHAT
from orchestrator.context import Context
from orchestrator.errors import OrchestratorError
from orchestrator.system.folders import ensure_folder
from orchestrator.system.workspace_lock import cache_in_use, workspace_lock

ROOT = Path(__file__).parents[3]
MB = 1_000_000
# Ten days: long after this module is imported, other tests still run.
LATER = time.time() + 864_000
WORKSPACE = f"""\
version: 1
runtime: {{pytorch: 1.13.1, tree: "{"0" * 64}", sources: [path: here]}}
cache_size: 100MB
"""


def add(store: ObjectStore, state: Path, name: str, *, age: int, size: int = MB) -> Path:
    """Put a file of the workspace into the store, last used `age` seconds before `LATER`; returns
    the workspace's file. Of a time of the future `st_mtime` counts, which can be set."""
    path = state / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(name[-6:-5].encode() * size)
    os.utime(path, (0, LATER - age))
    assert store.put(name, path)
    return path


def left(cache: Path) -> list[str]:
    return [entry.path.name.split(".")[0] for entry in entries(cache)]


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return ensure_folder(tmp_path / "state", "state")


@pytest.fixture
def store(tmp_path: Path) -> ObjectStore:
    return ObjectStore((ensure_folder(tmp_path / "cache", "cache"),))


@pytest.fixture
def cache(store: ObjectStore, state: Path) -> Path:
    """Files of 1 MB: an object and a shard that no workspace links, an object and a shard that this
    one links, and an object that another one links, too; `a` to `e`, from old to new."""
    add(store, state, "objects/aa/aaaa.o", age=500).unlink()
    add(store, state, "shards/bb/bbbb.so", age=400).unlink()
    add(store, state, "objects/cc/cccc.o", age=300)
    add(store, state, "shards/dd/dddd.so", age=200)
    other = add(store, state, "objects/ee/eeee.o", age=100)
    (state.parent / "elsewhere.o").hardlink_to(other)
    return store.folders[0]


@pytest.mark.parametrize(
    ("most", "since", "mine", "gone"),
    [
        (3 * MB, 0, True, ""),
        (3 * MB, 1000, True, ""),
        # of the three that count the oldest
        (2 * MB, 1000, True, "a"),
        (3 * MB - 1, 1000, True, "a"),
        (MB, 1000, True, "ab"),
        (0, 1000, True, "abc"),
        # the command's own
        (0, -350, True, "ab"),
        (0, -450, True, "a"),
        (0, -550, True, ""),
        # another process has the workspace: its link stays, and does not count
        (2 * MB, 1000, False, ""),
        (MB, 1000, False, "a"),
        (0, 1000, False, "ab"),
    ],
)
def test_the_least_recently_used_entries_go(
    most: int, since: int, mine: bool, gone: str, cache: Path, state: Path
) -> None:
    removed = shrink(cache, most, since=LATER + since, state=state if mine else None)
    assert removed == Removed(len(gone), len(gone) * MB)
    assert left(cache) == [x * 4 for x in "acebd" if x not in gone]
    assert (state / "objects/cc/cccc.o").exists() == ("c" not in gone)
    assert (state / "shards/dd/dddd.so").exists()
    assert (state / "objects/ee/eeee.o").exists()


def test_an_entry_that_cannot_be_removed_stays(
    cache: Path, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unlink = Path.unlink

    def refused(path: Path, missing_ok: bool = False) -> None:
        if path.name.startswith("aaaa"):
            raise PermissionError(path)
        unlink(path, missing_ok)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", refused)
        assert shrink(cache, 0, since=LATER, state=state) == Removed(2, 2 * MB)
    assert left(cache) == ["aaaa", "eeee", "dddd"]


def test_one_that_was_killed_between_a_link_and_its_entry(
    cache: Path, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unlink = Path.unlink

    def killed(path: Path, missing_ok: bool = False) -> None:
        if path.name.startswith("cccc.") and path.name != "cccc.o":
            raise KeyboardInterrupt
        unlink(path, missing_ok)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", killed)
        with pytest.raises(KeyboardInterrupt):
            shrink(cache, 0, since=LATER, state=state)
    assert not (state / "objects/cc/cccc.o").exists()
    assert left(cache) == ["cccc", "eeee", "dddd"]
    assert shrink(cache, 0, since=LATER, state=None) == Removed(1, MB)


def test_a_use_of_what_a_workspace_links_is_noted_and_ninja_sees_none(
    store: ObjectStore, state: Path
) -> None:
    place = add(store, state, "objects/ab/abab.o", age=0)
    os.utime(place, (1, 1))
    before = place.stat()
    time.sleep(0.02)
    assert store.restore({"objects/ab/abab.o": place}).present
    after = place.stat()
    assert after.st_mtime_ns == before.st_mtime_ns
    (entry,) = entries(store.folders[0])
    assert before.st_ctime < after.st_ctime == entry.used


class Workspace:
    """A workspace with a size of 100 MB, and a store with an object of 60 MB."""

    def __init__(self, root: Path) -> None:
        (root / "WORKSPACE").write_text(WORKSPACE)
        self.cache = ensure_folder(root / "cache", "cache")
        self.state = ensure_folder(root / "state", "state")
        self.context = Context(root, self.cache, self.state, root / "dist", {})
        self.said: list[str] = []
        self.add(self.invocation(), "old").unlink()
        time.sleep(1.1)

    def invocation(self) -> Invocation:
        return load(self.context, self.said.append)

    def add(self, here: Invocation, name: str) -> Path:
        name = f"objects/ab/{name}.o"
        path = self.state / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(name.encode() * (60 * MB // len(name)))
        assert here.store.put(name, path)
        return path


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path)


TOLD = (
    "the cache was above 100 MB (`cache_size` in WORKSPACE): removed the least recently used entry,"
    " 60 MB"
)


@pytest.mark.parametrize("fails", [False, True])
def test_a_command_that_added_to_the_store_says_what_it_removed(
    workspace: Workspace, fails: bool
) -> None:
    """Its own entries stay, though they are above the size. One that added nothing looks not."""
    with store_in_use(workspace.invocation()):
        pass
    assert (left(workspace.cache), workspace.said) == (["old"], [])
    here = workspace.invocation()
    try:
        with store_in_use(here):
            for name in ("new", "newer"):
                workspace.add(here, name).unlink()
            if fails:
                raise OrchestratorError("the model does not run")
    except OrchestratorError:
        assert fails
    assert (left(workspace.cache), workspace.said) == (["new", "newer"], [TOLD])


def test_another_process_has_the_workspace(workspace: Workspace) -> None:
    """It may be linking what is there: only what nobody links goes."""
    here = workspace.invocation()
    linked = workspace.add(here, "linked")
    time.sleep(1.1)
    with workspace_lock(workspace.state, False, workspace.said.append), store_in_use(here):
        workspace.add(here, "new").unlink()
    assert linked.exists()
    assert (left(workspace.cache), workspace.said) == (["linked", "new"], [TOLD])
    with store_in_use(here):
        workspace.add(here, "newer").unlink()
    assert not linked.exists()


def write_texts(cache: Path) -> None:
    """Texts of 6 MB, the older ones first, and a tree."""
    for number, name in enumerate(("stubs/a.cpp", "registrations/b/b.cpp", "projections/c.h")):
        path = cache / name
        path.parent.mkdir(parents=True)
        path.write_bytes(bytes(2 * MB))
        os.utime(path, (number, number))
        time.sleep(0.02)
    (cache / "runtime/tree").mkdir(parents=True)
    (cache / "runtime/tree/a.cpp").write_bytes(bytes(9 * MB))


def test_texts_go_the_oldest_first_and_trees_stay(tmp_path: Path) -> None:
    write_texts(tmp_path)
    # a twentieth
    assert prune_texts(tmp_path, 120 * MB) == Removed(0, 0)
    assert prune_texts(tmp_path, 80 * MB) == Removed(1, 2 * MB)
    assert not (tmp_path / "stubs/a.cpp").exists()
    assert prune_texts(tmp_path, 40 * MB) == Removed(1, 2 * MB)
    assert [*(tmp_path / "registrations").iterdir()] == []
    assert (tmp_path / "projections/c.h").exists()
    assert (tmp_path / "runtime/tree/a.cpp").exists()


def test_texts_stay_while_another_process_uses_the_cache(workspace: Workspace) -> None:
    """A compiler of its build may be about to read them."""
    write_texts(workspace.cache)
    here = workspace.invocation()
    with cache_in_use(workspace.cache, workspace.said.append), store_in_use(here):
        workspace.add(here, "new").unlink()
    assert (workspace.cache / "stubs/a.cpp").exists()
    with store_in_use(here):
        pass
    assert not (workspace.cache / "stubs/a.cpp").exists()
    assert (workspace.cache / "projections/c.h").exists()


def test_every_folder_that_commands_write_is_pruned_or_known_to_stay() -> None:
    stay = {"debian", "generated", "configured", "runtime", "staging", "toolchains", "zig"}
    assert _WHAT.keys() - {*TEXTS, *PRUNED} <= stay


USES = """
import sys
from pathlib import Path
from orchestrator.cache.pruning import shrink
from orchestrator.cache.store import ObjectStore
cache, state = Path(sys.argv[1]), Path(sys.argv[2])
store = ObjectStore((cache,))
removed = made = 0
for turn in range(40):
    for number in range(8):
        name = f"objects/{number:02}/{number}.o"
        place = state / name
        place.unlink(missing_ok=True)
        if name not in store.restore({name: place}).present:
            made += 1
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(b"%d" % number * 10000)
            assert store.put(name, place)
        assert place.read_bytes() == b"%d" % number * 10000
        if number % 2:
            place.unlink()
        removed += shrink(cache, 20000, since=float("inf"), state=state).entries
print(removed, made)
"""


def test_two_processes_use_and_shrink_one_store(tmp_path: Path, cache: Path) -> None:
    """Whatever the other one removes, each finds what it asks for as it should be, or makes it."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path[1:]])}
    running = [
        subprocess.Popen(
            [sys.executable, "-c", USES, str(cache), str(tmp_path / name)],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for name in ("one", "other")
    ]
    for process in running:
        said, _ = process.communicate()
        assert process.returncode == 0, said
        removed, made = map(int, said.split())
        assert removed
        assert made > 1
    assert list(cache.rglob("*.part")) == []
    shrink(cache, 20000, since=float("inf"), state=None)
    assert len(left(cache)) < 12
