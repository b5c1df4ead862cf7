"""From the tracer's JSON to a trace."""

from __future__ import annotations

from typing import Any

import pytest

from orchestrator.trace.recording import hot_tags, trace_from_recording
from orchestrator.values.trace import Trace, TraceIdentity

IDENTITY = TraceIdentity("model", "runtime", "bundled", ("CPU",), "tracer")
RECORDING: dict[str, Any] = {
    "root_operators": [
        {"name": "aten::relu", "overload": "", "calls": 2},
        {"name": "aten::add", "overload": "Tensor", "calls": 1},
        {"name": "aten::len", "overload": "t", "calls": 0},
        # run by the interpreter itself: the dispatcher never sees it
        {"name": "prim::TupleIndex", "overload": "", "calls": 4},
    ],
    "called_operators": {"aten::relu": 2, "aten::empty.memory_format": 3, "aten::add.Tensor": 1},
    "setup_operators": {"aten::copy_": 7, "aten::empty.memory_format": 5},
    "kernel_tags": {"relu": {"Float": 2}, "copy_": {"Float": 1}},
    "setup_kernel_tags": {"copy_": {"Long": 4, "Float": 1}},
    "custom_classes": ["Z", "A"],
    "build_features": ["F"],
    "tag_nanoseconds": {"relu": 990, "copy_": 10},
    "self_nanoseconds": {"aten::relu": 1900, "aten::empty.memory_format": 600},
}


def test_a_recording_as_a_trace() -> None:
    assert trace_from_recording("camera", "m", IDENTITY, RECORDING, "digest", None) == Trace(
        app="camera",
        model="m",
        identity=IDENTITY,
        root_operators=("aten::add.Tensor", "aten::len.t", "aten::relu", "prim::TupleIndex"),
        called_operators={
            "aten::add.Tensor": 1,
            "aten::copy_": 7,
            "aten::empty.memory_format": 8,
            "aten::relu": 2,
            "prim::TupleIndex": 4,
        },
        kernel_tags={"copy_": {"Float": 2, "Long": 4}, "relu": {"Float": 2}},
        custom_classes=("A", "Z"),
        build_features=("F",),
        hot_tags=("relu",),
        outputs="digest",
    )


def test_a_root_that_no_input_ran_is_unrun() -> None:
    trace = trace_from_recording("camera", "m", IDENTITY, RECORDING, "", None)
    assert trace.unrun_operators == ("aten::len.t",)


def test_all_tables_are_sorted() -> None:
    trace = trace_from_recording("camera", "m", IDENTITY, RECORDING, "", None)
    for table in (trace.called_operators, trace.kernel_tags, *trace.kernel_tags.values()):
        assert list(table) == sorted(table)


@pytest.mark.parametrize(
    ("nanoseconds", "total", "before", "hot"),
    [
        ({}, 0, None, ()),
        ({"a": 0}, 0, ("a",), ()),
        ({"a": 5}, 5, None, ("a",)),
        ({"a": 5}, 1000, None, ("a",)),
        ({"a": 4}, 1000, None, ()),
        ({"c": 500, "b": 30, "a": 20, "d": 4}, 1000, None, ("a", "b", "c")),
        # what was hot stays hot down to half of the share; what is not in the model goes
        ({"a": 3, "b": 3}, 1000, ("a", "c"), ("a",)),
        ({"a": 2}, 1000, ("a",), ()),
        # what was not becomes hot from half as much again
        ({"a": 7, "b": 8}, 1000, (), ("b",)),
    ],
)
def test_hot_tags(
    nanoseconds: dict[str, int], total: int, before: tuple[str, ...] | None, hot: tuple[str, ...]
) -> None:
    assert hot_tags(nanoseconds, total, before) == hot
