"""The parts of an object's identity: all that it depends on, and what its digest is made of."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from core_toy import FACTS, LINEAR, make_index, spec
from shipped_index import app_traces, kernels_for, shipped, shipped_facts, shipped_spec
from toy_natives import natives

from orchestrator.build.workshop.native import own_header, own_native_files
from orchestrator.codegen.registrations import GeneratedUnit
from orchestrator.plan.anchors import ANCHOR_HEADER, anchored
from orchestrator.plan.graph import VariantObjects, native_compiles, registration_compiles
from orchestrator.plan.planner import Planner
from orchestrator.pytorch.v1_13.dialect import DIALECT
from orchestrator.select.closure import registry
from orchestrator.select.policy import select
from orchestrator.values.action import Compile
from orchestrator.values.fingerprint import Identity
from orchestrator.values.operators import OperatorName as Op
from orchestrator.values.selection import Selection

M = frozenset({"m"})
SELECTED = Selection({Op("aten::linear"): M}, kernel_dtypes={"linear_tag": {"Float": M}})
UNIT = GeneratedUnit("registrations", Path("/cache/registrations/ab/x/registrations.cpp"), "1" * 64)


def toy() -> VariantObjects:
    how = spec()
    return VariantObjects(
        Planner(make_index(), FACTS).plan(
            registry(make_index(), ["CPU"], DIALECT.keys), SELECTED, how
        ),
        registration_compiles(FACTS, how, [UNIT], Path("/cache")),
        native_compiles(FACTS, how, ["capi/capi.cpp"], natives()),
    )


def with_anchors() -> VariantObjects:
    objects = toy()
    return anchored(objects, objects.registrations, natives())


def real(*, threaded: bool) -> Iterator[Compile]:
    traces = app_traces("camera")
    roots = {operator for trace in traces for operator in trace.root_operators}
    kernels = kernels_for(roots)
    facts = replace(
        shipped_facts(),
        threading=own_header(own_native_files(), "threads/at_parallel.h"),
        threads=own_header(own_native_files(), "threads/parallel_unit.h"),
    )
    selection = select(shipped(), kernels, traces, "guarded")
    plan = Planner(shipped(), facts).plan(
        kernels, selection, shipped_spec(roots, threaded=threaded)
    )
    for action in plan.compiles:
        yield from (action, *action.members)


@pytest.mark.parametrize(
    "compiles",
    [toy().compiles, with_anchors().compiles, [*real(threaded=False)], [*real(threaded=True)]],
    ids=["toy", "anchors", "serial", "threads"],
)
def test_the_digest_of_the_parts_is_the_fingerprint(compiles: Iterable[Compile]) -> None:
    for action in compiles:
        assert action.identity.digest == action.fingerprint, action.unit


def test_the_parts_of_a_unit() -> None:
    (linear,) = (one for one in toy().compiles if one.unit == LINEAR)
    assert linear.identity.parts == {
        "command": (
            "$flags -include-pch $pch -include $projection -include $behind"
            " -MD -MF $depfile -c $source -o $object"
        ),
        "unit": LINEAR,
        "runtime": "f" * 64,
        "toolchain": "t" * 64,
        "flags": linear.flags,
        "pch": None,
        "projection": linear.projection,
    }
    assert linear.projection is not None


def test_the_parts_of_an_anchored_unit_have_those_of_the_unit() -> None:
    before, after = toy().registrations[0], with_anchors().registrations[0]
    assert after.identity.parts == {
        "of": before.identity,
        "anchor": after.flags[len(before.flags) :],
        "header": natives().digest_of(ANCHOR_HEADER),
    }
    assert before.identity.parts["unit"] == "1" * 64


def test_a_shard_is_its_text_and_its_members() -> None:
    shards = [one for one in real(threaded=True) if one.members]
    assert shards
    for shard in shards:
        identities = tuple(member.identity for member in shard.members)
        assert shard.identity.parts["members"] == identities
        assert all(isinstance(one, Identity) for one in identities)
