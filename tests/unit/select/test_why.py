"""Why something is in a variant: requesters from traces, ways from the walk."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from core_toy import CONVOLUTION, CORE, FACTS, GUARD, LINEAR, MINIZ, STUBS, make_index, spec

from orchestrator.plan.planner import Planner
from orchestrator.pytorch.v1_13.dialect import DIALECT
from orchestrator.select.closure import registry
from orchestrator.select.policy import select, with_extra
from orchestrator.select.why import Explainer, of_selection, overloads
from orchestrator.values.operators import OperatorName as Op
from orchestrator.values.selection import Selection
from orchestrator.values.trace import Trace, TraceIdentity

INDEX = make_index()
KERNELS = registry(INDEX, ["CPU"], DIALECT.keys)
TRACE = Trace(
    app="camera",
    model="classifier",
    identity=TraceIdentity("m", "r", "bundled", ("CPU",), "t"),
    root_operators=(Op("aten::linear"), Op("toy::conv")),
    called_operators={Op("aten::linear"): 1200, Op("aten::shadow"): 1},
    kernel_tags={"linear_tag": {"Float": 1}},
    custom_classes=("Prepacked",),
)
SELECTION = select(INDEX, KERNELS, [TRACE], "guarded")


def explainer(selection: Selection = SELECTION, **more: Any) -> Explainer:
    walk = Planner(INDEX, FACTS).walk(KERNELS, selection, spec())
    return Explainer(INDEX, KERNELS, selection, walk, FACTS.always, **more)


def test_who_asked_for_an_operator() -> None:
    told = explainer()
    assert told.operator(Op("aten::linear"), [TRACE]) == [
        "classifier: its bytecode names it; it ran 1,200 times"
    ]
    assert told.operator(Op("aten::shadow"), [TRACE]) == ["classifier: kernels called it, once"]
    # its closure is there because it never ran
    assert told.operator(Op("toy::conv"), [TRACE]) == [
        "classifier: its bytecode names it; no input ran it"
    ]
    assert told.operator(Op("aten::sparse_only"), [TRACE]) == []


def test_why_an_operator_is_absent() -> None:
    told = explainer()
    guarded = "operators that no input ran cannot call it: toy::conv"
    assert told.selection.guarded == {Op("toy::conv")}
    hint = "to have it: an input that runs it, or `extra` in app.yaml"
    unasked = "classifier: its bytecode does not name it, and no input ran it"
    assert told.absent([Op("aten::sparse_only")], [TRACE]) == [unasked, guarded, hint]
    traced = explainer(select(INDEX, KERNELS, [TRACE], "traced"))
    assert traced.absent([Op("aten::linear.out")], [TRACE]) == [
        unasked,
        "other overloads are in it: aten::linear",
        hint,
    ]


def test_why_an_operator_is_left_out() -> None:
    name = Op("aten::sparse_only")
    trace = replace(TRACE, unreachable_operators=(name,))
    calls = [f"forward at net.py:{line}" for line in (3, 9)]
    told = explainer(unreachable=lambda model, operator: calls)
    lines = told.absent([name], [trace, replace(TRACE, model="other")])
    assert lines[:2] == [
        "classifier: its bytecode names it, in branches that no input can take:"
        " forward at net.py:3, forward at net.py:9",
        "other: its bytecode does not name it, and no input ran it",
    ]
    assert lines[-1] == "to have it: `extra` in app.yaml, or a file of the model that reaches it"
    # without the file nobody knows where
    assert explainer().absent([name], [trace])[0] == (
        "classifier: its bytecode names it, in branches that no input can take"
    )


def test_an_operator_that_only_a_closure_has() -> None:
    unrun = Trace("camera", "m", TRACE.identity, (Op("aten::linear"),), {}, {})
    selection = select(INDEX, KERNELS, [unrun], "guarded")
    assert explainer(selection).operator(Op("aten::add.Tensor"), [unrun]) == [
        "m: no input ran it; it is in the static closure of operators that never ran: aten::linear",
        "linked kernels can call it:",
        "  operator aten::linear",
        "  -> cpu_linear  (generated/RegisterCPU.cpp)",
        f"  -> linear_kernel  ({LINEAR})",
        "  -> at::_ops::add_Tensor::call  (generated/Operators_0.cpp)",
    ]


def test_an_operator_that_can_be_called_but_is_not_there() -> None:
    selection = Selection(operators={Op("aten::linear"): frozenset({"m"})})
    lines = explainer(selection).operator(Op("aten::add.Tensor"), [])
    assert lines[0] == "linked kernels can call it:"
    assert lines[-1] == "it has no registered kernel: such a call would throw an error"


@pytest.mark.parametrize(
    ("unit", "expected"),
    [
        (
            LINEAR,
            [
                "the shortest path to it:",
                "  operator aten::linear",
                "  -> cpu_linear  (generated/RegisterCPU.cpp)",
                f"  -> linear_kernel  ({LINEAR})",
            ],
        ),
        (
            CONVOLUTION,
            [
                "it registers toy::conv",
                "the shortest path to it:",
                "  operator toy::conv",
                f"  -> conv_kernel  ({CONVOLUTION})",
            ],
        ),
        (
            GUARD,
            [
                "the runtime always needs its static initialisers",
                "the shortest path to it:",
                f"  static initialisers of {GUARD}",
                f"  -> guard_init  ({GUARD})",
            ],
        ),
        (
            CORE,
            [
                "the shortest path to it:",
                "  referenced by the library's own code or by registration code",
                f"  -> capi_needs  ({CORE})",
            ],
        ),
        (
            MINIZ,
            [
                "the shortest path to it:",
                "  operator toy::conv",
                f"  -> conv_kernel  ({CONVOLUTION})",
                f"  -> inflate  ({MINIZ})",
            ],
        ),
        ("no/such/unit.cpp", []),
    ],
)
def test_what_brings_a_unit(unit: str, expected: list[str]) -> None:
    assert explainer().unit(unit) == expected


def test_a_unit_that_is_not_needed() -> None:
    assert explainer(Selection()).unit(LINEAR) == []
    assert explainer(Selection()).unit(STUBS) == []


def test_a_symbol() -> None:
    assert explainer().symbol("template_copy") == [
        "the shortest path to it:",
        "  operator aten::linear",
        "  -> cpu_linear  (generated/RegisterCPU.cpp)",
        f"  -> linear_kernel  ({LINEAR})",
        "  -> template_copy  (a header)",
    ]
    assert explainer().symbol("functions_table") == []


def test_tags_classes_and_features() -> None:
    assert of_selection("linear_tag", SELECTION) == ["classifier: its kernels ran on Float"]
    assert of_selection("conv_tag", SELECTION) == [
        "classifier: all dtypes, because no input ran it"
    ]
    assert of_selection("Prepacked", SELECTION) == ["classifier: uses the custom class"]
    assert of_selection("no_such_tag", SELECTION) == []


def test_a_name_without_an_overload_means_all_that_there_are() -> None:
    known = [Op("aten::lstm.data"), Op("aten::lstm.input"), Op("aten::lstm_cell"), Op("aten::relu")]
    assert overloads("aten::lstm", known) == ("aten::lstm.data", "aten::lstm.input")
    assert overloads("aten::relu", known) == ("aten::relu",)
    assert overloads("aten::lst", known) == ()


def test_of_several_operators_those_are_told_that_are_there() -> None:
    told = explainer()
    one = ["classifier: its bytecode names it; it ran 1,200 times"]
    assert told.operators([Op("aten::linear")], [TRACE]) == one
    assert told.operators(
        [
            Op("aten::linear"),
            Op("aten::shadow"),
            Op("aten::sparse_only"),
        ],
        [TRACE],
    ) == [
        "aten::linear",
        f"  {one[0]}",
        "aten::shadow",
        "  classifier: kernels called it, once",
    ]
    assert told.operators([Op("aten::sparse_only"), Op("aten::nothing")], [TRACE]) == []


def test_what_app_yaml_adds_has_its_reason() -> None:
    selection = with_extra(INDEX, KERNELS, SELECTION, [Op("aten::linear")])
    walk = Planner(INDEX, FACTS).walk(KERNELS, selection, spec())
    told = Explainer(
        INDEX, KERNELS, selection, walk, FACTS.always, extra={"aten::linear": "C++ code calls it"}
    )
    assert told.operator(Op("aten::linear"), [TRACE]) == [
        "classifier: its bytecode names it; it ran 1,200 times",
        "app.yaml adds it (`extra`): C++ code calls it",
    ]
    added = told.operator(Op("aten::add.Tensor"), [TRACE])
    assert added[0] == "in the static closure of what app.yaml adds (`extra`): aten::linear"
    assert "app.yaml: all dtypes, for the operators under `extra`" in of_selection(
        "linear_tag", selection
    )
    assert "app.yaml: an operator under `extra` uses the custom class" in of_selection(
        "Prepacked", selection
    )


def test_the_calls_that_no_input_ran_are_told() -> None:
    walk = Planner(INDEX, FACTS).walk(KERNELS, SELECTION, spec())
    calls = [f"forward at net.py:{line}" for line in range(3, 9)]
    told = Explainer(INDEX, KERNELS, SELECTION, walk, FACTS.always, lambda model, operator: calls)
    assert told.operator(Op("aten::linear"), [TRACE]) == [
        "classifier: its bytecode names it; it ran 1,200 times; not run: forward at net.py:3,"
        " forward at net.py:4, forward at net.py:5, forward at net.py:6 and 2 more"
    ]
    # only the model's own calls have lines
    assert told.operator(Op("aten::shadow"), [TRACE]) == ["classifier: kernels called it, once"]
