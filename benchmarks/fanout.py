"""Simulates a first build on several machines, from the actions of one that was measured here.

    ./orchestrate build //apps/assistant            # with an empty cache, see below
    .venv/bin/python -m benchmarks.fanout . //apps/assistant

ninja's log has how long each action took, the plan which outputs each one reads, and the workspace
how large these are. A worker runs one action at a time. Before it does, it fetches what it has not
read yet (the workspace's sources at its first action), and afterwards it sends what it made, both
at the same bandwidth, while its processor idles. The action with the longest way to the end goes
first, to the free worker that has the least to fetch.

What is not simulated: planning, delivery and verification, which one machine does; the latency of a
server; and a server's own bandwidth, which all workers share.
"""

from __future__ import annotations

import argparse
import heapq
import os
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks.machine import machine_facts
from benchmarks.processes import CommandFailedError
from benchmarks.written import write_results
from orchestrator.build.planning.plan import plan_variants
from orchestrator.build.workshop.invocation import Invocation, load
from orchestrator.cli import make_context
from orchestrator.commands.patterns import resolve_patterns
from orchestrator.plan.graph import action_graph
from orchestrator.values.action import ActionGraph, precompiled_headers

HERE = Path(__file__).parent
WORKERS: Final = (1, 2, 4, 8)
# Of each worker, in bytes a second: a disk of its own, a gigabit, a hundred megabits.
BANDWIDTHS: Final[Mapping[str, float | None]] = {
    "no transfer": None,
    "1 Gbit/s": 125e6,
    "100 Mbit/s": 12.5e6,
}
# The sources of an exported workspace of one runtime: `export bazel`, decision 0052.
SOURCES: Final = 480 * 10**6


@dataclass(frozen=True)
class Step:
    """An action that was measured.

    reads  names of the steps whose outputs it reads
    size   bytes of its output
    """

    name: str
    seconds: float
    size: int = 0
    reads: tuple[str, ...] = ()


@dataclass(frozen=True)
class Fanout:
    """A simulated build: its wall seconds, those that workers moved files in, and bytes moved."""

    workers: int
    wall_seconds: float
    transfer_seconds: float
    moved_bytes: int


def longest_ways(steps: Iterable[Step]) -> dict[str, float]:
    """Seconds from the beginning of each step to the end of the build, on enough machines."""
    known = {step.name: step for step in steps}
    readers = defaultdict[str, list[str]](list)
    for step in known.values():
        for name in step.reads:
            readers[name].append(step.name)
    found = dict[str, float]()
    for name in reversed(_in_order(known)):
        behind = max((found[reader] for reader in readers[name]), default=0.0)
        found[name] = known[name].seconds + behind
    return found


def simulated(
    steps: Sequence[Step], workers: int, bandwidth: float | None, sources: int = 0
) -> Fanout:
    """The build of all steps on so many workers. bandwidth: bytes a second; None moves at once.

    Raises ValueError where steps read each other in a circle, or what no step makes.
    """
    known = {step.name: step for step in steps}
    ways = longest_ways(steps)
    missing = {step.name: len(set(step.reads)) for step in steps}
    readers = defaultdict[str, list[str]](list)
    for step in steps:
        for name in set(step.reads):
            readers[name].append(step.name)
    ready = [(-ways[name], name) for name, count in missing.items() if not count]
    heapq.heapify(ready)
    has: list[set[str]] = [set() for _ in range(workers)]
    free = list(range(workers))
    running: list[tuple[float, int, str]] = []
    now, moving, moved = 0.0, 0.0, 0
    while ready or running:
        while ready and free:
            _, name = heapq.heappop(ready)
            step = known[name]
            to_fetch = {worker: _to_fetch(step, known, has[worker], sources) for worker in free}
            worker = min(free, key=lambda one: (to_fetch[one], one))
            free.remove(worker)
            size = to_fetch[worker] + step.size
            has[worker] |= {"", name, *step.reads}
            took = 0.0 if bandwidth is None else size / bandwidth
            moving, moved = moving + took, moved + size
            heapq.heappush(running, (now + took + step.seconds, worker, name))
        now, worker, name = heapq.heappop(running)
        free.append(worker)
        for reader in readers[name]:
            missing[reader] -= 1
            if not missing[reader]:
                heapq.heappush(ready, (-ways[reader], reader))
    return Fanout(workers, now, moving, moved)


def _to_fetch(step: Step, known: Mapping[str, Step], has: set[str], sources: int) -> int:
    inputs = sum(known[name].size for name in set(step.reads) - has)
    # a worker that has run anything has the sources
    return inputs if "" in has else inputs + sources


def _in_order(known: Mapping[str, Step]) -> list[str]:
    """Names, each behind those that it reads."""
    order, left = list[str](), {name: set(step.reads) for name, step in known.items()}
    for name, reads in left.items():
        if gone := reads - known.keys():
            raise ValueError(f"{name} reads {min(gone)}, which no step makes")
    readers = defaultdict[str, list[str]](list)
    for name, reads in left.items():
        for read in reads:
            readers[read].append(name)
    todo = sorted(name for name, reads in left.items() if not reads)
    while todo:
        name = todo.pop()
        order.append(name)
        for reader in readers[name]:
            left[reader].discard(name)
            if not left[reader]:
                todo.append(reader)
    if len(order) < len(known):
        raise ValueError(f"steps read each other in a circle: {min(known.keys() - set(order))}")
    return order


def logged_seconds(log: str) -> dict[str, float]:
    """The seconds that each output took by ninja's log: the last line of an output counts."""
    lines = (line.split("\t") for line in log.splitlines() if not line.startswith("#"))
    return {output: (int(end) - int(begun)) / 1000 for begun, end, _, output, _ in lines}


def measured_steps(here: Invocation, graph: ActionGraph) -> list[Step]:
    """The actions of a graph that ninja ran in this workspace.

    Raises CommandFailedError where its log lacks one: it was in the cache.
    """
    seconds = logged_seconds((here.context.state / ".ninja_log").read_text(encoding="utf-8"))
    made = {*graph.compiles, *(link.output for link in graph.links)}
    reads = {
        **dict.fromkeys(precompiled_headers(graph.compiles.values()), ()),
        **{
            output: () if one.pch is None else (one.pch.output,)
            for output, one in graph.compiles.items()
        },
        **{
            link.output: tuple(
                name for name in (*link.whole, *link.on_demand, *link.inputs) if name in made
            )
            for link in graph.links
        },
    }
    steps = list[Step]()
    for output, names in reads.items():
        path = here.runtimes.fill(output)
        if path not in seconds:
            raise CommandFailedError(
                "the build that is to be simulated did not make everything itself",
                expected="a workspace whose first build had an empty cache",
                seen=f"no {path} in ninja's log",
                hint="build it with another XDG_CACHE_HOME",
            )
        steps.append(Step(output, seconds[path], Path(path).stat().st_size, names))
    return steps


def results_of(steps: Sequence[Step], labels: Sequence[str]) -> dict[str, Any]:
    """All that is recorded of a graph."""
    return {
        "labels": list(labels),
        "actions": len(steps),
        "action_seconds": sum(step.seconds for step in steps),
        "critical_path_seconds": max(longest_ways(steps).values()),
        "fanouts": {
            name: [asdict(simulated(steps, one, bandwidth, SOURCES)) for one in WORKERS]
            for name, bandwidth in BANDWIDTHS.items()
        },
    }


def render(results: Mapping[str, Any], facts: Mapping[str, str]) -> str:
    """FANOUT.md."""
    lines = [
        "# Building on several machines, simulated",
        "",
        f"The first build of {', '.join(results['labels'])}, from the actions that ninja measured"
        " on one machine. Rewritten by",
        "`benchmarks/fanout.py`, which says what is simulated and what is not.",
        "",
        f"- actions: {results['actions']:,}, {results['action_seconds']:.0f} s in all",
        f"- the longest way through the graph: {results['critical_path_seconds']:.1f} s: no number"
        " of machines is faster",
        *(f"- {name}: {fact}" for name, fact in facts.items()),
        "",
        "| a worker's bandwidth | workers | wall seconds | times faster than one | moving files |"
        " moved |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for name, fanouts in results["fanouts"].items():
        alone = fanouts[0]["wall_seconds"]
        lines += [
            f"| {name} | {one['workers']} | {one['wall_seconds']:.0f} |"
            f" {alone / one['wall_seconds']:.1f} | {one['transfer_seconds']:.0f} s |"
            f" {one['moved_bytes'] / 1e9:.2f} GB |"
            for one in fanouts
        ]
    return "".join(f"{line}\n" for line in lines)


def main(argv: Sequence[str] | None = None) -> int:
    """Simulate the last build of a workspace, and write both files."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("workspace", type=Path)
    parser.add_argument("labels", nargs="+")
    parser.add_argument("--output", type=Path, default=HERE)
    arguments = parser.parse_args(argv)
    where = argparse.Namespace(workspace=str(arguments.workspace))
    here = load(make_context(where, os.environ, Path.cwd()), print)
    labels = resolve_patterns(arguments.labels, here.workspace, print)
    variants = plan_variants(here, labels)
    graph = action_graph(
        (variant.objects for variant in variants),
        (link for variant in variants for link in variant.links.all),
    )
    results = results_of(measured_steps(here, graph), arguments.labels)
    facts = machine_facts(None)
    page = render(results, {name: facts[name] for name in ("processor", "cores")})
    write_results(arguments.output, "fanout", {**results, "machine": facts}, page)
    return 0


if __name__ == "__main__":
    sys.exit(main())
