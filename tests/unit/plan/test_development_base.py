"""The development library's base: whole units, of no operator."""

from __future__ import annotations

from collections.abc import Collection
from functools import cache

import pytest
from core_toy import CONVOLUTION, CORE, GUARD, MINIZ, make_index
from shipped_index import kernels_for, locks_of, shipped, shipped_spec
from variants import planner

from orchestrator.index.entry import load_entry
from orchestrator.plan.addon import AddonNeeds, AddonRoots, addon_needs
from orchestrator.plan.development import (
    RECORDING,
    USUAL_DTYPES,
    BasePlan,
    entered_operators,
    every_dtype,
    exported_symbols,
    groups_of,
    guess,
    keeping_text,
    kept_symbols,
    of_tags,
    own_operators,
    plan_base,
    usual_dtypes,
    wide_tags,
    with_known_code,
)
from orchestrator.plan.extension import extension_symbols
from orchestrator.pytorch.dialect import Dialect
from orchestrator.pytorch.dialects import DIALECTS
from orchestrator.select.closure import Registry, reach, registry
from orchestrator.select.policy import static_selection
from orchestrator.values.operators import OperatorName as Op
from orchestrator.values.selection import ALL_DTYPES, ALL_TAGS

NAMED = tuple(
    map(Op, ("aten::conv2d", "aten::linear", "aten::hardswish", "aten::lstm.input", "aten::sort"))
)


@cache
def base(dialect: Dialect) -> BasePlan:
    entry = load_entry(dialect)
    spec = shipped_spec(
        (), dialect, entry=entry.library | entry.tracer, purpose="tracer", optimize="size"
    )
    exported = extension_symbols(shipped(dialect))
    return plan_base(planner(dialect), kernels_for((), dialect), spec, exported)


def units(plan: BasePlan) -> frozenset[str]:
    return frozenset(unit for one in plan.plan.compiles for unit in one.units)


@pytest.mark.parametrize("version", sorted(DIALECTS))
def test_no_operator_is_in_the_base(version: str) -> None:
    dialect = DIALECTS[version]
    plan, index = base(dialect), shipped(dialect)
    numbers = {unit.path: number for number, unit in enumerate(index.units)}
    assert not plan.plan.selection.operators
    assert plan.own.operators == ()
    bearing = [path for path in units(plan) if index.units[numbers[path]].operators]
    assert bearing == []
    assert not any("/native/cpu/" in path for path in units(plan))


@pytest.mark.parametrize("version", sorted(DIALECTS))
def test_what_it_calls_asks_the_dispatcher(version: str) -> None:
    """Typed entry points of operators that nobody registered yet must not raise for ever."""
    plan = base(DIALECTS[version])
    assert plan.entries.operators == plan.entries.calls
    assert "aten::empty.memory_format" in plan.called
    assert plan.own.calls == ()


@pytest.mark.parametrize("version", sorted(DIALECTS))
def test_the_recorders_set_up_calls_ask_the_dispatcher(version: str) -> None:
    """The recorder is in the base, and what it calls comes with shards."""
    dialect = DIALECTS[version]
    entered = entered_operators(shipped(dialect), load_entry(dialect).tracer)
    assert {"aten::zeros", "aten::copy_", "aten::item", "aten::new_empty_strided"} <= {
        *entered.values()
    }
    assert base(dialect).called >= {*entered.values()}
    assert entered.keys().isdisjoint(base(dialect).plan.spec.entry)


@cache
def exported_by_base(dialect: Dialect) -> frozenset[str]:
    plan, index = base(dialect), shipped(dialect)
    reached = reach(
        index,
        kernels_for((), dialect),
        entry=index.defining(plan.plan.spec.entry),
        operators=(),
        units=(),
        follow_calls=False,
    )
    there = frozenset(index.names[node].split("@", 1)[0] for node in reached.parents)
    return there.intersection(extension_symbols(index))


def shard_needs(dialect: Dialect, kernels: Registry, operators: Collection[Op]) -> AddonNeeds:
    """Of a shard with these operators."""
    has, called = exported_by_base(dialect).__contains__, base(dialect).called
    roots = AddonRoots(tuple(operators), has, called, frozenset(), frozenset(), True)
    return addon_needs(shipped(dialect), dialect, kernels, roots)


@pytest.mark.parametrize("version", sorted(DIALECTS))
def test_a_shard_has_the_kernel_tags_that_models_run_and_few_others(version: str) -> None:
    """Those of code that it reaches are all that ran in the demo apps, but for names that a unit
    computes and those of an app's own units: these have all tags."""
    dialect = DIALECTS[version]
    index, locks = shipped(dialect), locks_of(dialect)
    assert len(locks) > 8
    computed = {tag for tags in dialect.facts.computed_tags.values() for tag in tags}
    known = {tag for unit in index.units for tag in unit.tags} - computed
    in_base = {
        tag for unit in index.units if unit.path in units(base(dialect)) for tag in unit.tags
    }
    for lock in locks:
        kernels = kernels_for(lock.root_operators, dialect)
        named = {*lock.called_operators, *lock.root_operators} & kernels.by_operator.keys()
        found = shard_needs(dialect, kernels, sorted(named))
        assert (lock.kernel_tags.keys() & known) - found.tags - in_base == set(), lock.model
        mentioned = {tag for number in found.units for tag in index.units[number].tags}
        assert len(found.tags) < len(mentioned) / 4, lock.model


@pytest.mark.parametrize("version", sorted(DIALECTS))
def test_a_shard_has_no_unit_of_the_base(version: str) -> None:
    """Whatever operators it has: no variable is there twice, and no initialiser runs twice."""
    dialect = DIALECTS[version]
    plan, index = base(dialect), shipped(dialect)
    kernels = kernels_for(NAMED, dialect)
    operators = static_selection(index, kernels, NAMED, "test").operators
    found = shard_needs(dialect, kernels, operators)
    of_shard = {index.units[number].path for number in found.units}
    assert len(of_shard) > 50
    # it always registers its operators, and is linked whole
    assert of_shard & units(plan) <= {"torch/csrc/jit/mobile/promoted_prim_ops.cpp"}


def test_what_needs_no_more_than_the_core_library_is_kept() -> None:
    """A function of ivalue.cpp, for ParallelOpenMP.cpp, which is in shards."""
    plan = base(DIALECTS["2.6.0"])
    assert "c10/core/Storage.cpp" in units(plan)
    assert "_ZN3c106ivalue6Future15extractStoragesERKNS_6IValueE" in plan.kept


@pytest.mark.parametrize("version", sorted(DIALECTS))
def test_a_shard_finds_every_function_of_the_bases_units_in_the_base(version: str) -> None:
    """It compiles no unit of the base: what the base drops there, no shard can be linked with.
    `x.is_leaf` asks autograd's hooks."""
    dialect = DIALECTS[version]
    index, there = shipped(dialect), exported_by_base(dialect)
    of_base = units(base(dialect))
    exported = frozenset(extension_symbols(index))
    numbers = {number for number, unit in enumerate(index.units) if unit.path in of_base}
    outside = [node for node in range(len(index.names)) if index.owners[node] not in numbers]
    asked = {target for node in outside for target in index.targets(node)}
    functions = {
        name
        for node in asked
        if index.owners[node] in numbers and index.targets(node)
        for name in [index.names[node].split("@", 1)[0]]
        if name in exported
    }
    assert "_ZNK2at10TensorBase7is_leafEv" in functions
    assert functions - there - base(dialect).called == set()


def test_what_needs_another_unit_is_not_kept() -> None:
    index = shipped()
    plan, exported = base(DIALECTS["1.13.1"]), extension_symbols(index)
    numbers = {unit.path: number for number, unit in enumerate(index.units)}
    of_base = {numbers[path] for path in units(plan)}
    kept = kept_symbols(index, of_base, exported)
    assert kept == plan.kept
    assert not {*RECORDING}.intersection(kept)
    allocator = "c10/core/CPUAllocator.cpp"
    alone = kept_symbols(index, [numbers[allocator]], exported)
    assert {*alone} < {*kept}
    assert kept_symbols(index, (), exported) == ()
    assert kept_symbols(index, of_base, ()) == ()


def test_an_apps_own_sources_may_call_what_nothing_of_pytorchs_calls() -> None:
    index = make_index()
    plain = ("tensor_new",)
    assert exported_symbols(index, plain, ("ink_half", "tensor_new")) == plain
    layered = ("capi_needs", "ink_half", "tensor_new")
    assert exported_symbols(index, plain, layered) == ("capi_needs", "tensor_new")


def test_own_operators_are_those_that_own_units_register() -> None:
    index = make_index()
    kernels = registry(index, ("CPU",), DIALECTS["1.13.1"].keys)
    operators = (Op("toy::conv"), Op("aten::linear"), Op("aten::unheard"))
    assert own_operators(index, kernels, operators, {CONVOLUTION}) == {"toy::conv"}
    assert own_operators(index, kernels, operators, ()) == frozenset()


def test_a_shards_kernels_have_the_usual_dtypes_but_for_some_tags() -> None:
    every = every_dtype(make_index(), Registry({}))
    assert set(every.kernel_dtypes) == {"conv_tag", "linear_tag", "shared_tag", ALL_TAGS}
    narrow = usual_dtypes(every, {"conv_tag", "unheard"})
    assert {tag: set(dtypes) for tag, dtypes in narrow.kernel_dtypes.items()} == {
        "conv_tag": {ALL_DTYPES},
        "linear_tag": USUAL_DTYPES,
        "shared_tag": USUAL_DTYPES,
        ALL_TAGS: {ALL_DTYPES},
    }
    assert narrow.custom_classes == every.custom_classes


def test_a_selection_of_some_tags_keeps_all_where_names_are_computed() -> None:
    every = every_dtype(make_index(), Registry({}))
    some = of_tags(every, {"conv_tag", "unheard"})
    assert set(some.kernel_dtypes) == {"conv_tag", ALL_TAGS}
    assert some.custom_classes == every.custom_classes


def test_tags_that_ran_in_an_unusual_dtype_are_wide() -> None:
    ran = {"add": ["Float", "Long"], "copy": ["Float", "Half"], "none": []}
    assert wide_tags(ran) == {"copy"}


def test_kept_symbols_are_referred_to_weakly() -> None:
    assert keeping_text(["_ZN1a1bEv"]).splitlines()[2:8] == [
        'extern const char kept_0 __asm__("_ZN1a1bEv") __attribute__((weak));',
        'extern const char compiler_rt __asm__("__udivti3");',
        "__attribute__((used, retain)) const char* const lta_kept[] = {",
        "    &compiler_rt,",
        "    &kept_0,",
        "    nullptr,",
    ]


def test_a_guess_is_of_what_the_model_can_call() -> None:
    assert guess(
        [Op("aten::a")],
        {"aten::b", "aten::c"},
        {Op("aten::c"), Op("aten::d")},
    ) == {
        "aten::a",
        "aten::c",
    }


def test_an_operator_joins_whose_code_is_compiled_anyway() -> None:
    rows = [("aten::a", CORE, "a"), ("aten::alike", CORE, ""), ("aten::b", GUARD, "")]
    rows += [("aten::c", MINIZ, ""), ("aten::tagged", CORE, "b")]
    index = make_index(
        nodes={"a": (CORE, 1, ()), "b": (CORE, 1, ())},
        registrations=[(name, "CPU", unit, [node] if node else []) for name, unit, node in rows],
        calls={},
        tags={"b": ["b_kernel"]},
        initialisers={},
    )
    kernels = registry(index, ["CPU"], DIALECTS["2.6.0"].keys)
    a, alike, b, c, tagged = sorted(kernels.by_operator)
    found = with_known_code(index, kernels, {a}, {a, alike, b, c, tagged}, {GUARD})
    assert found == {a, alike, b}


def named(letters: str) -> frozenset[Op]:
    return frozenset(map(Op, letters))


def test_groups_of_earlier_runs_are_taken_whole_and_the_rest_is_new() -> None:
    a, b, c = map(named, ("abc", "ab", "de"))
    assert groups_of(named("abcdf"), (b, c, a)) == (a, named("df"))
    assert groups_of(named("abde"), (a, b, c)) == (b, c)
    assert groups_of(named("xy"), ()) == (named("xy"),)
    assert groups_of(named(""), (a,)) == ()
