"""Latency of one model in two libraries, measured in turn so that a busy machine hits both."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any, Protocol

from benchmarks.processes import Finished, run


@dataclass(frozen=True)
class Timing:
    """One process: the median and the least microseconds of its repeated calls."""

    median: float
    least: float


@dataclass(frozen=True)
class Timed:
    """A model runner, the folder of the library that it loads, and the model that it runs."""

    runner: Path
    library: Path
    model: Path

    def measure(self, env: Mapping[str, str], output: Path, repeat: int) -> Timing:
        """Time one process on one core. Raises CommandFailedError."""
        self._run(env, output, "--time", "--warmup", "10", "--repeat", str(repeat))
        return read_timing(json.loads(output.read_text()))

    def wall_seconds(self, env: Mapping[str, str], output: Path) -> float:
        """What a process takes that runs the model once. Raises CommandFailedError."""
        return self._run(env, output).wall_seconds

    def _run(self, env: Mapping[str, str], output: Path, *arguments: str) -> Finished:
        argv = [str(self.runner), "--model", str(self.model), "--output", str(output), "--no-args"]
        env = {**env, "LD_LIBRARY_PATH": str(self.library)}
        return run([*argv, *arguments], env=env).require("the driver")


class Timer(Protocol):
    """Something that times one process: its environment, a file for its result, its calls."""

    def measure(self, env: Mapping[str, str], output: Path, repeat: int) -> Timing: ...


def read_timing(result: Mapping[str, Any]) -> Timing:
    """The timed call in the model runner's JSON (native/driver/driver.cpp)."""
    timed = next(one for one in result["runs"] if one["microseconds"] is not None)
    return Timing(round(timed["microseconds"], 3), round(timed["microseconds_min"], 3))


def in_turn(
    ours: Timer,
    other: Timer,
    env: Mapping[str, str],
    folder: Path,
    rounds: int,
    repeat: int,
    *,
    name: str = "upstream",
) -> dict[str, Any]:
    """Measure ours (`default`) and the other (`name`) in each round, in alternating order.

    Both processes run on one core of those that this process may use.
    """
    allowed = os.sched_getaffinity(0)
    times: dict[str, list[Timing]] = {"default": [], name: []}
    os.sched_setaffinity(0, {max(allowed)})
    try:
        for number in range(rounds):
            order = [("default", ours), (name, other)]
            for side, timed in order if number % 2 == 0 else reversed(order):
                times[side].append(timed.measure(env, folder / f"{side}.json", repeat))
    finally:
        os.sched_setaffinity(0, allowed)
    return {"repeat": repeat, **summary(times["default"], times[name], name)}


def summary(
    ours: Sequence[Timing], other: Sequence[Timing], name: str = "upstream"
) -> dict[str, Any]:
    """Microseconds of both sides, and both ratios: of the medians and of the least times."""
    sides = {"default": ours, name: other}
    medians = {name: median(t.median for t in times) for name, times in sides.items()}
    least = {name: min(t.least for t in times) for name, times in sides.items()}
    return {
        "rounds": [
            {"default": asdict(a), name: asdict(b)} for a, b in zip(ours, other, strict=True)
        ],
        "median": medians,
        "least": least,
        "ratio_of_medians": medians["default"] / medians[name],
        "ratio_of_least": least["default"] / least[name],
    }
