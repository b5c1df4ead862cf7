"""Outputs that differ from run to run: marked when a model is traced, told when it is verified."""

from __future__ import annotations

import base64
import struct
from typing import Any

import pytest

from orchestrator.verify.compare import compare_results
from orchestrator.verify.nondeterminism import deterministic_part, uncompared
from orchestrator.verify.verdict import RunnerResult, verify

Value = dict[str, Any]


def result(*outputs: Value | None) -> dict[str, Any]:
    runs = [
        {"method": "forward", "index": i, "output": output, "error": None}
        for i, output in enumerate(outputs)
    ]
    return {"runs": runs, "error": None}


def tensor(*numbers: float, shape: list[int] | None = None) -> Value:
    data = base64.b64encode(struct.pack(f"<{len(numbers)}f", *numbers)).decode()
    return {"tensor": {"dtype": "float32", "shape": shape or [len(numbers)], "data": data}}


DRAWN: Value = {"tensor": {"dtype": "float32", "shape": [2], "unsteady": True}}
WHOLE: Value = {"int": 3}


@pytest.mark.parametrize(
    ("one", "other", "kept"),
    [
        (tensor(1, 2), tensor(1, 2), tensor(1, 2)),
        # Within the tolerance that a comparison has.
        (tensor(1, 2), tensor(1, 2.000001), tensor(1, 2)),
        (tensor(1, 2), tensor(1, 3), DRAWN),
        (tensor(1, 2), tensor(1, 2, 3), {"unsteady": "tensor"}),
        (tensor(1, 2), tensor(1, 2, shape=[2, 1]), {"unsteady": "tensor"}),
        ({"int": 1}, {"int": 2}, {"unsteady": "int"}),
        ({"none": True}, {"int": 2}, {"unsteady": "any"}),
        ({"tuple": [WHOLE, tensor(1, 2)]}, {"tuple": [WHOLE, tensor(1, 3)]},
         {"tuple": [WHOLE, DRAWN]}),
        ({"list": [WHOLE]}, {"list": [WHOLE, WHOLE]}, {"unsteady": "list"}),
        (
            {"dict": [[{"string": "a"}, {"int": 1}], [{"string": "b"}, WHOLE]]},
            {"dict": [[{"string": "a"}, {"int": 2}], [{"string": "b"}, WHOLE]]},
            {"dict": [[{"string": "a"}, {"unsteady": "int"}], [{"string": "b"}, WHOLE]]},
        ),
        ({"dict": [[{"int": 1}, WHOLE]]}, {"dict": [[{"int": 2}, WHOLE]]}, {"unsteady": "dict"}),
    ],
)  # fmt: skip
def test_what_all_runs_agree_on_is_kept(one: Value, other: Value, kept: Value) -> None:
    assert deterministic_part([result(one), result(one), result(other)]) == result(kept)
    # Each of the runs agrees with what was kept.
    for seen in (one, other):
        assert compare_results(result(kept), result(seen)) == []


def test_the_kind_and_the_shape_of_unsteady_values_are_still_compared() -> None:
    differences = [
        str(difference)
        for kept, seen in [
            (DRAWN, tensor(1, 2, 3)),
            ({"unsteady": "tensor"}, {"int": 1}),
            ({"tuple": [WHOLE, DRAWN]}, {"tuple": [{"int": 4}, tensor(5, 6)]}),
        ]
        for difference in compare_results(result(kept), result(seen))
    ]
    assert differences == [
        "forward[0] output: shape: expected [2], seen [3]",
        "forward[0] output: kind: expected tensor, seen int",
        "forward[0] output[0]: value: expected 3, seen 4",
    ]


def test_what_is_not_compared_is_never_just_ok() -> None:
    device: Value = {"other": True}
    kept = result(WHOLE, {"tuple": [WHOLE, DRAWN]}, {"dict": [[{"string": "a"}, device]]})
    seen = result(WHOLE, {"tuple": [WHOLE, tensor(5, 6)]}, {"dict": [[{"string": "a"}, device]]})
    assert uncompared(kept) == ("forward[1] output[1]", 'forward[2] output["a"]')
    verdict = verify("m", kept, RunnerResult(0, seen))
    assert (verdict.status, verdict.runs) == ("ok in part", 3)
    assert verdict.uncompared == uncompared(kept)


def test_a_run_that_failed_stays_as_it_is() -> None:
    assert deterministic_part([result(None), result(None)]) == result(None)
    assert uncompared(result(None)) == ()
