"""What plans compile and generate defines all that it refers to, as far as the index knows.

`tests/campaigns/test_definitions.py` asks the same of every operator and of random selections.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace

import pytest
from shipped_index import shipped
from variants import plans, rule, undefined

from orchestrator.plan.variant import VariantPlan
from orchestrator.pytorch.dialect import Dialect
from orchestrator.pytorch.v1_13.dialect import DIALECT as V1_13
from orchestrator.pytorch.v2_6.dialect import DIALECT as V2_6
from orchestrator.values.operators import OperatorName as Op

# Each was undefined in some variant of the operator alone: a function that torchgen writes beside
# the kernel of an operator that nobody selected; what a kernel calls that is registered twice; what
# unboxes the arguments of two operators at once.
ONCE_UNDEFINED = {
    "aten::mv": "_ZN2at3cpu7mul_outE",
    "quantized::conv_transpose1d": "_ZN2at4_ops12squeeze__dim4callE",
    "quantized::conv_transpose2d": "_ZN2at6native12_GLOBAL__N_19QConvInt8ILi2ELb0EE3runE",
    "aten::any.dimname_out": "_ZN2at7Dimname10fromSymbolE",
    "aten::scatter.dimname_src": "_ZN2at7Dimname10fromSymbolE",
    "aten::scatter_add.dimname": "_ZN2at7Dimname10fromSymbolE",
}
# Functions of torchgen's kernels' files that other units of PyTorch call.
DIRECT = {
    "_log_softmax": "aten::_log_softmax",
    "_log_softmax_backward_data": "aten::_log_softmax_backward_data",
    "_softmax": "aten::_softmax",
    "_softmax_backward_data": "aten::_softmax_backward_data",
    "mul_out": "aten::mul.out",
}
# Besides, in 2.6.0: at::native::_pin_memory calls it, and what is registered is compiled into it.
DIRECT_IN_2_6 = {"empty": "aten::empty.memory_format"}


@pytest.mark.parametrize("operator", ONCE_UNDEFINED)
def test_what_was_undefined(operator: str) -> None:
    assert undefined([operator], random.Random(1)) == []


@pytest.mark.parametrize("operator", ONCE_UNDEFINED)
def test_all_of_it_is_reached(operator: str) -> None:
    """So that the tests above are about something."""
    names = {n for _, plan in plans([operator], random.Random(1)) for n in rule().reached(plan)}
    assert any(name.startswith(ONCE_UNDEFINED[operator]) for name in names)


@pytest.mark.parametrize(
    ("dialect", "direct"), [(V1_13, DIRECT), (V2_6, DIRECT | DIRECT_IN_2_6)], ids=["1.13", "2.6"]
)
def test_every_call_into_torchgens_kernels_is_known(
    dialect: Dialect, direct: Mapping[str, str]
) -> None:
    """From outside of their file, kernels are called by functions of known kernels alone."""
    index, found = shipped(dialect), dict[str, tuple[str, str] | None]()
    named = rule(dialect).files.items()
    files = {n: path for n, path in named if path.startswith("generated/Register")}
    for node, owner in enumerate(index.owners):
        for target in index.targets(node):
            if index.owners[target] in files and index.owners[target] != owner:
                found[index.names[target]] = index.direct_kernel(target)
    expected = {f"_ZN2at3cpu{len(name)}{name}E": ("CPU", of) for name, of in direct.items()}
    assert {name[: name.index("E") + 1]: kernel for name, kernel in found.items()} == expected


@pytest.mark.parametrize("dialect", [V1_13, V2_6], ids=["1.13", "2.6"])
def test_every_call_of_an_entry_point_is_known(dialect: Dialect) -> None:
    index, named = shipped(dialect), rule(dialect).files.items()
    files = {n for n, path in named if path.startswith("generated/Operators_")}
    for node, owner in enumerate(index.owners):
        for target in index.targets(node):
            if index.owners[target] in files and index.owners[target] != owner:
                assert target in index.operator_calls, index.names[target]


# --- the rule finds what is left out ---


def a_plan(operator: str, kind: str) -> VariantPlan:
    plan = dict(plans([operator], random.Random(1)))[kind]
    assert rule().undefined(plan) == {}
    return plan


def faults(plan: VariantPlan) -> set[str]:
    return {name.split("@")[0] for name in rule().undefined(plan)}


def test_a_kernel_left_out_of_the_request() -> None:
    plan = a_plan("aten::mv", "static")
    less = replace(plan, request=replace(plan.request, direct=()))
    assert faults(less) == {"_ZN2at3cpu7mul_outERNS_6TensorERKS1_S4_"}


def test_an_entry_point_left_out_of_the_request() -> None:
    plan = a_plan("quantized::conv_transpose1d", "traced")
    calls = tuple(name for name in plan.request.calls if name != "aten::squeeze_.dim")
    less = replace(plan, request=replace(plan.request, calls=calls))
    assert faults(less) == {"_ZN2at4_ops12squeeze__dim4callERNS_6TensorEl"}


def test_a_kernel_that_an_entry_point_calls_left_out_of_the_request() -> None:
    plan = a_plan("aten::mv", "static, direct")
    assert ("aten::addmv_", "CPU") in plan.request.resolved
    less = replace(plan, request=replace(plan.request, direct=()))
    assert any("wrapper_addmv_" in name for name in faults(less))


def test_a_unit_left_out() -> None:
    plan = a_plan("aten::any.dimname_out", "traced")
    on_demand = tuple(c for c in plan.on_demand if not c.unit.endswith("/Dimname.cpp"))
    assert "_ZN2at7Dimname10fromSymbolEN3c106SymbolE" in faults(replace(plan, on_demand=on_demand))


def test_a_stub_left_out() -> None:
    plan = a_plan("aten::copy_", "static")
    assert plan.needed.stubs
    less = replace(plan, needed=replace(plan.needed, stubs=frozenset()))
    assert faults(less) == plan.needed.stubs


def test_a_registration_under_a_key_that_the_registry_leaves_out() -> None:
    """A projection names operators: a unit registers all kernels of those that it mentions."""
    plan = a_plan("aten::relu", "traced")
    operators = {**plan.selection.operators, Op("quantized::conv1d"): frozenset({"model"})}
    unit = "aten/src/ATen/native/quantized/cpu/qconv.cpp"
    more = replace(plan.on_demand[0], unit=unit, members=())
    wider = replace(
        plan,
        on_demand=(*plan.on_demand, more),
        selection=replace(plan.selection, operators=operators),
    )
    assert "_ZN2at4_ops12squeeze__dim4callERNS_6TensorEl" in faults(wider)
