"""The steps of the benchmark: each measures one thing and returns it as JSON values.

Every build is a process of its own, in a scratch workspace and a scratch cache (see scratch.py), so
that its CPU seconds are complete: planning, torchgen, compiling, linking, packing, verifying.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks import run_orchestrator, scratch, upstream
from benchmarks.all_operators import measure_all_operators
from benchmarks.development import addon_step, development_step
from benchmarks.everywhere import checkout_step, everywhere_step
from benchmarks.indexing import index_step
from benchmarks.latency import Timed, in_turn
from benchmarks.other_runtime import other_runtime_step
from benchmarks.processes import CommandFailedError, Finished, run
from orchestrator.build.workshop.invocation import Invocation, load
from orchestrator.build.workshop.runtime import Runtime
from orchestrator.context import Context
from orchestrator.pytorch.units import runtime_units
from orchestrator.trace.lock import lock_path, parse_lock
from orchestrator.values.operators import OperatorName
from orchestrator.values.packages import library_name

FIRST: Final = "camera"
# Camera's architecture and one more operator: its model takes the place of camera's.
ADDED: Final = "scanner"
# What that model ran with the first app's runtime, which is not the added app's own.
ADDED_TRACES: Final = Path("tests/golden/traces/v1_13/scanner")
ABI: Final = "linux-x86_64"
_NOTHING_RUNS: Final = 5
# What turns off the hardening that a unit's own flags ask for (docs/decisions/0031-hardening.md).
_NOT_HARDENED: Final = ("-fno-stack-protector", "-U_FORTIFY_SOURCE")


@dataclass(frozen=True)
class Options:
    """How much to measure: units of upstream's, rounds and calls of the latency, jobs at once."""

    sample: int
    rounds: int
    repeat: int
    jobs: int


@dataclass(frozen=True)
class Bench:
    """Where the steps work.

    here      the real workspace, with the user's cache: what is fetched and generated comes from it
    folder    everything scratch
    warm      zig's cache with libc++ in it
    """

    here: Invocation
    folder: Path
    warm: Path
    options: Options

    @property
    def runtime(self) -> Runtime:
        """The first app's runtime."""
        return self.here.runtimes.of(FIRST)

    @property
    def root(self) -> Path:
        return self.here.context.root

    @property
    def workspace(self) -> Path:
        """The workspace in which the first app was built."""
        return self.folder / "workspace"

    @property
    def cache(self) -> Path:
        """The cache with its objects."""
        return self.folder / "cache"

    def env(self, cache: Path) -> dict[str, str]:
        """The environment of a build that uses `cache`."""
        return {**self.here.context.env, "ORCHESTRATOR_CACHE": str(cache)}

    def new_workspace(self, name: str) -> Path:
        """A copy of the real workspace's declarations."""
        return scratch.copy_workspace(self.root, self.folder / name)

    def new_cache(self, name: str) -> Path:
        """A cache in which nothing has been built, but what zig makes once for a machine."""
        cache = scratch.empty_cache(self.here.context.cache, self.folder / name)
        shutil.copytree(self.warm, cache / "zig")
        return cache

    def loaded(self, workspace: Path, cache: Path) -> Invocation:
        """A scratch workspace, in this process."""
        state, dist = workspace / ".orchestrator", workspace / "dist"
        return load(Context(workspace, cache, state, dist, self.env(cache)), lambda _: None)

    def orchestrate(self, workspace: Path, cache: Path, *arguments: str) -> tuple[Cost, str]:
        """Run the orchestrator; its cost and its standard output. Raises CommandFailedError."""
        cost, done = self._run(workspace, cache, *arguments)
        return cost, done.stdout

    def _run(self, workspace: Path, cache: Path, *arguments: str) -> tuple[Cost, Finished]:
        peak = self.folder / "peak"
        argv = [sys.executable, "-P", run_orchestrator.__file__, str(peak)]
        argv += ["--workspace", str(workspace), *arguments]
        done = run(argv, env=self.env(cache), cwd=workspace).require(" ".join(arguments))
        return Cost(done.user_seconds, done.wall_seconds, int(peak.read_text())), done

    def build(self, workspace: Path, cache: Path, app: str) -> dict[str, Any]:
        """Build one app; its cost, its forecast and its row of the report. Raises
        CommandFailedError."""
        cost, done = self._run(workspace, cache, "build", f"//apps/{app}:{ABI}", "--json")
        report = json.loads(done.stdout)
        more = {"actions_run": report["actions_run"], "forecast": forecast(done.stderr)}
        return {
            "app": app,
            "runtime": self.runtime_of(app),
            **asdict(cost),
            **more,
            **report["variants"][0],
        }

    def runtime_of(self, app: str) -> str:
        """The name in WORKSPACE of the runtime that an app is cut from."""
        return self.here.workspace.apps[app].runtime

    def nothing(self, workspace: Path, cache: Path, label: str) -> list[float]:
        """Wall seconds of builds with nothing changed, through ./orchestrate as a user types it."""
        argv = [str(self.root / "orchestrate"), "build", label]
        runs = (run(argv, env=self.env(cache), cwd=workspace) for _ in range(_NOTHING_RUNS))
        return [one.require("a build of nothing").wall_seconds for one in runs]

    def with_operator(self, workspace: Path, name: str, runtime: str = "") -> Path:
        """A copy of a workspace in which one operator is added to the first app's model.

        runtime: the one that the first app is cut from there; empty: its own
        """
        changed = self.folder / name
        shutil.copytree(workspace, changed, symlinks=True)
        runtime = runtime or self.runtime_of(FIRST)
        own = Path("apps", ADDED, "traces")
        traces = self.root / (own if runtime == self.runtime_of(ADDED) else ADDED_TRACES)
        scratch.replace_app(changed, FIRST, ADDED, traces, runtime)
        return changed

    def build_with_operator(
        self, workspace: Path, cache: Path, name: str, runtime: str = ""
    ) -> dict[str, Any]:
        """Build the first app of `with_operator`: its row, and the operators that it ran more than
        the first app, with their calls. Raises CommandFailedError."""
        runtime = runtime or self.runtime_of(FIRST)
        changed = self.with_operator(workspace, name, runtime)
        before = called_operators(workspace / "apps" / FIRST)
        after = called_operators(changed / "apps" / FIRST)
        added = {name: after[name] for name in sorted(set(after) - set(before))}
        built = self.build(changed, cache, FIRST)
        return {**built, "runtime": runtime, "added_operators": added}

    def delivered(self, workspace: Path) -> Timed:
        """The first app's model in the library that a build delivered in `workspace`. Raises
        CommandFailedError."""
        library = workspace / "dist" / FIRST / ABI / "lib"
        if not (library / f"lib{library_name(FIRST)}.so").is_file():
            raise CommandFailedError(f"no library of {FIRST} was delivered", seen=str(library))
        (model,) = sorted((workspace / "apps" / FIRST / "models").glob("*.ptl"))
        return Timed(
            runner=workspace / ".orchestrator" / "variants" / FIRST / ABI / "driver",
            library=library,
            model=model,
        )


@dataclass(frozen=True)
class Cost:
    """What a run of the orchestrator cost: CPU and wall seconds of all its processes, and the
    largest resident set of the orchestrator process itself."""

    user_seconds: float
    wall_seconds: float
    peak_bytes: int


def upstream_step(bench: Bench) -> dict[str, Any]:
    """Upstream's list of units for the first app's selection."""
    folder = bench.folder / "upstream"
    workspace, cache = bench.new_workspace("upstream/workspace"), bench.new_cache("upstream/cache")
    here = bench.loaded(workspace, cache)
    app = here.workspace.apps[FIRST]
    locks = [lock_path(app.folder, model.name) for model in app.config.models]
    subject = upstream.Upstream(
        here, here.runtimes.of(FIRST), here.toolchains.of(ABI), folder / "build"
    )
    generated = subject.set_up([upstream.selected_operators(lock.read_text()) for lock in locks])
    return upstream.measure(subject, generated, bench.options.sample, bench.options.jobs)


def first_step(bench: Bench) -> dict[str, Any]:
    """The first variant of the first app, from an empty object cache."""
    return bench.build(bench.new_workspace("workspace"), bench.new_cache("cache"), FIRST)


def nothing_step(bench: Bench) -> dict[str, Any]:
    """The same build again, through ./orchestrate as a user types it: wall seconds."""
    again = bench.build(bench.workspace, bench.cache, FIRST)
    walls = bench.nothing(bench.workspace, bench.cache, f"//apps/{FIRST}:{ABI}")
    return {name: again[name] for name in ("actions_run", "peak_bytes")} | {"wall_seconds": walls}


def operator_step(bench: Bench) -> dict[str, Any]:
    """One operator added to the first app's model, the app being built already."""
    known = scratch.made_files(bench.cache)
    built = bench.build_with_operator(bench.workspace, bench.cache, "operator-workspace")
    # or else the next apps would find objects that only this step has made
    scratch.forget(bench.cache, known)
    return built


def called_operators(app_folder: Path) -> dict[OperatorName, int]:
    """Operators that ran, by the app's committed traces, and how often."""
    calls: dict[OperatorName, int] = {}
    for lock in sorted((app_folder / "traces").glob("*.yaml")):
        calls.update(parse_lock(lock.read_text(), lock.name).called_operators)
    return calls


def further_step(bench: Bench) -> dict[str, Any]:
    """Every other app, one after the other, on the first one's cache: those of its runtime, then
    the others, of which the first of a runtime has a target of its own."""
    others = sorted(set(bench.here.workspace.apps) - {FIRST})
    of_first = bench.runtime_of(FIRST)
    in_turn = sorted(
        others, key=lambda app: (bench.runtime_of(app) != of_first, bench.runtime_of(app))
    )
    begun = {of_first}
    built: dict[str, list[dict[str, Any]]] = {"apps": [], "other_runtimes": []}
    for app in in_turn:
        runtime = bench.runtime_of(app)
        kind = "apps" if runtime in begun else "other_runtimes"
        built[kind].append(bench.build(bench.workspace, bench.cache, app))
        begun.add(runtime)
    return built


def forecast(said: str) -> dict[str, float] | None:
    """What a build's progress says on stderr when it begins and when it ends, in wall seconds:
    `160 actions to run, about 2 min with 2 jobs on 2 cores` and `160 actions run in 1 min
    50 s`. None where it ran too little to say."""
    begin = re.search(r"^\d+ actions? to run, about ((?:\d+ (?:h|min|s) ?)+)", said, re.MULTILINE)
    end = re.search(r"^\d+ actions? run in (.+)$", said, re.MULTILINE)
    if not begin or not end:
        return None
    return {"said_seconds": seconds(begin[1]), "took_seconds": seconds(end[1])}


def seconds(text: str) -> float:
    """`1 h 20 min`, `3 min 05 s`, `0.4 s` as the progress prints them."""
    units = {"h": 3600, "min": 60, "s": 1}
    words = text.split()
    return sum(float(n) * units[unit] for n, unit in zip(words[::2], words[1::2], strict=True))


def size_step(bench: Bench) -> dict[str, Any]:
    """The first app with `optimize: size`."""
    return _optimized(bench, "size")


def _optimized(bench: Bench, optimize: str) -> dict[str, Any]:
    workspace = bench.new_workspace(f"{optimize}-workspace")
    scratch.edit_app(workspace / "apps" / FIRST / "app.yaml", {"optimize": optimize})
    return bench.build(workspace, bench.cache, FIRST)


def latency_step(bench: Bench) -> dict[str, Any]:
    """The first app's model in its library, and in one built with upstream's optimisation."""
    built = _optimized(bench, "speed")
    timed = [bench.delivered(bench.workspace), bench.delivered(bench.folder / "speed-workspace")]
    options = bench.options
    measured = in_turn(
        timed[0], timed[1], bench.here.context.env, bench.folder, options.rounds, options.repeat
    )
    return {**measured, "upstream_stripped_bytes": built["stripped_bytes"]}


def hardening_step(bench: Bench) -> dict[str, Any]:
    """The first app with and without stack protectors and checked calls: bytes and latency."""
    workspace = bench.new_workspace("not-hardened-workspace")
    scratch.add_compile_flags(workspace / "toolchains" / f"{ABI}.yaml", _NOT_HARDENED)
    known = scratch.made_files(bench.cache)
    built = bench.build(workspace, bench.cache, FIRST)
    scratch.forget(bench.cache, known)
    measured = in_turn(
        bench.delivered(bench.workspace),
        bench.delivered(workspace),
        bench.here.context.env,
        bench.folder,
        bench.options.rounds,
        bench.options.repeat,
        name="not_hardened",
    )
    return {**measured, "stripped_bytes": built["stripped_bytes"]}


def tracer_step(bench: Bench) -> dict[str, Any]:
    """The first app's tracer, from an empty object cache."""
    workspace, cache = bench.new_workspace("tracer-workspace"), bench.new_cache("tracer-cache")
    cost, told = bench.orchestrate(workspace, cache, "trace", "--tracer", f"//apps/{FIRST}")
    runtime = bench.runtime
    units = len(runtime_units(runtime.fetched.tree, runtime.version))
    return {**asdict(cost), **tracer_units(told), "units_of_runtime": units}


def tracer_units(told: str) -> dict[str, int]:
    """The units that `orchestrator trace` says its tracer has, and had to compile."""
    match = re.search(r"tracer of (\d+) units, (\d+) compiled", told)
    if not match:
        raise CommandFailedError("the tracer's report cannot be read", seen=told[:200])
    return {"units": int(match[1]), "units_compiled": int(match[2])}


def all_operators_step(bench: Bench) -> dict[str, Any]:
    """The library of all operators, with the objects of the user's own cache."""
    return {
        "stripped_bytes": measure_all_operators(
            bench.here, bench.runtime, ABI, "size", bench.options.jobs
        )
    }


@dataclass(frozen=True)
class Step:
    """A step by name: what it does and which step must have gone before."""

    do: Callable[[Bench], dict[str, Any]]
    needs: str = ""


STEPS: Final[Mapping[str, Step]] = {
    "upstream": Step(upstream_step),
    "first": Step(first_step),
    "nothing": Step(nothing_step, "first"),
    "operator": Step(operator_step, "first"),
    "further": Step(further_step, "first"),
    "size": Step(size_step, "first"),
    "latency": Step(latency_step, "first"),
    "hardening": Step(hardening_step, "first"),
    "tracer": Step(tracer_step),
    "development": Step(
        lambda bench: development_step(bench, FIRST, bench.delivered(bench.workspace)), "first"
    ),
    "addon": Step(lambda bench: addon_step(bench, FIRST, ABI, ADDED, ADDED_TRACES), "first"),
    "other-runtime": Step(lambda bench: other_runtime_step(bench, FIRST, ADDED), "first"),
    "index": Step(lambda bench: index_step(bench, ADDED)),
    "everywhere": Step(lambda bench: everywhere_step(bench, FIRST, ADDED)),
    "checkout": Step(checkout_step),
    "all-operators": Step(all_operators_step),
}
# Heavy, and its number changes only with the runtime and the flags: done where it is asked for.
ON_REQUEST: Final = ("all-operators",)


def in_order(wanted: Iterable[str]) -> list[str]:
    """The wanted steps and those that they need, in the order in which they must run."""
    names = set(wanted)
    names |= {STEPS[name].needs for name in names if STEPS[name].needs}
    return [name for name in STEPS if name in names]
