"""Removes operators from libraries by hand, and compares what is gone with what `size` tells.

    .venv/bin/python -m benchmarks.removals //apps/scanner:linux-x86_64
    .venv/bin/python -m benchmarks.removals //apps/scanner:linux-x86_64 --only aten::conv2d

An operator is taken out of the traces of the app's models, with those that only it calls, and the
library is linked again. The rows of `removals.json` are those of all runs.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from benchmarks.written import write_results
from orchestrator.binary.elf_strip import split
from orchestrator.build.executing.execute import execute_linked
from orchestrator.build.explaining.size import bytes_for, measure
from orchestrator.build.planning.links import variant_links
from orchestrator.build.planning.plan import Variant, variant_requests
from orchestrator.build.planning.variants import plan_all
from orchestrator.build.workshop.invocation import Invocation, load
from orchestrator.build.workshop.traced import read_app, read_traces
from orchestrator.cli import make_context
from orchestrator.commands.views import progress_view
from orchestrator.size.graph import LinkedGraph
from orchestrator.system.workspace_lock import workspace_lock
from orchestrator.values.labels import Pattern, VariantLabel
from orchestrator.values.operators import OperatorName
from orchestrator.values.trace import Trace

HERE: Final = Path(__file__).parent
_NAME: Final = "removals"
_RECORD: Final = HERE / f"{_NAME}.json"
# Bytes below which what aligns a section is more than 2 % of an operator.
_LEAST: Final = 1_500


@dataclass(frozen=True)
class Removal:
    """An operator of a library. told: the bytes that `why --bytes` gives; gone: those by which the
    library is smaller without it."""

    label: str
    operator: str
    library: int
    told: int
    gone: int

    @property
    def off(self) -> float:
        """Per cent that what is told is above what is gone."""
        return 100 * (self.told / self.gone - 1)


def main(argv: Sequence[str] | None = None) -> int:
    """Remove operators, and write both files."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("label", help="such as //apps/scanner:linux-x86_64")
    parser.add_argument("--only", help="operators, with commas")
    arguments = parser.parse_args(argv)
    context = make_context(argparse.Namespace(workspace=str(HERE.parent)), os.environ, Path.cwd())
    here = load(context, lambda line: print(line, file=sys.stderr))
    only = None if arguments.only is None else arguments.only.split(",")
    known = json.loads(_RECORD.read_text(encoding="utf-8"))["rows"] if _RECORD.exists() else []
    rows = {(row["label"], row["operator"]): row for row in known}
    named = Pattern.parse(arguments.label)
    if named.app is None or named.abi is None:
        parser.error("a label of one app and one ABI is needed")
    label = VariantLabel(named.app, named.abi)
    for one in removals(here, label, only):
        print(f"{one.operator}: {one.told:,} told, {one.gone:,} gone, {one.off:+.2f} %", flush=True)
        rows[one.label, one.operator] = vars(one)
    found = [rows[key] for key in sorted(rows)]
    text = page([Removal(**row) for row in found])
    write_results(HERE, _NAME, {"format": 1, "rows": found}, text)
    return 0


def removals(
    here: Invocation, label: VariantLabel, only: Collection[str] | None
) -> Iterator[Removal]:
    """Each operator that models ask for, or of `only` these, with what its removal gives. The
    library is for ELF."""
    here.runtimes.prepare([label.app])
    runtime, app = here.runtimes.of(label.app), here.workspace.apps[label.app]
    traces = read_traces(here, app)
    with workspace_lock(here.context.state, True, here.log, _NAME):
        whole, library = _linked(here, label, traces)
        size = library.stat().st_size
        graph = measure(here, runtime, whole, library, packed=False).graph
        for operator in sorted(graph.asked):
            found = bytes_for(graph, operator)
            assert found is not None
            if found.alone < _LEAST or (only is not None and operator not in only):
                continue
            gone = _gone_with(graph, operator)
            _, without = _linked(here, label, [_without(one, gone) for one in traces])
            yield Removal(str(label), operator, size, found.alone, size - without.stat().st_size)


def _linked(here: Invocation, label: VariantLabel, traces: Sequence[Trace]) -> tuple[Variant, Path]:
    """The variant as these traces select it, planned and linked, and its library, stripped."""
    runtime, app = here.runtimes.of(label.app), here.workspace.apps[label.app]
    prepared = here.prepare(runtime, [label.abi])
    read = {app.name: read_app(here, app, traces)}
    (request,) = variant_requests(prepared, [label], read).values()
    (objects,) = plan_all(prepared, {label: request}).values()
    links = variant_links(prepared, app.name, objects, f"$state/{_NAME}")
    needed, jobs = (links.shared, *links.cxx_library), here.workspace.config.jobs
    view = progress_view(True, False)
    execute_linked(here, objects, needed, (), name=_NAME, jobs=jobs, view=view)
    linked = Path(runtime.fill(links.shared.output))
    library = linked.parent / "stripped" / linked.name
    library.parent.mkdir(exist_ok=True)
    library.write_bytes(split(linked.read_bytes(), f"{linked.name}.debug").stripped)
    return Variant(label, app, tuple(traces), request, objects, links), library


def _gone_with(graph: LinkedGraph, operator: str) -> set[OperatorName]:
    """The operators that are there for this one alone, itself among them."""
    others = [node for name, node in graph.asked.items() if name != operator]
    base = graph.reached(graph.base, graph.selected)
    mine = graph.reached([graph.asked[operator]]) - graph.reached(others) - base
    return {OperatorName(graph.nodes[node].name) for node in mine & graph.selected}


def _without(trace: Trace, gone: Collection[OperatorName]) -> Trace:
    called = {name: times for name, times in trace.called_operators.items() if name not in gone}
    roots = tuple(name for name in trace.root_operators if name not in gone)
    return replace(trace, root_operators=roots, called_operators=called)


def page(rows: Sequence[Removal]) -> str:
    """REMOVALS.md."""
    worst = max(rows, key=lambda one: abs(one.off))
    lines = [
        "# Operators removed by hand\n",
        "The bytes that `why --bytes` says a library would lose without an operator, and those that"
        " it lost when the operator was taken out of its models' traces. Rewritten by"
        " `benchmarks/removals.py`.\n",
        f"{len(rows)} operators; at most {abs(worst.off):.1f} % off ({worst.operator} of"
        f" {worst.label})\n",
        "| library | operator | told | gone | off |",
        "|---|---|---:|---:|---:|",
    ]
    lines += [
        f"| {one.label} | {one.operator} | {one.told:,} | {one.gone:,} | {one.off:+.2f} % |"
        for one in sorted(rows, key=lambda one: (one.label, -one.told))
    ]
    return "".join(f"{line}\n" for line in lines)


if __name__ == "__main__":
    sys.exit(main())
