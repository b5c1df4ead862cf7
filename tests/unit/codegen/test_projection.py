"""A unit's projection of a selection: exact text, and what a compiler makes of it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from core_toy import GOLDEN, this_checkout
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.codegen.projection import mentions_selection, projection_text
from orchestrator.compilers.resolve import compiler_environment
from orchestrator.index.model import UnitFacts
from orchestrator.plan.flags import unit_flags
from orchestrator.pytorch.v1_13.dialect import DIALECT
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


CHECK = """\
#include <ATen/selected_mobile_ops.h>
using at::ScalarType;
using at::should_include_kernel_dtype;
static_assert(should_include_kernel_dtype("add_stub", ScalarType::Float));
static_assert(should_include_kernel_dtype("add_stub", ScalarType::Long));
static_assert(!should_include_kernel_dtype("add_stub", ScalarType::Half));
static_assert(should_include_kernel_dtype("copy_", ScalarType::Half));
static_assert(!should_include_kernel_dtype("not_selected", ScalarType::Float));
static_assert(!should_include_kernel_dtype("unmentioned", ScalarType::Half));
// a longer and a shorter name are other names
static_assert(!should_include_kernel_dtype("add_stub_2", ScalarType::Float));
static_assert(!should_include_kernel_dtype("add", ScalarType::Float));
"""
# `only` does not compile for a dtype that is not selected, so it must not be instantiated for one;
# switches give values of any type, also where nothing is selected
LATE = """\
#include <ATen/Dispatch.h>
#include <tuple>
template <class T>
void only() {
  static_assert(std::is_same<T, float>::value || std::is_same<T, int64_t>::value);
}
void statement(at::ScalarType type) {
  AT_DISPATCH_ALL_TYPES_AND_HALF(type, "add_stub", [&] { only<scalar_t>(); });
}
double value(at::ScalarType type, double given) {
  return AT_DISPATCH_ALL_TYPES(type, "add_stub", [&] {
    only<scalar_t>();
    return static_cast<double>(static_cast<scalar_t>(given));
  });
}
std::tuple<int, double> nothing(at::ScalarType type) {
  return AT_DISPATCH_ALL_TYPES(type, "not_selected", [&] {
    only<std::pair<scalar_t, int>>();
    return std::tuple<int, double>(1, 2.0);
  });
}
"""
# TORCH_SELECTIVE_* make a SelectiveStr<selected>
SELECTED = """\
#include <torch/library.h>
using torch::detail::SelectiveStr;
constexpr bool selected(SelectiveStr<true>) { return true; }
constexpr bool selected(SelectiveStr<false>) { return false; }
"""
LISTS = (
    SELECTED
    + """\
static_assert(selected(TORCH_SELECTIVE_NAME("aten::add.Tensor")));
static_assert(selected(TORCH_SELECTIVE_NAME("aten::relu")));
static_assert(!selected(TORCH_SELECTIVE_NAME("aten::sub.Tensor")));
static_assert(!selected(TORCH_SELECTIVE_NAME("aten::add")));
static_assert(selected(TORCH_SELECTIVE_SCHEMA("aten::relu(Tensor self) -> Tensor")));
static_assert(!selected(TORCH_SELECTIVE_SCHEMA("aten::relu_(Tensor self) -> Tensor")));
static_assert(selected(TORCH_SELECTIVE_CLASS("quantized.Linear")));
static_assert(!selected(TORCH_SELECTIVE_CLASS("other.Class")));
static_assert(BUILD_FEATURE_AVAILABLE("FEATURE"));
static_assert(!BUILD_FEATURE_AVAILABLE("ANOTHER"));
"""
)
NOTHING = (
    SELECTED
    + """\
static_assert(!selected(TORCH_SELECTIVE_NAME("a::b")));
static_assert(!selected(TORCH_SELECTIVE_CLASS("c.D")));
"""
)
EVERYTHING = (
    SELECTED
    + """\
#include <ATen/selected_mobile_ops.h>
static_assert(at::should_include_kernel_dtype("any", at::ScalarType::ComplexDouble));
static_assert(selected(TORCH_SELECTIVE_NAME("a::b")));
static_assert(selected(TORCH_SELECTIVE_CLASS("c.D")));
static_assert(BUILD_FEATURE_AVAILABLE("F"));
"""
)


@pytest.mark.real
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("tags", CHECK),
        ("tags", LATE),
        ("lists", LISTS),
        ("lists_of_nothing", NOTHING),
        ("everything", EVERYTHING),
    ],
)
def test_a_compiler_selects_by_it(name: str, text: str, tmp_path: Path) -> None:
    """With PyTorch's own headers, and our shared header before upstream's."""
    here = this_checkout()
    runtime = here.runtimes.on("pytorch_1_13")
    source = tmp_path / "check.cpp"
    source.write_text(text)
    flags = unit_flags(
        DIALECT.flags, language="c++", kernel=False, hot=False, optimize="size", purpose="release"
    )
    done = subprocess.run(
        [
            str(here.toolchains.of(here.toolchains.host).cxx),
            *map(runtime.fill, flags),
            *("-include", str(GOLDEN / "projections" / f"{name}.h")),
            *("-c", str(source), "-o", str(tmp_path / "check.o")),
        ],
        env=compiler_environment(here.context.cache, os.environ),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
