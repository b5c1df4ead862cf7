"""What of the development library is optimised."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import pytest
from core_toy import spec
from toy_natives import natives
from toy_workspace import toy_invocation, toy_runtime

from orchestrator.build.development import addon_link
from orchestrator.build.development.addon_link import AddonLinkError, AddonObjects, compile_objects
from orchestrator.build.development.development import Development, _unoptimised
from orchestrator.build.executing import execute
from orchestrator.build.executing.execute import Execution
from orchestrator.execute.ninja_run import NinjaResult
from orchestrator.plan.graph import bare_compile
from orchestrator.plan.unity import UnityRules, shard_compile
from orchestrator.plan.unoptimised import unoptimised
from orchestrator.pytorch.v1_13.flags import LAYOUT
from orchestrator.values.action import Compile


def compiled(unit: str) -> Compile:
    return replace(bare_compile(spec(), "threads/one.cpp", natives()), unit=unit)


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
def test_of_a_shard_what_runs_often_is_optimised(tmp_path: Path, unit: str, often: bool) -> None:
    one = compiled(unit)
    (made := library(tmp_path, 0))._made(shard_of(one), {"aten/src/ATen/native/Copy.cpp"})
    assert made.asked[0].units == (one if often else unoptimised(one),)


KERNEL = compiled("aten/src/ATen/native/cpu/FillKernel.cpp")
FILL = replace(compiled("aten/src/ATen/native/Fill.cpp"), fingerprint="fill")
ENTRIES = replace(compiled("generated/operators.cpp"), fingerprint="entries")
OBJECTS = AddonObjects((ENTRIES,), (FILL, KERNEL), (), {}, frozenset({ENTRIES.object, FILL.object}))


@dataclass
class Made(Development):
    """A development library that notes of which objects it was to make shards.

    refused: how many of them do not link
    stored: whether the store has the one that does
    """

    refused: int = 0
    said: list[str] = field(default_factory=list)
    asked: list[AddonObjects] = field(default_factory=list)
    stored: bool = False

    def _put_by_key(self, objects: AddonObjects, now: list[str]) -> tuple[Path, bool]:
        self.asked.append(objects)
        if len(self.asked) <= self.refused:
            now.append("quick.cpp")
            raise AddonLinkError("the add-on cannot be linked")
        if not self.stored:
            now += ["b.cpp", "a.cpp"]
        return Path(f"shard-{len(self.asked)}"), self.stored


def shard_of(one: Compile) -> AddonObjects:
    return AddonObjects((), (one,), (), {}, frozenset())


def library(root: Path, refused: int) -> Made:
    said: list[str] = []
    view: Any = None
    return Made(toy_invocation(root, log=said.append), toy_runtime(), None, view, refused, said)


def test_what_is_a_shards_own_stays_so_at_each_level(tmp_path: Path) -> None:
    made = library(tmp_path, 0)
    assert made._made(OBJECTS, ()) == (Path("shard-1"), ("a.cpp", "b.cpp"))
    (asked,) = made.asked
    assert asked.units == (unoptimised(FILL), KERNEL)
    assert asked.generated == (ENTRIES,)
    assert asked.mine == {ENTRIES.object, unoptimised(FILL).object}
    assert made.said == []


def test_a_shard_that_does_not_link_is_compiled_as_the_index_knows_it(tmp_path: Path) -> None:
    made = library(tmp_path, 1)
    assert made._made(OBJECTS, ()) == (Path("shard-2"), ("a.cpp", "b.cpp", "quick.cpp"))
    assert made.asked[1] == OBJECTS
    assert made.said == ["units compiled without optimisation do not link: compiling with it"]


def test_the_units_that_were_compiled_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of a unity shard too, and of no object that the cache had."""
    names = ("torch/csrc/jit/b.cpp", "torch/csrc/jit/a.cpp")
    shard = shard_compile(UnityRules(), [compiled(name) for name in names], "torch-1")
    objects = AddonObjects((ENTRIES,), (FILL, shard), (), {}, frozenset())
    done = Execution(frozenset({shard.object, ENTRIES.object}), NinjaResult(2, {}))
    monkeypatch.setattr(addon_link, "execute_actions", lambda *_, **__: done)
    here, nothing = toy_invocation(tmp_path), cast(Any, None)
    assert compile_objects(here, objects, None, nothing) == (
        "generated/operators.cpp",
        "torch/csrc/jit/a.cpp",
        "torch/csrc/jit/b.cpp",
    )
    graph = objects.graph
    monkeypatch.setattr(execute, "execute_actions", lambda *_, **__: done)
    monkeypatch.setattr(execute, "action_graph", lambda *_: graph)
    monkeypatch.setattr(execute, "texts_of", lambda *_: {})
    linked = execute.execute_linked(here, nothing, (), (), name="timed", jobs=None, view=nothing)
    assert linked.units == 4
    assert linked.compiled == compile_objects(here, objects, None, nothing)


def test_a_shard_comes_from_the_store_where_nothing_was_compiled(tmp_path: Path) -> None:
    made = library(tmp_path, 0)
    made.stored = True
    assert made._made(OBJECTS, ()) == (Path("shard-1"), None)
    made = library(tmp_path, 1)
    made.stored = True
    assert made._made(OBJECTS, ()) == (Path("shard-2"), ("quick.cpp",))


def test_a_shard_that_does_not_link_in_any_way_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(AddonLinkError, match=r"^the add-on cannot be linked$"):
        library(tmp_path, 2)._made(OBJECTS, ())
