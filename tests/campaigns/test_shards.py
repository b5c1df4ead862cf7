"""Shards of the development library: killed while they are made, and made by many at once.

The first campaigns are of toy_shards.py, whose shards are made of nothing, and whose store, files
and locks are those of `run`; the last ones are of `run` itself.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import multiprocessing
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from harness import Campaign
from real import V1_13, orchestrator, workspace_copy
from test_real_builds import cache_copy, on_a_small_disk
from toy_shards import KEYS, content, key, work

from orchestrator.system.workspace_lock import workspace_lock

_ENTRY = re.compile(r"(?P<key>[0-9a-f]+(-[a-z]+)?)\.(?P<digest>[0-9a-f]{64})(\.[a-z]+)+")
_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(["toy_shards"])


@pytest.fixture(autouse=True)
def path_of_forks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python 3.11 does not tell the process that imports all where modules are."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))


class Worker:
    """A process that makes shards (toy_shards.py), forked from one that has imported all."""

    def __init__(self, root: Path, cache: Path, seed: str, count: int) -> None:
        self.told, there = _FORKS.Pipe(duplex=False)
        self.process = _FORKS.Process(target=work, args=(root, cache, seed, count, there))
        self.process.start()
        there.close()
        assert self.told.recv() == "begun"

    def kill(self) -> None:
        self.process.kill()

    def told_all(self) -> list[str]:
        """What it told until it ended; nothing of it wrong."""
        lines = []
        with contextlib.suppress(EOFError):
            while True:
                lines.append(self.told.recv())
        self.process.join(60)
        wrong = [line for line in lines if not line.endswith("right") and line != "done"]
        assert not wrong, lines
        return lines

    def done(self, count: int) -> None:
        """That it made and opened so many."""
        lines = self.told_all()
        assert len(lines) == count + 1, lines
        assert self.process.exitcode == 0


def require_whole(cache: Path, *roots: Path) -> int:
    """Every entry of a store is what its name says, and no lock is held. How many there are."""
    entries = list(whole(cache / "shards"))
    for root in roots:
        with workspace_lock(root / "state", False, pytest.fail, "test"):
            pass
        for number in range(KEYS):
            path = root / f"state/development/shards/libdevelopment_{key(number)[:40]}.so"
            assert not path.exists() or path.read_bytes() == content(number)
    return len(entries)


def whole(shards: Path) -> Iterator[Path]:
    """The entries below a folder of the store, each compared with its name."""
    for path in shards.rglob("*"):
        if path.is_file() and not path.name.startswith("."):
            match = _ENTRY.fullmatch(path.name)
            assert match, path
            assert hashlib.sha256(path.read_bytes()).hexdigest() == match["digest"], path
            yield path


def test_killed_at_any_moment_what_is_there_is_whole(campaign: Campaign, tmp_path: Path) -> None:
    root, cache = tmp_path / "root", tmp_path / "cache"
    for number, rng in campaign.tries(short=12, long=1000):
        worker = Worker(root, cache, f"{campaign.seed} {number}", 10_000)
        time.sleep(rng.uniform(0, 0.4))
        worker.kill()
        assert "done" not in worker.told_all()
        # a whole store is nothing that a kill could disturb
        if require_whole(cache, root) == KEYS:
            shutil.rmtree(cache / "shards")
            shutil.rmtree(root / "state/development")
    Worker(root, cache, "after", 30).done(30)
    assert require_whole(cache, root) > 0
    assert not (root / "state/development/link").exists()


def test_twenty_at_once_of_which_some_are_killed(campaign: Campaign, tmp_path: Path) -> None:
    """Four in each of five workspaces, all with one store."""
    cache = tmp_path / "cache"
    roots = [tmp_path / f"root {number}" for number in range(5)]
    for number, rng in campaign.tries(short=1, long=30):
        every = [
            Worker(root, cache, f"{campaign.seed} {number} {one} {root.name}", 25)
            for root in roots
            for one in range(4)
        ]
        killed = rng.sample(every, 7)
        for worker in killed:
            time.sleep(rng.uniform(0, 0.3))
            worker.kill()
        for worker in every:
            if worker in killed:
                worker.told_all()
            else:
                worker.done(25)
        assert 0 < require_whole(cache, *roots) <= KEYS
        parts = [path.name for path in (cache / "shards").rglob(".*")]
        assert len(parts) <= len(killed), f"try {number}"
        shutil.rmtree(cache / "shards")


real = pytest.mark.real
_APPS = ("camera", "scanner")
RUN_CAMERA = (*(sys.executable, "-P", "-m", "orchestrator"), "run", "//apps/camera", "--json")
_IN_A_NAMESPACE = ("unshare", "--user", "--map-root-user", "--mount", "sh", "-euc")
# <KB> <store> <copy of it afterwards> <command>: runs it with the store on a file system of that
# size, and again when that has grown.
_STORE_ON_A_SMALL_DISK = """
mount -t tmpfs -o "size=$1k" small "$2"
store=$2 copy=$3
shift 3
"$@" >/dev/null
mount -o remount,size=1g "$store"
"$@"
cp -R "$store" "$copy"
"""
_READ_ONLY = 'mount --bind "$1" "$1" && mount -o remount,bind,ro "$1" && shift && exec "$@"'


class Runs:
    """A workspace with two apps and a cache of its own, in which models are run."""

    def __init__(self, folder: Path) -> None:
        self.root = workspace_copy(folder, *_APPS)
        # of camera's runtime, so that both take shards of one base
        shutil.rmtree(self.root / "apps/scanner/traces")
        with (self.root / "apps/scanner/app.yaml").open("a") as declared:
            declared.write(f"runtime: {V1_13}\n")
        self.cache = cache_copy(folder / "cache")
        self.expected = {app: self.good(app) for app in _APPS}

    def start(self, app: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-P", "-m", "orchestrator", "run", f"//apps/{app}", "--json"],
            cwd=self.root,
            env={**os.environ, "ORCHESTRATOR_CACHE": str(self.cache)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def good(self, app: str) -> Any:
        ran = orchestrator(
            *("run", f"//apps/{app}", "--json"),
            cwd=self.root,
            ORCHESTRATOR_CACHE=str(self.cache),
        )
        assert ran.code == 0, ran.err
        # of a shard; zig's own cache may hold what a killed zig left unfinished: it is made again
        assert "in the store is damaged" not in ran.err, ran.err
        return outputs(ran.out, app)

    def inside(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Runs a shell's words in a namespace that may mount, in the workspace."""
        return subprocess.run(
            [*_IN_A_NAMESPACE, *words],
            cwd=self.root,
            env={**os.environ, "ORCHESTRATOR_CACHE": str(self.cache)},
            capture_output=True,
            text=True,
            check=False,
        )

    def lose(self, rng: random.Random) -> None:
        """Take away a shard, the base, or an object of a shard: there is something to make."""
        state = self.root / ".orchestrator/run"
        what = rng.choice(["shard", "base", "object", "nothing"])
        stored = sorted((self.cache / "shards").rglob("*.so"))
        if what == "shard" and stored:
            rng.choice(stored).unlink()
        elif what == "base":
            shutil.rmtree(state / "development", ignore_errors=True)
            shutil.rmtree(self.cache / "shards", ignore_errors=True)
        elif what == "object":
            shutil.rmtree(self.cache / "shards", ignore_errors=True)
            path = rng.choice(sorted((state / "objects").rglob("*.o")))
            path.unlink(missing_ok=True)
            for entry in (self.cache / "objects").rglob(f"{path.stem}.*.o"):
                entry.unlink()


def outputs(text: str, app: str) -> Any:
    (model,) = json.loads(text)["models"]
    # scanner has no trace here
    assert model["as_recorded"] == ("ok" if app == "camera" else None)
    return [(run["method"], run["index"], run["output"]) for run in model["runs"]]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    return Runs(tmp_path_factory.mktemp("runs"))


@real
def test_run_killed_at_any_moment_gives_the_same(campaign: Campaign, runs: Runs) -> None:
    for number, rng in campaign.tries(short=3, long=200):
        runs.lose(rng)
        app = rng.choice(_APPS)
        process = runs.start(app)
        time.sleep(rng.uniform(0.3, 6))
        # all of it, as a machine that is reset; the process alone, whose ninja goes on; Ctrl-C
        how = ("machine", "process", "Ctrl-C")[number % 3]
        with contextlib.suppress(ProcessLookupError):
            if how == "process":
                process.kill()
            else:
                os.killpg(process.pid, signal.SIGKILL if how == "machine" else signal.SIGINT)
        _, told = process.communicate()
        if how == "Ctrl-C":
            # it may have ended before; Python itself tells of what comes while it starts
            assert process.returncode in (0, 130, -signal.SIGINT), told
            assert process.returncode == -signal.SIGINT or "Traceback" not in told, told
        assert list(whole(runs.cache / "shards")) is not None
        assert runs.good(app) == runs.expected[app], f"try {number}"
    assert not (runs.root / ".orchestrator/run/development/link").exists()


@real
def test_run_on_a_full_disk(campaign: Campaign, runs: Runs, tmp_path: Path) -> None:
    """A workspace on a small file system, a larger one at each try, and a store without shards."""
    # from none of the objects that are linked to all of them
    sizes = range(4_000, 100_000, 8_000)
    source = tmp_path / "workspace"
    shutil.copytree(runs.root, source, ignore=shutil.ignore_patterns(".orchestrator", "scanner"))
    codes = set()
    for number, _ in campaign.tries(short=2, long=len(sizes)):
        size = sizes[number] if campaign.long else (12_000, 200_000)[number]
        shutil.rmtree(runs.cache / "shards", ignore_errors=True)
        folder = tmp_path / str(number)
        folder.mkdir()
        done = on_a_small_disk(folder, size, source, RUN_CAMERA, ORCHESTRATOR_CACHE=str(runs.cache))
        assert outputs(done.stdout, "camera") == runs.expected["camera"], f"try {number}"
        assert list(whole(runs.cache / "shards"))
        codes.add(done.returncode)
    assert codes == {0, 1} or campaign.only is not None


@real
def test_run_with_a_store_on_a_full_disk(campaign: Campaign, runs: Runs, tmp_path: Path) -> None:
    """What the store has no space for, the base or the shard, stays in the workspace."""
    sizes = range(500, 60_500, 5_000)
    store = runs.cache / "shards"
    for number, _ in campaign.tries(short=2, long=len(sizes)):
        size = sizes[number] if campaign.long else (500, 200_000)[number]
        for folder in (".orchestrator/run", ".orchestrator/store"):
            shutil.rmtree(runs.root / folder, ignore_errors=True)
        shutil.rmtree(store, ignore_errors=True)
        store.mkdir()
        copy = tmp_path / str(number)
        words = (_STORE_ON_A_SMALL_DISK, "sh", str(size), str(store), str(copy), *RUN_CAMERA)
        done = runs.inside(*words)
        told = f"try {number}, {size} KB: {done.stderr}"
        assert done.returncode == 0, told
        assert outputs(done.stdout, "camera") == runs.expected["camera"], told
        # nothing in it is half written
        assert bool(list(whole(copy))) or size < 60_000, told


@real
def test_run_with_a_store_that_is_read_only(runs: Runs) -> None:
    """What it makes, texts, the base and the shard, goes into the workspace; zig's part of
    the store is read-only, too."""
    for folder in (
        "shards",
        "registrations",
        "selections",
        "kept",
        "stubs",
        "unity",
        "projections",
    ):
        shutil.rmtree(runs.cache / folder, ignore_errors=True)
    shutil.rmtree(runs.root / ".orchestrator/run", ignore_errors=True)
    for _ in range(2):
        done = runs.inside(_READ_ONLY, "sh", str(runs.cache), *RUN_CAMERA)
        assert done.returncode == 0, done.stderr
        assert outputs(done.stdout, "camera") == runs.expected["camera"]
        assert not (runs.cache / "shards").exists()
        assert not (runs.cache / "registrations").exists()
    assert list(whole(runs.root / ".orchestrator/store/shards"))
    # the second time it is there
    (model,) = json.loads(done.stdout)["models"]
    assert [shard["compiled"] for shard in model["shards"]] == [None]


@real
def test_runs_at_once_give_the_same(campaign: Campaign, runs: Runs) -> None:
    """Of one workspace, from a store without shards."""
    for number, _ in campaign.tries(short=1, long=3):
        shutil.rmtree(runs.cache / "shards", ignore_errors=True)
        shutil.rmtree(runs.root / ".orchestrator/run", ignore_errors=True)
        every = [(app, runs.start(app)) for app in _APPS * (10 if campaign.long else 2)]
        for app, process in every:
            out, err = process.communicate(timeout=900)
            assert process.returncode == 0, f"try {number}: {err}"
            assert outputs(out, app) == runs.expected[app], f"try {number}"
        assert list(whole(runs.cache / "shards"))
