"""Unity shards: what is compiled together, by whom it is shared, and when units stay alone."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from shipped_index import app_traces, kernels_for, shipped, shipped_facts, shipped_spec

from orchestrator.index.model import UnitFacts
from orchestrator.libraries.features import headers_of_units
from orchestrator.plan.planner import Planner
from orchestrator.plan.unity import UnityRules, can_share, shard_compile, shard_text, shards
from orchestrator.plan.variant import VariantPlan
from orchestrator.select.policy import select
from orchestrator.values.action import Compile, count_units
from orchestrator.values.operators import OperatorName as Op
from orchestrator.values.selection import Selection

APPS = ("assistant", "camera", "keyboard", "reader", "scanner")


def compile_of(unit: str, *, cost: float = 1.0, flags: tuple[str, ...] = ("-Oz",)) -> Compile:
    language = "c" if unit.endswith(".c") else "c++"
    return Compile(unit, f"$tree/{unit}", language, "a", flags, None, f"of {unit}", cost)  # type: ignore[arg-type]


def names(found: Iterable[Iterable[Compile]]) -> list[list[str]]:
    return [[action.unit for action in shard] for shard in found]


def test_a_shard_is_of_one_folder_and_one_way_of_compiling() -> None:
    compiles = [
        compile_of("c10/b.cpp"),
        compile_of("aten/b.cpp"),
        compile_of("c10/a.cpp"),
        compile_of("aten/a.cpp", flags=("-Os",)),
        compile_of("aten/c.cpp"),
        compile_of("c10/c.c"),
    ]
    assert names(shards(UnityRules(), compiles)) == [
        ["aten/b.cpp", "aten/c.cpp"],
        ["c10/a.cpp", "c10/b.cpp"],
    ]


def test_shards_are_about_as_large_as_each_other() -> None:
    compiles = [compile_of(f"c10/{n}.cpp", cost=2.0) for n in range(7)]
    found = shards(UnityRules(cost=6.0), compiles)
    assert [len(shard) for shard in found] == [3, 2, 2]


def test_members_of_no_known_cost_are_one_shard() -> None:
    compiles = [compile_of(f"c10/{n}.cpp", cost=0.0) for n in range(3)]
    assert [len(shard) for shard in shards(UnityRules(), compiles)] == [3]


def test_a_unit_that_is_left_is_no_shard() -> None:
    assert shards(UnityRules(), [compile_of("c10/a.cpp")]) == ()


def test_what_depends_on_a_selection_or_is_generated_or_listed_stays_alone() -> None:
    rules = UnityRules(alone=frozenset({"c10/alone.cpp"}))
    assert can_share(rules, UnitFacts("c10/a.cpp", 1.0))
    assert not can_share(rules, UnitFacts("c10/alone.cpp", 1.0))
    assert not can_share(rules, UnitFacts("generated/core/TensorMethods.cpp", 1.0))
    assert not can_share(rules, UnitFacts("aten/k.cpp", 1.0, tags=("add_cpu",)))
    assert not can_share(rules, UnitFacts("aten/k.cpp", 1.0, open_tags=True))


def test_the_source_of_a_shard() -> None:
    rules = UnityRules(undefine=("NO_OPERATORS",))
    members = (compile_of("aten/a.cpp"), compile_of("aten/b.cpp"))
    assert shard_text(rules, members) == (
        '#include "aten/a.cpp"\n#undef NO_OPERATORS\n#include "aten/b.cpp"\n#undef NO_OPERATORS\n'
    )
    action = shard_compile(rules, members, "aten-1")
    assert action.unit == "unity/aten-1.cpp"
    assert action.source.startswith("$cache/unity/")
    assert action.units == ("aten/a.cpp", "aten/b.cpp")
    assert count_units([action, compile_of("c10/c.cpp")]) == 3
    other = shard_compile(UnityRules(), members, "aten-1")
    assert other.fingerprint != action.fingerprint


# --- the shipped index ---


def plan(app: str, **changes: Any) -> VariantPlan:
    traces = app_traces(app)
    roots = {operator for trace in traces for operator in trace.root_operators}
    kernels = kernels_for(roots)
    selection = select(shipped(), kernels, traces, "guarded")
    planner = Planner(shipped(), shipped_facts())
    return planner.plan(kernels, selection, shipped_spec(roots, **changes))


def shards_of(plan: VariantPlan) -> dict[str, Compile]:
    return {action.unit: action for action in plan.compiles if action.members}


def test_kernels_that_call_a_library_change_no_other_object() -> None:
    without = plan("camera")
    entry = frozenset({"_ZN2at12TensorHandleD1Ev", "_ZN3c107Warning4warnENS_7WarningE"})
    with_kernels = plan("camera", features=("linear",), kernel_entry=entry)
    assert shards_of(with_kernels) == shards_of(without)
    assert {c.object for c in without.compiles} <= {c.object for c in with_kernels.compiles}


def test_every_app_has_the_same_shards() -> None:
    found = [shards_of(plan(app)) for app in APPS]
    assert len(found[0]) >= 6
    assert all(shards == found[0] for shards in found)


def test_shards_change_only_how_units_are_compiled() -> None:
    together, alone = plan("camera"), plan("camera", unity=False)
    assert not shards_of(alone)
    assert sorted(u for a in together.compiles for u in a.units) == sorted(
        u for a in alone.compiles for u in a.units
    )
    assert len(together.compiles) < 0.6 * len(alone.compiles)


def test_no_shard_is_linked_whole() -> None:
    assert not any(action.members for app in APPS for action in plan(app).whole)


def test_a_hot_member_takes_its_shard_apart() -> None:
    before = plan("camera")
    hot = before.on_demand[0].units[0]
    after = plan("camera", hot=frozenset({hot}))
    gone = set(shards_of(before)) - set(shards_of(after))
    assert len(gone) == 1
    units = [action.unit for action in after.compiles]
    assert hot in units
    assert set(shards_of(before)[gone.pop()].units) <= set(units)


def test_no_member_of_a_shard_reads_a_header_of_our_kernels() -> None:
    """Members are compiled as if there were none."""
    members = {
        unit for app in APPS for shard in shards_of(plan(app)).values() for unit in shard.units
    }
    assert members.isdisjoint(headers_of_units())


def test_a_variant_without_the_usual_operators_has_only_the_shards_of_all() -> None:
    facts = shipped_facts()
    planner = Planner(shipped(), facts)
    kernels = kernels_for(["aten::relu"])

    def shards_with(*operators: str) -> set[str]:
        selection = Selection(operators={Op(name): frozenset({"m"}) for name in operators})
        return set(shards_of(planner.plan(kernels, selection, shipped_spec(operators))))

    least, most = shards_with(), shards_with(*facts.unity.usual)
    assert least
    assert least < most


@pytest.mark.parametrize("purpose", ["release", "tracer"])
def test_what_does_not_stand_others_is_alone(purpose: str) -> None:
    alone = shipped_facts().unity.alone
    units = {action.unit for action in plan("camera", purpose=purpose).compiles}
    assert alone <= units
