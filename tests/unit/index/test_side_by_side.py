"""Registrations whose references a register held already: completed from those beside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from core_toy import make_index
from shipped_index import shipped

from orchestrator.index.model import RuntimeIndex, UnitFacts
from orchestrator.index.side_by_side import completed

UNIT, OTHER = "native/Conv.cpp", "native/Other.cpp"
# Tensor(Tensor), twice and as a template; Tensor(Tensor, bool)
RELU, TANH = "_ZN2at4reluENS_6TensorE@u", "_ZN2at4tanhENS_6TensorE@u"
CONV, CLIP = "_ZN2at4convILb0EEENS_6TensorES1_@u", "_ZN2at4clipENS_6TensorEb@u"
# What is of a signature, T or Tb: its functor's vtable, and what unboxes its arguments.
TABLE, UNBOXES = "_ZTVN3c104impl6detailT", "_ZN3c104impl31make_boxed_from_unboxed_functorT"
TABLE_B, UNBOXES_B = f"{TABLE}b", f"{UNBOXES}b"
# A template that registers a function that it is given; and one that names the function.
GIVEN = "_ZNR5torch7Library4implIPKcRFN2at6TensorES5_EEE"
NAMED = "_ZNR5torch7Library4implIPKcN3c1026CompileTimeFunctionPointerI4relu"

Registrations = Sequence[tuple[str, str, str, Sequence[str]]]


def index(registrations: Registrations) -> RuntimeIndex:
    names = {name for *_, targets in registrations for name in targets}
    nodes = {name: (UNIT if name.endswith("@u") else None, 8, ()) for name in names}
    units = [UnitFacts(UNIT, 1.0), UnitFacts(OTHER, 1.0)]
    return make_index(nodes, units, registrations, calls={"": ""}, initialisers={})


def found(registrations: Registrations) -> Mapping[str, set[str]]:
    """Operator -> what its registration refers to, completed."""
    made = index(registrations)
    after = completed(made)
    assert completed(after) == after
    return {r.operator: {made.names[node] for node in r.targets} for r in after.registrations}


def test_a_signatures_functor_is_shared_by_neighbours() -> None:
    after = found(
        [
            ("aten::relu", "CPU", UNIT, [RELU, TABLE, UNBOXES]),
            ("aten::tanh", "CPU", UNIT, [TANH, TABLE]),
            ("aten::clip", "CPU", UNIT, [CLIP, TABLE_B, UNBOXES_B]),
        ]
    )
    assert after["aten::tanh"] == {TANH, TABLE, UNBOXES}
    assert after["aten::relu"] == {RELU, TABLE, UNBOXES}
    assert after["aten::clip"] == {CLIP, TABLE_B, UNBOXES_B}


def test_parameters_tell_the_signature_where_nothing_of_it_is_left() -> None:
    after = found(
        [
            ("aten::clip", "CPU", UNIT, [CLIP, TABLE_B, UNBOXES_B]),
            ("aten::relu", "CPU", UNIT, [RELU, TABLE, UNBOXES]),
            ("aten::tanh", "CPU", UNIT, [TANH]),
        ]
    )
    assert after["aten::tanh"] == {TANH, TABLE, UNBOXES}


def test_a_neighbour_that_holds_two_signatures_is_the_last_to_be_asked() -> None:
    both = [RELU, TABLE, UNBOXES, TABLE_B, UNBOXES_B]
    registrations = [
        ("aten::clip", "CPU", UNIT, [CLIP, TABLE_B, UNBOXES_B]),
        ("aten::relu", "CPU", UNIT, both),
        ("aten::trunc", "CPU", UNIT, [TANH, TABLE_B]),
    ]
    assert found(registrations)["aten::trunc"] == {TANH, TABLE_B, UNBOXES_B}
    # which of the two is meant nobody can tell
    registrations[0] = ("aten::clip", "CPU", UNIT, [CLIP])
    assert found(registrations)["aten::trunc"] == {TANH, *both} - {RELU}


def test_a_kernel_that_is_registered_twice() -> None:
    after = found(
        [
            ("quantized::conv1d", "QuantizedCPU", UNIT, [CONV, GIVEN]),
            ("quantized::conv_transpose1d", "QuantizedCPU", UNIT, [GIVEN]),
        ]
    )
    assert after["quantized::conv_transpose1d"] == {CONV, GIVEN}


@pytest.mark.parametrize(
    "beside",
    [
        ("aten::relu", "CPU", OTHER, [RELU, TABLE, UNBOXES]),
        ("aten::relu", "Meta", UNIT, [RELU, TABLE, UNBOXES]),
        ("aten::relu", "jit", UNIT, [RELU, TABLE, UNBOXES]),
    ],
)
def test_nothing_is_taken_from_another_block(
    beside: tuple[str, str, str, Sequence[str]],
) -> None:
    assert found([beside, ("aten::tanh", "CPU", UNIT, [TANH, TABLE])])["aten::tanh"] == {
        TANH,
        TABLE,
    }


def test_what_is_complete_stays_as_it_is() -> None:
    registrations = [
        ("aten::relu", "CPU", UNIT, [RELU, TABLE, UNBOXES]),
        ("aten::tanh", "CPU", UNIT, [NAMED]),
        ("aten::conj", "Conjugate", UNIT, []),  # a fallthrough
        ("aten::len", "jit", UNIT, [TANH]),
        ("aten::relu", "schema", UNIT, []),
    ]
    made = index(registrations)
    assert completed(made) == made


# --- what is shipped ---

UNBOXING = ("_ZN3c104impl31make_boxed_from_unboxed_functor", "_ZNR5torch7Library")


def test_the_shipped_index_is_complete() -> None:
    assert completed(shipped()) == shipped()


def test_every_shipped_kernel_has_what_unboxes_its_arguments() -> None:
    index = shipped()
    for one in index.registrations:
        if one.targets and one.key not in ("schema", "jit", "promoted", "fallback"):
            assert any(index.names[n].startswith(UNBOXING) for n in one.targets), one.operator


@pytest.mark.parametrize(
    ("operator", "kernel"),
    [
        ("quantized::conv1d", "QConv1dInt8ILb0EE3run"),
        ("quantized::conv_transpose1d", "QConv1dInt8ILb0EE3run"),
        ("_quantized::conv_transpose2d", "QConvInt8ILi2ELb0EE3run"),
        ("quantized::conv_transpose2d", "QConvInt8ILi2ELb0EE3run"),
        ("quantized::conv_transpose3d", "QConvInt8ILi3ELb0EE3run"),
    ],
)
def test_kernels_that_pytorch_registers_twice(operator: str, kernel: str) -> None:
    index = shipped()
    (one,) = (r for r in index.registrations if (r.operator, r.key) == (operator, "QuantizedCPU"))
    assert any(kernel in index.names[node] for node in one.targets)
