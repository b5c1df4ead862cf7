"""From the tracer's JSON to a trace."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from orchestrator.pytorch.versions import WorkData
from orchestrator.trace.hot import Scales
from orchestrator.trace.recording import trace_from_recording
from orchestrator.values.operators import OperatorName as Op
from orchestrator.values.trace import Trace, TraceIdentity

IDENTITY = TraceIdentity("model", "runtime", "bundled", ("CPU",), "tracer")
SCALES = Scales(WorkData(call=1, kernel=1, element=1.0, rules=()), lambda tag: {})
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
    "work": {
        "relu": {"inputs": 9000, "outputs": 9000, "products": 0},
        "copy_": {"inputs": 1, "outputs": 1, "products": 1},
    },
}


def test_a_recording_as_a_trace() -> None:
    assert trace_from_recording("camera", "m", IDENTITY, RECORDING, 2, "digest", SCALES) == Trace(
        app="camera",
        model="m",
        identity=IDENTITY,
        root_operators=(
            Op("aten::add.Tensor"),
            Op("aten::len.t"),
            Op("aten::relu"),
            Op("prim::TupleIndex"),
        ),
        called_operators={
            Op("aten::add.Tensor"): 1,
            Op("aten::copy_"): 7,
            Op("aten::empty.memory_format"): 8,
            Op("aten::relu"): 2,
            Op("prim::TupleIndex"): 4,
        },
        kernel_tags={"copy_": {"Float": 2, "Long": 4}, "relu": {"Float": 2}},
        custom_classes=("A", "Z"),
        build_features=("F",),
        hot_tags=("relu",),
        multiply_adds=0,
        outputs="digest",
    )


def test_a_root_that_no_input_ran_is_unrun() -> None:
    trace = trace_from_recording("camera", "m", IDENTITY, RECORDING, 2, "", SCALES)
    assert trace.unrun_operators == ("aten::len.t",)


def test_a_root_that_no_input_can_reach_is_none() -> None:
    """What kernels called stays; who asks for it is not the bytecode then."""
    unreachable = ("aten::len.t", "aten::copy_", "aten::sort")
    trace = trace_from_recording(
        "camera", "m", IDENTITY, RECORDING, 2, "digest", SCALES, None, unreachable
    )
    assert trace.unreachable_operators == (Op("aten::len.t"),)
    assert Op("aten::len.t") not in trace.root_operators
    assert trace.unrun_operators == ()
    assert Op("aten::copy_") in trace.called_operators
    # to a library that does not know of it, it is one to load the model with
    every = trace.loaded_by(())
    assert (every.root_operators[1], every.unreachable_operators) == (Op("aten::len.t"), ())
    assert trace.loaded_by([Op("aten::len.t")]) == trace


def test_all_tables_are_sorted() -> None:
    trace = trace_from_recording("camera", "m", IDENTITY, RECORDING, 2, "", SCALES)
    tables: list[Iterable[str]] = [trace.called_operators, trace.kernel_tags]
    for table in (*tables, *trace.kernel_tags.values()):
        assert list(table) == sorted(table)
