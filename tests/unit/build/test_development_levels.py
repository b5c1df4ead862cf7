"""What of the development library's base is optimised."""

from __future__ import annotations

from dataclasses import replace

import pytest
from core_toy import spec

from orchestrator.build.development import _unoptimised
from orchestrator.plan.graph import bare_compile
from orchestrator.plan.unity import UnityRules, shard_compile
from orchestrator.plan.unoptimised import unoptimised
from orchestrator.pytorch.v1_13.flags import LAYOUT
from orchestrator.values.action import Compile


def compiled(unit: str) -> Compile:
    return replace(bare_compile(spec(), "threads/one.cpp", "d"), unit=unit)


@pytest.mark.parametrize(
    "unit",
    [
        "aten/src/ATen/native/Resize.cpp",
        "aten/src/ATen/core/dispatch/Dispatcher.cpp",
        "c10/core/TensorImpl.cpp",
        "generated/operators.cpp",
        "native/capi/capi.cpp",
    ],
)
def test_what_computes_or_runs_for_each_operator_is_as_in_a_tracer(unit: str) -> None:
    assert _unoptimised([compiled(unit)], LAYOUT) == (compiled(unit),)


@pytest.mark.parametrize(
    "unit",
    [
        "aten/src/ATen/core/function_schema.cpp",
        "generated/registrations.cpp",
        "native/tracer/setup.cpp",
        "torch/csrc/jit/mobile/import.cpp",
    ],
)
def test_what_runs_once_is_not_optimised(unit: str) -> None:
    assert _unoptimised([compiled(unit)], LAYOUT) == (unoptimised(compiled(unit)),)


def test_a_unity_shard_is_optimised_if_one_of_its_members_is() -> None:
    names = ("torch/csrc/jit/mobile/import.cpp", "torch/csrc/jit/mobile/module.cpp")
    once = shard_compile(UnityRules(), [compiled(name) for name in names], "torch-1")
    names = ("aten/src/ATen/Context.cpp", "aten/src/ATen/native/Fill.cpp")
    often = shard_compile(UnityRules(), [compiled(name) for name in names], "aten-1")
    assert _unoptimised([once, often], LAYOUT) == (unoptimised(once), often)
    # its source is still written of its members
    assert unoptimised(once).members == once.members
