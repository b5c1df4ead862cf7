"""What a compiler makes of a unit's projection of a selection."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from core_toy import GOLDEN, this_checkout

from orchestrator.compilers.resolve import compiler_environment
from orchestrator.plan.flags import unit_flags
from orchestrator.pytorch.v1_13.dialect import DIALECT

pytestmark = pytest.mark.real

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
