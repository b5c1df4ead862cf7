"""Runs models in the development library: compiles what they call when they call it.

A model gets the operators that it names, and those that it probably calls: what its trace says,
else what other models were seen to call. One that comes up missing while it runs is compiled, and
the model runs again in a new process: a call that failed in its middle may have written into its
arguments.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Final

from orchestrator.build.development.development import Base, Development, Shard
from orchestrator.build.development.shard_contents import (
    errors_of,
    joining,
    missing_dtypes,
    missing_operators,
    probable_operators,
    probably_wide,
    remember,
)
from orchestrator.build.development.shard_files import in_use
from orchestrator.build.development.subject import Subject, readable_lock
from orchestrator.build.development.timed import Seen, TimedLibrary, estimate_of, timed_library
from orchestrator.build.executing.execute import View
from orchestrator.build.planning.variants import scales
from orchestrator.build.workshop.invocation import Invocation, parts_chosen
from orchestrator.build.workshop.runtime import Runtime
from orchestrator.errors import OrchestratorError, Place
from orchestrator.load.declared import App
from orchestrator.plan.development import wide_tags
from orchestrator.plan.planner import entry_nodes
from orchestrator.select.growth import Grown, growth, unknown_to
from orchestrator.select.policy import select, traced_selection
from orchestrator.system.workspace_lock import workspace_lock
from orchestrator.trace.lock import lock_path, read_runs
from orchestrator.trace.recording import RecordedWork, recorded_work
from orchestrator.values.config.app import ModelConfig
from orchestrator.values.growth import Growth
from orchestrator.values.operators import OperatorName
from orchestrator.values.selection import merge_all
from orchestrator.values.trace import Trace
from orchestrator.verify.model_runner import run_model, still_running
from orchestrator.verify.verdict import RunnerResult, VerifyResult, ended, verify

# What lta_library_extend says of a library that it refuses (native/capi/extend.cpp).
_REFUSALS: Final = ("the add-on", "this add-on", "not an add-on")
_NOT_REGISTERED: Final = "the add-on cannot be registered: "


class RunFailedError(OrchestratorError):
    """A model does not run in the development library."""


class ShardRefusedError(OrchestratorError):
    """The base refused a shard that was made for it: a bug of ours."""


class InitialiserFailedError(OrchestratorError):
    """A static initialiser, such as a registration, of a shard with an app's own sources threw."""


@dataclass(frozen=True)
class Attempt:
    """One shard that the model ran with, and the operators and dtypes that it missed.

    seconds  wall time of making it, and of the model's process
    """

    shard: Shard
    missing: tuple[str, ...]
    seconds: tuple[float, float]


@dataclass(frozen=True)
class Timed:
    """The library that a model was timed in. seconds: wall time of making it."""

    library: TimedLibrary
    seconds: float


@dataclass(frozen=True)
class Estimate:
    """About how large a library for this machine's ABI would be. of_app: the app's, by the locks of
    all of its models; else one of this model alone."""

    abi: str
    bytes: int
    of_app: bool


@dataclass(frozen=True)
class RanModel:
    """A model that ran.

    result    the runner's
    verdict   against the recorded runs, where its lock has them and the inputs are its own
    timed     the library in which it ran for its time, where that was asked for
    growth    of its app's library; None for a model of no app, and for an app without traces
    estimate  None where it was not asked for
    """

    subject: Subject
    pytorch: str
    base: Base
    attempts: tuple[Attempt, ...]
    result: dict[str, Any]
    verdict: VerifyResult | None
    timed: Timed | None = None
    growth: Growth | None = None
    estimate: Estimate | None = None


def run_in_development(
    here: Invocation,
    runtime: Runtime,
    subject: Subject,
    *,
    repeat: int | None,
    jobs: int | None,
    view: View,
    with_arguments: bool = False,
    estimate: bool = False,
) -> RanModel:
    """Run a model, and compile what it needs until nothing is missing.

    repeat: how often its first input is run for its time, in a library as a build would deliver it
    (`build/development/timed.py`); None: not at all. with_arguments: whether the result has the
    inputs. estimate: whether the size of that library is told, for which a model without a trace
    runs once more.
    Raises NoDevelopmentLibraryError, RunFailedError, and what `require_accepted`, planning,
    compiling and linking raise.
    """
    development = Development(here, runtime, jobs, view)
    development.require()
    kernels = runtime.kernels_for(subject.roots)
    wide = probably_wide(here, runtime, subject)
    operators: frozenset[OperatorName] | None = None
    attempts: list[Attempt] = []
    while True:
        began = time.monotonic()
        with ExitStack() as held:
            with _alone(here):
                base = development.base
                if operators is None:
                    operators = probable_operators(here, runtime, subject, development.in_base)
                shard = development.shard(subject.roots, operators, wide)
                held.enter_context(in_use(base.extended.path))
                held.enter_context(in_use(shard.path))
            made = time.monotonic()
            seen = _run(here, subject, base, shard, with_arguments)
        missing, dtypes = missing_operators(seen), missing_dtypes(seen)
        seconds = (made - began, time.monotonic() - made)
        shown = tuple(f"{tag} for {dtype}" for tag, dtype in sorted(dtypes.items()))
        attempts.append(Attempt(shard, (*missing, *shown), seconds))
        new, wider = frozenset(missing) - operators, dtypes.keys() - wide
        if not (new or wider) or not new <= kernels.by_operator.keys():
            break
        here.log(f"{', '.join((*sorted(new), *shown))}: not there yet, compiling")
        operators |= joining(runtime, subject.roots, new, len(attempts))
        wide |= wider
    result = _checked(subject, seen, attempts)
    timed = None
    # its folder is the next one's, too
    with ExitStack() as held:
        if repeat is not None and here.context.whole is not None:
            # nothing else of this workspace runs beside a model that is timed
            held.enter_context(workspace_lock(here.context.whole, True, here.log, "run --repeat"))
        held.enter_context(_alone(here))
        remember(here, runtime, subject, operators, wide)
        needs = None
        if repeat is not None or estimate:
            # the base has all dtypes of its own kernels, so none of those was missing
            ran = wide_tags(result.get("kernel_tags") or {})
            needs = _seen(here, runtime, subject, base, attempts[-1].shard, wide | ran)
        if repeat is not None:
            assert needs is not None
            timed, times = _time(here, runtime, subject, needs, repeat, jobs, view)
            result = {**result, "runs": _with_times(result["runs"], times)}
    return RanModel(
        subject,
        runtime.version.version,
        base,
        tuple(attempts),
        result,
        _verdict(here, subject, seen),
        timed,
        None if subject.app is None else _growth(runtime, subject, subject.app, result),
        _estimate(here, runtime, subject, needs) if estimate and needs is not None else None,
    )


def _estimate(here: Invocation, runtime: Runtime, subject: Subject, needs: Seen) -> Estimate | None:
    size = estimate_of(here, runtime, subject.app, needs)
    of_app = subject.app is not None and bool(needs.traces)
    return None if size is None else Estimate(here.toolchains.host, size, of_app)


@contextmanager
def _alone(here: Invocation) -> Iterator[None]:
    """While something is compiled or written, and not while the model runs."""
    with workspace_lock(here.context.state, True, here.log, "run"):
        yield


def _run(
    here: Invocation,
    subject: Subject,
    base: Base,
    shard: Shard,
    with_arguments: bool,
    *options: str,
) -> RunnerResult:
    return run_model(
        [str(base.runner), *options],
        subject.path,
        subject.config,
        here.context.env,
        libraries=base.extended.path.parent,
        recorded=subject.recorded,
        addon=shard.path,
        with_arguments=with_arguments,
        runner=here.context.runner,
    )


def _seen(
    here: Invocation,
    runtime: Runtime,
    subject: Subject,
    base: Base,
    shard: Shard,
    wide: frozenset[str],
) -> Seen:
    """The traces that a library to time the model in is cut by, unless it has other inputs than
    those: then by what it had when it ran."""
    trace, traces = subject.trace or subject.earlier, tuple[Trace, ...]()
    if subject.app is not None and subject.trace is not None and _as_traced(here, subject):
        traces = (subject.trace, *_others(here, subject, subject.app))
    work = _work(here, runtime, subject, base, shard) if trace is None else trace
    hot = None if work is None else work.hot_tags
    products = 0 if work is None else work.multiply_adds or 0
    archive = subject.info.archive_version
    return Seen(subject.roots, shard.operators, wide, traces, hot, products, archive)


def _work(
    here: Invocation, runtime: Runtime, subject: Subject, base: Base, shard: Shard
) -> RecordedWork | None:
    """Record the work of a model without a trace; None if that fails."""
    seen = _run(here, subject, base, shard, False, "--record")
    if errors_of(seen) or seen.result is None:
        return None
    return recorded_work(seen.result["trace"], len(seen.result["runs"]), scales(runtime))


def _others(here: Invocation, subject: Subject, app: App) -> Iterator[Trace]:
    """The current locks of an app's other models: its library is cut for all."""
    for model in app.config.models:
        if model.name != subject.name:
            lock = readable_lock(lock_path(app.folder, model.name))
            if lock is not None and lock.identity == here.models.trace_identity(app, model):
                yield lock


def _time(
    here: Invocation,
    runtime: Runtime,
    subject: Subject,
    needs: Seen,
    repeat: int,
    jobs: int | None,
    view: View,
) -> tuple[Timed, Mapping[str, Any]]:
    """The library that a model is timed in, and the runner's result there.

    Raises RunFailedError, and what planning, compiling and linking raise.
    """
    began = time.monotonic()
    library = timed_library(here, runtime, subject.app, needs, jobs=jobs, view=view)
    made = time.monotonic() - began
    ran = run_model(
        [str(library.runner), "--time", "--repeat", str(repeat)],
        subject.path,
        subject.config,
        here.context.env,
        libraries=library.folder,
        recorded=subject.recorded,
        runner=here.context.runner,
    )
    if ran.stderr == still_running():
        raise RunFailedError(
            f"{repeat:,} runs of the model {subject.name} take too long",
            place=Place(str(subject.path)),
            seen=ran.stderr,
            hint="pass a smaller number to --repeat",
        )
    error = next(iter(errors_of(ran)), None)
    if error is not None or ran.result is None:
        raise RunFailedError(
            f"the model {subject.name} runs in the development library, and not in the library"
            " that it is timed in",
            place=Place(str(subject.path)),
            seen=f"it {ended(ran)}" if error is None else f"{error['code']}: {error['text']}",
            hint="this is a bug: report it; without --repeat the model runs",
            details=ran.stderr[-2000:],
        )
    return Timed(library, made), ran.result


_TIMES: Final = ("microseconds", "microseconds_min")


def _with_times(
    runs: Sequence[Mapping[str, Any]], timed: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """A model's runs, with the times that the same ones have in another result."""
    times = {(r["method"], r["index"]): {n: r.get(n) for n in _TIMES} for r in timed["runs"]}
    return [{**run, **times.get((run["method"], run["index"]), {})} for run in runs]


def require_accepted(seen: RunnerResult, shard: Shard) -> None:
    """Raise ShardRefusedError where the base refused a shard, InitialiserFailedError where it could
    not register one with an app's own sources."""
    whole = None if seen.result is None else seen.result.get("error")
    text = "" if whole is None else str(whole["text"])
    if text.startswith(_NOT_REGISTERED) and shard.own:
        raise InitialiserFailedError(
            "a static initialiser of the app's own sources threw an exception",
            expected="registrations and static objects that do not throw",
            seen=text.removeprefix(_NOT_REGISTERED),
            hint=f"look into {', '.join(shard.own)}",
        )
    if text.startswith(_REFUSALS):
        raise ShardRefusedError(
            "the development library refused what was made for it",
            place=Place(str(shard.path)),
            seen=text,
            hint="this is a bug: report it; ./orchestrate clean, then run the model again",
        )


def _checked(subject: Subject, seen: RunnerResult, attempts: Sequence[Attempt]) -> dict[str, Any]:
    """The result of a model that ran. Raises RunFailedError, and what `require_accepted` raises."""
    place = Place(str(subject.path))
    if seen.result is None:
        raise RunFailedError(
            f"the development library died on the model {subject.name}",
            place=place,
            seen=f"it {ended(seen)}",
            hint="run the model in PyTorch on the same inputs",
            details=seen.stderr[-2000:],
        )
    require_accepted(seen, attempts[-1].shard)
    error = next(iter(errors_of(seen)), None)
    if error is None:
        return dict(seen.result)
    hint = "run the model in PyTorch on the same inputs"
    if error["code"] == "MISSING_OPERATOR":
        hint = "this PyTorch, as it is built here, has no kernel of it"
        if attempts[-1].shard.operators.issuperset(missing_operators(seen)):
            hint = "it was compiled and is not found: this is a bug, report it"
    raise RunFailedError(
        f"the model {subject.name} does not run on its inputs",
        place=place,
        seen=f"{error['code']}: {error['text']}",
        hint=hint,
    )


def _verdict(here: Invocation, subject: Subject, seen: RunnerResult) -> VerifyResult | None:
    if subject.app is None or subject.trace is None or not _as_traced(here, subject):
        return None
    runs = read_runs(subject.app.folder, subject.trace, here.context.root)
    return verify(subject.name, runs, seen)


def _as_traced(here: Invocation, subject: Subject) -> bool:
    """True if an app's model is run on the inputs that are declared for it."""
    assert subject.app is not None
    return subject.recorded == here.models.shipped(subject.app, _model_of(subject)).inputs


def _growth(
    runtime: Runtime, subject: Subject, app: App, result: Mapping[str, Any]
) -> Growth | None:
    """Upper bound of the growth of the app's library, as its locks select it, by this run;
    operators that `extra:` adds to the library do not count. None without a lock."""
    found = (readable_lock(lock_path(app.folder, model.name)) for model in app.config.models)
    locks = [lock for lock in found if lock is not None]
    if not locks:
        return None
    operators, dtypes = unknown_to(
        merge_all(map(traced_selection, locks)),
        subject.roots | (result.get("operators") or {}).keys(),
        result.get("kernel_tags") or {},
    )
    if not (operators or dtypes):
        return Growth()
    index = runtime.index
    roots = subject.roots.union(*(lock.root_operators for lock in locks))
    kernels = runtime.kernels_for(roots)
    numbers = {unit.path: number for number, unit in enumerate(index.units)}
    always = runtime.facts.always_for("release")
    layouts = runtime.layouts(parts_chosen(app.kernels))
    library = Grown(
        index,
        kernels,
        entry=entry_nodes(index, runtime.entry, runtime.dialect.symbols),
        units=frozenset(numbers[path] for path in (*always, *runtime.facts.app_units)),
        cut=frozenset(numbers[path] for path in runtime.cut_units(roots)),
        selection=select(index, kernels, locks, app.selection, layouts=layouts),
    )
    return growth(library, operators, dtypes)


def _model_of(subject: Subject) -> ModelConfig:
    assert subject.app is not None
    return next(one for one in subject.app.config.models if one.name == subject.name)
