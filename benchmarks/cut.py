"""Measures what the project promises, on real PyTorch, against upstream's own selective build.

    .venv/bin/python -m benchmarks.cut
    .venv/bin/python -m benchmarks.cut --only first,nothing --output trial

See README.md. Progress goes to stderr; results.json and RESULTS.md are written after each step.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.everywhere import ABIS
from benchmarks.machine import compiler_name, machine_facts
from benchmarks.render import render
from benchmarks.scratch import warm_zig
from benchmarks.steps import ABI, FIRST, ON_REQUEST, STEPS, Bench, Options, in_order
from orchestrator.build.workshop.invocation import load
from orchestrator.cli import make_context
from orchestrator.compilers.resolve import resolve_toolchain
from orchestrator.errors import OrchestratorError
from orchestrator.system.folders import ensure_folder

HERE = Path(__file__).parent
FORMAT = 1


def main(arguments: Sequence[str]) -> int:
    """Run the steps; 1 where one of them failed."""
    chosen = _parser().parse_args(arguments)
    partly = bool(chosen.only)
    names = in_order(chosen.only.split(",") if partly else sorted({*STEPS} - {*ON_REQUEST}))
    output = chosen.output or (None if partly else HERE)
    bench = _set_up(chosen, ABIS if "everywhere" in names else (ABI,))
    results: dict[str, Any] = {
        "format": FORMAT,
        "first": FIRST,
        "machine": machine_facts(compiler_name(bench.here.toolchains.of(ABI))),
        "note": chosen.note,
        "all_operators_bytes": bench.runtime.version.all_operators_bytes[ABI]["size"],
        "steps": {},
    }
    for name in names:
        results["steps"][name] = _do(name, bench, results["steps"])
        if output:
            write(output, results)
    print(render(results))
    if not chosen.keep:
        shutil.rmtree(bench.folder)
    return int(any("failed" in step for step in results["steps"].values()))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.cut",
        description="Measures the cut libraries against upstream's own selective build.",
        epilog="steps: " + ", ".join(STEPS) + "; on request only: " + ", ".join(ON_REQUEST),
    )
    parser.add_argument("--only", type=_steps, help="steps, with commas; those they need run too")
    parser.add_argument(
        "--output", type=Path, help="folder for results.json and RESULTS.md (with --only: none)"
    )
    parser.add_argument("--scratch", type=Path, help="default: .orchestrator/benchmark")
    parser.add_argument(
        "--note", default="", help="what a reader of RESULTS.md must know of this run"
    )
    parser.add_argument("--keep", action="store_true", help="leave the scratch folder")
    parser.add_argument("--sample", type=int, default=64, help="units of upstream's to compile")
    parser.add_argument("--rounds", type=int, default=15, help="processes a library, for latency")
    parser.add_argument("--repeat", type=int, default=50, help="timed calls in each process")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    return parser


def _steps(text: str) -> str:
    unknown = sorted(set(text.split(",")) - set(STEPS))
    if unknown:
        raise argparse.ArgumentTypeError(f"no such step: {', '.join(unknown)}")
    return text


def _set_up(chosen: argparse.Namespace, abis: Sequence[str]) -> Bench:
    context = make_context(argparse.Namespace(workspace=str(HERE.parent)), os.environ, Path.cwd())
    ensure_folder(context.state, "state")
    folder: Path = (chosen.scratch or context.state / "benchmark").absolute()
    if folder.exists():
        raise SystemExit(f"{folder} is there already: remove it, or choose another --scratch")
    folder.mkdir(parents=True)
    here = load(context, _say)
    # fetched and generated here, so that no step pays for it
    here.runtimes.prepare(here.workspace.apps)
    _say("warming zig's cache (not counted)")
    declared = [here.workspace.toolchains[abi] for abi in abis]
    # not the user's wrappers: they name the zig of the workspace that was built last
    own = [resolve_toolchain(o.config, o.place, folder / "warm", context.env) for o in declared]
    warm = warm_zig(own, folder / "warm", context.env)
    options = Options(chosen.sample, chosen.rounds, chosen.repeat, chosen.jobs)
    return Bench(here, folder, warm, options)


def _do(name: str, bench: Bench, done: dict[str, Any]) -> dict[str, Any]:
    step = STEPS[name]
    if step.needs and "measured" not in done[step.needs]:
        return {"failed": f"it needs the step {step.needs}, which failed"}
    _say(f"step {name}")
    started = time.monotonic()
    try:
        measured = step.do(bench)
    except OrchestratorError as error:
        _say(error.render())
        return {"failed": error.render()}
    _say(f"step {name}: {time.monotonic() - started:.0f} s wall")
    return {"measured": measured}


def write(folder: Path, results: dict[str, Any]) -> None:
    """results.json and RESULTS.md, each all or nothing."""
    folder.mkdir(parents=True, exist_ok=True)
    texts = {"results.json": json.dumps(results, indent=1) + "\n", "RESULTS.md": render(results)}
    for name, text in texts.items():
        staged = folder / f".{name}.{os.getpid()}"
        staged.write_text(text)
        staged.replace(folder / name)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
