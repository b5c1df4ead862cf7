"""The benchmark of single operators: its app, its rounds and its text; nothing is measured."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from benchmarks import operators
from benchmarks.operators import REPEAT, Row, arguments_text, declaration, measure, render
from benchmarks.processes import Finished


def test_the_declaration() -> None:
    assert (
        declaration(1, "native")
        == """\
models:
- file: models/0.ptl
  inputs:
  - args:
    - shape:
      - 1
      - 32
      - 56
      - 56
      fill: uniform
      low: -1.0
      high: 1.0
      seed: 0
    - shape:
      - 1
      - 32
      - 56
      - 56
      fill: uniform
      low: 0.5
      high: 1.5
      seed: 1
targets:
- linux-x86_64
kernels: native
"""
    )


def test_both_arguments_have_all_numbers() -> None:
    ((call),) = json.loads(arguments_text())
    for argument in call["args"]:
        assert len(base64.b64decode(argument["tensor"]["data"])) == 4 * 32 * 56 * 56


def test_the_least_of_all_rounds_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter([30.0, 8.0, 20.0, 9.0])  # auto, native, auto, native

    def run(argv: Sequence[str], *, env: Mapping[str, str], cwd: Path | None = None) -> Finished:
        if argv[0] == "python":
            return Finished(0.0, 0.0, 0, json.dumps({"microseconds": {"relu": 4.0}}), "")
        assert argv[argv.index("--repeat") + 1] == str(REPEAT)
        found: dict[str, Any] = {"runs": [{"microseconds_min": next(times)}]}
        Path(argv[argv.index("--output") + 1]).write_text(json.dumps(found))
        return Finished(0.0, 0.0, 0, "", "")

    monkeypatch.setattr(operators, "run", run)
    rows = list(measure(tmp_path, Path("python"), ["relu"], 2))
    assert rows == [Row("relu", 20.0, 8.0, 4.0)]


def test_the_page() -> None:
    rows = [
        {"operator": "relu", "auto": 8.0, "native": 9.0, "pytorch": 8.0},
        {"operator": "atan2", "auto": 1710.0, "native": 1710.0, "pytorch": 90.0},
    ]
    results = {"machine": {"cores": "2"}, "torch": "2.13.0", "rows": rows}
    assert (
        render(results)
        == """\
# Operators

Written by `python -m benchmarks.operators`. The least CPU time of a run on float32
[1, 32, 56, 56], in microseconds, one thread, beside PyTorch 2.13.0 as it ships;
ratio: `auto` to PyTorch's.

| operator | `kernels: native` | `kernels: auto` | PyTorch | ratio |
|---|---:|---:|---:|---:|
| atan2 | 1,710.0 | 1,710.0 | 90.0 | 19.00 |
| relu | 9.0 | 8.0 | 8.0 | 1.00 |

`auto` takes at most PyTorch's time in 1 of 2, and more than twice as much in 1.

- cores: 2
"""
    )
