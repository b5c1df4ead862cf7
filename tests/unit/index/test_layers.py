"""An app's own units as a layer over an index: what they register, call, and may not call."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from core_toy import CORE, FACTS, GOLDEN, NODES, UNITS, compile_text, make_index, spec

from orchestrator.index.layers import (
    LayerUnit,
    called_symbols,
    from_json,
    layered,
    looked_up_by_name,
    namespaces_of,
    read_unit,
    readable,
    to_json,
    unknown_symbols,
)
from orchestrator.index.mentions import mentions_of
from orchestrator.index.model import RuntimeIndex
from orchestrator.index.objects import read_object
from orchestrator.plan.planner import Planner
from orchestrator.pytorch.v1_13.dialect import DIALECT
from orchestrator.select.closure import registry
from orchestrator.select.policy import static_selection
from orchestrator.values.operators import OperatorName as Op
from orchestrator.values.own_sources import OwnClass, OwnSources
from orchestrator.values.selection import Selection

SMOOTH = """
#include "library.h"
#define NAMED(tag) asm volatile("" : : "r"(static_cast<const char*>(tag)))
namespace at { namespace _ops { struct add_Tensor { static void call(); }; } }
extern "C" void free(void*);
template <class T> struct Shared { __attribute__((noinline)) static void grow(T x); };
template <class T> void Shared<T>::grow(T) { free(nullptr); }
namespace ink {
void half();
namespace {
void smooth() { NAMED("ink_tag"); at::_ops::add_Tensor::call(); half(); Shared<int>::grow(1); }
BLOCK(, DEF, "ink", nullptr, ink) { m.def("smooth(Tensor x) -> Tensor"); }
BLOCK(IMPL_, IMPL, "ink", "CPU", ink_CPU_1) { m.impl("smooth", &smooth); }
} // namespace
} // namespace ink
"""
HALF = """
#include "library.h"
namespace at { namespace native { void helper(); } }
namespace c10 { struct Dispatcher { void findSchema(); void other(); }; }
extern "C" int outside(int);
namespace ink {
void half() { outside(2); }
#ifdef MISSING
void missing() { at::native::helper(); throw 1; }
#endif
#ifdef NAMES
void names() { c10::Dispatcher().findSchema(); }
#endif
void twice() { half(); half(); }
BLOCK(FRAGMENT_, DEF, "ink", nullptr, ink_7) { m.def("twice(Tensor x) -> Tensor", &twice); }
} // namespace ink
"""
PATHS = ("apps/inker/src/smooth.cpp", "apps/inker/src/half.cpp")
GREW = "_ZN6SharedIiE4growEi"
# What the app's own code shares with PyTorch's: a template of which both have copies.
INDEX = make_index({**NODES, GREW: (None, 9, ["tensor_new"])})
SOURCES = OwnSources(
    "inker",
    {"src/half.cpp": HALF, "src/smooth.cpp": SMOOTH},
    ("src/half.cpp", "src/smooth.cpp"),
    (),
    ("-O3",),
)
CLASSES = (OwnClass("ink.Brush", ("widths",)), OwnClass("ink.Pen", (), is_open=True))
TAGGED = 'at_dispatch_name = "ink_tag"; at_dispatch_name = "other_tag";'


def unit(folder: Path, path: str, text: str, define: str = "") -> LayerUnit:
    header = f"#define {define}\n" if define else ""
    made = compile_text(
        folder, "unit", header + text.replace("library.h", str(GOLDEN / "registering/library.h"))
    )
    mentions = mentions_of(TAGGED if "ink_tag" in text else "")
    return read_unit(path, 7.0, read_object(made), mentions, CLASSES, DIALECT.symbols)


@pytest.fixture(scope="module")
def units(tmp_path_factory: pytest.TempPathFactory) -> tuple[LayerUnit, ...]:
    folder = tmp_path_factory.mktemp("own")
    return tuple(unit(folder, path, text) for path, text in zip(PATHS, (SMOOTH, HALF), strict=True))


@pytest.fixture(scope="module")
def index(units: Sequence[LayerUnit]) -> RuntimeIndex:
    return layered(INDEX, units)


def test_what_they_register(units: Sequence[LayerUnit], index: RuntimeIndex) -> None:
    assert [one.registrations for one in units] == [
        (("ink::smooth", "schema"), ("ink::smooth", "CPU")),
        (("ink::twice", "catchall"),),
    ]
    assert [sorted(one.blocks) for one in units] == [
        [("impl", "ink"), ("library", "ink")],
        [("fragment", "ink")],
    ]
    kernels = registry(index, ["CPU"], DIALECT.keys)
    assert {one.key for one in kernels.kernels(Op("ink::smooth"))} == {"schema", "CPU"}
    assert "ink" in namespaces_of(index)
    assert "ink" not in namespaces_of(INDEX)


def test_the_index_itself_stays(index: RuntimeIndex) -> None:
    """Or apps with and without sources of their own would share no shard."""
    count = len(INDEX.names)
    assert index.names[:count] == INDEX.names
    assert index.units[: len(UNITS)] == INDEX.units
    assert [index.targets(node) for node in range(count)] == [
        INDEX.targets(node) for node in range(count)
    ]


def test_what_their_kernels_call_is_found(index: RuntimeIndex) -> None:
    found = static_selection(
        index, registry(index, ["CPU"], DIALECT.keys), [Op("ink::smooth")], "m"
    )
    # and what PyTorch's own kernel of it calls
    assert {"ink::smooth", "aten::add.Tensor"} <= {*found.operators}
    # the tag is in the code; the other is mentioned and in none
    assert "ink_tag" in found.kernel_dtypes
    assert "other_tag" not in found.kernel_dtypes


def test_their_units_are_in_every_plan(index: RuntimeIndex) -> None:
    facts = replace(FACTS, app=SOURCES)
    kernels = registry(index, ["CPU"], DIALECT.keys)
    plan = Planner(index, facts).plan(kernels, Selection(), spec())
    own = {one.unit: one for one in plan.whole if one.unit in PATHS}
    assert own.keys() == {*PATHS}
    assert "aten::add.Tensor" in plan.request.calls
    # a copy of the template may be PyTorch's: what that refers to is planned too
    assert CORE in {one.unit for one in plan.compiles}
    smooth = own[PATHS[0]]
    assert smooth.source == f"$cache/sources/{SOURCES.digest}/src/smooth.cpp"
    assert smooth.flags[-1] == "-O3"
    assert smooth.projection is not None


def test_an_app_without_them_has_the_plan_that_it_had(index: RuntimeIndex) -> None:
    """The layer alone puts nothing into a plan, nor into what apps share."""
    selection = Selection({Op("aten::linear"): frozenset({"m"})})
    before = Planner(INDEX, FACTS).plan(registry(INDEX, ["CPU"], DIALECT.keys), selection, spec())
    after = Planner(index, FACTS).plan(registry(index, ["CPU"], DIALECT.keys), selection, spec())
    assert (after.whole, after.on_demand) == (before.whole, before.on_demand)


def test_a_changed_source_is_another_object(index: RuntimeIndex) -> None:
    def objects(sources: OwnSources) -> set[str]:
        planner = Planner(index, replace(FACTS, app=sources))
        plan = planner.plan(registry(index, ["CPU"], DIALECT.keys), Selection(), spec())
        return {one.object for one in plan.whole if one.unit in PATHS}

    changed = replace(SOURCES, texts={**SOURCES.texts, "src/half.cpp": "//\n" + HALF})
    assert objects(SOURCES).isdisjoint(objects(changed))
    assert objects(SOURCES).isdisjoint(objects(replace(SOURCES, flags=("-O2",))))
    assert SOURCES.digest == replace(SOURCES, app="painter").digest


def test_what_the_runtime_does_not_have(tmp_path: Path, units: Sequence[LayerUnit]) -> None:
    # `outside` is C's, or a library's: the linker's to say
    allowed = {"_ZN2at4_ops10add_Tensor4callEv"}
    registering = {s for s in unknown_symbols(INDEX, units) if "torch" in s}
    assert set(unknown_symbols(INDEX, units)) - registering == set()
    assert allowed <= {s for one in units for node in one.nodes for s in node.symbols}
    with_call = (units[0], unit(tmp_path, PATHS[1], HALF, "MISSING"))
    missing = "_ZN2at6native6helperEv"
    assert unknown_symbols(INDEX, with_call)[missing] == PATHS[1]
    assert readable(missing) == "at::native::helper"
    # what another own unit defines is there; without that unit it is not
    assert "_ZN3ink4halfEv" in unknown_symbols(INDEX, units[:1])


def test_what_they_call(units: Sequence[LayerUnit], tmp_path: Path) -> None:
    """From what registers; without functions that they, or headers of theirs, define."""
    called = called_symbols(units)
    assert {"_ZN2at4_ops10add_Tensor4callEv", "outside"} <= set(called)
    assert not {GREW, "_ZN3ink4halfEv"} & set(called)
    assert called == tuple(sorted(set(called)))
    # nothing that is linked calls it
    dead = (units[0], unit(tmp_path, PATHS[1], HALF, "MISSING"))
    assert "_ZN2at6native6helperEv" not in called_symbols(dead)


def test_lookups_by_name(tmp_path: Path, units: Sequence[LayerUnit]) -> None:
    assert looked_up_by_name(units) is None
    assert looked_up_by_name([unit(tmp_path, PATHS[1], HALF, "NAMES")]) == PATHS[1]


def test_they_are_kept_as_json(units: Sequence[LayerUnit]) -> None:

    assert [from_json(json.loads(json.dumps(to_json(one)))) for one in units] == list(units)
