"""What a library grows by for what a model was seen to use: in a toy's index, to the byte, and in
the shipped one."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import pytest
from core_toy import make_index
from shipped_fits import model_facts, offer_of, plan_of, runtime
from shipped_index import app_traces, kernels_for, shipped

from orchestrator.index.model import RuntimeIndex
from orchestrator.plan.variant import VariantPlan
from orchestrator.pytorch.v1_13.dialect import DIALECT
from orchestrator.select.closure import registry
from orchestrator.select.fits import added
from orchestrator.select.growth import Grown, growth, unknown_to
from orchestrator.select.needs import Needed
from orchestrator.select.policy import select, traced_selection
from orchestrator.select.tag_code import UnselectedDtypes
from orchestrator.values.config.forms import SelectionPolicy
from orchestrator.values.fits import Lack
from orchestrator.values.growth import Growth, NewDtypes
from orchestrator.values.operators import OperatorName as Op
from orchestrator.values.selection import Selection, merge_all
from orchestrator.values.trace import Trace

M = frozenset({"m"})


def selection(*operators: str, **dtypes: tuple[str, ...]) -> Selection:
    return Selection(
        operators=dict.fromkeys(map(Op, operators), M),
        kernel_dtypes={tag: dict.fromkeys(some, M) for tag, some in dtypes.items()},
    )


def grown(index: RuntimeIndex, has: Selection) -> Grown:
    kernels = registry(index, ("CPU",), DIALECT.keys)
    return Grown(index, kernels, frozenset(), frozenset(), frozenset(), has)


LINEAR = selection("aten::linear", linear_tag=("Float",), shared_tag=("Float",))


def test_a_known_kernel_in_a_new_dtype_adds_at_most_its_code() -> None:
    """linear_kernel has 200 bytes; what it calls is there, or several units have it."""
    found = growth(grown(make_index(), LINEAR), (), {"linear_tag": ("Double", "Half")})
    assert found == Growth((), (NewDtypes("linear_tag", ("Double", "Half"), 200),), 200)


@pytest.mark.parametrize(
    ("operators", "dtypes", "walks"),
    [
        ((), {"linear_tag": ("Float",)}, 0),
        (("toy::conv",), {"linear_tag": ("Float",)}, 0),
        ((), {"linear_tag": ("Double",)}, 1),
        (("toy::conv",), {"linear_tag": ("Double",)}, 2),
    ],
)
def test_only_what_is_new_is_looked_for(
    operators: tuple[str, ...],
    dtypes: dict[str, tuple[str, ...]],
    walks: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """How often the closure of all operators is asked for."""
    asked, needed = [], Grown.needed

    def counted(library: Grown, names: Collection[Op]) -> Needed:
        asked.append(names)
        return needed(library, names)

    monkeypatch.setattr(Grown, "needed", counted)
    growth(grown(make_index(), LINEAR), tuple(map(Op, operators)), dtypes)
    assert len(asked) == walks


def test_the_code_of_two_kernels_counts_once() -> None:
    dtypes = {"linear_tag": ("Double",), "shared_tag": ("Double",)}
    found = growth(grown(make_index(), LINEAR), (), dtypes)
    assert [one.bytes for one in found.kernel_dtypes] == [200, 200]
    assert found.bytes == 200


def test_a_function_that_several_units_have_counts_alone() -> None:
    index = make_index(tags={"template_copy": ["shared_tag"]})
    found = growth(grown(index, LINEAR), (), {"shared_tag": ("Double",)})
    assert found == Growth((), (NewDtypes("shared_tag", ("Double",), 16),), 16)


def test_the_code_of_a_new_operators_kernels_comes_with_it() -> None:
    """toy::conv has conv_kernel, inflate and a symbol of 4 bytes; linear_kernel switches on
    shared_tag, too."""
    dtypes = {"conv_tag": ("Float",), "shared_tag": ("Double",)}
    found = growth(grown(make_index(), LINEAR), (Op("toy::conv"),), dtypes)
    assert found == Growth(
        ("toy::conv",),
        (NewDtypes("conv_tag", ("Float",), 0), NewDtypes("shared_tag", ("Double",), 200)),
        300 + 60 + 4 + 200,
    )


def test_what_the_index_cannot_tell_has_no_size() -> None:
    """A tag whose name is computed, and one that nothing of the library has by the index; and an
    operator that the runtime does not have adds nothing that is known."""
    dtypes = {"computed": ("Float",), "conv_tag": ("Float",)}
    found = growth(grown(make_index(), LINEAR), (Op("ink::smooth"),), dtypes)
    rows = (NewDtypes("computed", ("Float",), None), NewDtypes("conv_tag", ("Float",), None))
    assert found == Growth(("ink::smooth",), rows, 0)


@pytest.mark.parametrize("has", [("*",), ("Double", "Float", "Half")])
def test_dtypes_that_the_library_has_for_what_no_input_ran_add_nothing(
    has: tuple[str, ...],
) -> None:
    library = grown(make_index(), selection("aten::linear", linear_tag=has))
    found = growth(library, (), {"linear_tag": ("Double", "Half")})
    assert found == Growth((), (NewDtypes("linear_tag", ("Double", "Half"), 0),), 0)


def test_what_traces_know_is_not_new() -> None:
    ran = {"linear_tag": {"Float": 3}, "shared_tag": {"Long": 1, "Float": 1, "Half": 2}, "x": {}}
    assert unknown_to(LINEAR, {Op("aten::linear"), Op("toy::conv")}, ran) == (
        frozenset({"toy::conv"}),
        {"shared_tag": ("Half", "Long")},
    )
    assert unknown_to(LINEAR, (Op("aten::linear"),), {"linear_tag": ["Float"]}) == (
        frozenset(),
        {},
    )


def camera() -> tuple[Trace, str]:
    """Its trace, and a kernel that ran in Float alone."""
    (trace,) = app_traces("camera")
    return trace, next(t for t, dtypes in trace.kernel_tags.items() if {*dtypes} == {"Float"})


def camera_library(policy: SelectionPolicy) -> Grown:
    trace, _ = camera()
    kernels = kernels_for(trace.root_operators)
    return Grown(
        shipped(),
        kernels,
        runtime().entry,
        runtime()._always,
        runtime()._cut(trace.root_operators),
        select(shipped(), kernels, [trace], policy),
    )


def in_double() -> tuple[Trace, VariantPlan, VariantPlan]:
    """camera with that kernel in Double, too, and the plans of its library before and with it."""
    trace, tag = camera()
    other = replace(trace, kernel_tags={**trace.kernel_tags, tag: {"Float": 1, "Double": 2}})
    return other, plan_of([trace]), plan_of([other])


def estimated(plan: VariantPlan) -> int:
    left_out = UnselectedDtypes(shipped()).bytes(plan.needed.switches, plan.selection)
    return plan.needed.bytes - left_out


def test_of_the_shipped_index_it_is_no_less_than_plans_say_and_no_more_than_fits() -> None:
    other, before, after = in_double()
    _, tag = camera()
    operators, dtypes = unknown_to(
        merge_all(map(traced_selection, [camera()[0]])), other.called_operators, other.kernel_tags
    )
    assert (operators, dtypes) == (frozenset(), {tag: ("Double",)})
    found = growth(camera_library("guarded"), operators, dtypes)
    assert estimated(after) - estimated(before) > 0
    assert found.bytes >= estimated(after) - estimated(before)
    lack = Lack("kernel tag", tag, "called", ("Double",), ("Float",))
    sizes, _ = added(model_facts(other), offer_of(before), [lack], runtime())
    assert found == Growth((), (NewDtypes(tag, ("Double",), found.bytes),), found.bytes)
    assert found.bytes <= sizes[lack][0]


def test_a_library_of_all_dtypes_does_not_grow_by_one() -> None:
    _, tag = camera()
    found = growth(camera_library("static"), (), {tag: ("Double",)})
    assert found == Growth((), (NewDtypes(tag, ("Double",), 0),), 0)


def test_an_operator_of_the_shipped_index_brings_its_kernels() -> None:
    trace, _ = camera()
    other = replace(trace, root_operators=(*trace.root_operators, Op("aten::sort.values_stable")))
    lack = Lack("operator", "aten::sort.values_stable", "named")
    _, total = added(model_facts(other), offer_of(plan_of([trace])), [lack], runtime())
    found = growth(
        camera_library("guarded"),
        {Op("aten::sort.values_stable")},
        {"sorting_kernel_method_name": ("Float",)},
    )
    assert found.kernel_dtypes[0].bytes == 0
    assert found.bytes == total
