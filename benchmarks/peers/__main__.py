"""Measures our libraries and their peers on the same models, and writes what it found.

    .venv/bin/python -m benchmarks.peers

Sets up the peers' Python, makes the models, converts them, builds ours, measures in rounds, and
writes peers.json, PEERS.md and peers.svg. Everything it makes lies in --folder and is used again.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.machine import machine_facts
from benchmarks.peers.building import build, library_of, write_workspace
from benchmarks.peers.catalogue import MODELS, RUNTIMES, THREADS
from benchmarks.peers.measuring import Bench, Key, converted, measured, once, ran_with
from benchmarks.peers.report import render
from benchmarks.peers.setting_up import peers_python
from benchmarks.peers.sizes import sizes
from orchestrator.errors import OrchestratorError

HERE: Final = Path(__file__).parents[1]
# of /proc/cpuinfo's flags, those that kernels are written for
_LEVELS: Final = ("sse4_2", "avx", "f16c", "fma", "avx2", "avx512f", "avx512_vnni", "avx512_bf16")


def names(known: Mapping[str, object]) -> Any:
    """An argument's type: names with commas, all of them known."""

    def parse(text: str) -> tuple[str, ...]:
        chosen = tuple(text.split(","))
        unknown = sorted(set(chosen) - known.keys())
        if unknown:
            raise argparse.ArgumentTypeError(f"{', '.join(unknown)}: none of {', '.join(known)}")
        return chosen

    return parse


def machine() -> dict[str, str]:
    """What is said of the machine, with the processor's levels."""
    told = machine_facts("")
    flags = Path("/proc/cpuinfo").read_text().partition("\nflags")[2].partition("\n")[0].split()
    facts = {name: fact for name, fact in told.items() if not name.startswith("compiler")}
    return {**facts, "levels": ", ".join(level for level in _LEVELS if level in flags)}


def commit(root: Path) -> str:
    """The commit that ours were built from; a plus sign: with changes."""
    argv = ["git", "describe", "--always", "--dirty=+", "--abbrev=7", "--exclude=*"]
    try:
        done = subprocess.run(argv, cwd=root, check=False, capture_output=True, text=True)
    except OSError:
        return "unknown"
    return done.stdout.strip() or "unknown"


def library_sizes(
    bench: Bench, facts: Mapping[str, Any], runtimes: Sequence[str], models: Sequence[str]
) -> list[dict[str, Any]]:
    """A row for each of our libraries and each set of a peer's."""
    rows: list[dict[str, Any]] = []
    for runtime in runtimes:
        if RUNTIMES[runtime].declared:
            for model in models:
                path = library_of(bench.workspace, runtime, model)
                rows.append({"runtime": runtime, "model": model, "what": "", **sizes([path])})
        for what, paths in facts["libraries"][runtime].items():
            told = sizes([Path(path) for path in paths])
            rows.append({"runtime": runtime, "model": None, "what": what, **told})
    return rows


def prepared(bench: Bench, chosen: argparse.Namespace) -> dict[str, str]:
    """Make the models, ours and the conversions; the reasons of conversions that failed. Raises
    CommandFailedError."""
    ours = [name for name in chosen.runtimes if RUNTIMES[name].declared]
    log("making the models")
    bench.peers("make", str(bench.folder), *chosen.models).require("making the models")
    if ours:
        log("building ours")
        write_workspace(bench.root, bench.workspace, bench.folder, ours, chosen.models)
        build(bench.root, bench.workspace, chosen.jobs)
    log("converting")
    return converted(bench, chosen.runtimes, chosen.models)


def measure(bench: Bench, chosen: argparse.Namespace) -> dict[str, Any]:
    """The results. Raises CommandFailedError."""
    conversions = bench.folder / "conversions.json"
    if not chosen.measure_only:
        conversions.write_text(json.dumps(prepared(bench, chosen)))
    failed = json.loads(conversions.read_text())
    facts = json.loads(bench.peers("facts").require("the peers' versions").stdout)
    keys = [
        Key(runtime, model, threads)
        for threads in THREADS
        for model in chosen.models
        for runtime in chosen.runtimes
    ]
    load = [os.getloadavg()[0]]

    def run_once(key: Key) -> Mapping[str, Any]:
        log(f"{key.model}, {key.runtime}, threads: {key.threads}")
        found = once(bench, key)
        load.append(os.getloadavg()[0])
        return found

    cases = measured(keys, failed, chosen.rounds, run_once)
    return {
        "format": 1,
        "machine": machine(),
        "load": [round(min(load), 1), round(max(load), 1)],
        "commit": commit(bench.root),
        "versions": facts["versions"],
        "rounds": chosen.rounds,
        "cases": cases,
        "ran_with": ran_with(bench, chosen.models),
        "libraries": library_sizes(bench, facts, chosen.runtimes, chosen.models),
    }


def log(text: str) -> None:
    """One line of progress."""
    print(text, file=sys.stderr, flush=True)


def main(arguments: Sequence[str]) -> int:
    """Measure, write."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=__doc__)
    parser.add_argument("--runtimes", type=names(RUNTIMES), default=tuple(RUNTIMES))
    parser.add_argument("--models", type=names(MODELS), default=tuple(MODELS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--measure-only", action="store_true", help="what an earlier run left in --folder"
    )
    parser.add_argument("--jobs", type=int, help="of the build of ours")
    parser.add_argument("--python", type=Path, help="a Python that has requirements/peers.in")
    parser.add_argument("--folder", type=Path, default=HERE.parent / "build" / "peers")
    parser.add_argument("--output", type=Path, default=HERE, help="for the three files")
    chosen = parser.parse_args(arguments)
    folder = chosen.folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    try:
        python = chosen.python or peers_python(HERE.parent, folder)
        bench = Bench(HERE.parent, folder, python.absolute())
        results = measure(bench, chosen)
        output = chosen.output.absolute()
        output.mkdir(parents=True, exist_ok=True)
        (output / "peers.json").write_text(json.dumps(results, indent=1) + "\n")
        (output / "PEERS.md").write_text(render(results))
        drawn = bench.peers("picture", str(output / "peers.json"), str(output / "peers.svg"))
        drawn.require("drawing the picture")
    except OrchestratorError as error:
        print(error.render(), file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
