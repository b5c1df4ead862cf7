"""Exports today's architectures, runs them in the development library, and writes ZOO.md.

    ./check --zoo                           # all; build/zoo/venv is made on first use
    ./check --zoo --python PYTHON bert timm # some, by name or package; PYTHON has the packages

The architectures are those of tests/real/export/zoo, with random weights. Each is exported with
nothing but its example inputs, and compared with eager PyTorch in torch's lite interpreter. Then
all of them run in the development library, at the sizes of the example and at others, and what
comes out is compared with what the lite interpreter gave. What an earlier run found stays in the
table, and what lies in the folder runs again.
"""

from __future__ import annotations

import argparse
import base64
import json
import math
import os
import struct
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from benchmarks.written import write_results
from orchestrator.build.development.development import Base, Development, Shard
from orchestrator.build.development.shard_contents import (
    errors_of,
    missing_dtypes,
    missing_operators,
    probable_operators,
    probably_wide,
)
from orchestrator.build.development.shard_files import in_use
from orchestrator.build.development.subject import Subject, file_subject
from orchestrator.build.workshop.invocation import Invocation, load
from orchestrator.build.workshop.runtime import Runtime
from orchestrator.build.workshop.store_in_use import store_in_use
from orchestrator.cli import make_context
from orchestrator.commands.views import progress_view
from orchestrator.errors import OrchestratorError
from orchestrator.system.workspace_lock import workspace_lock
from orchestrator.values.operators import OperatorName
from orchestrator.verify.model_runner import run_model
from orchestrator.verify.verdict import RunnerResult, ended

HERE: Final = Path(__file__).resolve().parent
ROOT: Final = HERE.parent
RESULTS: Final = HERE / "zoo.json"
ZOO: Final = ROOT / "tests/real/export/zoo"
REQUIREMENTS: Final = ROOT / "requirements/zoo.in"
# How often what comes up missing is compiled.
_MOST_ROUNDS: Final = 20
_FORMATS: Final = {"float32": "f", "float64": "d", "float16": "e"}
# Of the largest number in a result: sums are added up in another order than in torch's wheel.
_TOLERANCE: Final = 1e-3

Row = dict[str, Any]


def main(arguments: Sequence[str]) -> int:
    """Export, run, write."""
    parser = argparse.ArgumentParser(prog="./check --zoo", description=__doc__)
    parser.add_argument("names", nargs="*", help="architectures or packages; default: all")
    parser.add_argument("--python", type=Path, help="one that has requirements/zoo.in")
    parser.add_argument("--folder", type=Path, default=ROOT / "build/zoo", help="models go there")
    parser.add_argument("--run-only", action="store_true", help="run what was exported earlier")
    asked = parser.parse_args(arguments)
    asked.folder.mkdir(parents=True, exist_ok=True)
    rows: dict[str, Row] = {one["name"]: one for one in json.loads(RESULTS.read_text())["rows"]}
    if not asked.run_only:
        for row in exported(asked.python or made_python(asked.folder), asked.folder, asked.names):
            rows[row["name"]] = short(row)
            RESULTS.write_text(json.dumps({"rows": sorted_by_name(rows)}, indent=1) + "\n")
    there = [one for one in rows.values() if (asked.folder / f"{one['name']}.ptl").exists()]
    for name, seen in run_all(there, asked.folder).items():
        rows[name]["development"] = seen
    in_order = sorted_by_name(rows)
    write_results(HERE, "zoo", {"rows": in_order}, page(in_order))
    return 0


def sorted_by_name(rows: Mapping[str, Row]) -> list[Row]:
    """Rows as they are kept."""
    return [rows[name] for name in sorted(rows)]


def made_python(folder: Path) -> Path:
    """A Python with the packages of the zoo, in an environment of its own."""
    environment = folder / "venv"
    python = environment / "bin/python"
    if not (environment / "installed").exists():
        subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True)
        install = [str(python), "-m", "pip", "install", "--quiet", "-r", str(REQUIREMENTS)]
        subprocess.run(install, check=True)
        (environment / "installed").touch()
    return python


def exported(python: Path, folder: Path, names: Sequence[str]) -> Iterator[Row]:
    """What became of each."""
    path = os.pathsep.join(map(str, (ROOT, ZOO)))
    argv = [
        str(python),
        "-P",
        "-W",
        "ignore",
        str(ZOO / "worker.py"),
        "--measured",
        str(folder),
        *names,
    ]
    env = {**os.environ, "PYTHONPATH": path}
    with subprocess.Popen(
        argv, env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as worker:
        assert worker.stdout is not None
        for line in worker.stdout:
            row = json.loads(line)
            print(f"{row['name']}: {row.get('via') or row['refused']}", flush=True)
            yield row


# --- the development library ---


@dataclass
class _Together:
    """Models that share one shard, which has what any of them calls."""

    here: Invocation
    development: Development
    subjects: Sequence[Subject]
    roots: frozenset[OperatorName]
    operators: set[OperatorName] = field(default_factory=set)
    wide: set[str] = field(default_factory=set)

    def seen(self) -> dict[str, RunnerResult]:
        """What each gave, once nothing more is missing."""
        found: dict[str, RunnerResult] = {}
        left = list(self.subjects)
        for _ in range(_MOST_ROUNDS):
            base, shard = self._made()
            with in_use(base.extended.path), in_use(shard.path):
                found |= {one.name: self._run(one, base, shard) for one in left}
            had = len(self.operators), len(self.wide)
            left = [one for one in left if self._misses(found[one.name])]
            if (len(self.operators), len(self.wide)) == had:
                break
        return found

    def _made(self) -> tuple[Base, Shard]:
        with workspace_lock(self.here.context.state, True, self.here.log, "zoo"):
            shard = self.development.shard(self.roots, self.operators, self.wide)
            return self.development.base, shard

    def _misses(self, seen: RunnerResult) -> bool:
        known = self.development.runtime.kernels.by_operator
        operators = {one for one in missing_operators(seen) if one in known}
        wide = missing_dtypes(seen).keys()
        self.operators |= operators
        self.wide |= wide
        return bool(operators or wide)

    def _run(self, subject: Subject, base: Base, shard: Shard) -> RunnerResult:
        return run_model(
            [str(base.runner)],
            subject.path,
            subject.config,
            self.here.context.env,
            libraries=base.extended.path.parent,
            recorded=subject.recorded,
            addon=shard.path,
            runner=self.here.context.runner,
        )


def run_all(rows: Sequence[Row], folder: Path) -> dict[str, Row]:
    """Name -> what the development library of the default runtime gave."""
    here = load(
        make_context(argparse.Namespace(workspace=None), os.environ, ROOT),
        lambda text: print(text, file=sys.stderr, flush=True),
    )
    with store_in_use(here):
        runtime = here.runtimes.on(here.workspace.config.default_runtime)
        subjects, found = _subjects(here, runtime, rows, folder)
        roots = frozenset[OperatorName]().union(*(one.roots for one in subjects))
        runtime = here.runtimes.with_shipped(runtime, roots)
        development = Development(here, runtime, None, progress_view(False))
        development.require()
        together = _Together(here, development, subjects, roots)
        with workspace_lock(here.context.state, True, here.log, "zoo"):
            _ = development.base
        for one in subjects:
            together.operators |= probable_operators(here, runtime, one, development.in_base)
            together.wide |= probably_wide(here, runtime, one)
        for name, seen in (together.seen() if subjects else {}).items():
            expected = json.loads((folder / f"{name}.expected.json").read_text())
            found[name] = compared(expected, seen)
    return found


def _subjects(
    here: Invocation, runtime: Runtime, rows: Sequence[Row], folder: Path
) -> tuple[list[Subject], dict[str, Row]]:
    """What can be run, and why the others cannot."""
    subjects, found = [], dict[str, Row]()
    for row in rows:
        name = row["name"]
        try:
            given = [folder / f"{name}.calls.json"]
            subjects.append(file_subject(here, runtime, folder / f"{name}.ptl", given))
        except OrchestratorError as error:
            found[name] = {"error": f"{error.what}: {error.seen or ''}"[:300]}
    return subjects, found


def compared(expected: Sequence[Any], seen: RunnerResult) -> Row:
    """The largest difference, or what went wrong."""
    error = next(iter(errors_of(seen)), None)
    if seen.result is None or error is not None:
        text = f"it {ended(seen)}" if error is None else f"{error['code']}: {error['text']}"
        return {"error": text[:300]}
    largest, wrong = 0.0, ""
    for number, (value, run) in enumerate(zip(expected, seen.result["runs"], strict=True)):
        try:
            largest = max(largest, difference(value, run["output"]))
        except ValueError as why:
            wrong = wrong or f"call {number}: {why}"
    return {"error": wrong} if wrong else {"calls": len(expected), "largest": largest}


def difference(expected: Any, seen: Any) -> float:
    """The largest one of two values as the runner writes them. Raises ValueError where they differ
    by more than rounding."""
    if isinstance(expected, list) and isinstance(seen, list) and len(expected) == len(seen):
        return max(map(difference, expected, seen), default=0.0)
    if not isinstance(expected, dict) or not isinstance(seen, dict):
        if expected != seen:
            raise ValueError(f"{str(expected)[:80]}, and now {str(seen)[:80]}")
        return 0.0
    # of a list that is empty
    expected = {key: one for key, one in expected.items() if key != "element"}
    if "random" in expected:
        return difference(_kinds(expected["random"]), _kinds(seen))
    if "data" in expected.get("tensor", ()) and "tensor" in seen:
        return _of_tensors(expected["tensor"], seen["tensor"])
    if expected.keys() != seen.keys():
        raise ValueError(f"{sorted(expected)}, and now {sorted(seen)}")
    return max((difference(expected[key], seen[key]) for key in expected), default=0.0)


def _kinds(value: Any) -> Any:
    """The value with the dtype and shape of its tensors, without their numbers."""
    if isinstance(value, list):
        return [*map(_kinds, value)]
    if isinstance(value, dict):
        return {key: _kinds(one) for key, one in value.items() if key != "data"}
    return value


def _of_tensors(expected: Mapping[str, Any], seen: Mapping[str, Any]) -> float:
    told = [f"{one['dtype']}{list(one['shape'])}" for one in (expected, seen)]
    if told[0] != told[1]:
        raise ValueError(f"{told[0]}, and now {told[1]}")
    bytes_ = [base64.b64decode(one["data"]) for one in (expected, seen)]
    if bytes_[0] == bytes_[1]:
        return 0.0
    kind = _FORMATS.get(expected["dtype"])
    if kind is None:
        raise ValueError(f"other numbers in {told[0]}")
    numbers = [struct.unpack(f"<{len(one) // struct.calcsize(kind)}{kind}", one) for one in bytes_]
    scale = max((abs(one) for one in numbers[0] if math.isfinite(one)), default=0.0)
    largest = 0.0
    for one, other in zip(*numbers, strict=True):
        if one == other or (math.isnan(one) and math.isnan(other)):
            continue
        apart = abs(one - other)
        if not apart <= _TOLERANCE * max(scale, 1e-6):
            raise ValueError(f"{one!r}, and now {other!r} in {told[0]}")
        largest = max(largest, apart)
    return largest


# --- the table ---


def short(row: Row) -> Row:
    """What is kept of a row."""
    keys = ("name", "package", "via", "bytes", "largest", "refused", "why", "times", "development")
    found = {key: row[key] for key in keys if key in row}
    if isinstance(found.get("why"), str):
        found["why"] = _bare(found["why"])
    notes = list(map(_bare, row.get("notes", [])))
    return found | {"operators": len(row.get("operators", ())), "notes": notes}


def page(rows: Sequence[Row]) -> str:
    """ZOO.md."""
    came = [row for row in rows if "refused" not in row]
    ran = [row["development"] for row in came if row.get("development")]
    same = [one for one in ran if "calls" in one]
    lines = [
        "# Architectures of today",
        "",
        f"Written on {time.strftime('%d %B %Y')} by `./check --zoo` ([README](README.md)). Of"
        f" {len(rows)} architectures, {len(came)} were exported with nothing but their example"
        f" inputs. {len(ran)} of these ran in the development library of PyTorch 2.6.0, at the"
        f" sizes of the example and at others, and {len(same)} gave the same there.",
        "",
        "*Operators* are those that the file names. *Difference* is the largest from eager"
        " PyTorch, in torch's lite interpreter; *in ours* the largest from that, with the number of"
        " calls; blank where this file has not run there. *Time* is the CPU time of the example in"
        " the lite interpreter, as a part of eager PyTorch's in the same process.",
        "",
        "| architecture | of | way | operators | bytes | difference | in ours | time | notes |",
        "| --- | --- | --- | ---: | ---: | ---: | ---: | ---: | --- |",
        *map(_line, rows),
    ]
    return "\n".join(lines) + "\n"


def _line(row: Row) -> str:
    name, package = row["name"], row["package"]
    if "refused" in row:
        return f"| {name} | {package} | refused | | | | | | {_cell(row['why'])} |"
    ours = row.get("development", {})
    shown = "" if not ours else ours.get("error") and "see notes"
    if "calls" in ours:
        shown = f"{ours['largest']:.1g} ({ours['calls']})"
    eager, lite = row.get("times") or (0.0, 0.0)
    notes = [
        *(note for note in row["notes"] if " is always " not in note and "result is" not in note),
        *([ours["error"]] if "error" in ours else []),
    ]
    part = f"{lite / eager:.2f}" if eager else ""
    cells = (
        *(name, package, row["via"], f"{row['operators']}", f"{row['bytes']:,}"),
        *(f"{row['largest']:.1g}", shown, part, _cell("; ".join(notes))),
    )
    return f"| {' | '.join(map(str, cells))} |"


def _bare(text: str) -> str:
    """A text in one line, without the folders of the machine."""
    words = [word.rpartition("site-packages/")[2] or word for word in text.split()]
    return " ".join(words).replace(f"{ROOT}/", "")


def _cell(text: str) -> str:
    return _bare(text).replace("|", "/")[:300]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
