"""Measures elementwise operators that are generated from one function each, beside PyTorch's own.

    .venv/bin/python -m benchmarks.elementwise
    .venv/bin/python -m benchmarks.elementwise --runtimes pytorch_2_6 --rounds 2 --output trial

The twelve of tests/golden/elementwise, and a product, whose loop a compiler has to make of vectors:
all in one model of a scratch workspace, each beside the runtime's own kernel on the same tensors. A
time is the least of all runs of a method, by the model runner, in the library that a build
delivers, on one core and in one thread: so it is CPU time.
"""

from __future__ import annotations

import argparse
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

from benchmarks.machine import compiler_name, machine_facts
from benchmarks.processes import run
from benchmarks.written import write_results
from orchestrator.build.workshop.invocation import load
from orchestrator.cli import make_context
from orchestrator.system.folders import ensure_folder

HERE = Path(__file__).parent
sys.path.append(str(HERE.parent / "tests/integration"))

from elementwise_models import BETWEEN, PYTORCHS, Argument, Calls, Strided, write_app  # noqa: E402

FORMAT: Final = 1
ABI: Final = "linux-x86_64"
TARGET: Final = 1.05
# Elements -> how often a process calls each.
SIZES: Final = {1_000: 3000, 1_000_000: 15}
_FACTOR: Final = 1.5
# The product as an operator of ours, and as the runtime's; by a number it is one of a tensor's.
PRODUCT: Final = """\
name: product
arity: 2
dtypes: [float32]
functor: |
  template <typename T>
  T product(T a, T b) {
    return a * b;
  }
"""


@dataclass(frozen=True)
class Row:
    """One operator on tensors of one size: the least microseconds of a call, on both sides."""

    operator: str
    dtype: str
    elements: int
    ours: float
    pytorchs: float

    @property
    def ratio(self) -> float:
        return self.ours / self.pytorchs


@dataclass(frozen=True)
class Pair:
    """An operator of both sides: names for PyTorch's dispatcher, and the arguments of each."""

    operator: str
    dtype: str
    ours: tuple[str, tuple[Argument, ...]]
    pytorchs: tuple[str, tuple[Argument, ...]]

    def calls(self, number: int, elements: int) -> tuple[Calls, Calls]:
        """The methods that call them on so many elements, ours first."""

        def of(side: str, name: str, given: tuple[Argument, ...]) -> Calls:
            return Calls(
                f"{side}_{number}_{elements}", name, (_first(given, elements),), kept=False
            )

        return of("ours", *self.ours), of("pytorchs", *self.pytorchs)


def _first(arguments: tuple[Argument, ...], elements: int) -> tuple[Argument, ...]:
    """The arguments, of tensors only the first elements."""
    return tuple(
        Strided(one.dtype, one.data, (elements,), (1,)) if isinstance(one, Strided) else one
        for one in arguments
    )


def pairs(count: int) -> Iterator[Pair]:
    """What is compared, on so many random numbers, which are the same each time."""
    source = random.Random(20261127)
    code = {"float32": "f", "int64": "q"}

    def filled(dtype: str, least: float, most: float) -> Strided:
        numbers: array[Any] = array(code[dtype])
        if dtype == "int64":
            numbers.extend(source.randint(int(least), int(most)) for _ in range(count))
        else:
            numbers.extend(source.uniform(least, most) for _ in range(count))
        return Strided(dtype, numbers.tobytes(), (count,), (1,))

    whole = (filled("int64", 1, 10**6), filled("int64", 1, 10**6))
    for name, (first, theirs) in PYTORCHS.items():
        given: tuple[Argument, ...] = whole
        if name in BETWEEN:
            arity = 2 if name == "zeta" else 1
            given = tuple(filled("float32", *BETWEEN[name]) for _ in range(arity))
        dtype = "float32" if name in BETWEEN else "int64"
        yield Pair(name, dtype, (f"ew::{name}", given), (theirs, (*first, *given)))
    one, other = filled("float32", -2, 2), filled("float32", -2, 2)
    both = (one, other)
    yield Pair("product", "float32", ("ew::product", both), ("aten::mul.Tensor", both))
    number = (one, _FACTOR)
    yield Pair(
        "product by a number",
        "float32",
        ("ew::product.Scalar", number),
        ("aten::mul.Scalar", number),
    )


@dataclass(frozen=True)
class Measured:
    """An app in a scratch workspace, whose model's methods are timed in turn."""

    workspace: Path
    app: str
    env: Mapping[str, str]

    def build(self) -> None:
        """Trace and build it. Raises CommandFailedError."""
        for verb in ("trace", "build"):
            argv = [sys.executable, "-m", "orchestrator", "--workspace", str(self.workspace)]
            argv += ["--quiet", verb, f"//apps/{self.app}"]
            run(argv, env=self.env).require(f"orchestrate {verb}")

    def run(self, methods: Sequence[str], repeat: int) -> dict[str, float]:
        """The least microseconds of each method, in one process. Raises CommandFailedError."""
        inputs, output = (self.workspace / f"{name}.json" for name in ("inputs", "output"))
        inputs.write_text(json.dumps([{"method": name, "args": []} for name in methods]))
        runner = self.workspace / ".orchestrator/variants" / self.app / ABI / "driver"
        model = self.workspace / "apps" / self.app / "models/calls.ptl"
        argv = [str(runner), "--model", str(model), "--inputs", str(inputs)]
        argv += ["--output", str(output), "--no-args", "--time", "--repeat", str(repeat)]
        library = self.workspace / "dist" / self.app / ABI / "lib"
        run(argv, env={**self.env, "LD_LIBRARY_PATH": str(library)}).require("the model runner")
        runs = json.loads(output.read_text())["runs"]
        return {one["method"]: one["microseconds_min"] for one in runs}

    def least(self, methods: Sequence[str], repeat: int, rounds: int) -> dict[str, float]:
        """The least of several processes, which call the methods in alternating order."""
        found: dict[str, float] = {}
        for number in range(rounds):
            order = methods if number % 2 == 0 else methods[::-1]
            for name, time in self.run(order, repeat).items():
                found[name] = min(time, found.get(name, time))
        return found


def measure(measured: Measured, compared: Sequence[Pair], rounds: int) -> Iterator[Row]:
    """Each pair at each size. Raises CommandFailedError."""
    for elements, repeat in SIZES.items():
        methods = {pair: pair.calls(number, elements) for number, pair in enumerate(compared)}
        names = [one.method for both in methods.values() for one in both]
        times = measured.least(names, repeat, rounds)
        for pair, (ours, pytorchs) in methods.items():
            row = Row(
                pair.operator,
                pair.dtype,
                elements,
                round(times[ours.method], 3),
                round(times[pytorchs.method], 3),
            )
            print(row, f"{row.ratio:.3f}", file=sys.stderr, flush=True)
            yield row


def render(results: Mapping[str, Any]) -> str:
    """ELEMENTWISE.md from elementwise.json."""
    lines = [
        "# Elementwise operators",
        "",
        "Written by `python -m benchmarks.elementwise`. The least time of a call, in microseconds;",
        "ratio: ours to PyTorch's.",
    ]
    for runtime, found in results["runtimes"].items():
        rows = [Row(**one) for one in found]
        sizes = sorted({row.elements for row in rows})
        lines += ["", f"## {runtime}", ""]
        heads = (f"PyTorch's, {size:,} | ours | ratio" for size in sizes)
        lines += [
            f"| operator | dtype | {' | '.join(heads)} |",
            "|---|---|" + "---:|" * 3 * len(sizes),
        ]
        for operator in dict.fromkeys(row.operator for row in rows):
            of = sorted((row for row in rows if row.operator == operator), key=lambda r: r.elements)
            cells = (f"{row.pytorchs:,.1f} | {row.ours:,.1f} | {_ratio(row)}" for row in of)
            lines.append(f"| {operator} | {of[0].dtype} | {' | '.join(cells)} |")
    every = [Row(**one) for found in results["runtimes"].values() for one in found]
    missed = sum(row.ratio > TARGET for row in every)
    lines += [
        "",
        f"Target: at most {TARGET} times PyTorch's: "
        + ("met." if not missed else f"open in {missed} of {len(every)}."),
        "",
        *(f"- {name}: {value}" for name, value in results["machine"].items()),
    ]
    return "\n".join(lines) + "\n"


def _ratio(row: Row) -> str:
    return f"{row.ratio:.2f}" if row.ratio <= TARGET else f"**{row.ratio:.2f}**"


def _workspace(root: Path, into: Path, runtimes: Sequence[str], compared: Sequence[Pair]) -> None:
    """A workspace with an app for each runtime."""
    into.mkdir()
    shutil.copy(root / "WORKSPACE", into)
    shutil.copytree(root / "toolchains", into / "toolchains")
    methods = [
        one
        for number, pair in enumerate(compared)
        for elements in SIZES
        for one in pair.calls(number, elements)
    ]
    for runtime in runtimes:
        write_app(into, runtime, methods, {"product": PRODUCT}, runtime)


def main(arguments: Sequence[str]) -> int:
    """Generate, compile, measure, write."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.elementwise", description=__doc__)
    parser.add_argument("--runtimes", help="names in WORKSPACE, with commas; default: all")
    parser.add_argument("--rounds", type=int, default=4, help="processes for each size")
    parser.add_argument(
        "--output", type=Path, default=HERE, help="for elementwise.json, ELEMENTWISE.md"
    )
    chosen = parser.parse_args(arguments)
    context = make_context(argparse.Namespace(workspace=str(HERE.parent)), os.environ, Path.cwd())
    ensure_folder(context.state, "state")
    here = load(context, print)
    pinned = here.workspace.config.pins
    runtimes = chosen.runtimes.split(",") if chosen.runtimes else sorted(pinned)
    compared = list(pairs(max(SIZES)))
    results: dict[str, Any] = {
        "format": FORMAT,
        "machine": machine_facts(compiler_name(here.toolchains.of(ABI))),
        "runtimes": {},
    }
    allowed = os.sched_getaffinity(0)
    with tempfile.TemporaryDirectory(dir=context.state, prefix="elementwise-") as name:
        workspace = Path(name) / "workspace"
        _workspace(HERE.parent, workspace, runtimes, compared)
        for runtime in runtimes:
            measured = Measured(workspace, runtime, os.environ)
            measured.build()
            os.sched_setaffinity(0, {max(allowed)})
            try:
                rows = [asdict(row) for row in measure(measured, compared, chosen.rounds)]
            finally:
                os.sched_setaffinity(0, allowed)
            results["runtimes"][f"PyTorch {pinned[runtime].pytorch}"] = rows
    write_results(chosen.output, "elementwise", results, render(results))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
