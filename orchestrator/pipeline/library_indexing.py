"""Makes what is shipped for a library: its index for each processor.

A maintainer's job: about 600 small units a processor, 90 CPU seconds from an empty cache.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from orchestrator.libraries.index import LibraryIndex, library_index_path
from orchestrator.pipeline.compile import ProgressSink, carry_out
from orchestrator.pipeline.libraries import PreparedLibrary
from orchestrator.pipeline.session import Session
from orchestrator.pipeline.variants import Wanted, spec_of
from orchestrator.plan.libraries import library_compiles
from orchestrator.runtime.index import UnitFacts, save_index
from orchestrator.runtime.index_build import build_index
from orchestrator.system.staging import write_bytes
from orchestrator.values.action import ActionGraph
from orchestrator.values.config import Processor
from orchestrator.values.selection import Selection


@dataclass(frozen=True)
class MadeLibraryIndex:
    """A new index, where it was written, and the units that do not compile: they are not in it."""

    index: LibraryIndex
    path: Path
    left_out: tuple[str, ...]


def make_library_index(
    session: Session,
    library: PreparedLibrary,
    processor: Processor,
    *,
    jobs: int | None,
    view: Callable[[Mapping[str, float], int], ProgressSink],
) -> MadeLibraryIndex:
    """Compile the library's units for a processor, index, write. Raises ObjectUnreadableError."""
    everything = Selection(everything=True)
    abi = library.data.indexed[processor]
    wanted = Wanted("index", abi, everything, session.kernels, "release", "balanced")
    spec = replace(spec_of(session, wanted), entry=frozenset(), hardening=frozenset())
    units = library.units(processor).values()
    compiles = {one.unit: one for one in library_compiles(library.facts, spec, units)}
    graph = ActionGraph({c.object: c for c in sorted(compiles.values(), key=lambda c: c.object)})
    carried = carry_out(
        session,
        graph,
        {},
        name="library_index",
        targets=sorted(graph.compiles),
        jobs=jobs,
        keep_going=True,
        view=view,
    )
    failed = {name for name in compiles if session.fill(compiles[name].object) in carried.result.failures}
    for name in sorted(failed):
        session.say(f"{name}:\n{carried.result.failures[session.fill(compiles[name].object)]}")
    index = build_index(
        f"{library.data.library} {library.data.version}",
        library.identity,
        [UnitFacts(name, 0.0) for name in compiles if name not in failed],
        {name: Path(session.fill(one.object)) for name, one in compiles.items()},
    )
    path = library_index_path(library.data.library, processor)
    write_bytes(path, save_index(index))
    return MadeLibraryIndex(LibraryIndex(index), path, tuple(sorted(failed)))
