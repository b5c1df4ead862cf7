"""The planner against the plain way: one walk and one compilation at a time, nothing remembered."""

from __future__ import annotations

import gc
import random
import weakref
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from core_toy import CONVOLUTION, CORE, FACTS, LINEAR, STUBS, compile_unit, make_index, spec
from hypothesis import given, settings
from hypothesis import strategies as st
from shipped_index import (
    app_traces,
    kernels_for,
    shipped,
    shipped_facts,
    shipped_kernels,
    shipped_spec,
)

from orchestrator.index.model import RuntimeIndex, UnitFacts
from orchestrator.plan.planner import Planner, entry_nodes
from orchestrator.plan.variant import OwnHeader, RuntimeFacts, VariantPlan, VariantSpec
from orchestrator.pytorch.v1_13.dialect import DIALECT
from orchestrator.select.closure import GENERATED, Reach, Registry, reach, registry
from orchestrator.select.needs import Needed, needed
from orchestrator.select.policy import select
from orchestrator.values.action import Compile
from orchestrator.values.fingerprint import fingerprint, fingerprint_but
from orchestrator.values.operators import OperatorName as Op
from orchestrator.values.selection import Selection

M = frozenset({"m"})


def without_the_way(index: RuntimeIndex, found: Reach, follow_calls: bool = False) -> Needed:
    """What a walk found, as `needs` tells it."""
    tags = {tag for node in found.parents for tag in index.kernel_tags.get(node, ())}
    owners = {index.owners[node] for node in found.parents}
    return Needed(
        units=found.units,
        generated=frozenset(
            n for n in owners if n >= 0 and index.units[n].path.startswith(GENERATED)
        ),
        operators=frozenset(found.operators),
        called=found.called,
        direct=found.direct,
        tags=frozenset(tags if follow_calls else ()),
        switches=frozenset(node for node in found.parents if index.kernel_tags.get(node)),
        stubs=found.stubs,
        bytes=sum(index.sizes[node] for node in found.parents),
    )


# --- random small runtimes: cycles, cut units, generated units, calls ---

PATHS = ("a.cpp", "b.cpp", "c.cpp", "d.cpp", "generated/Functions.cpp", "generated/RegisterCPU.cpp")
# functions, that can be stubbed, and data, that cannot; what torchgen writes beside a kernel
NAMES = tuple(
    sorted((*(f"_ZN{n}{'x' * n}E{'v' if n % 3 else ''}" for n in range(1, 14)), "_ZN2at3cpu1fEv"))
)
OPERATORS = ("aten::a", "aten::b", "aten::c", "aten::d")
some_names = st.lists(st.sampled_from(NAMES), max_size=4, unique=True)


@st.composite
def indices(draw: st.DrawFn) -> RuntimeIndex:
    owner = st.sampled_from([*PATHS, None])
    nodes = {n: (draw(owner), 2**i, draw(some_names)) for i, n in enumerate(NAMES)}
    own = {path: [name for name, node in nodes.items() if node[0] == path] for path in PATHS}
    units = [UnitFacts(path, 1.0) for path in PATHS]
    initialisers = {path: own[path][: draw(st.integers(0, 2))] for path in PATHS}
    registrations = draw(
        st.lists(
            st.tuples(
                st.sampled_from(OPERATORS),
                st.sampled_from(("CPU", "QuantizedCPU", "jit")),
                st.sampled_from(PATHS),
                some_names,
            ),
            max_size=6,
        )
    )
    calls = draw(st.dictionaries(st.sampled_from(NAMES), st.sampled_from(OPERATORS), max_size=4))
    some_tags = st.lists(st.sampled_from(("t", "u", "v")), max_size=2, unique=True)
    tags = draw(st.dictionaries(st.sampled_from(NAMES), some_tags, max_size=4))
    calls = calls or {"no such node": "aten::a"}
    return make_index(nodes, units, registrations, calls, tags, initialisers)


def questions() -> st.SearchStrategy[dict[str, Any]]:
    """What `needed` and `reach` are asked of an index."""
    numbers = st.lists(st.integers(0, len(PATHS) - 1), max_size=3)
    return st.fixed_dictionaries(
        {
            "entry": st.lists(st.integers(0, len(NAMES) - 1), max_size=3),
            "operators": st.lists(st.sampled_from(OPERATORS), max_size=3),
            "units": numbers,
            "cut": numbers,
            "follow_calls": st.booleans(),
        }
    )


@settings(max_examples=400, deadline=None)
@given(indices(), st.data())
def test_needs_are_what_a_walk_finds(index: RuntimeIndex, data: st.DataObject) -> None:
    kernels = registry(index, ["CPU"], DIALECT.keys)
    # several questions to one memory: an answer must not depend on those before it
    for _ in range(3):
        roots = data.draw(questions())
        expected = reach(index, kernels, **roots)
        seen = needed(index, kernels, **roots)
        assert seen == without_the_way(index, expected, roots["follow_calls"])


@settings(max_examples=400, deadline=None)
@given(indices(), st.data())
def test_registries_that_share_a_memory_find_what_each_finds_alone(
    index: RuntimeIndex, data: st.DataObject
) -> None:
    kept: dict[object, object] = {}
    backends = [(), ("CPU",), ("QuantizedCPU",), ("CPU", "QuantizedCPU")]
    shared = [registry(index, keys, DIALECT.keys, kept) for keys in backends]
    for _ in range(2):
        roots = data.draw(questions())
        for number in data.draw(st.permutations(range(len(backends)))):
            alone = registry(index, backends[number], DIALECT.keys)
            assert needed(index, shared[number], **roots) == needed(index, alone, **roots)


def test_registries_may_keep_what_they_need_in_one_place() -> None:
    """Each has the bytes of a node that only a registration leads to, which both of them have."""
    index = make_index(
        {"n": ("u.cpp", 5, []), "q": ("u.cpp", 7, [])},
        [UnitFacts("u.cpp", 1.0)],
        [("aten::a", "CPU", "u.cpp", ["n"]), ("aten::a", "QuantizedCPU", "u.cpp", ["q"])],
    )
    kept = dict[object, object]()
    sizes = [
        needed(
            index,
            registry(index, backends, DIALECT.keys, kept),
            entry=(),
            operators=[Op("aten::a")],
            follow_calls=False,
        ).bytes
        for backends in (["CPU"], ["CPU", "QuantizedCPU"], ["QuantizedCPU"])
    ]
    assert sizes == [5, 12, 7]
    assert len(kept) == 1


def test_what_apps_enter_by_shares_one_memory() -> None:
    """Its outcomes take 40 MB of the shipped index for each that is kept."""
    index = make_index(
        {"n": ("u.cpp", 1, ["m"]), "m": ("u.cpp", 2, [])}, [UnitFacts("u.cpp", 1.0)], []
    )
    kernels = registry(index, [], DIALECT.keys)
    n, m = index.by_name["n"], index.by_name["m"]
    sizes = [
        needed(index, kernels, entry=entry, operators=(), follow_calls=False).bytes
        for entry in ([n], [m], [n, m], [m])
    ]
    assert sizes == [3, 2, 3, 2]
    assert len(kernels.kept) == 1


def test_a_chain_as_long_as_memory_needs_no_recursion() -> None:
    count = 20_000
    nodes = {f"n{n:05}": ("u.cpp", 1, [f"n{n + 1:05}"]) for n in range(count)}
    nodes[f"n{count:05}"] = ("v.cpp", 1, [])
    index = make_index(nodes, [UnitFacts("u.cpp", 1.0), UnitFacts("v.cpp", 1.0)], [])
    found = needed(
        index, registry(index, [], DIALECT.keys), entry=[0], operators=[], follow_calls=False
    )
    assert found.units == {0, 1}


# --- the shipped index ---


def random_selection(seed: int) -> Selection:
    source, index = random.Random(seed), shipped()
    every = sorted(shipped_kernels(("CPU", "QuantizedCPU")).by_operator)
    tags = sorted({tag for unit in index.units for tag in unit.tags})
    operators = source.sample(every, source.randint(1, 120))
    return Selection(
        operators=dict.fromkeys(sorted(operators), M),
        root_operators=frozenset(operators),
        kernel_dtypes={
            tag: dict.fromkeys(source.sample(("Float", "Long", "Bool"), 2), M)
            for tag in sorted(source.sample(tags, 60))
        },
        custom_classes={"Conv2dPackedParamsBase": M} if seed % 2 else {},
    )


def the_plain_way(
    index: RuntimeIndex,
    kernels: Registry,
    facts: RuntimeFacts,
    selection: Selection,
    how: VariantSpec,
) -> tuple[Needed, dict[str, str]]:
    """What is needed, and each unit's fingerprint: as they are defined, with nothing remembered."""
    numbers = {unit.path: number for number, unit in enumerate(index.units)}
    found = without_the_way(
        index,
        reach(
            index,
            Registry(kernels.by_operator),
            entry=entry_nodes(index, how.entry, DIALECT.symbols),
            operators=selection.operators,
            units=[numbers[path] for path in facts.always_for(how.purpose)],
            cut=[numbers[path] for path in how.cut],
            follow_calls=False,
        ),
    )
    selected = ("generated/Register", "generated/Operators_")
    whole = {n for n in found.generated if not index.units[n].path.startswith(selected)}
    compiles = [compile_unit(facts, selection, how, index.units[n]) for n in found.units | whole]
    return found, {c.unit: c.fingerprint for c in compiles}


def assert_same(plan: VariantPlan, expected: tuple[Needed, Mapping[str, str]]) -> None:
    assert plan.needed == expected[0]
    one_by_one = [c for action in plan.compiles for c in action.members or (action,)]
    assert {c.unit: c.fingerprint for c in one_by_one} == expected[1]
    assert len(one_by_one) == len(expected[1])


@pytest.mark.parametrize("app", ["assistant", "camera", "keyboard", "reader", "scanner"])
def test_an_apps_plan_is_that_of_the_plain_way(app: str) -> None:
    traces, index, facts = app_traces(app), shipped(), shipped_facts()
    assert traces
    roots = {operator for trace in traces for operator in trace.root_operators}
    planner, kernels = Planner(index, facts), kernels_for(roots)
    for policy in ("guarded", "static"):
        selection = select(index, kernels, traces, policy)
        hot = frozenset({next(c for c in sorted(facts.kernels))})
        for changes in ({}, {"abi": "linux-arm64", "toolchain": "u" * 64}, {"hot": hot}):
            how = shipped_spec(roots, **changes)
            expected = the_plain_way(index, kernels, facts, selection, how)
            assert_same(planner.plan(kernels, selection, how), expected)


def test_plans_of_random_selections_are_those_of_the_plain_way() -> None:
    index, facts = shipped(), shipped_facts()
    planner = Planner(index, facts)
    for seed in range(25):
        selection = random_selection(seed)
        kernels = kernels_for(selection.operators)
        how = shipped_spec(selection.operators, purpose="tracer" if seed % 5 == 0 else "release")
        expected = the_plain_way(index, kernels, facts, selection, how)
        assert_same(planner.plan(kernels, selection, how), expected)


def test_static_closures_of_random_operators_are_those_of_a_walk() -> None:
    index, kernels, source = shipped(), shipped_kernels(("CPU", "QuantizedCPU")), random.Random(7)
    for _ in range(25):
        roots = source.sample(sorted(kernels.by_operator), source.randint(1, 40))
        walked = reach(index, kernels, entry=(), operators=roots, follow_calls=True)
        seen = needed(index, kernels, entry=(), operators=roots, follow_calls=True)
        assert seen == without_the_way(index, walked, follow_calls=True)


# --- what a planner remembers ---

TOY = make_index()


def toy_selection(*operators: str) -> Selection:
    return Selection(
        operators=dict.fromkeys(map(Op, operators), M), kernel_dtypes={"linear_tag": {"F": M}}
    )


def test_the_abis_of_an_app_share_what_its_selection_needs() -> None:
    planner, kernels = Planner(TOY, FACTS), registry(TOY, ["CPU"], DIALECT.keys)
    selection = toy_selection("aten::linear")
    one = planner.plan(kernels, selection, spec())
    other = planner.plan(kernels, selection, spec(abi="linux-arm64", toolchain="u" * 64))
    assert other.needed is one.needed
    assert other.request is one.request
    assert {c.abi for c in other.compiles} == {"linux-arm64"}
    assert not {c.object for c in one.compiles} & {c.object for c in other.compiles}


def test_equal_compilations_of_two_apps_are_one_value() -> None:
    planner, kernels = Planner(TOY, FACTS), registry(TOY, ["CPU"], DIALECT.keys)
    one = planner.plan(kernels, toy_selection("aten::linear"), spec())
    two = planner.plan(kernels, toy_selection("aten::linear", "toy::conv"), spec())
    units = [{c.unit: c for c in plan.compiles} for plan in (one, two)]
    assert units[0][CORE] is units[1][CORE]
    assert units[0][LINEAR] is units[1][LINEAR]
    assert CONVOLUTION not in units[0]


def test_forgotten_apps_are_freed_and_what_they_share_stays() -> None:
    planner, kernels = Planner(TOY, FACTS), registry(TOY, ["CPU"], DIALECT.keys)
    shared = list[Compile]()

    def plan() -> list[weakref.ref[Any]]:
        selection = toy_selection("aten::linear")
        found = planner.plan(kernels, selection, spec())
        shared.extend(c for c in found.compiles if c.unit == LINEAR)
        return [*map(weakref.ref, (selection, found.needed, found.request))]

    gc.disable()  # planning pauses it: counts of references alone free them
    try:
        apps = [*plan(), *plan()]
        assert all(app() is not None for app in apps)
        planner.forget_apps()
        assert [app() for app in apps if app() is not None] == []
    finally:
        gc.enable()
    plan()
    assert shared[0] is shared[1] is shared[2]


def test_a_forgotten_app_is_not_taken_for_the_next() -> None:
    kernels, planner = registry(TOY, ["CPU"], DIALECT.keys), Planner(TOY, FACTS)

    def plan(planner: Planner, dtype: str) -> VariantPlan:
        tags = {"linear_tag": {dtype: M}}
        return planner.plan(kernels, Selection({Op("aten::linear"): M}, kernel_dtypes=tags), spec())

    expected = {
        dtype: [c.projection for c in plan(Planner(TOY, FACTS), dtype).compiles]
        for dtype in ("Float", "Long")
    }
    assert expected["Float"] != expected["Long"]
    for dtype in ("Float", "Long") * 20:  # what is forgotten leaves its place in memory to others
        assert [c.projection for c in plan(planner, dtype).compiles] == expected[dtype]
        planner.forget_apps()


@pytest.mark.parametrize(
    "changes",
    [
        {"abi": "linux-arm64"},
        {"toolchain": "u" * 64},
        {"compile_flags": ("-march=x",)},
        {"purpose": "tracer"},
        {"optimize": "speed"},
        {"precompile": False},
        {"hot": frozenset({LINEAR})},
        {"hot": frozenset({"no/such/unit.cpp"})},
        {"lean": frozenset({LINEAR})},
        {"cut": frozenset({STUBS})},
        {"entry": frozenset({"linear_kernel"})},
        {"kernel_entry": frozenset({"conv_kernel"})},
    ],
)
def test_what_is_remembered_of_one_variant_does_not_reach_another(
    changes: dict[str, object],
) -> None:
    kernels, selection = (
        registry(TOY, ["CPU"], DIALECT.keys),
        toy_selection("aten::add.Tensor", "aten::linear"),
    )
    smaller = OwnHeader("linear_less.h", "h" * 64, by_choice=True)
    facts = replace(FACTS, pch="p" * 64, included={LINEAR: smaller})
    used = Planner(TOY, facts)
    used.plan(kernels, selection, spec(optimize="balanced"))
    how = spec(**({"optimize": "balanced"} | changes))
    fresh = Planner(TOY, facts).plan(registry(TOY, ["CPU"], DIALECT.keys), selection, how)
    assert used.plan(kernels, selection, how) == fresh


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(), lambda inner: st.lists(inner, max_size=3)
)


@given(st.dictionaries(st.text(), json_values, max_size=6), st.text(), json_values)
def test_a_fingerprint_but_one_part(parts: dict[str, object], name: str, value: object) -> None:
    rest = {key: part for key, part in parts.items() if key != name}
    assert fingerprint_but(rest, name)(value) == fingerprint({**rest, name: value})
