"""Measures single operators of float32 in our libraries, beside PyTorch as it ships.

    .venv/bin/python -m benchmarks.operators --python build/peers/venv/bin/python

PYTHON has torch: that of `benchmarks.peers`, once it has run. Each operator is a model of two apps
in a scratch workspace, `kernels: auto` and `kernels: native`. A time is the least of all runs of
some processes, on one core and in one thread: so it is CPU time.
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import random
import shutil
import sys
import tempfile
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from benchmarks.machine import machine_facts
from benchmarks.processes import run
from benchmarks.written import write_results
from orchestrator.cli import make_context
from orchestrator.system.folders import ensure_folder

HERE = Path(__file__).parent
FORMAT: Final = 1
ABI: Final = "linux-x86_64"
APPS: Final = ("auto", "native")
# As in operators_torch.py: the shape of both arguments, and their ranges.
SHAPE: Final = (1, 32, 56, 56)
RANGES: Final = ((-1.0, 1.0), (0.5, 1.5))
REPEAT: Final = 200


@dataclass(frozen=True)
class Row:
    """One operator: the least microseconds of a run, by `kernels:`, and in PyTorch."""

    operator: str
    auto: float
    native: float
    pytorch: float

    @property
    def ratio(self) -> float:
        return self.auto / self.pytorch


def declaration(models: int, kernels: str) -> str:
    """The app.yaml of so many models, which take the same two tensors."""
    tensors = [
        {"shape": [*SHAPE], "fill": "uniform", "low": low, "high": high, "seed": seed}
        for seed, (low, high) in enumerate(RANGES)
    ]
    files = [
        {"file": f"models/{number}.ptl", "inputs": [{"args": tensors}]} for number in range(models)
    ]
    return yaml.safe_dump({"models": files, "targets": [ABI], "kernels": kernels}, sort_keys=False)


def arguments_text() -> str:
    """What the model runner takes: a call with random numbers, the same each time."""
    source, tensors = random.Random(20261127), list[dict[str, Any]]()
    for low, high in RANGES:
        count = SHAPE[0] * SHAPE[1] * SHAPE[2] * SHAPE[3]
        numbers = array("f", (source.uniform(low, high) for _ in range(count)))
        data = base64.b64encode(numbers.tobytes()).decode()
        tensors.append({"tensor": {"dtype": "float32", "shape": [*SHAPE], "data": data}})
    return json.dumps([{"method": "forward", "args": tensors}])


def make_workspace(root: Path, into: Path, python: Path) -> tuple[str, list[str]]:
    """A workspace with both apps, traced and built; torch's version, and the operators' names.

    Raises CommandFailedError.
    """
    models = into / "models"
    models.mkdir(parents=True)
    shutil.copy(root / "WORKSPACE", into)
    shutil.copytree(root / "toolchains", into / "toolchains")
    program = str(HERE / "operators_torch.py")
    exported = run([str(python), program, "export", str(models)], env=os.environ)
    told = json.loads(exported.require("the export").stdout)
    for app in APPS:
        folder = into / "apps" / app
        shutil.copytree(models, folder / "models")
        (folder / "app.yaml").write_text(declaration(len(told["operators"]), app))
    for verb in ("trace", "build"):
        argv = [sys.executable, "-m", "orchestrator", "--workspace", str(into), "--quiet", verb]
        run([*argv, "//..."], env=os.environ).require(f"orchestrate {verb}")
    return told["torch"], told["operators"]


def microseconds(workspace: Path, app: str, number: int) -> float:
    """The least of one process. Raises CommandFailedError."""
    output = workspace / "output.json"
    runner = workspace / ".orchestrator/variants" / app / ABI / "driver"
    model = workspace / "apps" / app / "models" / f"{number}.ptl"
    argv = [str(runner), "--model", str(model), "--inputs", str(workspace / "inputs.json")]
    argv += ["--output", str(output), "--no-args", "--time", "--repeat", str(REPEAT)]
    library = workspace / "dist" / app / ABI / "lib"
    run(argv, env={**os.environ, "LD_LIBRARY_PATH": str(library)}).require("the model runner")
    (one,) = json.loads(output.read_text())["runs"]
    return float(one["microseconds_min"])


def measure(workspace: Path, python: Path, operators: Sequence[str], rounds: int) -> Iterator[Row]:
    """All operators on all sides, round by round; the least of each. Raises CommandFailedError."""
    (workspace / "inputs.json").write_text(arguments_text())
    found: dict[tuple[str, str], float] = {}

    def note(side: str, operator: str, time: float) -> None:
        found[side, operator] = min(time, found.get((side, operator), time))

    program = str(HERE / "operators_torch.py")
    for number in range(rounds):
        print(f"round {number + 1} of {rounds}", file=sys.stderr, flush=True)
        told = run([str(python), program, "time"], env=os.environ).require("torch").stdout
        for operator, time in json.loads(told)["microseconds"].items():
            note("pytorch", operator, time)
        for index, operator in enumerate(operators):
            for app in APPS:
                note(app, operator, microseconds(workspace, app, index))
    for operator in operators:
        auto, native, pytorch = (
            round(found[side, operator], 1) for side in ("auto", "native", "pytorch")
        )
        yield Row(operator, auto, native, pytorch)


def render(results: Mapping[str, Any]) -> str:
    """OPERATORS.md from operators.json."""
    rows = sorted((Row(**one) for one in results["rows"]), key=lambda row: -row.ratio)
    lines = [
        "# Operators",
        "",
        "Written by `python -m benchmarks.operators`. The least CPU time of a run on float32",
        f"{[*SHAPE]}, in microseconds, one thread, beside PyTorch {results['torch']} as it ships;",
        "ratio: `auto` to PyTorch's.",
        "",
        "| operator | `kernels: native` | `kernels: auto` | PyTorch | ratio |",
        "|---|---:|---:|---:|---:|",
        *(
            f"| {row.operator} | {row.native:,.1f} | {row.auto:,.1f} | {row.pytorch:,.1f}"
            f" | {row.ratio:.2f} |"
            for row in rows
        ),
        "",
        f"`auto` takes at most PyTorch's time in {sum(row.ratio <= 1 for row in rows)} of"
        f" {len(rows)}, and more than twice as much in {sum(row.ratio > 2 for row in rows)}.",
        "",
        *(f"- {name}: {value}" for name, value in results["machine"].items()),
    ]
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str]) -> int:
    """Export, build, measure, write."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.operators", description=__doc__)
    parser.add_argument("--python", type=Path, required=True, help="a Python that has torch")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--output", type=Path, default=HERE, help="for operators.json, OPERATORS.md"
    )
    chosen = parser.parse_args(arguments)
    context = make_context(argparse.Namespace(workspace=str(HERE.parent)), os.environ, Path.cwd())
    ensure_folder(context.state, "state")
    machine, allowed = machine_facts(None), os.sched_getaffinity(0)
    with tempfile.TemporaryDirectory(dir=context.state, prefix="operators-") as name:
        workspace, python = Path(name) / "workspace", chosen.python.absolute()
        torch, operators = make_workspace(HERE.parent, workspace, python)
        os.sched_setaffinity(0, {max(allowed)})
        try:
            rows = [asdict(one) for one in measure(workspace, python, operators, chosen.rounds)]
        finally:
            os.sched_setaffinity(0, allowed)
    results = {"format": FORMAT, "machine": machine, "torch": torch, "rows": rows}
    write_results(chosen.output, "operators", results, render(results))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
