"""Variants in one graph: what is the same is one node, what differs is not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from core_toy import CONVOLUTION, CORE, FACTS, GUARD, LINEAR, STUBS, make_index, spec
from toy_natives import natives

from orchestrator.codegen.registrations import GeneratedUnit
from orchestrator.plan.graph import (
    VariantObjects,
    action_graph,
    native_compiles,
    registration_compiles,
    selection_compile,
)
from orchestrator.plan.planner import Planner
from orchestrator.plan.variant import VariantSpec
from orchestrator.pytorch.dialect import Dialect
from orchestrator.pytorch.dialects import DIALECTS
from orchestrator.pytorch.v1_13.dialect import DIALECT
from orchestrator.select.closure import registry
from orchestrator.values.action import ActionGraph, Link
from orchestrator.values.operators import OperatorName as Op
from orchestrator.values.selection import Selection
from orchestrator.values.versions import ModelVersions

INDEX = make_index()
CACHE = Path("/cache")
M = frozenset({"m"})
LIBRARY = ("capi/capi.cpp", "capi/selection_error.cpp")


def variant(
    operators: tuple[str, ...],
    dtypes: tuple[str, ...] = ("Float",),
    how: VariantSpec | None = None,
    digest: str = "d",
) -> VariantObjects:
    how = how or spec()
    selected = Selection(
        operators=dict.fromkeys(map(Op, operators), M),
        kernel_dtypes={"linear_tag": dict.fromkeys(dtypes, M)},
    )
    unit = GeneratedUnit("registrations", CACHE / "registrations/ab/x/registrations.cpp", digest)
    return VariantObjects(
        Planner(INDEX, FACTS).plan(registry(INDEX, ["CPU"], DIALECT.keys), selected, how),
        registration_compiles(FACTS, how, [unit], CACHE),
        native_compiles(FACTS, how, LIBRARY, natives()),
    )


def units(graph: ActionGraph) -> list[str]:
    return sorted(action.unit for action in graph.compiles.values())


def test_objects_are_linked_the_best_optimised_first() -> None:
    """The linker keeps the first copy of what several have."""
    hot = frozenset({CONVOLUTION})
    found = variant(("toy::conv",), how=spec(optimize="balanced", hot=hot))
    names = {compile.object: compile.unit for compile in found.compiles}
    first = [names[path] for path in found.fastest_first]
    assert first[0] == CONVOLUTION
    assert sorted(first) == sorted(names.values())


def test_equal_objects_of_two_apps_are_one_node() -> None:
    one, two = variant(("aten::linear",), digest="1"), variant(("toy::conv",), digest="2")
    graph = action_graph([one, two], [])
    assert units(graph) == sorted(
        [
            *(CORE, GUARD, LINEAR, CONVOLUTION, "third/miniz.c"),
            *("native/capi/capi.cpp", "native/capi/selection_error.cpp"),
            # the registrations of two apps differ
            *("generated/registrations.cpp", "generated/registrations.cpp"),
        ]
    )
    assert list(graph.compiles) == sorted(graph.compiles)
    assert graph == action_graph([two, one, two], [])


def test_apps_with_one_selection_share_everything() -> None:
    graph = action_graph([variant(("aten::linear",)), variant(("aten::linear",))], [])
    assert len(graph.compiles) == len(variant(("aten::linear",)).compiles)


def test_one_apps_new_dtype_leaves_the_others_objects() -> None:
    both = ("aten::add.Tensor", "aten::linear", "toy::conv")
    old = {"camera": variant(both), "reader": variant(both)}
    new = {"camera": variant(both, ("Float", "Long")), "reader": variant(both)}
    before, after = (action_graph(v.values(), []) for v in (old, new))
    added = [after.compiles[key].unit for key in after.compiles.keys() - before.compiles.keys()]
    assert sorted(added) == [LINEAR, STUBS]
    assert before.compiles.keys() <= after.compiles.keys()


@pytest.mark.parametrize("changed", [{"abi": "linux-arm64", "toolchain": "arm"}])
def test_two_abis_share_no_object(changed: dict[str, str]) -> None:
    here, there = variant(("aten::linear",)), variant(("aten::linear",), how=spec(**changed))
    graph = action_graph([here, there], [])
    assert len(graph.compiles) == len(here.compiles) + len(there.compiles)


def test_native_sources_and_registrations_change_with_what_they_are_made_of() -> None:
    base = variant(())
    again = variant((), digest="e")
    assert base.registrations[0].object != again.registrations[0].object
    assert base.native == again.native
    other = native_compiles(FACTS, spec(), LIBRARY, natives("other"))
    assert not {c.object for c in other} & {c.object for c in base.native}


def test_what_says_a_selection_is_compiled_for_that_text_alone() -> None:
    cache = Path("/cache")
    one, other = (
        GeneratedUnit("selection", cache / f"selections/{digest}.cpp", digest) for digest in "ab"
    )
    hot = frozenset({LINEAR})
    # of two apps, whatever else they want
    same = selection_compile(spec(), one, cache), selection_compile(spec(hot=hot), one, cache)
    assert same[0] == same[1]
    assert same[0].source == "$cache/selections/a.cpp"
    assert same[0].pch is None
    assert not any("$tree" in flag for flag in same[0].flags)
    assert selection_compile(spec(), other, cache).fingerprint != same[0].fingerprint


def test_sources_are_named_by_variables() -> None:
    found = variant(("aten::linear",))
    assert [c.source for c in found.registrations] == [
        "$cache/registrations/ab/x/registrations.cpp"
    ]
    assert [c.source for c in found.native] == [f"$native/{source}" for source in LIBRARY]
    assert {"-I$native/capi", "-I$native/driver"} < set(found.native[1].flags)


@pytest.mark.parametrize(
    "dialect",
    [
        *DIALECTS.values(),
        replace(DIALECT, models=ModelVersions(bytecode=range(5, 12), archive=range(1, 11))),
    ],
    ids=lambda one: f"{one.version} {one.models.bytecode}",
)
def test_the_c_api_is_told_which_runtime_it_has(dialect: Dialect) -> None:
    facts = replace(FACTS, dialect=dialect)
    api, other = native_compiles(facts, spec(), LIBRARY, natives())
    assert api.flags == (
        *other.flags,
        f'-DLTA_PYTORCH="{dialect.version}"',
        f"-DLTA_BYTECODE_LEAST={min(dialect.models.bytecode)}",
        f"-DLTA_BYTECODE_MOST={max(dialect.models.bytecode)}",
    )


def test_link_order_and_what_is_whole() -> None:
    found = variant(("aten::linear", "toy::conv"))
    names = {c.object: c.unit for c in found.compiles}
    assert [names[o] for o in found.whole] == [
        "native/capi/capi.cpp",
        "native/capi/selection_error.cpp",
        "generated/registrations.cpp",
        GUARD,
        CONVOLUTION,
    ]
    assert [names[o] for o in found.on_demand] == [CORE, LINEAR, "third/miniz.c"]


def test_links_are_kept_as_they_are() -> None:
    link = Link("$state/x", "archive", "linux-x86_64", (), ())
    assert action_graph([], [link]) == ActionGraph({}, (link,))
