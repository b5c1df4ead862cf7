"""Runs every case in a process of its own, in rounds, and collects what they told."""

from __future__ import annotations

import json
import os
from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.peers.building import library_of
from benchmarks.peers.catalogue import INT8_TOLERANCE, MODELS, RUNTIMES, TOLERANCE
from benchmarks.peers.sampling import LEAST, MOST, SECONDS, WARM, summary
from benchmarks.processes import Finished, run


@dataclass(frozen=True)
class Key:
    """One case: a runtime, a model, a number of threads."""

    runtime: str
    model: str
    threads: int


@dataclass(frozen=True)
class Bench:
    """Where things are: the repository, the folder of models, and the peers' Python."""

    root: Path
    folder: Path
    python: Path

    @property
    def workspace(self) -> Path:
        """The scratch workspace that ours are built in."""
        return self.folder / "workspace"

    def peers(self, module: str, *arguments: str) -> Finished:
        """Run one of this package's modules in the peers' Python."""
        # a thread of numpy's OpenBLAS would spin for 25 ms after the import, beside what is timed
        env = {**os.environ, "PYTHONPATH": str(self.root), "OPENBLAS_NUM_THREADS": "1"}
        argv = [str(self.python), "-m", f"benchmarks.peers.{module}", *arguments]
        return run(argv, env=env, cwd=self.folder)

    def case(self, key: Key, output: Path) -> Finished:
        """Run one case."""
        folder = self.folder / key.model
        if key.runtime == "executorch":
            given = json.loads((folder / "input.json").read_text())
            argv = [str(folder / "runner"), str(folder / "model.pte")]
            argv += [str(folder / "input.bin"), str(output), str(key.threads)]
            argv += [str(SECONDS), str(LEAST), str(MOST), str(WARM), given["dtype"]]
            return run([*argv, *map(str, given["shape"])], env=os.environ, cwd=self.folder)
        arguments = [key.runtime, str(folder), str(key.threads), str(output)]
        if RUNTIMES[key.runtime].declared:
            arguments.append(str(library_of(self.workspace, key.runtime, key.model)))
        return self.peers("worker", *arguments)


def converted(bench: Bench, runtimes: Sequence[str], models: Sequence[str]) -> dict[str, str]:
    """Convert every model for every runtime; the reasons of those that failed, by
    `<runtime>/<model>`."""
    failed = {}
    for runtime in runtimes:
        for model in models:
            done = bench.peers("convert", runtime, model, str(bench.folder / model))
            if done.code:
                failed[f"{runtime}/{model}"] = f"not converted: {reason(done)}"
    return failed


def ran_with(bench: Bench, models: Sequence[str]) -> dict[str, str]:
    """The libraries that a model ran with, by `<runtime>/<model>`, where a runtime has several sets
    and not the first is meant."""
    found = {}
    for model in models:
        told = bench.folder / model / "runner.txt"
        if told.is_file():
            found[f"executorch/{model}"] = told.read_text()
    return found


def reason(done: Finished) -> str:
    """Why a process failed: the last line that it printed, else its exit code."""
    said = [line.strip() for line in (done.stdout.strip() or done.stderr).splitlines()]
    said = [line for line in said if line]
    return said[-1][:200] if said else f"exit code {done.code}"


def difference(expected: bytes, seen: bytes) -> float | None:
    """The largest difference of two arrays of float32; None where their lengths differ."""
    if len(expected) != len(seen):
        return None
    pairs = zip(array("f", expected), array("f", seen), strict=True)
    # a NaN is as far away as can be
    return max((gap if (gap := abs(a - b)) == gap else float("inf") for a, b in pairs), default=0.0)


def spread(values: bytes) -> float:
    """The largest less the smallest of an array of float32."""
    floats = array("f", values)
    return max(floats) - min(floats)


def once(bench: Bench, key: Key) -> Mapping[str, Any]:
    """One process's samples and the difference of its result, or `not_measured`."""
    output = bench.folder / "output.bin"
    output.unlink(missing_ok=True)
    done = bench.case(key, output)
    if done.code:
        return {"not_measured": reason(done)}
    told: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    expected = (bench.folder / key.model / "expected.bin").read_bytes()
    gap = difference(expected, output.read_bytes())
    if gap is None:
        return {"not_measured": "its result has another size than eager torch's"}
    if MODELS[key.model].float32:
        gap /= spread(expected)
        if gap > INT8_TOLERANCE:
            far = f"differs by {gap:.0%} of the spread of eager torch's float32 one"
            return {"not_measured": f"its result {far}"}
    elif gap > TOLERANCE:
        return {"not_measured": f"its result differs by {gap:.2g} from eager torch's"}
    return {**told, "difference": gap}


def measured(
    keys: Sequence[Key],
    failed: Mapping[str, str],
    rounds: int,
    run_once: Callable[[Key], Mapping[str, Any]],
) -> list[dict[str, Any]]:
    """All cases: each once in each round, in their order. One that fails is not tried again."""
    why = {key: failed[f"{key.runtime}/{key.model}"] for key in keys
           if f"{key.runtime}/{key.model}" in failed}  # fmt: skip
    told: dict[Key, list[Mapping[str, Any]]] = {key: [] for key in keys}
    for _ in range(rounds):
        for key in keys:
            if key in why:
                continue
            one = run_once(key)
            if "not_measured" in one:
                why[key] = one["not_measured"]
            told[key].append(one)
    return [{**vars(key), **_outcome(why.get(key), told[key])} for key in keys]


def _outcome(why: str | None, told: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    if why is not None:
        return {"not_measured": why}
    return {"difference": max(one["difference"] for one in told), **summary(told)}
