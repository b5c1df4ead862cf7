"""Why something is in a variant: requesters from traces, ways from the walk."""

from __future__ import annotations

import pytest
from core_toy import CONVOLUTION, CORE, FACTS, GUARD, LINEAR, MINIZ, STUBS, make_index, spec

from orchestrator.plan.planner import Planner
from orchestrator.pytorch.v1_13.dialect import DIALECT
from orchestrator.select.closure import registry
from orchestrator.select.policy import select
from orchestrator.select.why import Explainer, of_selection, overloads, readable
from orchestrator.values.selection import Selection
from orchestrator.values.trace import Trace, TraceIdentity

INDEX = make_index()
KERNELS = registry(INDEX, ["CPU"], DIALECT.keys)
TRACE = Trace(
    app="camera",
    model="classifier",
    identity=TraceIdentity("m", "r", "bundled", ("CPU",), "t"),
    root_operators=("aten::linear", "toy::conv"),
    called_operators={"aten::linear": 1200, "aten::shadow": 1},
    kernel_tags={"linear_tag": {"Float": 1}},
    custom_classes=("Prepacked",),
)
SELECTION = select(INDEX, KERNELS, [TRACE], "guarded")


def explainer(selection: Selection = SELECTION) -> Explainer:
    walk = Planner(INDEX, FACTS).walk(KERNELS, selection, spec())
    return Explainer(INDEX, KERNELS, selection, walk, FACTS.always)


def test_who_asked_for_an_operator() -> None:
    told = explainer()
    assert told.operator("aten::linear", [TRACE]) == [
        "classifier: its bytecode names it; it ran 1,200 times"
    ]
    assert told.operator("aten::shadow", [TRACE]) == ["classifier: kernels called it, once"]
    # its closure is there because it never ran
    assert told.operator("toy::conv", [TRACE]) == [
        "classifier: its bytecode names it; no input ran it"
    ]
    assert told.operator("aten::sparse_only", [TRACE]) == []


def test_an_operator_that_only_a_closure_has() -> None:
    unrun = Trace("camera", "m", TRACE.identity, ("aten::linear",), {}, {})
    selection = select(INDEX, KERNELS, [unrun], "guarded")
    assert explainer(selection).operator("aten::add.Tensor", [unrun]) == [
        "m: no input ran it; the static closure has it of what never ran: aten::linear",
        "kernels that are linked can call it:",
        "  operator aten::linear",
        "  -> cpu_linear  (generated/RegisterCPU.cpp)",
        f"  -> linear_kernel  ({LINEAR})",
        "  -> at::_ops::add_Tensor::call  (generated/Operators_0.cpp)",
    ]


def test_an_operator_that_can_be_called_but_is_not_there() -> None:
    selection = Selection(operators={"aten::linear": frozenset({"m"})})
    lines = explainer(selection).operator("aten::add.Tensor", [])
    assert lines[0] == "kernels that are linked can call it:"
    assert lines[-1] == "no kernel of it is registered: such a call would raise an error"


@pytest.mark.parametrize(
    ("unit", "expected"),
    [
        (
            LINEAR,
            [
                "the shortest way to it:",
                "  operator aten::linear",
                "  -> cpu_linear  (generated/RegisterCPU.cpp)",
                f"  -> linear_kernel  ({LINEAR})",
            ],
        ),
        (
            CONVOLUTION,
            [
                "it registers toy::conv",
                "the shortest way to it:",
                "  operator toy::conv",
                f"  -> conv_kernel  ({CONVOLUTION})",
            ],
        ),
        (
            GUARD,
            [
                "the runtime cannot do without its static initialisers",
                "the shortest way to it:",
                f"  static initialisers of {GUARD}",
                f"  -> guard_init  ({GUARD})",
            ],
        ),
        (
            CORE,
            [
                "the shortest way to it:",
                "  our own code, or the registering machinery, refers to it",
                f"  -> capi_needs  ({CORE})",
            ],
        ),
        (
            MINIZ,
            [
                "the shortest way to it:",
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
        "the shortest way to it:",
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


@pytest.mark.parametrize(
    ("symbol", "expected"),
    [
        ("_ZN2at6native6linearERKNS_6TensorES3_", "at::native::linear"),
        ("_ZNK3c1010TensorImpl5sizesEv@c10/core/TensorImpl.cpp", "c10::TensorImpl::sizes"),
        ("_ZN2at12_GLOBAL__N_17wrapperEv@generated/x.cpp", "at::(anonymous)::wrapper"),
        ("_ZNSt3__16vectorIN3c105EventEE4growEv", "std::__1::vector"),
        ("_ZTVN2at6TensorE", "_ZTVN2at6TensorE"),
        ("mz_inflate", "mz_inflate"),
        ("#140@a.cpp", "#140"),
    ],
)
def test_readable_names(symbol: str, expected: str) -> None:
    assert readable(symbol) == expected


def test_a_name_without_an_overload_means_all_that_there_are() -> None:
    known = ["aten::lstm.data", "aten::lstm.input", "aten::lstm_cell", "aten::relu"]
    assert overloads("aten::lstm", known) == ("aten::lstm.data", "aten::lstm.input")
    assert overloads("aten::relu", known) == ("aten::relu",)
    assert overloads("aten::lst", known) == ()


def test_of_several_operators_those_are_told_that_are_there() -> None:
    told = explainer()
    one = ["classifier: its bytecode names it; it ran 1,200 times"]
    assert told.operators(["aten::linear"], [TRACE]) == one
    assert told.operators(["aten::linear", "aten::shadow", "aten::sparse_only"], [TRACE]) == [
        "aten::linear",
        f"  {one[0]}",
        "aten::shadow",
        "  classifier: kernels called it, once",
    ]
    assert told.operators(["aten::sparse_only", "aten::nothing"], [TRACE]) == []
