"""Walks over a hand-built index: what is followed, what is compiled, and the way back to a root."""

from __future__ import annotations

import pytest
from core_toy import (
    CONVOLUTION,
    CORE,
    FUNCTIONS,
    GUARD,
    LINEAR,
    MINIZ,
    STUBS,
    make_index,
)
from shipped_index import shipped

from orchestrator.index.model import UnitFacts
from orchestrator.pytorch.dialect import Dialect
from orchestrator.pytorch.dialects import DIALECTS
from orchestrator.pytorch.v1_13.dialect import DIALECT
from orchestrator.select.closure import ROOT, Reach, reach, registry
from orchestrator.values.operators import OperatorName as Op

INDEX = make_index()
KERNELS = registry(INDEX, ["CPU"], DIALECT.keys)
ADD_CALL = "_ZN2at4_ops10add_Tensor4callEv"


def walk(
    *operators: str, entry: tuple[str, ...] = (), unit: str | None = None, follow_calls: bool = True
) -> Reach:
    paths = [one.path for one in INDEX.units]
    return reach(
        INDEX,
        KERNELS,
        entry=[INDEX.by_name[name] for name in entry],
        operators=map(Op, operators),
        units=[] if unit is None else [paths.index(unit)],
        follow_calls=follow_calls,
    )


def units(found: Reach) -> set[str]:
    return {INDEX.units[number].path for number in found.units}


def path(found: Reach, name: str) -> list[str]:
    """From a root to the node."""
    nodes = [INDEX.by_name[name]]
    while found.parents[nodes[-1]] != ROOT:
        nodes.append(found.parents[nodes[-1]])
    return [INDEX.names[node] for node in reversed(nodes)]


def test_only_the_backends_asked_for_register() -> None:
    assert {op: [r.key for r in rs] for op, rs in KERNELS.by_operator.items()} == {
        "aten::add.Tensor": ["CPU", "schema"],
        "aten::linear": ["CPU", "schema"],
        "aten::shadow": ["CompositeExplicitAutogradNonFunctional"],
        "toy::conv": ["catchall"],
    }
    sparse = registry(INDEX, ["CPU", "SparseCPU"], DIALECT.keys)
    assert [r.key for r in sparse.kernels(Op("aten::sparse_only"))] == ["SparseCPU"]
    assert sparse.kernels(Op("aten::unknown")) == ()


def test_a_cpu_kernel_shadows_the_functional_one_only_where_it_is_built() -> None:
    keys = [
        r.key for r in registry(INDEX, ["SparseCPU"], DIALECT.keys).kernels(Op("aten::add.Tensor"))
    ]
    # CPU is not among the backends: nothing shadows the functional kernel
    assert keys == ["schema", "CompositeExplicitAutogradNonFunctional"]


def test_calls_through_the_dispatcher_are_followed_for_a_closure() -> None:
    found = walk("aten::linear")
    assert found.called == {"aten::add.Tensor"}
    assert found.operators == {
        "aten::linear": ROOT,
        "aten::add.Tensor": INDEX.by_name[ADD_CALL],
    }
    assert units(found) == {LINEAR, CORE, STUBS}


def test_calls_are_noted_but_not_followed_for_a_plan() -> None:
    found = walk("aten::linear", follow_calls=False)
    assert found.called == {"aten::add.Tensor"}
    assert found.operators == {"aten::linear": ROOT}
    assert units(found) == {LINEAR, CORE}


def test_generated_units_are_never_among_the_units_to_compile() -> None:
    found = walk("aten::add.Tensor")
    assert units(found) == {STUBS}
    # yet the node is reached: the planner takes whole generated units from there
    assert INDEX.by_name["functions_table"] in found.parents
    assert INDEX.units[INDEX.owners[INDEX.by_name["functions_table"]]].path == FUNCTIONS


def test_a_comdat_belongs_to_no_unit() -> None:
    found = walk(entry=("template_copy",))
    assert units(found) == {CORE}


def test_a_unit_brings_its_initialisers() -> None:
    found = walk(unit=GUARD)
    assert units(found) == {GUARD, CORE}
    assert path(found, "tensor_new") == ["guard_init", "tensor_new"]


def test_a_unit_that_is_reached_by_a_symbol_brings_its_initialisers_too() -> None:
    nodes = {
        "f": ("a.cpp", 1, ["g"]),
        "g": ("b.cpp", 1, []),
        "b_init": ("b.cpp", 1, ["h"]),
        "h": ("c.cpp", 1, []),
    }
    toy = [UnitFacts(path, 1.0) for path in ("a.cpp", "b.cpp", "c.cpp")]
    index = make_index(nodes, toy, [], initialisers={"b.cpp": ["b_init"]})
    found = reach(
        index,
        registry(index, [], DIALECT.keys),
        entry=[index.by_name["f"]],
        operators=[],
        follow_calls=True,
    )
    assert found.units == {0, 1, 2}
    assert found.parents[index.by_name["b_init"]] == index.by_name["g"]


def test_the_interpreters_operators_do_not_call_one_another() -> None:
    """What a unit of theirs registers at start is called by name, in a model's bytecode."""
    nodes = {
        "prims_init": ("prims.cpp", 8, ["to_list"]),
        "to_list": ("prims.cpp", 8, ["tensor_call"]),
        "list_length": ("prims.cpp", 8, []),
        "tensor_call": (CORE, 8, []),
    }
    units = [UnitFacts("prims.cpp", 1.0), UnitFacts(CORE, 1.0)]
    registrations = [("aten::len.t", "jit", "prims.cpp", ["list_length"])]
    initialisers = {"prims.cpp": ["prims_init"]}
    index = make_index(nodes, units, registrations, initialisers=initialisers)
    kernels = registry(index, ["CPU"], DIALECT.keys)

    def reached(follow_calls: bool) -> set[str]:
        found = reach(
            index,
            kernels,
            entry=(),
            operators=[Op("aten::len.t")],
            follow_calls=follow_calls,
        )
        return {index.names[node] for node in found.parents}

    assert reached(follow_calls=True) == {"list_length"}
    # linked it is all the same, with all that it registers
    assert reached(follow_calls=False) == set(nodes)


def test_parents_give_a_shortest_path() -> None:
    found = walk("aten::linear")
    assert path(found, "tensor_new") == [
        "cpu_linear",
        "linear_kernel",
        "template_copy",
        "tensor_new",
    ]
    # from two roots, the nearer one
    assert path(walk("aten::linear", entry=("capi_needs",)), "tensor_new") == [
        "capi_needs",
        "tensor_new",
    ]


def test_the_unit_of_a_hand_written_registration_is_compiled() -> None:
    found = walk("toy::conv")
    assert units(found) == {CONVOLUTION, MINIZ}


def test_an_operator_without_a_registration_reaches_nothing() -> None:
    found = walk("aten::unknown")
    assert (found.parents, found.operators) == ({}, {"aten::unknown": ROOT})


@pytest.mark.parametrize("order", [1, -1])
def test_the_order_of_roots_does_not_matter(order: int) -> None:
    roots = ["toy::conv", "aten::linear", "aten::add.Tensor"][::order]
    assert walk(*roots) == walk("aten::add.Tensor", "aten::linear", "toy::conv")


def test_cycles_end() -> None:
    nodes = {"a": ("u.cpp", 1, ["b"]), "b": ("u.cpp", 1, ["a"])}
    index = make_index(nodes, [UnitFacts("u.cpp", 1.0)], [])
    found = reach(
        index, registry(index, [], DIALECT.keys), entry=[0], operators=[], follow_calls=False
    )
    assert found.parents == {0: ROOT, 1: 0}


# b.cpp is what a.cpp asks for behind a test that its tensors never pass.
READ = "_ZN1b4readERKN2at6TensorE"
# Data whose mangled names look as a function's do: a member of a template, a function's own.
ALIKE = ("_ZN6detail8RegistryIN2at6TensorEE8instanceE", "_ZZN2at3fooEvE5table")
CUT_NODES = {
    "a": ("a.cpp", 1, [READ]),
    READ: ("b.cpp", 1, ["deep"]),
    "_ZN1b5tableE": ("b.cpp", 1, []),
    "_ZTVN1b1BE": ("b.cpp", 1, []),
    **{name: ("b.cpp", 1, []) for name in ALIKE},
    "#7@b.cpp": ("b.cpp", 1, []),
    "deep": ("c.cpp", 1, []),
    "also": ("a.cpp", 1, [READ]),
}
CUT_UNITS = [UnitFacts("a.cpp", 1.0), UnitFacts("b.cpp", 1.0), UnitFacts("c.cpp", 1.0)]


def cut_walk(
    nodes: dict[str, tuple[str, int, list[str]]],
    operators: tuple[str, ...] = (),
    registrations: tuple[tuple[str, str, str, list[str]], ...] = (),
) -> tuple[set[str], frozenset[str]]:
    """From `a`, with b.cpp cut: the units that are entered, and the stubs."""
    index = make_index(nodes, CUT_UNITS, registrations, functions=[READ])
    found = reach(
        index,
        registry(index, ["CPU"], DIALECT.keys),
        entry=iter([index.by_name["a"]]),
        operators=map(Op, operators),
        cut=[1],
        follow_calls=False,
    )
    return {index.units[number].path for number in found.units}, found.stubs


def test_a_cut_units_functions_become_stubs() -> None:
    assert cut_walk(CUT_NODES) == ({"a.cpp"}, frozenset({READ}))


@pytest.mark.parametrize("data", ["_ZN1b5tableE", "_ZTVN1b1BE", "#7@b.cpp", *ALIKE])
def test_a_unit_of_which_data_is_needed_cannot_be_cut(data: str) -> None:
    nodes = CUT_NODES | {"a": ("a.cpp", 1, [READ, data])}
    assert cut_walk(nodes) == ({"a.cpp", "b.cpp", "c.cpp"}, frozenset())


def test_a_unit_that_registers_what_is_selected_cannot_be_cut() -> None:
    by_hand = ("aten::quantized", "CPU", "b.cpp", [READ])
    entered, stubs = cut_walk(CUT_NODES, ("aten::quantized",), (by_hand,))
    assert (entered, stubs) == ({"a.cpp", "b.cpp", "c.cpp"}, frozenset())
    assert cut_walk(CUT_NODES, (), (by_hand,))[0] == {"a.cpp"}


@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=DIALECTS)
def test_of_each_unit_that_may_be_cut_the_functions_are_known(dialect: Dialect) -> None:
    """Without, none of its references becomes a stub, and it is never cut."""
    index, cuttable = shipped(dialect), {rule.unit for rule in dialect.facts.cuts}
    assert {index.units[index.owners[node]].path for node in index.functions} == cuttable
    known = {index.names[node].split("@", 1)[0] for node in index.functions}
    assert "_ZN2at16UnknownQuantizer8quantizeERKNS_6TensorE" in known
    # a flag within a constructor, and what guards another
    local = "_ZZN2at19SparseCsrTensorImplC1EN3c1014DispatchKeySetEN6caffe28TypeMetaENS_6TensorE"
    assert not [name for name in known if name.startswith((local, "_ZTV", "_ZGV"))]
    assert [name for name in index.names if name.startswith(local)]
