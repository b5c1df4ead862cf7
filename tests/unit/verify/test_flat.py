"""Outputs that prove nothing."""

from __future__ import annotations

import base64
import struct
from typing import Any

import pytest

from orchestrator.verify.flat import flat_line, flat_outputs

FORMATS = {"float32": "f", "float16": "e", "quint8": "B", "int64": "q"}


def tensor(*numbers: float, dtype: str = "float32") -> dict[str, Any]:
    data = struct.pack(f"<{len(numbers)}{FORMATS[dtype]}", *numbers)
    shape = [len(numbers)]
    return {"tensor": {"dtype": dtype, "shape": shape, "data": base64.b64encode(data).decode()}}


def result(*outputs: dict[str, Any] | None, method: str = "forward") -> dict[str, Any]:
    return {
        "runs": [
            {"method": method, "index": number, "output": output, "error": None}
            for number, output in enumerate(outputs)
        ]
    }


@pytest.mark.parametrize(
    ("outputs", "flat"),
    [
        ([tensor(0, 0, 0)], "forward output (all 0)"),
        ([tensor(0.25, 0.25), tensor(0.25)], "forward output (all 0.25)"),
        ([tensor(0.25, 0.25), tensor(0.5, 0.5)], None),  # it follows its input
        ([tensor(0.25, 0.25), tensor(0.25, 0.5)], None),
        ([tensor(0.25, 0.5), tensor(0.25)], None),
        ([tensor(0.25)], None),  # one number of one run
        ([tensor(0)], "forward output (all 0)"),
        ([tensor()], "forward output (none)"),
        ([tensor(), tensor(1, 2)], None),
        ([tensor(*[float("nan")] * 3)], "forward output (all nan)"),
        ([tensor(float("nan"), 1)], None),
        ([tensor(1, float("nan"))], None),
        ([tensor(*[float("inf")] * 3)], "forward output (all inf)"),
        ([tensor(-0.0, 0.0)], "forward output (all -0)"),
        ([tensor(3, 3, 3, dtype="quint8")], "forward output (all 3)"),
        ([tensor(1, 1, dtype="float16")], "forward output (all 1)"),
        ([tensor(3, 3, 3, dtype="int64")], None),
        ([None], None),
        ([{"none": True}, {"double": 0.0}], None),
        ([{"tensor": {"dtype": "float32", "shape": [2], "unsteady": True}}], None),
        ([{"tensor": {"dtype": "quint4x2", "shape": [2], "data": "AA=="}}], None),
    ],
)
def test_one_output(outputs: list[dict[str, Any]], flat: str | None) -> None:
    assert flat_outputs(result(*outputs)) == (() if flat is None else (flat,))


def test_places_of_several_outputs() -> None:
    both = {"dict": [[{"string": "boxes"}, tensor(0, 0)], [{"string": "scores"}, tensor(1, 2)]]}
    output = {"tuple": [tensor(1, 2), {"list": [tensor(7, 7), both]}]}
    assert flat_outputs(result(output)) == (
        "forward output[1][0] (all 7)",
        'forward output[1][1]["boxes"] (all 0)',
    )
    runs = result(tensor(1, 1))["runs"] + result(tensor(2, 2), method="encode")["runs"]
    assert flat_line(flat_outputs({"runs": runs})) == (
        "numbers that are all the same prove nothing: forward output (all 1), encode output (all 2)"
    )
