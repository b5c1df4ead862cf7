"""What it costs to make the index of a PyTorch version, by a sample of its units."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from benchmarks.sampling import every_kth
from orchestrator.system.staging import write_bytes

if TYPE_CHECKING:
    from benchmarks.steps import Bench

_SAMPLE: Final = 60


def index_step(bench: Bench, app: str) -> dict[str, Any]:
    """`runtime index` for the runtime of `app`, from an empty object cache: for one unit, and for
    the sample.

    What the first run costs is there once, whatever the number of units: our own sources, the
    precompiled header, reading and writing the index. The second is scaled by the units' costs in
    the index. What is shipped stays as it was: an index renewed for some units may need more than
    one made anew. Raises CommandFailedError.
    """
    runtime = bench.here.runtimes.on(bench.runtime_of(app))
    costs = {unit.path: unit.cost for unit in runtime.index.units}
    first, *sample = sample_of(costs, _SAMPLE)
    workspace, cache = bench.new_workspace("index-workspace"), bench.new_cache("index-cache")
    shipped = {path: path.read_bytes() for path in (runtime.dialect.index, runtime.dialect.entry)}
    argv = ("runtime", "index", "--runtime", runtime.name)
    try:
        once, _ = bench.orchestrate(workspace, cache, *argv, "--unit", first)
        units = [word for path in sample for word in ("--unit", path)]
        sampled, _ = bench.orchestrate(workspace, cache, *argv, *units)
    finally:
        for path, data in shipped.items():
            if path.read_bytes() != data:
                write_bytes(path, data)
    scale = (sum(costs.values()) - costs[first]) / sum(costs[path] for path in sample)
    return {
        "user_seconds": sampled.user_seconds,
        "runtime": runtime.name,
        "units": len(costs),
        "sample": len(sample),
        "once_user_seconds": once.user_seconds,
        "all_user_seconds": once.user_seconds + scale * sampled.user_seconds,
        "bytes": len(shipped[runtime.dialect.index]),
    }


def sample_of(costs: Mapping[str, float], count: int) -> tuple[str, ...]:
    """Evenly spread units by what they cost; first the cheapest of all."""
    cheapest, *others = sorted(costs, key=lambda path: (costs[path], path))
    return (cheapest, *every_kth(others, min(count, len(others))))
