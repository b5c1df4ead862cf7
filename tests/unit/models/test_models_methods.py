"""What can be called in a model, and the call that it was traced with."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.models.bytecode import Argument, Function, OperatorUse
from orchestrator.models.inert import Value
from orchestrator.models.info import read_model
from orchestrator.models.methods import bundled_call, declared_call, methods_of
from orchestrator.pytorch.v1_13.dialect import DIALECT
from orchestrator.values.config.app import InputRun, TensorSpec
from orchestrator.values.methods import Call, Input, Method
from orchestrator.values.operators import OperatorName

ROOT = Path(__file__).parents[3]
SELF = Argument("self", "__torch__.Net")


def function(name: str, *arguments: Argument, returns: tuple[str, ...] = ()) -> Function:
    return Function(f"__torch__.Net.{name}", (), (), arguments, returns)


def test_an_apps_model_has_its_own_methods_without_those_of_bundling() -> None:
    info = read_model(ROOT / "apps/keyboard/models/next_word.ptl", DIALECT.models)
    assert [method.text() for method in info.own_methods] == [
        "forward(Tensor ids) -> Tensor",
        "suggest(Tensor ids) -> Tuple[Tensor, Tensor]",
    ]
    assert info.bundled_call == Call(
        method="forward", arguments=(Input(kind="tensor", dtype="int64", shape=(1, 4)),)
    )


def test_submodules_and_names_that_no_line_holds_are_left_out() -> None:
    found = methods_of(
        [
            function("forward", SELF, Argument("x", "Tensor"), returns=("Tensor",)),
            function("for ward", SELF),
            Function("__torch__.Inner.forward", (), (), (SELF,), ()),
        ],
        "__torch__.Net",
    )
    assert [method.text() for method in found] == ["forward(Tensor x) -> Tensor"]


@pytest.mark.parametrize("type_", ["Tensor\n```", "Tensor`", "", "T" * 201])
def test_a_type_that_no_line_holds_leaves_the_signature_unsaid(type_: str) -> None:
    (taken,) = methods_of([function("forward", SELF, Argument("x", type_))], "__torch__.Net")
    (given,) = methods_of([function("forward", SELF, returns=(type_,))], "__torch__.Net")
    assert taken == given == Method(name="forward", parameters=None)
    assert taken.text() == "forward(...)"


def test_an_old_file_has_no_signatures() -> None:
    (method,) = methods_of([function("forward")], "__torch__.Net")
    assert method.parameters is None


def test_inputs_that_code_unfolds_are_not_the_arguments() -> None:
    plain = function("_generate_bundled_inputs_for_forward")
    scaled = Function(
        plain.qualified, (OperatorUse(OperatorName("aten::mul.Scalar"), 2),), (), (), ()
    )
    assert bundled_call("forward", [(1, True)], [plain]) == Call(
        method="forward",
        arguments=(Input(kind="int", value=1), Input(kind="bool", value=True)),
    )
    assert bundled_call("forward", [(1, True)], [scaled]) is None
    assert bundled_call("forward", [], [plain]) is None
    assert bundled_call("forward", None, [plain]) is None


def test_declared_inputs() -> None:
    spec = TensorSpec(shape=(2, 3), dtype="int64", fill="zeros")
    run = InputRun(method="pick", args=(spec, None, 1.5, "a word", (1, 2)))
    assert declared_call(run) == Call(
        method="pick",
        arguments=(
            Input(kind="tensor", dtype="int64", shape=(2, 3)),
            Input(kind="none"),
            Input(kind="double", value=1.5),
            Input(kind="string", value="a word"),
            Input(
                kind="list",
                items=(Input(kind="int", value=1), Input(kind="int", value=2)),
            ),
        ),
    )


@pytest.mark.parametrize(
    "value",
    ['"', "\\", "??/", "a\nb", 2**63, float("inf"), float("nan"), [], [[]], list(range(64))],
)
def test_a_value_that_c_cannot_hold_gives_no_call(value: Value) -> None:
    assert bundled_call("forward", [(value,)], []) is None


def test_values_too_deep_give_no_call() -> None:
    value: Value = 1
    for _ in range(9):
        value = [value]
    assert bundled_call("forward", [(value,)], []) is None


def test_a_small_file_that_stands_for_many_values_gives_no_call() -> None:
    value: Value = 1
    for _ in range(7):
        value = [value] * 64
    assert bundled_call("forward", [(value,)], []) is None
