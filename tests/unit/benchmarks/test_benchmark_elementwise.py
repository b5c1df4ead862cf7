"""The benchmark of elementwise operators: its model's methods and its text; nothing is measured."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from elementwise_models import PYTORCHS, TWELVE

from benchmarks import elementwise
from benchmarks.elementwise import SIZES, Measured, Row, measure, pairs, render
from benchmarks.processes import Finished


def test_each_of_the_twelve_is_beside_pytorchs_own() -> None:
    found = {one.operator: one for one in pairs(10)}
    names = sorted(path.stem for path in TWELVE.glob("*.elementwise"))
    assert sorted(PYTORCHS) == names
    assert [*found] == [*PYTORCHS, "product", "product by a number"]
    for name in names:
        ours, theirs = found[name].calls(3, 5)
        assert (ours.method, theirs.method) == ("ours_3_5", "pytorchs_3_5")
        assert (ours.operator, theirs.operator) == (f"ew::{name}", PYTORCHS[name][1])
        # the same tensors
        assert theirs.arguments[0][-len(ours.arguments[0]) :] == ours.arguments[0]
        assert not ours.kept
    assert [*pairs(10)] == [*pairs(10)]


def test_the_least_of_all_rounds_counts_and_the_order_alternates(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    orders: list[list[str]] = []

    def run(argv: list[str], **_: object) -> Finished:
        inputs = argv[argv.index("--inputs") + 1]
        orders.append([one["method"] for one in json.loads(Path(inputs).read_text())])
        runs = [
            {"method": name, "microseconds_min": 10.0 * len(name) - len(orders)}
            for name in orders[-1]
        ]
        output = argv[argv.index("--output") + 1]
        Path(output).write_text(json.dumps({"runs": runs}))
        return Finished(0, 0, 0, "", "")

    monkeypatch.setattr(elementwise, "run", run)
    (one,) = [pair for pair in pairs(2) if pair.operator == "gcd"]
    rows = [*measure(Measured(tmp_path, "app", {}), [one], 2)]
    assert orders == [
        order
        for size in SIZES
        for order in (
            [f"ours_0_{size}", f"pytorchs_0_{size}"],
            [f"pytorchs_0_{size}", f"ours_0_{size}"],
        )
    ]
    assert rows == [
        Row("gcd", "int64", 1000, 10 * len("ours_0_1000") - 2, 10 * len("pytorchs_0_1000") - 2),
        Row(
            "gcd",
            "int64",
            10**6,
            10 * len("ours_0_1000000") - 4,
            10 * len("pytorchs_0_1000000") - 4,
        ),
    ]


def test_the_page() -> None:
    def row(operator: str, elements: int, ours: float) -> dict[str, object]:
        return {
            "operator": operator,
            "dtype": "float32",
            "elements": elements,
            "ours": ours,
            "pytorchs": 1000.0,
        }

    rows = [row("i0", 1000, 900.04), row("i0", 10**6, 1050.0)]
    results = {"machine": {"cores": "2"}, "runtimes": {"PyTorch 1.13.1": rows}}
    expected = """\
# Elementwise operators

Written by `python -m benchmarks.elementwise`. The least time of a call, in microseconds;
ratio: ours to PyTorch's.

## PyTorch 1.13.1

| operator | dtype | PyTorch's, 1,000 | ours | ratio | PyTorch's, 1,000,000 | ours | ratio |
|---|---|---:|---:|---:|---:|---:|---:|
| i0 | float32 | 1,000.0 | 900.0 | 0.90 | 1,000.0 | 1,050.0 | 1.05 |

Target: at most 1.05 times PyTorch's: met.

- cores: 2
"""
    assert render(results) == expected
    rows.append(row("zeta", 1000, 1062.0))
    page = render(results)
    assert "| zeta | float32 | 1,000.0 | 1,062.0 | **1.06** |\n" in page
    assert "Target: at most 1.05 times PyTorch's: open in 1 of 3.\n" in page
