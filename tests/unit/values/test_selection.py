"""Merging selections: lossless, whatever the order."""

from __future__ import annotations

from collections.abc import Iterable

from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.values.operators import OperatorName as Op
from orchestrator.values.selection import Selection, merge_all

models = st.frozensets(st.sampled_from(["m1", "m2", "m3"]), min_size=1)
operators = st.sampled_from(["aten::add.Tensor", "aten::relu", "prim::TupleIndex"])
requested = st.dictionaries(operators, models, max_size=3)
names = st.dictionaries(st.sampled_from(["A", "B"]), models, max_size=2)
dtypes = st.dictionaries(st.sampled_from(["Float", "Long", "*"]), models, max_size=2)
selections = st.builds(
    Selection,
    operators=requested,
    root_operators=st.frozensets(operators),
    guarded=st.frozensets(operators),
    kernel_dtypes=st.dictionaries(st.sampled_from(["add", "mul"]), dtypes, max_size=2),
    custom_classes=names,
    build_features=names,
    everything=st.booleans(),
)


@settings(deadline=None)
@given(selections, selections)
def test_merge_is_commutative(a: Selection, b: Selection) -> None:
    assert a.merge(b) == b.merge(a)


@settings(deadline=None)
@given(selections, selections, selections)
def test_merge_is_associative(a: Selection, b: Selection, c: Selection) -> None:
    assert a.merge(b).merge(c) == a.merge(b.merge(c)) == merge_all([c, a, b])


@settings(deadline=None)
@given(selections)
def test_merge_is_idempotent_with_a_zero(a: Selection) -> None:
    assert a.merge(a) == a.merge(Selection()) == Selection().merge(a) == a


def test_merging_none_is_the_zero() -> None:
    assert merge_all([]) == Selection()


@settings(deadline=None)
@given(selections, selections)
def test_every_requester_is_kept(a: Selection, b: Selection) -> None:
    merged = a.merge(b)
    for one in (a, b):
        for operator, who in one.operators.items():
            assert who <= merged.operators[operator]
        for tag, requests in one.kernel_dtypes.items():
            for dtype, who in requests.items():
                assert who <= merged.kernel_dtypes[tag][dtype]
    for operator, who in merged.operators.items():
        asked = a.operators.get(operator, frozenset()) | b.operators.get(operator, frozenset())
        assert who == asked


@settings(deadline=None)
@given(selections, selections)
def test_a_merged_selection_is_sorted(a: Selection, b: Selection) -> None:
    merged = a.merge(b)
    tables: list[Iterable[str]] = [merged.operators, merged.kernel_dtypes]
    tables += [merged.custom_classes, merged.build_features]
    tables += list(merged.kernel_dtypes.values())
    assert all(list(table) == sorted(table) for table in tables)


def test_a_merge_names_who_asked() -> None:
    one = Selection(
        operators={Op("aten::relu"): frozenset({"a"})},
        kernel_dtypes={"relu": {"Float": frozenset({"a"})}},
    )
    two = Selection(
        operators={
            Op("aten::relu"): frozenset({"b"}),
            Op("aten::add"): frozenset({"b"}),
        },
        kernel_dtypes={"relu": {"Long": frozenset({"b"})}},
    )
    assert one.merge(two) == Selection(
        operators={
            Op("aten::add"): frozenset({"b"}),
            Op("aten::relu"): frozenset({"a", "b"}),
        },
        kernel_dtypes={"relu": {"Float": frozenset({"a"}), "Long": frozenset({"b"})}},
    )
