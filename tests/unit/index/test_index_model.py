"""The index file: its round trip, damaged ones, and those that are shipped: above all 1.13.1's."""

from __future__ import annotations

import json
import re
from array import array
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest
import zstandard
from core_toy import make_index
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.build.workshop.runtime_index import shipped_index
from orchestrator.index.model import (
    COMDAT,
    IndexUnreadableError,
    Registration,
    RuntimeIndex,
    UnitFacts,
    load_index,
    save_index,
)
from orchestrator.pytorch.dialect import Dialect
from orchestrator.pytorch.dialects import DIALECTS, load_version
from orchestrator.pytorch.v1_13.dialect import DIALECT
from orchestrator.select.closure import Reach, reach, registry
from orchestrator.values.operators import OperatorName as Op

INDEX = make_index()
FMOD = "_ZN2at6native12_GLOBAL__N_111fmod_kernelERNS_18TensorIteratorBaseE"


def read(data: bytes, folder: Path) -> RuntimeIndex:
    path = folder / "toy.index.zst"
    path.write_bytes(data)
    return load_index(path)


names = st.text(st.characters(codec="utf-8", exclude_characters="\n\0"), min_size=1, max_size=9)
some = st.lists(names, max_size=2).map(tuple)
units = st.builds(
    UnitFacts,
    path=names,
    cost=st.floats(0, 99),
    tags=some,
    open_tags=st.booleans(),
    operators=some,
    classes=some,
    features=some,
    promoted=st.lists(st.tuples(names, names), max_size=2).map(tuple),
    init=st.lists(st.integers(0, 99), max_size=2).map(tuple),
)


@settings(deadline=None)
@given(
    made=st.lists(units, max_size=3), nodes=st.lists(names, max_size=4, unique=True), data=st.data()
)
def test_what_is_saved_is_loaded(
    made: list[UnitFacts],
    nodes: list[str],
    data: st.DataObject,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    column = st.lists(st.integers(-1, 2**31 - 1), min_size=len(nodes), max_size=len(nodes))
    index = RuntimeIndex(
        pytorch="1.13.1",
        tree="7" * 64,
        units=tuple(made),
        registrations=(
            Registration(Op("aten::a.b"), "CPU", 0, (1, 2)),
            Registration(Op("c::d"), "", 1, ()),
        ),
        names=tuple(nodes),
        owners=array("i", data.draw(column)),
        sizes=array("i", data.draw(column)),
        edge_starts=array("i", [0, *data.draw(column)]),
        edges=array("i", data.draw(st.lists(st.integers(0, 2**31 - 1), max_size=3))),
        operator_calls={7: Op("aten::a.b"), 3: Op("c::d")},
        kernel_tags={5: ("abs_cpu", "neg_cpu"), 2: ("copy_",)},
        functions=frozenset(data.draw(st.sets(st.integers(0, 99), max_size=3))),
    )
    loaded = read(save_index(index), tmp_path_factory.getbasetemp())
    assert loaded == index
    assert save_index(loaded) == save_index(index)


def refused(data: bytes | None, folder: Path) -> str:
    path = folder / "toy.index.zst"
    if data is not None:
        path.write_bytes(data)
    with pytest.raises(IndexUnreadableError) as caught:
        load_index(path)
    lines = caught.value.render().splitlines()
    assert lines[:2] + lines[3:] == [
        "error: the runtime index toy.index.zst cannot be read",
        "  expected: an index of format 2",
        "  do:       run: ./orchestrate runtime index",
    ]
    return lines[2].removeprefix("  seen:     ")


def packed(raw: bytes) -> bytes:
    return zstandard.ZstdCompressor().compress(raw)


RAW = zstandard.ZstdDecompressor().decompress(save_index(INDEX))
HEAD, REST = RAW.split(b"\n", 1)


def test_a_missing_index(tmp_path: Path) -> None:
    assert "No such file or directory" in refused(None, tmp_path)


@pytest.mark.parametrize(
    ("data", "seen"),
    [
        (b"", "error determining content size from frame header"),
        (b"no zstd", "error determining content size from frame header"),
        (packed(b""), "not enough values to unpack"),
        (packed(b"{\n"), "Expecting property name"),
        (packed(b"[]\n\0"), "list indices must be integers"),
        (packed(b"{}\n\0"), "'format'"),
        (packed(HEAD.replace(b'"format":2', b'"format":3') + b"\n" + REST), "format 3"),
        (packed(HEAD.replace(b'"cost"', b'"price"') + b"\n" + REST), "unexpected keyword"),
        (packed(HEAD + b"\n"), "subsection not found"),
        (packed(RAW[:-4]), "it ends too early, or too late"),
        (packed(RAW[:-3]), "bytes length not a multiple of item size"),
        (packed(RAW + b"more"), "it ends too early, or too late"),
    ],
)
def test_damaged_files(data: bytes, seen: str, tmp_path: Path) -> None:
    assert seen in refused(data, tmp_path)


def test_a_truncated_file_is_never_a_bug_of_ours(tmp_path: Path) -> None:
    data = save_index(INDEX)
    for length in range(0, len(data), 11):
        assert refused(data[:length], tmp_path)


def test_small_unit_facts_are_left_out() -> None:
    (guard,) = [u for u in json.loads(HEAD)["units"] if u["path"] == "core/Guard.cpp"]
    assert guard == {"path": "core/Guard.cpp", "cost": 1.5, "init": [7]}


# --- what is shipped ---

VERSION, TREE = "1.13.1", "42a09df2978757e63e31e81ada962490830aed222d427d1a20629a7756b141ce"


@pytest.fixture(scope="module")
def shipped() -> RuntimeIndex:
    return shipped_index(DIALECT, TREE)


@pytest.fixture(scope="module", params=DIALECTS)
def either(request: pytest.FixtureRequest) -> RuntimeIndex:
    """That of each version."""
    return load_index(DIALECTS[request.param].index)


def closure(index: RuntimeIndex, *operators: str, follow_calls: bool = True) -> Reach:
    kernels = registry(index, ["CPU", "QuantizedCPU"], DIALECT.keys)
    return reach(index, kernels, entry=[], operators=map(Op, operators), follow_calls=follow_calls)


def test_the_shipped_index_is_of_the_pinned_tree() -> None:
    with pytest.raises(IndexUnreadableError) as caught:
        shipped_index(DIALECT, "0" * 64)
    assert caught.value.render() == (
        "error: the runtime index of PyTorch 1.13.1 was made from another source tree\n"
        f"  expected: {'0' * 64}\n"
        f"  seen:     {TREE}\n"
        "  do:       run: ./orchestrate runtime index"
    )


@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=lambda one: one.version)
def test_the_shipped_index_is_small(dialect: Dialect) -> None:
    assert dialect.index.stat().st_size <= 1_500_000


def test_its_numbers_are_in_range(shipped: RuntimeIndex) -> None:
    nodes, units = len(shipped.names), len(shipped.units)
    assert len(shipped.owners) == len(shipped.sizes) == len(shipped.edge_starts) - 1 == nodes
    assert shipped.edge_starts[nodes] == len(shipped.edges)
    assert 0 <= min(shipped.edges) <= max(shipped.edges) < nodes
    assert COMDAT <= min(shipped.owners) <= max(shipped.owners) < units
    assert min(shipped.sizes) >= 0
    assert len(shipped.by_name) == nodes
    for registration in shipped.registrations:
        assert registration.unit < units
        assert all(target < nodes for target in registration.targets)
    assert all(node < nodes for unit in shipped.units for node in unit.init)


def test_every_operators_name_parses(shipped: RuntimeIndex) -> None:
    operators = {r.operator for r in shipped.registrations}
    assert all(str(Op.parse(operator)) == operator for operator in operators)
    assert len(operators) > 3000


def test_every_operator_that_a_unit_registers_by_hand_is_found(shipped: RuntimeIndex) -> None:
    """The sources' own words (allow lists) against what was cut out of the objects."""
    found = {(r.operator, r.unit) for r in shipped.registrations}
    said = {(name, n) for n, unit in enumerate(shipped.units) for name in unit.operators}
    assert said - found == set()
    assert len(said) > 1000


def test_every_kernel_has_code(shipped: RuntimeIndex) -> None:
    # beside a fallback they are fallthroughs
    fallbacks = {r.unit for r in shipped.registrations if r.key == "fallback"}
    without = {
        r.operator
        for r in shipped.registrations
        if not r.targets and r.key not in ("schema", "catchall") and r.unit not in fallbacks
    }
    assert without == set()


def test_every_tag_is_some_functions(shipped: RuntimeIndex) -> None:
    """But those of templates in headers that no unit instantiates."""
    placed = {tag for tags in shipped.kernel_tags.values() for tag in tags}
    mentioned = {tag for unit in shipped.units for tag in unit.tags}
    assert placed <= mentioned
    assert mentioned - placed == {
        "TensorDataContainer_pretty_print_scalar",
        "TensorDataContainer_pretty_print_tensor_item",
    }


def test_a_kernel_has_its_own_tags(shipped: RuntimeIndex) -> None:
    kernels = "aten/src/ATen/native/cpu/BinaryOpsKernel.cpp"
    (node,) = (n for n, name in enumerate(shipped.names) if name == f"{FMOD}@{kernels}")
    assert shipped.kernel_tags[node] == ("fmod_cpu",)


def test_interpreter_units(shipped: RuntimeIndex) -> None:
    assert {shipped.units[number].path for number in shipped.interpreter_units} == {
        "torch/csrc/jit/mobile/promoted_prim_ops.cpp",
        "torch/csrc/jit/runtime/register_prim_ops.cpp",
        "torch/csrc/jit/runtime/register_special_ops.cpp",
    }


def test_kernels_of_every_kind(shipped: RuntimeIndex) -> None:
    kinds = Counter(r.key for r in shipped.registrations)
    for key, least in (
        ("schema", 2300),
        ("CPU", 1100),
        ("CompositeImplicitAutograd", 800),
        ("CompositeExplicitAutograd", 800),
        ("jit", 600),
        ("QuantizedCPU", 150),
        ("BackendSelect", 80),
        ("promoted", 15),
    ):
        assert kinds[key] >= least, key
    keys = {(r.operator, r.key) for r in shipped.registrations}
    assert {
        ("aten::add.Tensor", "CPU"),
        ("aten::add.Tensor", "schema"),
        ("aten::conv2d", "CompositeImplicitAutograd"),
        ("aten::len.t", "jit"),
        ("prim::TupleIndex", "promoted"),
        ("quantized::conv2d.new", "QuantizedCPU"),
        ("quantized::conv2d.new", "schema"),
        ("_quantized::linear", "QuantizedCPU"),
        ("aten::as_tensor.list", "jit"),
    } <= keys


def test_convolution_reaches_its_slow_kernel(shipped: RuntimeIndex) -> None:
    found = closure(shipped, "aten::conv2d")
    assert {"aten::convolution", "aten::_slow_conv2d_forward"} <= found.operators.keys()
    node = found.operators[Op("aten::_slow_conv2d_forward")]
    path = []
    while node >= 0:
        path.append(shipped.names[node])
        node = found.parents[node]
    # from a kernel of a root operator to the call, each step an edge
    for child, parent in pairwise(path):
        step = shipped.by_name[child], shipped.by_name[parent]
        assert step[0] in shipped.targets(step[1]) or step[1] in shipped.operator_calls
    assert "20_slow_conv2d_forward" in path[0]
    reached = {shipped.units[n].path for n in found.units}
    assert "aten/src/ATen/native/ConvolutionMM2d.cpp" in reached
    # and without following calls, it stops at the dispatcher
    assert closure(shipped, "aten::conv2d", follow_calls=False).operators.keys() == {"aten::conv2d"}


def test_a_dispatch_stub_leads_to_its_kernels(shipped: RuntimeIndex) -> None:
    found = closure(shipped, "aten::add.Tensor")
    reached = {shipped.units[n].path for n in found.units}
    assert "aten/src/ATen/native/cpu/BinaryOpsKernel.cpp" in reached or any(
        "Ufunc" in shipped.names[node] for node in found.parents
    )


def test_a_quantised_operator_brings_its_schema_and_its_classes(shipped: RuntimeIndex) -> None:
    found = closure(shipped, "quantized::linear_dynamic", follow_calls=False)
    reached = {shipped.units[n].path.removeprefix("aten/src/ATen/native/") for n in found.units}
    assert {
        "quantized/cpu/qlinear_dynamic.cpp",
        "quantized/library.cpp",
        # called by the library's initialiser, whatever is selected of it
        "quantized/cpu/fbgemm_utils.cpp",
    } <= reached
    # which also registers the classes of convolutions; what needs none of them is not there
    assert "quantized/cpu/qconv.cpp" in reached
    assert "quantized/cpu/BinaryOps.cpp" not in reached


def test_one_operator_needs_a_small_part(shipped: RuntimeIndex) -> None:
    found = closure(shipped, "aten::relu")
    assert len(found.units) < len(shipped.units) / 2
    assert not [n for n in found.units if shipped.units[n].path.startswith("generated/")]


def test_tags_are_those_of_the_sources(either: RuntimeIndex) -> None:
    units = {unit.path: unit for unit in either.units}
    fill = units["aten/src/ATen/native/cpu/FillKernel.cpp"]
    assert "fill_cpu" in fill.tags
    assert {u.path for u in either.units if u.open_tags} == {
        "aten/src/ATen/native/TriangularOps.cpp",
        "aten/src/ATen/native/quantized/AffineQuantizer.cpp",
    }
    assert load_version(either.pytorch).computed_tags.keys() == {
        u.path for u in either.units if u.open_tags
    }
    assert all(re.fullmatch(r"[\w:./<> -]+", tag) for u in either.units for tag in u.tags)
    assert all(unit.cost >= 0 for unit in either.units)


def test_fallbacks_come_with_the_operators_whose_results_carry_their_key(
    either: RuntimeIndex,
) -> None:
    found = {
        r.operator: either.units[r.unit].path for r in either.registrations if r.key == "fallback"
    }
    assert found == {
        "aten::_conj": "aten/src/ATen/ConjugateFallback.cpp",
        "aten::_neg_view": "aten/src/ATen/native/NegateFallback.cpp",
        "aten::_efficientzerotensor": "aten/src/ATen/ZeroTensorFallback.cpp",
    }
    reached = {either.units[n].path for n in closure(either, "aten::conj").units}
    assert "aten/src/ATen/ConjugateFallback.cpp" in reached


def test_embedding_bags_have_what_sums_their_rows(either: RuntimeIndex) -> None:
    reached = {either.units[n].path for n in closure(either, "aten::embedding_bag").units}
    assert "caffe2/perfkernels/embedding_lookup_idx.cc" in reached


def test_units_are_sorted(either: RuntimeIndex) -> None:
    paths = [unit.path for unit in either.units]
    assert paths == sorted(set(paths))


def graph(names: tuple[str, ...], targets: tuple[tuple[int, ...], ...]) -> RuntimeIndex:
    """An index without units, of nodes with these names and references."""
    starts = [0]
    for those in targets:
        starts.append(starts[-1] + len(those))
    none = array("i", [COMDAT] * len(names))
    edges = array("i", [target for those in targets for target in those])
    return RuntimeIndex("1", "", (), (), names, none, none, array("i", starts), edges, {}, {})


def test_nodes_that_lead_to_others_are_found_backwards() -> None:
    # 0 -> 1 <-> 2 -> 3; 4 -> 4; 5 -> 3
    index = graph(("a", "b", "c", "d", "e", "f"), ((1,), (2,), (1, 3), (), (4,), (3,)))
    assert index.leading_to([2]) == {0, 1, 2}
    assert index.leading_to([3]) == {0, 1, 2, 3, 5}
    assert index.leading_to([4]) == {4}
    assert index.leading_to([]) == frozenset()


def test_symbols_are_found_whatever_was_asked_for_before() -> None:
    index = graph(("_ZN1AC2Ev", "f", "f@a.cpp", "g@b.cpp"), ((), (), (), ()))
    assert index.defining(["f"]) == (1, 2)
    assert index.defining(["g", "_ZN1AC1Ev", "h"]) == (0, 3)
    assert index.defining(["h", "f", "g"]) == (1, 2, 3)
    assert index.starting_with(("f", "_Z")) == (0, 1, 2)
    assert index.starting_with(("g",)) == (3,)
