"""Workspaces with caches of their own, and the servers that they share objects and work through.

A farm's workspace has the runtime's sources from the user's cache (as links, not copies), an empty
object cache, an empty local ccache and an empty cache of zig's, so that nothing but the servers can
make its objects quickly.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType

import yaml
from real import ROOT
from zig_tool import zig

from orchestrator.build.executing.execute import Execution, execute_actions
from orchestrator.build.planning.variants import VariantRequest, spec_of
from orchestrator.build.workshop.invocation import load
from orchestrator.codegen.projection import projection_text
from orchestrator.context import Context
from orchestrator.execute.ninja_progress import parse_status
from orchestrator.index.model import UnitFacts
from orchestrator.load.workspace import cache_folder, load_config
from orchestrator.plan.graph import projection_files
from orchestrator.plan.variant import compilation
from orchestrator.system.folders import ensure_folder
from orchestrator.values.action import ActionGraph
from orchestrator.values.fingerprint import text_digest
from orchestrator.values.selection import Selection

EVERYTHING = Selection(everything=True)
OPEN = UnitFacts("", 0.0, open_tags=True)
ANYWHERE = "127.0.0.1"


@dataclass(frozen=True)
class Made:
    """What carrying a graph out made: file by `<abi> <unit>`, and the depfiles' text beside it."""

    execution: Execution
    objects: Mapping[str, bytes]


class Watch:
    """A view that shows nothing and tells of every action that is done."""

    def __init__(self, on_action: Callable[[int], None]) -> None:
        self.on_action = on_action
        self.actions = 0

    def __enter__(self) -> Watch:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
        /,
    ) -> None: ...

    def feed(self, line: str) -> None:
        status = parse_status(line)
        assert status is not None
        # a line on the start of an action counts no more than the one before
        if status.finished > self.actions:
            self.actions = status.finished
            self.on_action(self.actions)


class Workspace:
    """A workspace in a folder of its own, which compiles through a launcher."""

    def __init__(
        self, folder: Path, launcher: Mapping[str, object], env: Mapping[str, str], runtime: str
    ) -> None:
        self.folder, self.runtime = folder, runtime
        self.env = {**env, "CCACHE_DIR": str(folder / "ccache")}
        (folder / "root").mkdir(parents=True)
        shutil.copytree(ROOT / "toolchains", folder / "root" / "toolchains")
        declared = yaml.safe_load((ROOT / "WORKSPACE").read_text())
        (folder / "root" / "WORKSPACE").write_text(yaml.dump({**declared, "launcher": launcher}))
        cache = ensure_folder(folder / "cache", "cache")
        theirs = _users_cache(runtime)
        _link_tree(theirs / "runtime", cache / "runtime")
        _link_tree(theirs / "generated", cache / "generated")
        state = folder / "root/.orchestrator"
        context = Context(folder / "root", cache, state, folder / "dist", self.env)
        self.here = load(context, print)

    def compile(
        self, units: Mapping[str, Sequence[str]], on_action: Callable[[int], None] = lambda n: None
    ) -> Made:
        """Compile units (by ABI) with all operators and dtypes."""
        runtime, compiles, projections = self.here.runtimes.on(self.runtime), {}, {}
        for abi, paths in units.items():
            # not `size`: the bitcode in its objects holds the path of the source
            request = VariantRequest(abi, EVERYTHING, runtime.kernels, "release", "balanced")
            spec = replace(spec_of(self.here.prepare(runtime, [abi]), request), entry=frozenset())
            text = projection_text(OPEN, EVERYTHING)
            assert text is not None
            projections[text_digest(text)] = text
            for path in paths:
                facts = runtime.facts
                projection = text_digest(text) if facts.is_cxx(path) else None
                compile_with = compilation(facts, spec, replace(OPEN, path=path))
                compiles[f"{abi} {path}"] = runtime.placed(compile_with(projection))
        execution = execute_actions(
            self.here,
            ActionGraph({action.object: action for action in compiles.values()}),
            projection_files(projections),
            name="fanout",
            targets=sorted(action.object for action in compiles.values()),
            jobs=4,
            keep_going=True,
            view=lambda costs, jobs: Watch(on_action),
        )
        assert not execution.result.failures, "\n".join(execution.result.failures.values())
        files = {name: Path(runtime.fill(action.object)) for name, action in compiles.items()}
        return Made(execution, {name: file.read_bytes() for name, file in files.items()})

    def ccache_counts(self) -> dict[str, int]:
        """ccache's counters, by their names in `ccache --print-stats`."""
        done = subprocess.run(
            ["ccache", "--print-stats"], env=self.env, capture_output=True, text=True, check=True
        )
        lines = (line.split() for line in done.stdout.splitlines())
        return {words[0]: int(words[1]) for words in lines if len(words) == 2}

    def dependencies(self) -> str:
        """What ninja knows of the objects' headers."""
        done = subprocess.run(
            ["ninja", "-f", str(self.here.context.state / "fanout.ninja"), "-t", "deps"],
            cwd=self.here.context.cache,
            env=self.env,
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout


def _users_cache(runtime: str) -> Path:
    """The user's cache, with the runtime fetched and generated."""
    config, places = load_config(ROOT)
    cache = cache_folder(config, places, ROOT, os.environ)
    state = ROOT / ".orchestrator"
    load(Context(ROOT, cache, state, ROOT / "dist", os.environ), print).runtimes.on(runtime)
    return cache


def _link_tree(source: Path, target: Path) -> None:
    def link(a: str, b: str) -> None:
        try:
            os.link(a, b, follow_symlinks=False)
        except OSError:
            # another file system, or no hard links here
            shutil.copy2(a, b, follow_symlinks=False)

    shutil.copytree(source, target, copy_function=link, symlinks=True)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((ANYWHERE, 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def server(argv: Sequence[str], port: int, env: Mapping[str, str], log: Path) -> Iterator[int]:
    """A process that listens on a port of this machine; gives its number, and ends it."""
    with (
        log.open("wb") as output,
        subprocess.Popen(
            argv,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        ) as process,
    ):
        try:
            _wait_for(port, process, log)
            yield process.pid
        finally:
            _end(process.pid)
            process.wait()


def _end(group: int) -> None:
    """End a server and all that it started."""
    with suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


def _wait_for(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + 30
    while time.monotonic() < end:
        assert process.poll() is None, log.read_text()
        try:
            socket.create_connection((ANYWHERE, port), 1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise AssertionError(f"nothing listens on port {port}: {log.read_text()}")


@contextmanager
def redis(folder: Path, env: Mapping[str, str]) -> Iterator[tuple[int, Callable[[], None]]]:
    """A Redis server: its port, and what kills it."""
    port = free_port()
    argv = ["redis-server", "--port", str(port), "--bind", ANYWHERE, "--save", "", "--dir"]
    with server([*argv, str(folder)], port, env, folder / "redis.log") as pid:
        yield port, lambda: _end(pid)


@contextmanager
def distccd(folder: Path, env: Mapping[str, str]) -> Iterator[tuple[int, Path]]:
    """A distcc server: its port and its log."""
    port = free_port()
    log = folder / f"distccd-{port}.log"
    argv = ["distccd", "--daemon", "--no-detach", "--listen", ANYWHERE, "--port", str(port)]
    argv += ["--allow", ANYWHERE, "--jobs", "2", "--log-file", str(log), "--verbose"]
    # it runs compilers that are not in its list, as on a network that is trusted
    argv += ["--enable-tcp-insecure"]
    env = {**env, "TMPDIR": str(folder), **_not_root(folder)}
    with server(argv, port, env, folder / f"{port}.out"):
        yield port, log


def _not_root(folder: Path) -> dict[str, str]:
    """What makes root's distccd stay root: as nobody it could read neither compiler nor folder."""
    if os.geteuid() != 0:
        return {}
    source, library = folder / "uid.c", folder / "uid.so"
    source.write_text("unsigned getuid(void) { return 1; }\nunsigned geteuid(void) { return 1; }\n")
    zig("cc", "-shared", "-fPIC", "-O2", source, "-o", library)
    return {"LD_PRELOAD": str(library)}
