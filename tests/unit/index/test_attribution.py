"""The index of a few units that are compiled here: nodes, edges, owners, and what is cut out."""

from __future__ import annotations

from pathlib import Path

import pytest
from core_toy import compile_file, compile_text

from orchestrator.build.indexing.make_index import UnitNotInRuntimeError, require_known
from orchestrator.index.attribution import UnitNotRenewableError, build_index, renew_units
from orchestrator.index.model import COMDAT, RuntimeIndex, UnitFacts, load_index, save_index
from orchestrator.index.objects import ObjectUnreadableError
from orchestrator.pytorch.v1_13.dialect import DIALECT
from orchestrator.select.closure import registry
from orchestrator.values.operators import OperatorName as Op

HEADER = """\
extern "C" int outside(int);
static int counter = outside(0) ? 3 : 4;
// COMDAT, and refers to a datum that every unit has of its own
inline __attribute__((noinline)) int bump(int x) { return counter += outside(x); }
template <class T> struct Vec { T grow(T x); };
template <class T> __attribute__((noinline)) T Vec<T>::grow(T x) { return outside(x) * 2; }
struct Guard { ~Guard() noexcept(false); };
"""
UNITS = {
    "core/vec.cpp": HEADER + "template struct Vec<int>;\n",
    "native/a.cpp": HEADER
    + """
int in_b(int);
extern template struct Vec<int>;
int only_inside = 5;
int a(int x) { Guard guard; return bump(x) + in_b(x) + Vec<int>().grow(x) + only_inside; }
""",
    "native/b.cpp": HEADER + "int in_b(int x) { return bump(x) + 1; }\n",
    "native/inner.cpp": """
int in_b(int);
static __attribute__((noinline)) int local_one(int x) { return in_b(x) + 1; }
template <class T> __attribute__((noinline)) T shared_one(T x) { return local_one(x) + 2; }
int inner(int x) { return shared_one(x); }
""",
    "native/calls.cpp": """
namespace at { struct Tensor; namespace _ops {
struct add_Tensor { static int call(int); static int redispatch(int); static int other(int); };
struct unknown { static int call(int); };
} }
int uses(int x) { return at::_ops::add_Tensor::call(x); }
""",
    "native/tags.cpp": """
#define NAMED(tag) asm volatile("" : : "r"(static_cast<const char*>(tag)))
int in_b(int);
static __attribute__((noinline)) int local_abs(int x) { NAMED("abs_cpu"); return in_b(x); }
template <class T> __attribute__((noinline)) T shared_neg(T x) {
  NAMED("neg_cpu");
  return local_abs(x) + 2;
}
int negated(int x) { return shared_neg(x); }
int switched(int x) { NAMED("mul_cpu"); NAMED("div_cpu"); return in_b(x); }
const char* text() { return "no_tag_cpu"; }
namespace torch { namespace jit {
void tupleIndex(int&) { in_b(7); }
inline __attribute__((noinline)) void noop(int&) { in_b(8); }
void (*kept)(int&) = noop;
} }
static int started = in_b(9);
""",
    "generated/Operators_0.cpp": """
extern "C" int outside(int);
namespace at { namespace _ops {
struct add_Tensor { static int call(int); static int redispatch(int); static int other(int); };
struct unknown { static int call(int); };
int add_Tensor::call(int x) { return outside(x); }
int add_Tensor::redispatch(int x) { return outside(x); }
int add_Tensor::other(int x) { return outside(x); }
int unknown::call(int x) { return outside(x); }
} }
""",
}
TAGS = "native/tags.cpp"
FACTS = [
    *(UnitFacts(path, 1.0) for path in UNITS if path != TAGS),
    UnitFacts(
        TAGS,
        1.0,
        tags=("abs_cpu", "div_cpu", "mul_cpu", "neg_cpu", "of_no_code"),
        promoted=(
            ("prim::TupleIndex", "tupleIndex"),
            ("prim::unchecked_cast", "noop"),
            ("prim::other", "not_here"),
        ),
    ),
    UnitFacts(
        "native/kernels.cpp",
        2.0,
        tags=("t",),
        operators=(Op("aten::add.Tensor"),),
    ),
]
GREW = "_ZN3VecIiE4growEi"


@pytest.fixture(scope="module")
def objects(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("units")
    made = {
        path: compile_text(folder, path.replace("/", "_").removesuffix(".cpp"), text)
        for path, text in UNITS.items()
    }
    return made | {"native/kernels.cpp": compile_file("registering/kernels.cpp", folder)}


@pytest.fixture(scope="module")
def index(objects: dict[str, Path]) -> RuntimeIndex:
    return build_index("0.1.0", "7" * 64, FACTS, objects, DIALECT.symbols)


def test_a_fallback_is_registered_with_the_operators_whose_results_carry_its_key(
    objects: dict[str, Path],
) -> None:
    fallbacks = {"native/a.cpp": ["aten::_conj", "aten::conj"]}
    index = build_index("0.1.0", "7" * 64, FACTS, objects, DIALECT.symbols, fallbacks)
    units = {
        r.operator: index.units[r.unit].path for r in index.registrations if r.key == "fallback"
    }
    assert units == {"aten::_conj": "native/a.cpp", "aten::conj": "native/a.cpp"}
    # it is a registration of every selection with the operator, linked whole
    assert [r.key for r in registry(index, ["CPU"], DIALECT.keys).kernels(Op("aten::_conj"))] == [
        "fallback"
    ]


def targets(index: RuntimeIndex, name: str) -> set[str]:
    return {index.names[node] for node in index.targets(index.by_name[name])}


def of_unit(index: RuntimeIndex, unit: str) -> dict[str, tuple[int, set[str]]]:
    """Name -> size and targets of all nodes that a unit owns."""
    return {
        name: (index.sizes[node], targets(index, name))
        for node, name in enumerate(index.names)
        if owner(index, name) == unit
    }


def owner(index: RuntimeIndex, name: str) -> str | None:
    number = index.owners[index.by_name[name]]
    return None if number == COMDAT else index.units[number].path


def test_functions_are_nodes_of_their_unit(index: RuntimeIndex) -> None:
    assert owner(index, "_Z1ai@native/a.cpp") == "native/a.cpp"
    assert index.sizes[index.by_name["_Z1ai@native/a.cpp"]] > 20
    # what no unit defines is libc's or libc++'s
    assert not [name for name in index.names if name.startswith("outside")]


def test_references_are_edges_across_units(index: RuntimeIndex) -> None:
    found = targets(index, "_Z1ai@native/a.cpp")
    assert {"_Z4in_bi@native/b.cpp", "_Z4bumpi", "only_inside@native/a.cpp"} <= found
    assert owner(index, "_Z4in_bi@native/b.cpp") == "native/b.cpp"


def test_a_comdat_is_one_node_without_an_owner(index: RuntimeIndex) -> None:
    assert owner(index, "_Z4bumpi") is None
    assert [name for name in index.names if "_Z4bumpi" in name] == ["_Z4bumpi"]


def test_a_comdat_does_not_drag_in_the_units_that_hold_a_copy(index: RuntimeIndex) -> None:
    assert targets(index, "_Z4bumpi") == set()
    # the datum is there, for the unit's own initialiser
    counters = [name for name in index.names if name.startswith("_ZL7counter@")]
    assert counters == ["_ZL7counter@native/a.cpp", "_ZL7counter@native/b.cpp"]


def test_what_a_comdats_local_functions_refer_to_is_its_own(index: RuntimeIndex) -> None:
    """Or else a call that is not inlined would lead nowhere."""
    assert targets(index, "_Z10shared_oneIiET_S0_") == {"_Z4in_bi@native/b.cpp"}


def test_an_explicit_instantiation_is_needed_from_its_unit(index: RuntimeIndex) -> None:
    number = [unit.path for unit in index.units].index("core/vec.cpp")
    provided = f"{GREW}@#{number}"
    assert provided in targets(index, "_Z1ai@native/a.cpp")
    assert owner(index, provided) == "core/vec.cpp"
    assert targets(index, provided) == {GREW}


def test_exception_tables_are_a_part_of_their_function(index: RuntimeIndex) -> None:
    assert not [name for name in index.names if "gcc_except" in name.lower()]


def test_initialisers_are_live_with_their_unit(index: RuntimeIndex) -> None:
    (unit,) = [unit for unit in index.units if unit.path == "native/b.cpp"]
    assert unit.init
    started = {t for node in unit.init for t in targets(index, index.names[node])}
    assert started == {"_GLOBAL__sub_I_native_b.cpp@native/b.cpp"}
    assert "_ZL7counter@native/b.cpp" in targets(index, *started)


def test_a_function_has_the_tags_that_its_code_names(index: RuntimeIndex) -> None:
    assert {index.names[node]: tags for node, tags in index.kernel_tags.items()} == {
        f"_ZL9local_absi@{TAGS}": ("abs_cpu",),
        # a COMDAT has those of the local functions that it calls too: no edge leads to them
        "_Z10shared_negIiET_S0_": ("abs_cpu", "neg_cpu"),
        f"_Z8switchedi@{TAGS}": ("div_cpu", "mul_cpu"),
    }


def test_a_promoted_operator_leads_to_its_function(index: RuntimeIndex) -> None:
    (unit,) = [unit for unit in index.units if unit.path == TAGS]
    promoted = {r.operator: r.targets for r in index.registrations if r.key == "promoted"}
    names = {o: {index.names[t] for t in targets} for o, targets in promoted.items()}
    assert names[Op("prim::TupleIndex")] == {f"_ZN5torch3jit10tupleIndexERi@{TAGS}"}
    assert names[Op("prim::unchecked_cast")] == {"_ZN5torch3jit4noopERi"}
    # one whose function is nowhere in the unit brings all that the unit does at start
    assert promoted[Op("prim::other")] == unit.init != ()


# Data of a unit alone whose mangled names are as a function's.
CUT = """
namespace at { struct Tensor {}; }
namespace detail { template <class T> struct Registry { static int instance; }; }
template <> int detail::Registry<at::Tensor>::instance = 5;
extern "C" int outside(int);
namespace at {
static __attribute__((noinline)) int inner(Tensor&) { return outside(3); }
int foo(Tensor& x) { static int table[3] = {outside(1)}; return table[outside(2)] + inner(x); }
}
"""
INSTANCE, TABLE = "_ZN6detail8RegistryIN2at6TensorEE8instanceE", "_ZZN2at3fooERNS_6TensorEE5table"


def functions_of(index: RuntimeIndex) -> set[str]:
    return {index.names[node] for node in index.functions}


def test_functions_of_units_that_may_be_cut_are_told_by_their_objects(
    objects: dict[str, Path], tmp_path: Path
) -> None:
    path = "native/cut.cpp"
    made = objects | {path: compile_text(tmp_path, "cut", CUT)}
    facts = [*FACTS, UnitFacts(path, 1.0)]
    index = build_index("0.1.0", "7" * 64, facts, made, DIALECT.symbols, cuttable=[path])
    found = {f"_ZN2at3fooERNS_6TensorE@{path}", f"_ZN2atL5innerERNS_6TensorE@{path}"}
    assert functions_of(index) == found
    assert {f"{INSTANCE}@{path}", f"{TABLE}@{path}"} <= {*index.names}
    # again those of another unit, and then the unit itself
    for unit in (UnitFacts("native/b.cpp", 1.0), UnitFacts(path, 1.0)):
        renewed = renew_units(index, [unit], made, DIALECT.symbols, cuttable=[path])
        assert functions_of(renewed) == found


def test_registrations_are_cut_out(index: RuntimeIndex) -> None:
    listed = [
        (r.operator, r.key, [index.names[t].partition("@")[0] for t in r.targets])
        for r in index.registrations
        if index.units[r.unit].path == "native/kernels.cpp" and len(r.targets) < 2
    ]
    assert ("aten::add.Tensor", "CPU", ["_ZL10add_kernelv"]) in listed
    assert ("aten::relu", "CPU", ["_ZL11relu_kernelv"]) in listed
    assert ("quantized::undone", "schema", []) in listed
    assert [r.operator for r in index.registrations] == sorted(
        r.operator for r in index.registrations
    )
    # nothing but its registration leads to a kernel that is selected by name
    assert leading_to(index, "_ZL10add_kernelv@native/kernels.cpp") == set()


def test_a_registration_that_nobody_selects_is_there_with_its_unit(index: RuntimeIndex) -> None:
    """Operators that the unit does not mention by TORCH_SELECTIVE_*."""
    (leading,) = leading_to(index, "_ZL11relu_kernelv@native/kernels.cpp")
    assert owner(index, leading) == "native/kernels.cpp"


def leading_to(index: RuntimeIndex, name: str) -> set[str]:
    node = index.by_name[name]
    return {
        other for n, other in enumerate(index.names) if n != node and node in set(index.targets(n))
    }


def test_typed_entry_points_of_registered_operators(index: RuntimeIndex) -> None:
    assert {index.names[node]: op for node, op in index.operator_calls.items()} == {
        "_ZN2at4_ops10add_Tensor4callEi@generated/Operators_0.cpp": "aten::add.Tensor",
        "_ZN2at4_ops10add_Tensor10redispatchEi@generated/Operators_0.cpp": "aten::add.Tensor",
    }
    assert "_ZN2at4_ops10add_Tensor4callEi@generated/Operators_0.cpp" in targets(
        index, "_Z4usesi@native/calls.cpp"
    )


def test_facts_of_units_are_kept(index: RuntimeIndex) -> None:
    (kernels,) = [unit for unit in index.units if unit.path == "native/kernels.cpp"]
    assert (kernels.path, kernels.tags, kernels.cost) == ("native/kernels.cpp", ("t",), 2.0)
    assert [unit.path for unit in index.units] == sorted(unit.path for unit in index.units)


def test_names_are_sorted_and_numbers_are_in_range(index: RuntimeIndex) -> None:
    assert list(index.names) == sorted(index.names)
    assert len(index.edge_starts) == len(index.names) + 1
    assert list(index.edge_starts) == sorted(index.edge_starts)
    assert all(0 <= target < len(index.names) for target in index.edges)
    assert all(list(index.targets(n)) == sorted(set(index.targets(n))) for n in range(9))


def test_equal_units_give_equal_bytes(
    index: RuntimeIndex, objects: dict[str, Path], tmp_path: Path
) -> None:
    again = build_index(
        "0.1.0", "7" * 64, reversed(FACTS), dict(reversed(objects.items())), DIALECT.symbols
    )
    assert save_index(again) == save_index(index)
    path = tmp_path / "x.zst"
    path.write_bytes(save_index(index))
    assert load_index(path) == index


@pytest.mark.parametrize("unit", FACTS, ids=lambda unit: unit.path)
def test_a_unit_that_is_as_it_was_changes_nothing(
    index: RuntimeIndex, objects: dict[str, Path], unit: UnitFacts
) -> None:
    assert save_index(renew_units(index, [unit], objects, DIALECT.symbols)) == save_index(index)


def test_units_anew_are_as_in_an_index_of_all(
    index: RuntimeIndex, objects: dict[str, Path], tmp_path: Path
) -> None:
    text = (
        HEADER + "int a(int); int in_b(int x) { return x + 2; } int more() { return a(4) + 1; }\n"
    )
    changed = objects | {"native/b.cpp": compile_text(tmp_path, "b", text)}
    renewed = renew_units(index, [UnitFacts("native/b.cpp", 1.0)], changed, DIALECT.symbols)
    whole = build_index("0.1.0", "7" * 64, FACTS, changed, DIALECT.symbols)
    assert targets(renewed, "_Z4morev@native/b.cpp") == {"_Z1ai@native/a.cpp"}
    assert of_unit(renewed, "native/b.cpp") == of_unit(whole, "native/b.cpp")
    assert of_unit(renewed, "native/a.cpp") == of_unit(whole, "native/a.cpp")


def test_a_unit_that_wants_a_template_of_an_unknown_unit_is_not_indexed_alone(
    objects: dict[str, Path], tmp_path: Path
) -> None:
    facts = [one for one in FACTS if one.path in ("core/vec.cpp", "native/b.cpp")]
    text = HEADER + "extern template struct Vec<int>;\n"
    text += "int in_b(int x) { return Vec<int>().grow(x); }\n"
    changed = objects | {"native/b.cpp": compile_text(tmp_path, "b", text)}
    before = build_index("0.1.0", "7" * 64, facts, objects, DIALECT.symbols)
    vec, b = facts
    with pytest.raises(UnitNotRenewableError) as caught:
        renew_units(before, [b], changed, DIALECT.symbols)
    assert caught.value.render() == (
        "error: native/b.cpp cannot be indexed alone\n"
        "  expected: symbols whose unit is known to the index\n"
        f"  seen:     {GREW}\n"
        "  do:       name the unit that instantiates it too, or index all"
    )
    both = renew_units(before, [vec, b], changed, DIALECT.symbols)
    whole = build_index("0.1.0", "7" * 64, facts, changed, DIALECT.symbols)
    assert of_unit(both, "native/b.cpp") == of_unit(whole, "native/b.cpp")
    assert targets(both, "_Z4in_bi@native/b.cpp") == {f"{GREW}@#0"}


def test_a_unit_that_there_is_not_is_named() -> None:
    require_known((), FACTS)
    require_known(["native/b.cpp"], FACTS)
    with pytest.raises(UnitNotInRuntimeError) as caught:
        require_known(["native/b.cpp", "native/c.cpp"], FACTS)
    assert caught.value.render() == (
        "error: the runtime has no such unit\n"
        "  expected: a file of the source tree, such as aten/src/ATen/native/Linear.cpp\n"
        "  seen:     native/c.cpp\n"
        "  do:       correct it, or leave --unit out to index all"
    )


def test_an_object_that_cannot_be_read(objects: dict[str, Path], tmp_path: Path) -> None:
    (tmp_path / "empty.o").touch()
    with pytest.raises(ObjectUnreadableError):
        build_index(
            "0.1.0", "7", FACTS, objects | {"native/b.cpp": tmp_path / "empty.o"}, DIALECT.symbols
        )
