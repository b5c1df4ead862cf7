"""PyTorch's depthwise 3x3 kernel on arm64: which units have its macro, and what it calls."""

from __future__ import annotations

from pathlib import Path

import pytest
from shipped_index import shipped, shipped_kernels
from zig_tool import zig

from orchestrator.build.workshop.native import NATIVE
from orchestrator.pytorch.dialect import Dialect
from orchestrator.pytorch.v1_13.dialect import DIALECT as V1_13
from orchestrator.pytorch.v2_6.dialect import DIALECT as V2_6
from orchestrator.select.closure import reach
from orchestrator.trace.set_up import OPERATORS
from orchestrator.values.operators import OperatorName as Op

HEADER = "runtime_library/neon.h"
CONVOLUTION = "aten/src/ATen/native/Convolution.cpp"
KERNEL = "aten/src/ATen/native/cpu/DepthwiseConvKernel.cpp"
both = pytest.mark.parametrize("dialect", [V1_13, V2_6], ids=lambda dialect: dialect.version)


@pytest.mark.parametrize(
    ("target", "has"),
    [
        ("aarch64-linux-gnu", True),
        ("aarch64-linux-android", True),
        ("aarch64-ios", True),
        ("x86_64-linux-gnu", False),
    ],
)
def test_the_macro_is_there_on_arm64(target: str, has: bool, tmp_path: Path) -> None:
    wrong = "ifndef" if has else "ifdef"
    source = tmp_path / "neon.cpp"
    source.write_text(f"#{wrong} __ARM_NEON__\n#error wrong\n#endif\n")
    preprocess = ("c++", "-target", target, "-E", "-nostdinc", "-o", tmp_path / "out")
    zig(*preprocess, "-include", NATIVE / HEADER, source)


@both
def test_no_quantised_unit_has_it(dialect: Dialect) -> None:
    """There the macro chooses ARMv7's code, which wraps where arm64's saturates."""
    units = {rule.unit for rule in dialect.facts.include if rule.header == HEADER}
    assert units == {CONVOLUTION, KERNEL}


@both
def test_what_a_convolution_needs_has_the_kernel(dialect: Dialect) -> None:
    """The index is of x86-64, whose code never takes the kernel, but refers to it."""
    index = shipped(dialect)
    kernels = shipped_kernels(("CPU",), dialect)
    found = reach(index, kernels, entry=(), operators=[Op("aten::_convolution")], follow_calls=True)
    assert KERNEL in {index.units[number].path for number in found.units}


@both
def test_every_trace_has_the_operators_that_it_calls(dialect: Dialect) -> None:
    """A trace is recorded on x86-64, where the kernel never runs."""
    index = shipped(dialect)
    unit = next(number for number, one in enumerate(index.units) if one.path == KERNEL)
    nodes = [node for node, owner in enumerate(index.owners) if owner == unit]
    # by way of `at::empty` and its like
    targets = {
        target
        for node in nodes
        for called in index.targets(node)
        for target in index.targets(called)
    }
    called = {index.operator_calls[target] for target in targets if target in index.operator_calls}
    # every convolution makes its result by `empty`
    assert called == {"aten::empty.memory_format", "aten::zeros"}
    assert "aten::zeros" in OPERATORS
