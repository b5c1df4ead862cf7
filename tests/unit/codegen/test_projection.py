"""A unit's projection of a selection: exact text, and what does not change it."""

from __future__ import annotations

import pytest
from core_toy import GOLDEN
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.codegen.projection import mentions_selection, projection_text
from orchestrator.index.model import UnitFacts
from orchestrator.values.operators import OperatorName as Op
from orchestrator.values.selection import Selection

M = frozenset({"m"})
SELECTION = Selection(
    operators={
        Op("aten::add.Tensor"): M,
        Op("aten::relu"): M,
        Op("prim::TupleIndex"): M,
    },
    kernel_dtypes={
        "add_stub": {"Long": M, "Float": M},
        "copy_": {"*": M, "Float": M},
        "unmentioned": {"Half": M},
    },
    custom_classes={"quantized.Linear": M, "other.Class": M},
    build_features={"FEATURE": M},
)
UNIT = UnitFacts("u.cpp", 1.0, tags=("add_stub", "copy_", "not_selected"))


def golden(name: str) -> str:
    return (GOLDEN / "projections" / f"{name}.h").read_text()


@pytest.mark.parametrize(
    ("name", "unit"),
    [
        ("tags", UNIT),
        (
            "lists",
            UnitFacts(
                "u.cpp",
                1.0,
                operators=(
                    Op("aten::sub.Tensor"),
                    Op("aten::relu"),
                    Op("aten::add.Tensor"),
                ),
                classes=("quantized.Linear",),
                features=("FEATURE", "ANOTHER"),
            ),
        ),
        (
            "lists_of_nothing",
            UnitFacts("u.cpp", 1.0, operators=(Op("a::b"),), classes=("c.D",)),
        ),
        ("open_tags", UnitFacts("u.cpp", 1.0, tags=("add_stub",), open_tags=True)),
        ("open_classes", UnitFacts("u.cpp", 1.0, classes=("other.Class",), open_classes=True)),
    ],
)
def test_the_exact_text(name: str, unit: UnitFacts) -> None:
    assert projection_text(unit, SELECTION) == golden(name)


def test_everything_lists_nothing() -> None:
    unit = UnitFacts("u.cpp", 1.0, tags=("add_stub",), operators=(Op("a::b"),), features=("F",))
    assert projection_text(unit, Selection(everything=True)) == golden("everything")


def test_where_all_is_selected_upstreams_own_switches_stay() -> None:
    all_selected = UnitFacts("u.cpp", 1.0, tags=("copy_",))
    partly = UnitFacts("u.cpp", 1.0, tags=("copy_", "add_stub"))
    absent = UnitFacts("u.cpp", 1.0, tags=("copy_", "not_selected"))
    without_tags = UnitFacts("u.cpp", 1.0, operators=(Op("aten::relu"),))
    late = [
        "lta::dispatched" in (projection_text(unit, SELECTION) or "")
        for unit in (all_selected, partly, absent, without_tags)
    ]
    assert late == [False, True, True, False]


def test_an_op_agnostic_unit_has_no_projection() -> None:
    agnostic = UnitFacts("u.cpp", 1.0, promoted=(("prim::TupleIndex", "tupleIndex"),), init=(4,))
    assert not mentions_selection(agnostic)
    assert projection_text(agnostic, SELECTION) is None
    assert projection_text(agnostic, Selection(everything=True)) is None


def test_all_classes_need_no_list() -> None:
    unit = UnitFacts("u.cpp", 1.0, classes=("A",), open_classes=True)
    text = projection_text(unit, SELECTION.merge(Selection(custom_classes={"*": M})))
    assert text is not None
    assert "TORCH_SELECTIVE_CLASS" not in text


def test_where_no_run_told_the_computed_tags_all_are_selected() -> None:
    opened = UnitFacts("u.cpp", 1.0, tags=("t",), open_tags=True, operators=(Op("aten::relu"),))
    all_tags = SELECTION.merge(Selection(kernel_dtypes={"*": {"*": M}}))
    text = projection_text(opened, all_tags)
    assert text is not None
    assert "  return true;\n}" in text
    assert "lta::dispatched" not in text
    # operators are selected as before, and so are the tags of other units
    assert "operator_selected" in text
    assert projection_text(UNIT, all_tags) == projection_text(UNIT, SELECTION)


def test_a_tag_without_dtypes_is_not_selected() -> None:
    empty = Selection(kernel_dtypes={"add_stub": {}})
    assert projection_text(UNIT, empty) == projection_text(UNIT, Selection())


def test_what_a_unit_does_not_mention_does_not_reach_it() -> None:
    more = SELECTION.merge(
        Selection(
            operators={Op("aten::mul.Tensor"): M},
            kernel_dtypes={"mul_stub": {"Float": M}},
            custom_classes={"x.Y": M},
            build_features={"Z": M},
        )
    )
    assert projection_text(UNIT, more) == projection_text(UNIT, SELECTION)
    opened = UnitFacts("u.cpp", 1.0, open_tags=True)
    assert projection_text(opened, more) != projection_text(opened, SELECTION)


@settings(deadline=None)
@given(st.permutations(["Float", "Long", "Half"]), st.permutations(["m", "n"]))
def test_who_asked_and_in_which_order_does_not_matter(dtypes: list[str], who: list[str]) -> None:
    one = Selection(kernel_dtypes={"add_stub": {d: frozenset(who[:1]) for d in dtypes}})
    two = Selection(kernel_dtypes={"add_stub": dict.fromkeys(sorted(dtypes), M)})
    assert projection_text(UNIT, one) == projection_text(UNIT, two)
