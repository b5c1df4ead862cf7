"""Writes an action graph as build.ninja and has ninja carry it out."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from orchestrator.codegen.units import write_unit
from orchestrator.emit.ninja import ninja_text
from orchestrator.execute.limits import limits, this_machine
from orchestrator.execute.ninja import NinjaResult, run_ninja
from orchestrator.pipeline.launching import launching, with_headers
from orchestrator.pipeline.session import Session
from orchestrator.plan.unity import shard_texts
from orchestrator.toolchain.resolve import ResolvedToolchain, compiler_environment
from orchestrator.values.action import ActionGraph


class ProgressSink(Protocol):
    """A progress view: a context manager that takes ninja's lines."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
        /,
    ) -> None: ...

    def feed(self, line: str) -> None: ...


@dataclass(frozen=True)
class Carried:
    """What carrying out a graph did: objects that were to be compiled, and ninja's result."""

    compiled: frozenset[str]
    result: NinjaResult


def carry_out(
    session: Session,
    graph: ActionGraph,
    projections: Mapping[str, str],
    *,
    name: str,
    targets: Sequence[str] = (),
    jobs: int | None,
    keep_going: bool,
    view: Callable[[Mapping[str, float], int], ProgressSink],
) -> Carried:
    """Write `<state>/<name>.ninja` and run it."""
    cache = session.context.cache
    write_projections(cache / "projections", projections)
    for text in shard_texts(session.runtime.facts.unity, graph.compiles.values()):
        write_unit("unity", text, cache / "unity")
    headers = {c.pch.output for c in graph.compiles.values() if c.pch is not None}
    present = {o for o in (*graph.compiles, *headers) if Path(session.fill(o)).is_file()}
    abis = {c.abi for c in graph.compiles.values()} | {link.abi for link in graph.links}
    launched = launching(session, sorted(abis))
    memory = session.runtime.version.memory
    unit, heavy = memory.unit_mb * 10**6, memory.heavy_unit_mb * 10**6
    allowed = limits(this_machine(), jobs, unit, heavy)
    text = ninja_text(
        with_headers(graph) if launched.texts else graph,
        folders={**session.runtime.folders, **launched.folders},
        toolchains={abi: _tools(session.toolchain(abi)) for abi in sorted(abis)},
        present=present,
        launchers=launched.texts,
        heavy_cost=memory.heavy_cost,
        heavy_jobs=allowed.heavy_jobs,
        python=sys.executable,
    )
    build_file = session.context.state / f"{name}.ninja"
    write_if_changed(build_file, text)
    costs = {c.unit: c.cost for o, c in graph.compiles.items() if o not in present}
    with view(costs, allowed.jobs) as sink:
        result = run_ninja(
            build_file,
            # ninja knows no target without an edge; with nothing left, the whole graph is nothing
            [session.fill(target) for target in targets if target not in present],
            env={**compiler_environment(cache, session.context.env), **launched.env},
            folder=cache,
            jobs=allowed.jobs,
            keep_going=keep_going,
            feed=sink.feed,
        )
    return Carried(frozenset(graph.compiles) - present, result)


def write_projections(folder: Path, projections: Mapping[str, str]) -> None:
    """Projection headers by content; those that exist are what they should be."""
    folder.mkdir(parents=True, exist_ok=True)
    for digest in sorted(projections):
        path = folder / f"{digest}.h"
        if not path.is_file():
            staged = folder / f".{digest}.{os.getpid()}"
            staged.write_text(projections[digest])
            staged.replace(path)


def write_if_changed(path: Path, text: str) -> bool:
    """Write all or nothing, and not at all where the text is the same."""
    if path.is_file() and path.read_text() == text:
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    staged = path.with_name(f".{path.name}.{os.getpid()}")
    staged.write_text(text)
    staged.replace(path)
    return True


def _tools(toolchain: ResolvedToolchain) -> dict[str, str]:
    return {
        "cxx": str(toolchain.cxx),
        "cc": str(toolchain.cc),
        "ar": str(toolchain.ar),
        "link": " ".join(toolchain.link_flags),
    }


def names_of(session: Session, graph: ActionGraph) -> dict[str, str]:
    """Output path as ninja prints it -> what it is, for error messages."""
    names = {session.fill(o): c.unit for o, c in graph.compiles.items()}
    headers = {c.pch for c in graph.compiles.values() if c.pch is not None}
    names |= {session.fill(header.output): Path(header.source).name for header in headers}
    return names | {session.fill(link.output): Path(link.output).name for link in graph.links}
