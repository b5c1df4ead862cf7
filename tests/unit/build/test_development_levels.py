"""What of the development library is optimised."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from core_toy import spec

from orchestrator.build.addon_link import AddonLinkError, AddonObjects
from orchestrator.build.development import Development, _unoptimised
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


@pytest.mark.parametrize(
    ("unit", "often"),
    [
        ("aten/src/ATen/native/cpu/FillKernel.cpp", True),
        ("aten/src/ATen/native/quantized/cpu/kernels/QuantizedOpKernels.cpp", True),
        ("aten/src/ATen/native/Copy.cpp", True),
        ("generated/UfuncCPUKernel_add.cpp", True),
        ("generated/operators.cpp", True),
        ("torch/csrc/jit/runtime/register_prim_ops.cpp", True),
        ("aten/src/ATen/native/Fill.cpp", False),
        ("aten/src/ATen/TensorUtils.cpp", False),
        ("native/addon/register.cpp", False),
    ],
)
def test_of_a_shard_what_runs_often_is_optimised(unit: str, often: bool) -> None:
    one = compiled(unit)
    (made := library(0))._made(shard_of(one), {"aten/src/ATen/native/Copy.cpp"})
    assert made.asked[0].units == (one if often else unoptimised(one),)


KERNEL = compiled("aten/src/ATen/native/cpu/FillKernel.cpp")
FILL = replace(compiled("aten/src/ATen/native/Fill.cpp"), fingerprint="fill")
ENTRIES = replace(compiled("generated/operators.cpp"), fingerprint="entries")
OBJECTS = AddonObjects((ENTRIES,), (FILL, KERNEL), (), {}, frozenset({ENTRIES.object, FILL.object}))


@dataclass
class Made(Development):
    """A development library that notes of which objects it was to make shards.

    refused: how many of them do not link
    """

    refused: int = 0
    said: list[str] = field(default_factory=list)
    asked: list[AddonObjects] = field(default_factory=list)

    def _put_by_key(self, objects: AddonObjects) -> tuple[Path, int | None]:
        self.asked.append(objects)
        if len(self.asked) <= self.refused:
            raise AddonLinkError("the add-on cannot be linked")
        return Path(f"shard-{len(self.asked)}"), 3


def shard_of(one: Compile) -> AddonObjects:
    return AddonObjects((), (one,), (), {}, frozenset())


def library(refused: int) -> Made:
    said: list[str] = []
    runtime = SimpleNamespace(dialect=SimpleNamespace(layout=LAYOUT))
    session: Any = SimpleNamespace(runtime=runtime, log=said.append)
    nothing: Any = None
    return Made(session, nothing, nothing, refused, said)


def test_what_is_a_shards_own_stays_so_at_each_level() -> None:
    made = library(0)
    assert made._made(OBJECTS, ()) == (Path("shard-1"), 3)
    (asked,) = made.asked
    assert asked.units == (unoptimised(FILL), KERNEL)
    assert asked.generated == (ENTRIES,)
    assert asked.mine == {ENTRIES.object, unoptimised(FILL).object}
    assert made.said == []


def test_a_shard_that_does_not_link_is_compiled_as_the_index_knows_it() -> None:
    made = library(1)
    assert made._made(OBJECTS, ()) == (Path("shard-2"), 3)
    assert made.asked[1] == OBJECTS
    assert made.said == ["the add-on cannot be linked: its units are compiled again, all optimised"]


def test_a_shard_that_does_not_link_in_any_way_is_an_error() -> None:
    with pytest.raises(AddonLinkError, match=r"^the add-on cannot be linked$"):
        library(2)._made(OBJECTS, ())
