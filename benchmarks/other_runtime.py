"""The first app cut from the workspace's other runtime: what a second PyTorch version costs."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from benchmarks import scratch
from benchmarks.latency import in_turn

if TYPE_CHECKING:
    from benchmarks.steps import Bench

# What the first app's model ran with the other runtime, which is not the app's own.
TRACES: Final = Path("tests/golden/traces/v2_6/camera")


def other_runtime_step(bench: Bench, first: str, added: str) -> dict[str, Any]:
    """The first app on another runtime, from an empty object cache; then with one operator more;
    and its model's latency there against that on its own runtime, in the same number of calls.

    added: the app whose model has that operator, and whose runtime is the other one
    """
    runtime = bench.runtime_of(added)
    workspace = moved_workspace(bench, first, runtime, "other-runtime-workspace")
    cache = bench.new_cache("other-runtime-cache")
    built = bench.build(workspace, cache, first)
    operator = bench.build_with_operator(
        workspace, cache, "other-runtime-operator", runtime=runtime
    )
    latency = in_turn(
        bench.delivered(workspace),
        bench.delivered(bench.workspace),
        bench.here.context.env,
        bench.folder,
        bench.options.rounds,
        bench.options.repeat,
        name="own_runtime",
    )
    return {**built, "runtime": runtime, "operator": operator, "latency": latency}


def moved_workspace(bench: Bench, first: str, runtime: str, name: str) -> Path:
    """The scratch workspace `name`: the first app is cut from `runtime`, with traces of that."""
    workspace = bench.new_workspace(name)
    folder = workspace / "apps" / first
    scratch.edit_app(folder / "app.yaml", {"runtime": runtime})
    shutil.rmtree(folder / "traces")
    shutil.copytree(bench.root / TRACES, folder / "traces")
    return workspace
