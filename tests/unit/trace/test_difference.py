"""What changed between two traces."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest

from orchestrator.trace.difference import Change, changes_between
from orchestrator.trace.lock import lock_text
from orchestrator.values.coverage import FunctionCoverage
from orchestrator.values.operators import OperatorName as Op
from orchestrator.values.trace import Trace, TraceIdentity

IDENTITY = TraceIdentity("m", "r", "i", ("CPU",), "t")
TRACE = Trace(
    "camera",
    "m",
    IDENTITY,
    (Op("x::a"),),
    {Op("x::a"): 1},
    {"t": {"Float": 1}},
    outputs="o",
)


def _other(name: str) -> dict[str, Any]:
    return {name: ("X",)}


def test_equal_traces_have_no_changes() -> None:
    assert changes_between(TRACE, replace(TRACE)) == ()


@pytest.mark.parametrize(
    ("other", "told"),
    [
        (
            {"root_operators": ("x::a", "x::b")},
            "operators +x::b; never ran +x::b; root operators",
        ),
        ({"called_operators": {"x::a": 1, "x::c": 1}}, "operators +x::c; calls"),
        ({"called_operators": {"x::a": 2}}, "calls"),
        (
            {"kernel_tags": {"t": {"Long": 1}}},
            "kernel dtypes +t:Long -t:Float; kernel calls",
        ),
        ({"kernel_tags": {"t": {"Float": 2}}}, "kernel calls"),
        ({"custom_classes": ("C",)}, "custom classes +C"),
        ({"build_features": ("F",)}, "build features +F"),
        ({"hot_tags": ("b", "a")}, "hot tags +a +b"),
        ({"outputs": "p"}, "outputs"),
        ({"coverage": {"f": FunctionCoverage(1, 0)}}, "coverage"),
        (
            {"hot_tags": tuple(f"t{n}" for n in range(10))},
            "hot tags +t0 +t1 +t2 +t3 +t4 +t5 +t6 +t7 and +2 more",
        ),
        *(
            ({"identity": replace(IDENTITY, **_other(f.name))}, f.name)
            for f in fields(TraceIdentity)
        ),
    ],
)
def test_changes(other: dict[str, Any], told: str) -> None:
    changes = changes_between(TRACE, replace(TRACE, **other))
    assert "; ".join(map(str, changes)) == told
    back = changes_between(replace(TRACE, **other), TRACE)
    assert [(c.part, c.removed, c.added) for c in back] == [
        (c.part, c.added, c.removed) for c in changes
    ]
    assert lock_text(replace(TRACE, **other)) != lock_text(TRACE)


def test_a_change_of_another_value_has_no_names() -> None:
    assert changes_between(TRACE, replace(TRACE, outputs="p")) == (Change("outputs"),)


def test_what_is_known_of_a_change_stands_behind_it() -> None:
    other = replace(TRACE, outputs="p", hot_tags=("a",))
    details = {"outputs": "far", "hot tags": "few", "calls": "none"}
    changes = changes_between(TRACE, other, details)
    assert list(map(str, changes)) == ["hot tags +a (few)", "outputs (far)"]
