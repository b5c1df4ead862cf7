"""Libraries as sources of units: their data, their units, the closure over their indices."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_args

import pytest
from shipped_library import CONVOLUTION, INT8, PROCESSORS, WANTED, shipped

from orchestrator.build.workshop.native import NATIVE
from orchestrator.index.model import IndexUnreadableError
from orchestrator.libraries.declared import LibraryData, load_library
from orchestrator.libraries.features import (
    FeatureEntry,
    asked_by_operators,
    asked_by_units,
    entries_text,
    library_symbols,
    load_entries,
    load_features,
    own_units,
    sources_of,
    units_calling,
    with_beside,
)
from orchestrator.libraries.index import (
    LibraryNeeds,
    LibraryUnlinkableError,
    library_index_path,
    load_library_index,
)
from orchestrator.libraries.units import kernel_list, library_units
from orchestrator.load.workspace import load_workspace
from orchestrator.plan.libraries import LevelFlags, library_compiles, library_facts
from orchestrator.pytorch.v1_13.dialect import DIALECT
from orchestrator.values.config.forms import KernelPart
from orchestrator.values.config.toolchain import Processor

ROOT = Path(__file__).parents[3]
VERSION = "1.13.1"
DATA = load_library()
# a version for which no symbols are shipped
BARE = replace(DIALECT, folder=Path(__file__).parent)
# In the names of units that are for a level which is not every library's.
OTHER_LEVELS = ("avx512", "avxvnni", "avx256vnni", "neondot")
LISTS = {
    "scalar": ["src/f32-gemm/gen/scalar.c"],
    "sse": ["src/f32-gemm/gen/sse.c", "src/f32-gemm/gen/sse-2.c"],
}


def usual_needs(processor: Processor, symbols: frozenset[str]) -> LibraryNeeds:
    """What symbols need in a library that has the levels of every library."""
    index = shipped(processor)
    units = (unit.path for unit in index.index.units)
    others = {unit for unit in units if any(level in unit for level in OTHER_LEVELS)}
    return index.needs(symbols, others)


def small_library(folder: Path) -> tuple[LibraryData, dict[str, Path]]:
    """A tree of four kernels and what is beside them."""
    tree = folder / "xnnpack"
    for name, paths in LISTS.items():
        lists = tree / f"cmake/gen/{name}_microkernels.cmake"
        lists.parent.mkdir(parents=True, exist_ok=True)
        text = "\n  ".join(paths)
        lists.write_text(
            f"# no list\n\nSET(PROD_{name.upper()}_MICROKERNEL_SRCS\n  {text})\n\n"
            f"SET(NON_PROD_{name.upper()}_MICROKERNEL_SRCS\n  src/never.c)\n"
        )
    for path in (
        "src/init.c",
        "src/im2col.c",
        "src/configs/gemm-config.c",
        "src/configs/hardware-config.c",
        "src/operators/x.c",
        "src/enums/x.c",
        "src/tables/x.c",
        "src/reference/packing.cc",
    ):
        (tree / path).parent.mkdir(parents=True, exist_ok=True)
        (tree / path).touch()
    pool = folder / "pthreadpool"
    (pool / "src").mkdir(parents=True)
    (pool / "src/shim.c").touch()
    some = DATA.kernels["x86_64"][0]
    kernels = (
        some.model_copy(update={"lists": ("scalar",), "flags": ()}),
        some.model_copy(update={"lists": ("sse",), "flags": ("-msse2",)}),
    )
    data = DATA.model_copy(update={"kernels": {"x86_64": kernels}})
    return data, {"xnnpack": tree, "pthreadpool": pool}


def test_the_data() -> None:
    for pin in load_workspace(ROOT, {}).config.pins.values():
        assert set(DATA.trees) == set(pin.libraries)
    assert set(DATA.kernels) == set(DATA.indexed) == set(PROCESSORS)
    assert all((NATIVE / header).is_file() for header in DATA.headers)
    kernels = (one.header for sets in DATA.kernels.values() for one in sets)
    assert {*filter(None, kernels)} <= {*DATA.headers}
    assert {rule.tree for rule in DATA.licences} == set(DATA.trees)
    assert len(DATA.flags) == len(set(DATA.flags))


def test_units_of_a_small_tree(tmp_path: Path) -> None:
    data, trees = small_library(tmp_path)
    units = {unit.name: unit for unit in library_units(data, "x86_64", trees)}
    assert kernel_list(trees["xnnpack"], "sse") == tuple(LISTS["sse"])
    assert list(units) == sorted(units)
    kernel = units["xnnpack/src/f32-gemm/gen/sse-2.c"]
    assert (kernel.kernel, kernel.flags) == (True, ("-msse2",))
    assert kernel.source == "$library_xnnpack/src/f32-gemm/gen/sse-2.c"
    assert units["xnnpack/src/configs/gemm-config.c"].header == "libraries/xnnpack_levels.h"
    assert units["xnnpack/src/configs/hardware-config.c"].header is None
    assert units["xnnpack/src/reference/packing.cc"].language == "c++"
    assert "pthreadpool/src/shim.c" in units
    assert "xnnpack/src/im2col.c" not in units


def test_compilations(tmp_path: Path) -> None:
    data, trees = small_library(tmp_path)
    units = library_units(data, "x86_64", trees)
    here: Any = SimpleNamespace(
        optimize="balanced", abi="x", toolchain="t", flags_before=lambda canaries: ("-before",)
    )
    small: Any = SimpleNamespace(**{**vars(here), "optimize": "size"})
    facts = library_facts(data, "digest")
    usual = {one.unit: one for one in library_compiles(facts, here, units)}
    kernel, config = "xnnpack/src/f32-gemm/gen/sse.c", "xnnpack/src/configs/gemm-config.c"
    assert usual[kernel].flags[:2] == ("-before", "-O2")
    assert usual[kernel].flags[-1] == "-msse2"
    assert usual[config].flags[-2:] == ("-include", "$native/libraries/xnnpack_levels.h")
    header = "libraries/sse_limits.h"
    first = replace(next(unit for unit in units if unit.name == kernel), header=header)
    narrow = LevelFlags(without=("LTA_WITHOUT_AVX2",))
    (read_first,) = library_compiles(facts, here, (first,), narrow)
    assert read_first.flags == (*usual[kernel].flags, "-include", f"$native/{header}")
    least = {one.unit: one for one in library_compiles(facts, small, units)}
    assert least[kernel] == usual[kernel], "kernels are one object, however an app is optimised"
    assert ("-Oz" in least[config].flags, "-Os" in usual[config].flags) == (True, True)
    other = library_compiles(replace(facts, digest="another"), here, units)
    assert not {one.fingerprint for one in other} & {one.fingerprint for one in usual.values()}


def test_a_kernel_of_several_sets_is_of_the_first(tmp_path: Path) -> None:
    data, trees = small_library(tmp_path)
    scalar, sse = data.kernels["x86_64"]
    first = sse.model_copy(update={"only": ("src/**/sse-2.c",), "header": "x.h"})
    both = data.model_copy(update={"kernels": {"x86_64": (scalar, first, sse)}})
    units = {Path(unit.path).name: unit for unit in library_units(both, "x86_64", trees)}
    assert (units["sse-2.c"].header, units["sse.c"].header) == ("x.h", None)
    assert units["sse-2.c"].flags == units["sse.c"].flags


@pytest.mark.parametrize("processor", PROCESSORS)
def test_a_shipped_index(processor: Processor) -> None:
    path = library_index_path("xnnpack", processor)
    assert path.stat().st_size < 150_000
    index = shipped(processor)
    needs = usual_needs(processor, WANTED)
    assert "pthreadpool/src/shim.c" in needs.units
    assert 30 <= len(needs.units) <= 80
    assert 20_000 < needs.bytes < 120_000
    assert not any("/qs8-" in unit or "/qu8-" in unit for unit in needs.units)
    assert set(usual_needs(processor, CONVOLUTION).units) <= set(needs.units)
    assert index.needs(()) == type(needs)((), 0)


def test_levels_that_are_cut() -> None:
    units = usual_needs("x86_64", WANTED).units
    assert any("fma3" in unit for unit in units)
    assert any("-sse-" in unit for unit in units)
    left = [unit for unit in units if "avx512" in unit or "sse41" in unit or "ssse3" in unit]
    assert left == []


@pytest.mark.parametrize(
    ("processor", "levels"),
    [("x86_64", ("avxvnni", "avx512vnni", "avx512skx")), ("arm64", ("neondot",))],
)
def test_levels_of_int8_layers(processor: Processor, levels: tuple[str, ...]) -> None:
    """They are in the index, for int8 alone, and cost what an app without them does not pay."""
    every, usual = shipped(processor).needs(INT8), usual_needs(processor, INT8)
    for level in levels:
        assert any(level in unit for unit in every.units)
        assert not any(level in unit for unit in usual.units)
    assert 2_000 < every.bytes - usual.bytes < 30_000
    floats = shipped(processor).needs(WANTED).units
    assert not any(level in unit for unit in floats for level in levels)


def test_what_no_unit_defines() -> None:
    with pytest.raises(LibraryUnlinkableError) as caught:
        shipped("x86_64").needs(["xnn_initialize", "xnn_nothing"])
    assert caught.value.what == "xnnpack 0.0~git20241108 does not define xnn_nothing"


def test_an_index_of_other_sources() -> None:
    with pytest.raises(IndexUnreadableError) as caught:
        load_library_index("xnnpack", "arm64", "another")
    assert caught.value.hint == "run: ./orchestrate library index --processor arm64"


def test_features() -> None:
    parts = get_args(KernelPart)
    assert asked_by_operators(["aten::add.Tensor"], ["aten::conv2d"], parts) == frozenset()
    convolution = {
        "convolution",
        "convolution_site",
        "images",
        "large_windows",
        "rewrite",
        "spares",
    }
    assert asked_by_operators(["aten::conv2d"], [], parts) == convolution
    assert asked_by_operators(["aten::linear", "aten::relu"], [], parts) == {
        "linear",
        "rewrite",
        "spares",
    }
    recurrent = {"recurrent", "recurrent_steps", "rewrite", "spares"}
    assert asked_by_operators(["aten::gru.input"], [], parts) == recurrent
    assert asked_by_operators(["aten::lstm.data"], [], parts) == frozenset()
    up = ["aten::slow_conv_transpose2d"]
    transposed = asked_by_operators(["aten::_convolution"], up, parts)
    assert transposed == {*convolution, "transposed"}
    packed = asked_by_operators(["prepacked::linear_clamp_run"], [], parts)
    assert packed == {"linear", "prepacked_linear", "rewrite", "spares"}
    int8 = asked_by_operators(["quantized::conv2d.new"], [], parts)
    assert int8 == {"quantised_convolution", "depthwise_vnni", "quantise", "rewrite", "spares"}
    both = ["aten::_convolution", "prepacked::linear_clamp_run"]
    assert asked_by_operators(both, up, ["linear", "gemm"]) == packed
    assert asked_by_operators(both, up, ["gemm"]) == frozenset()
    vectors = asked_by_operators(["aten::matmul"], ["aten::mv", "aten::addmv_"], ["gemm"])
    assert vectors == asked_by_operators(["aten::dot"], [], ["gemm"]) == {"vectors"}
    short = {"shortcuts", "shortcut_products", "small_products"}
    products = asked_by_operators(["aten::matmul"], [], parts)
    assert products == {"products", "linear", "rewrite", "spares", *short}
    assert asked_by_operators(["aten::view"], [], parts) == {
        "shortcut_views",
        "shortcuts",
        "spares",
    }
    assert with_beside({"softmax"}) == {"softmax", "shortcut_softmax", "shortcuts", "spares"}
    pools = asked_by_operators(["aten::max_pool2d"], [], parts)
    assert pools == {"pooling", "pooling_rows", "images", "rewrite", "spares"}
    assert with_beside({"attention"}) == {"attention", "attention_rows", "vectors"}
    assert {one.part or one.name for one in load_features()} > set(parts)
    cpu = "aten/src/ATen/native/cpu/"
    assert asked_by_units() == {
        f"{cpu}BlasKernel.cpp": "gemm",
        f"{cpu}FlashAttentionKernel.cpp": "attention",
        f"{cpu}SoftMaxKernel.cpp": "softmax",
        f"{cpu}layer_norm_kernel.cpp": "layer_norm",
        f"{cpu}Activation.cpp": "activation",
        f"{cpu}UnaryOpsKernel.cpp": "unary",
        "aten/src/ATen/native/LinearAlgebra.cpp": "batches",
        "generated/UfuncCPUKernel_add.cpp": "add",
    }
    assert asked_by_units(["binary", "softmax"]) == {
        f"{cpu}SoftMaxKernel.cpp": "softmax",
        "generated/UfuncCPUKernel_add.cpp": "add",
    }
    blas = "aten/src/ATen/native/BlasKernel.cpp"
    assert units_calling({"vectors", "unary", "linear"}) == {blas, f"{cpu}UnaryOpsKernel.cpp"}
    assert sources_of({"linear", "rewrite"}) == ("kernels/rewrite.cpp", "kernels/linear.cpp")
    assert all((NATIVE / one.source).is_file() for one in load_features())
    names = {one.name for one in load_features()}
    assert all(set(one.beside) <= names for one in load_features())


def test_units_of_ours() -> None:
    """They are no variant's features, and all that they call is what PyTorch defines."""
    (unit,) = own_units(DIALECT)
    assert unit.source == "kernels/prepacked.cpp"
    assert "prepacked::conv2d_clamp_run" in unit.operators
    assert any(symbol.startswith("_ZN2at4_ops6linear4call") for symbol in unit.symbols)
    assert asked_by_operators(unit.operators, (), get_args(KernelPart)).isdisjoint({"prepacked"})
    assert library_symbols([load_entries(DIALECT)["prepacked"]]) == frozenset()
    assert own_units(BARE) == ()


def test_the_shipped_symbols() -> None:
    entries = load_entries(DIALECT)
    assert set(entries) == {one.name for one in load_features()}
    assert entries_text(entries) == DIALECT.kernels.read_text()
    for processor in PROCESSORS:
        assert shipped(processor).needs(library_symbols(entries.values())).units


def test_the_exact_text() -> None:
    entry = FeatureEntry(frozenset({"b", "a"}), frozenset())
    assert entries_text({"x": entry}) == (
        '{\n "x": {\n  "library": [\n   "a",\n   "b"\n  ],\n  "runtime": []\n }\n}\n'
    )
    assert load_entries(BARE) == {}
