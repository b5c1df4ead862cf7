"""Makes the shipped data of a library: its index for each processor, and the symbols that our
kernels reference.

For maintainers. Compiles about 600 small units per processor, 90 CPU seconds from an empty cache.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from orchestrator.build.executing.execute import (
    Execution,
    execute_actions,
    require_success,
)
from orchestrator.build.planning.variants import VariantRequest, spec_of
from orchestrator.build.workshop.invocation import Invocation
from orchestrator.build.workshop.libraries import PreparedLibrary
from orchestrator.build.workshop.runtime import Runtime
from orchestrator.execute.ninja_progress import Costs, ProgressSink
from orchestrator.index.attribution import build_index
from orchestrator.index.entry import undefined_symbols
from orchestrator.index.model import RuntimeIndex, UnitFacts, aliases, save_index
from orchestrator.libraries.features import FeatureEntry, entries_text, fast_sources, load_features
from orchestrator.libraries.index import LibraryIndex, library_index_path
from orchestrator.plan.graph import kernel_compiles
from orchestrator.plan.libraries import level_flags, library_compiles
from orchestrator.system.staging import write_bytes
from orchestrator.values.action import ActionGraph, Compile
from orchestrator.values.config.toolchain import Processor
from orchestrator.values.selection import Selection


@dataclass(frozen=True)
class MadeLibraryIndex:
    """A new index, where it was written, and the units that do not compile: they are not in it."""

    index: LibraryIndex
    path: Path
    omitted: tuple[str, ...]


def make_library_index(
    here: Invocation,
    runtime: Runtime,
    library: PreparedLibrary,
    processor: Processor,
    *,
    jobs: int | None,
    view: Callable[[Costs, int], ProgressSink],
) -> MadeLibraryIndex:
    """Compile the library's units for a processor, index, write. Raises ObjectUnreadableError."""
    everything = Selection(everything=True)
    abi = library.data.indexed[processor]
    request = VariantRequest(abi, everything, runtime.kernels, "release", "balanced")
    spec = spec_of(here.prepare(runtime, [abi]), request)
    spec = replace(spec, entry=frozenset(), hardening=frozenset())
    units = library.units(processor).values()
    levels = library.data.levels.get(processor, ())
    everything_on = level_flags(library.data.library, levels, [one.name for one in levels])
    planned = library_compiles(library.facts, spec, units, everything_on)
    compiles = {one.unit: runtime.placed(one) for one in planned}
    _, execution = _compiled(here, compiles.values(), "library_index", jobs, view)
    result = execution.result
    places = {name: runtime.fill(one.object) for name, one in compiles.items()}
    failed = {name for name in compiles if places[name] in result.failures}
    for name in sorted(failed):
        here.log(f"{name}: {_last_lines(result.failures[places[name]])}")
    index = build_index(
        f"{library.data.library} {library.data.version}",
        library.identity(processor),
        [UnitFacts(name, 0.0) for name in compiles if name not in failed],
        {name: Path(place) for name, place in places.items()},
        runtime.dialect.symbols,
    )
    path = library_index_path(library.data.library, processor)
    write_bytes(path, save_index(index))
    return MadeLibraryIndex(LibraryIndex(index), path, tuple(sorted(failed)))


def _compiled(
    here: Invocation,
    compiles: Iterable[Compile],
    name: str,
    jobs: int | None,
    view: Callable[[Costs, int], ProgressSink],
) -> tuple[ActionGraph, Execution]:
    """Compile all, whatever fails."""
    graph = ActionGraph({c.object: c for c in sorted(compiles, key=lambda c: c.object)})
    execution = execute_actions(
        here,
        graph,
        {},
        name=name,
        targets=sorted(graph.compiles),
        jobs=jobs,
        keep_going=True,
        view=view,
    )
    return graph, execution


def _last_lines(text: str) -> str:
    return "\n".join(text.replace("\\n", "\n").splitlines()[-5:])


@dataclass(frozen=True)
class MadeFeatures:
    """Symbols that our kernels refer to, and the file that they were written to."""

    entries: Mapping[str, FeatureEntry]
    path: Path


def make_features(
    here: Invocation,
    runtime: Runtime,
    library: PreparedLibrary,
    *,
    jobs: int | None,
    view: Callable[[Costs, int], ProgressSink],
) -> MadeFeatures:
    """Compile our kernels for this machine, read what they leave undefined, write.

    Raises ActionFailedError, ObjectUnreadableError, IndexUnreadableError.
    """
    features = load_features()
    everything = Selection(everything=True)
    request = VariantRequest(here.toolchains.host, everything, runtime.kernels, "release", "size")
    spec = spec_of(here.prepare(runtime, [request.abi]), request)
    spec = replace(spec, lto=False, hardening=frozenset())
    sources = [feature.source for feature in features]
    planned = kernel_compiles(
        runtime.facts, spec, sources, runtime.native, library.facts, fast_sources()
    )
    compiles = tuple(map(runtime.placed, planned))
    graph, execution = _compiled(here, compiles, "library_kernels", jobs, view)
    require_success(here, graph, execution)
    index = library.index(here.workspace.toolchains[here.toolchains.host].config.processor)
    assert index is not None, "the index of this machine's processor is made first"
    of_library, of_runtime = index.symbols, known_symbols(runtime.index)
    entries = {}
    for feature, one in zip(features, compiles, strict=True):
        undefined = undefined_symbols([Path(runtime.fill(one.object))])
        entries[feature.name] = FeatureEntry(undefined & of_library, undefined & of_runtime)
    path = runtime.dialect.kernels
    write_bytes(path, entries_text(entries).encode())
    return MadeFeatures(entries, path)


def known_symbols(index: RuntimeIndex) -> frozenset[str]:
    """The symbols that PyTorch's units define, without symbol versions (`@...`) and under each
    alias (`aliases`) by which another object may refer to them."""
    names = {name.split("@", 1)[0] for name in index.names}
    return frozenset(alias for name in names for alias in aliases(name))
