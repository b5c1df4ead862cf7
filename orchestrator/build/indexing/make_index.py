"""Makes the shipped data of a PyTorch version: its runtime index and its entry symbols.

For maintainers. Every unit is compiled once with all operators and dtypes (about 20 CPU minutes
from an empty cache), and preprocessed once.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from orchestrator.build.executing.execute import execute_actions, require_success
from orchestrator.build.planning.variants import (
    LIBRARY_SOURCES,
    TRACER_SOURCES,
    VariantRequest,
    compile_spec,
)
from orchestrator.build.workshop.invocation import Invocation
from orchestrator.build.workshop.runtime import Runtime
from orchestrator.build.workshop.runtime_index import shipped_index
from orchestrator.codegen.projection import index_text
from orchestrator.compilers.resolve import compiler_environment
from orchestrator.errors import OrchestratorError
from orchestrator.execute.ninja_progress import Costs, ProgressSink
from orchestrator.index.attribution import build_index, renew_units
from orchestrator.index.entry import (
    Entry,
    entry_text,
    missing_symbols,
    undefined_symbols,
)
from orchestrator.index.mentions import Mentions, mentions_of
from orchestrator.index.model import IndexUnreadableError, RuntimeIndex, UnitFacts, save_index
from orchestrator.plan.graph import native_compiles, projection_files
from orchestrator.plan.variant import VariantSpec, index_unit
from orchestrator.pytorch.units import runtime_units
from orchestrator.select.closure import Registry
from orchestrator.system.process import Command, CommandRunner
from orchestrator.system.staging import write_bytes
from orchestrator.values.action import ActionGraph, Compile
from orchestrator.values.fingerprint import text_digest
from orchestrator.values.selection import Selection

# What a unit costs where no earlier index says it (CPU seconds).
_UNKNOWN_COST = 4.0
_EVERYTHING = Selection(everything=True)


class PreprocessingFailedError(OrchestratorError):
    """A unit that compiled could not be preprocessed."""


@dataclass(frozen=True)
class MadeIndex:
    """A new index, where it was written, and the entry symbols beside it.

    undefined: symbols of PyTorch's that units refer to and no unit defines; a link that reaches one
    fails, and no plan can tell
    """

    index: RuntimeIndex
    path: Path
    entry: Entry
    compiled: int
    undefined: tuple[str, ...] = ()


class UnitNotInRuntimeError(OrchestratorError):
    """A unit to index again is not one of the runtime's."""


def make_index(
    here: Invocation,
    runtime: Runtime,
    *,
    jobs: int | None,
    view: Callable[[Costs, int], ProgressSink],
    only: Collection[str] = (),
) -> MadeIndex:
    """Compile, preprocess, index, write: all units, or again only those of `only`. The entry
    symbols are always computed again.

    Raises ActionFailedError, PreprocessingFailedError, ObjectUnreadableError,
    UnitNotInRuntimeError, UnitNotRenewableError.
    """
    spec = index_spec(here, runtime)
    costs = _known_costs(runtime)
    bare = [
        UnitFacts(unit.path, costs.get(unit.path, _UNKNOWN_COST))
        for unit in runtime_units(runtime.fetched.tree, runtime.version)
        if not only or unit.path in only
    ]
    require_known(only, bare)
    # Which units are op-bearing is what preprocessing tells; the others' objects are every app's.
    units = list(_mentions(here, runtime, spec, bare))
    compiles = {u.path: runtime.placed(index_unit(runtime.facts, spec, u)) for u in units}
    library, tracer = (tuple(map(runtime.placed, some)) for some in _natives(runtime, spec))
    every = [*compiles.values(), *library, *tracer]
    graph = ActionGraph({c.object: c for c in sorted(every, key=lambda c: c.object)})
    execution = execute_actions(
        here,
        graph,
        projection_files({text_digest(index_text()): index_text()}),
        name="index",
        targets=sorted(graph.compiles),
        jobs=jobs,
        keep_going=True,
        view=view,
    )
    require_success(here, graph, execution)
    here.log("reading the objects")
    dialect, tree = runtime.dialect, runtime.fetched.digest
    known = dialect.symbols
    objects = {path: Path(runtime.fill(c.object)) for path, c in compiles.items()}
    fallbacks = {rule.unit: rule.operators for rule in runtime.version.fallbacks}
    cuttable = runtime.facts.cuttable
    if only:
        shipped = shipped_index(dialect, tree, runtime.name)
        index = renew_units(shipped, units, objects, known, fallbacks, cuttable)
    else:
        index = build_index(dialect.version, tree, units, objects, known, fallbacks, cuttable)
    entry = _entry(runtime, library, tracer)
    write_bytes(dialect.index, save_index(index))
    write_bytes(dialect.entry, entry_text(entry).encode())
    paths = [*objects.values(), *(Path(runtime.fill(c.object)) for c in (*library, *tracer))]
    undefined = missing_symbols(index, undefined_symbols(paths))
    return MadeIndex(index, dialect.index, entry, len(execution.compiled), undefined)


def _natives(
    runtime: Runtime, spec: VariantSpec
) -> tuple[tuple[Compile, ...], tuple[Compile, ...]]:
    """Our own sources for a library, and for a tracer."""
    tracing = replace(spec, purpose="tracer")
    return (
        native_compiles(runtime.facts, spec, LIBRARY_SOURCES, runtime.native),
        native_compiles(runtime.facts, tracing, TRACER_SOURCES, runtime.native),
    )


def require_known(only: Collection[str], units: Iterable[UnitFacts]) -> None:
    """Raises UnitNotInRuntimeError if `only` has a unit that is not in `units`."""
    unknown = sorted(set(only) - {unit.path for unit in units})
    if unknown:
        raise UnitNotInRuntimeError(
            "the runtime has no such unit",
            expected="a file of the source tree, such as aten/src/ATen/native/Linear.cpp",
            seen=unknown[0],
            hint="correct it, or leave --unit out to index all",
        )


def index_spec(here: Invocation, runtime: Runtime) -> VariantSpec:
    """Specification by which the units of the index are compiled: one by one, since the index
    states what each of them has and needs; as written, since what a compiler adds is not a need of
    theirs. A version's first index is made without an index."""
    request = VariantRequest(here.toolchains.host, _EVERYTHING, Registry({}), "release", "size")
    spec = compile_spec(here.prepare(runtime, [request.abi]), request)
    return replace(spec, lto=False, hardening=frozenset())


def _known_costs(runtime: Runtime) -> dict[str, float]:
    try:
        return {unit.path: unit.cost for unit in runtime.index.units}
    except IndexUnreadableError:
        return {}


def _mentions(
    here: Invocation, runtime: Runtime, spec: VariantSpec, units: Sequence[UnitFacts]
) -> Iterable[UnitFacts]:
    """The units with what they mention. Raises PreprocessingFailedError, at the first failure."""
    here.log("preprocessing the units")
    env = dict(compiler_environment(here.context.cache, here.context.env, here.context.state))
    found: dict[str, Mentions] = {}
    # processes: finding names in a few megabytes takes as long as preprocessing them
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        runner = here.context.runner
        work = {
            pool.submit(_mentioned, _preprocessor(here, runtime, spec, u), env, runner): u
            for u in units
        }
        for done in as_completed(work):
            mentions = done.result()
            if isinstance(mentions, str):
                pool.shutdown(cancel_futures=True)
                raise PreprocessingFailedError(
                    f"{work[done].path} cannot be preprocessed",
                    hint="name what it needs in the version's data, or leave it out: `without`",
                    details=mentions[:2000],
                )
            found[work[done].path] = mentions
    for unit in units:
        yield UnitFacts(unit.path, unit.cost, **asdict(found[unit.path]))


def _preprocessor(
    here: Invocation, runtime: Runtime, spec: VariantSpec, unit: UnitFacts
) -> list[str]:
    """The command that preprocesses a unit as its compilation would."""
    action = index_unit(runtime.facts, spec, unit)
    toolchain = here.toolchains.of(action.abi)
    compiler = toolchain.cxx if action.language == "c++" else toolchain.cc
    flags = [runtime.fill(flag) for flag in action.flags]
    return [str(compiler), *flags, "-E", "-P", runtime.fill(action.source)]


def _mentioned(argv: list[str], env: dict[str, str], runner: CommandRunner) -> Mentions | str:
    """Preprocess a unit; return its mentions, or the compiler's error output."""
    done = runner.run(Command(argv, env))
    return done.err if done.code else mentions_of(done.out)


def _entry(runtime: Runtime, library: Iterable[Compile], tracer: Iterable[Compile]) -> Entry:
    needed = undefined_symbols([Path(runtime.fill(c.object)) for c in library])
    recording = undefined_symbols([Path(runtime.fill(c.object)) for c in tracer])
    return Entry(needed, recording - needed)
