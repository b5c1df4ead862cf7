"""What a model author and an app team wait for: the development library, and add-ons."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from benchmarks import scratch
from benchmarks.latency import Timed, Timing, in_turn, read_timing

if TYPE_CHECKING:
    from benchmarks.steps import Bench

_AGAIN: Final = 5


@dataclass(frozen=True)
class _Developed:
    """An app's model, run and timed by `orchestrate run`."""

    bench: Bench
    workspace: Path
    cache: Path
    app: str

    def run(self, *arguments: str) -> dict[str, Any]:
        """The cost of one `run`, and what it tells of the app's only model."""
        argv = ("run", f"//apps/{self.app}", *arguments, "--json")
        cost, told = self.bench.orchestrate(self.workspace, self.cache, *argv)
        (model,) = json.loads(told)["models"]
        return {**asdict(cost), "model": model}

    def measure(self, env: Mapping[str, str], output: Path, repeat: int) -> Timing:
        """Time one process. Raises CommandFailedError."""
        return read_timing(self.run("--repeat", str(repeat))["model"])


def development_step(bench: Bench, first: str, delivered: Timed) -> dict[str, Any]:
    """`run` of the first app: from an empty cache, again, and with one operator more; the model's
    time that `run --repeat` tells and that in the delivered library.

    delivered: the first app's model in its library
    """
    workspace = bench.new_workspace("development-workspace")
    ours = _Developed(bench, workspace, bench.new_cache("development-cache"), first)
    begun = ours.run()
    model = begun.pop("model")
    again = [ours.run() for _ in range(_AGAIN)]
    changed = bench.with_operator(workspace, "development-operator")
    more = _Developed(bench, changed, ours.cache, first).run()
    env = bench.here.context.env
    alone = [delivered.wall_seconds(env, bench.folder / "alone.json") for _ in range(_AGAIN)]
    return {
        **begun,
        "base_units": model["base"]["units"],
        "shard_units": sum(shard["units"] for shard in model["shards"]),
        "again": {
            "user_seconds": min(one["user_seconds"] for one in again),
            "process_seconds": min(one["model"]["shards"][-1]["ran_seconds"] for one in again),
            "delivered_process_seconds": min(alone),
        },
        "operator": {name: more[name] for name in ("user_seconds", "wall_seconds", "peak_bytes")},
        "latency": in_turn(
            ours,
            delivered,
            env,
            bench.folder,
            bench.options.rounds,
            bench.options.repeat,
            name="delivered",
        ),
    }


def addon_step(bench: Bench, first: str, abi: str, added: str, traces: Path) -> dict[str, Any]:
    """The first app as a library that takes add-ons, and an add-on for the model of `added`, which
    has one operator more; traces: of that model, with the first app's runtime."""
    workspace = bench.new_workspace("addon-workspace")
    apps = workspace / "apps"
    scratch.edit_app(apps / first / "app.yaml", {"extensible": True})
    scratch.edit_app(apps / added / "app.yaml", {"runtime": bench.runtime_of(first)})
    shutil.rmtree(apps / added / "traces")
    shutil.copytree(bench.root / traces, apps / added / "traces")
    known = scratch.made_files(bench.cache)
    built = bench.build(workspace, bench.cache, first)
    (model,) = sorted((apps / added / "models").glob("*.ptl"))
    argv = ("addon", "--for", str(workspace / "dist" / first / abi), str(model), "--json")
    cost, told = bench.orchestrate(workspace, bench.cache, *argv)
    scratch.forget(bench.cache, known)
    addon = json.loads(told)["addon"]
    return {
        **asdict(cost),
        "stripped_bytes": built["stripped_bytes"],
        "addon_bytes": addon["bytes"],
        "operators": addon["operators"],
        "units_compiled": addon["units_compiled"],
    }
