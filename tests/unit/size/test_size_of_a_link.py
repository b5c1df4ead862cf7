"""What a linked library has, and who asks for it: of a toy that is linked with and without."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from pathlib import Path

import pytest
from zig_tool import zig

from orchestrator.binary.elf import exported_symbols
from orchestrator.binary.elf_layout import layout
from orchestrator.binary.elf_strip import split
from orchestrator.binary.elf_symbols import placed_symbols
from orchestrator.index.objects import read_object
from orchestrator.pytorch.v2_6.dialect import DIALECT
from orchestrator.report.size import sizes_json, sizes_text
from orchestrator.size.attribution import Asked, Attribution, exclusive, shares_of
from orchestrator.size.dtypes import SEVERAL, dtypes_of, named
from orchestrator.size.graph import LinkedGraph, LinkedObject, Node, Wanted
from orchestrator.size.linked import linked_graph

BASE = """
int sink(const char* text, const int* numbers) { return text[0] + numbers[0]; }
int both(int x) { return x % 77 + sink("of both alone", &x); }
__attribute__((visibility("default"))) int lta_run(int x) { return sink("of the base", &x); }
"""
# an operator's unit: an initialiser, code, a table, a text and a pointer that the loader relocates
OPERATOR = """
extern int sink(const char*, const int*);
extern int both(int);
static const int table[{size}] = {{1, 2, 3}};
static int compute(int x) {{ return both(x) + sink("the text of {name}", table) + table[x & 255]; }}
int (*volatile entry_{name})(int);
static int (*const entries[4])(int) = {{compute, compute, compute, compute}};
__attribute__((constructor)) static void start(void) {{
  entry_{name} = entries[sink("s", table) & 3];
}}
"""
# an operator with a case for each selected dtype, as PyTorch's switches are
SWITCHING = """
namespace c10 {{ enum class ScalarType : char {{ Float, Long }}; }}
namespace lta {{ extern "C++" void dtype_not_implemented(const char*, c10::ScalarType); }}
namespace at {{
template <class T> __attribute__((noinline)) int kernel(const void* data) {{
  const T* given = static_cast<const T*>(data);
  T sum = 0;
#pragma clang loop unroll(full)
  for (int n = 0; n < 64; ++n) sum += given[n] / (sum + T(3)) + given[n] * given[99 - n];
  return int(sum);
  return int(sum);
}}
__attribute__((noinline)) static int run(int dtype, const void* data) {{
  switch (c10::ScalarType(dtype)) {{
    {cases}
    default: lta::dtype_not_implemented("sum_cpu", c10::ScalarType(dtype));
  }}
  return 0;
}}
}}
volatile int chosen;
const void* volatile given;
__attribute__((constructor)) static void start() {{ chosen = at::run(chosen, given); }}
"""
RAISING = """
namespace c10 { enum class ScalarType : char; }
namespace lta { void dtype_not_implemented(const char*, c10::ScalarType) { __builtin_trap(); } }
extern "C" __attribute__((visibility("default"))) void lta_run() {
  lta::dtype_not_implemented("", {});
}
"""
CASES = {
    "Float": "case c10::ScalarType::Float: return kernel<float>(data);",
    "Long": "case c10::ScalarType::Long: return kernel<long>(data);",
}
FLAGS = ("-O2", "-g0", "-fPIC", "-fno-sanitize=all", "-fvisibility=hidden")
SECTIONS = ("-ffunction-sections", "-fdata-sections", "-fno-stack-protector")
ASKED = {"toy::large": ["large.c"], "toy::small": ["small.c"]}


def compiled(folder: Path, name: str, text: str, suffix: str = ".c") -> Path:
    source, unit = folder / f"{name}{suffix}", folder / f"{name}.o"
    source.write_text(text)
    zig("c++" if suffix == ".cpp" else "cc", *FLAGS, *SECTIONS, "-c", source, "-o", unit)
    return unit


def linked(folder: Path, *units: Path) -> Path:
    library = folder / f"lib{len(units)}.so"
    zig("cc", "-shared", "-nostdlib", "-O2", "-Wl,--gc-sections", *units, "-o", library)
    return library


def stripped(library: Path) -> bytes:
    return split(library.read_bytes(), f"{library.name}.debug").stripped


def graph_of(library: Path, wanted: Wanted, *units: Path) -> LinkedGraph:
    symbols = placed_symbols(library)
    return linked_graph(
        [LinkedObject(f"{u.stem}.c", read_object(u), u.stem == "base") for u in units],
        layout(stripped(library), symbols),
        symbols,
        exported_symbols(library),
        DIALECT.symbols,
        wanted,
    )


@pytest.fixture(scope="module")
def units(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Path]:
    folder = tmp_path_factory.mktemp("toy")
    return (
        compiled(folder, "base", BASE),
        compiled(folder, "large", OPERATOR.format(name="large", size=4096)),
        compiled(folder, "small", OPERATOR.format(name="small", size=1024)),
    )


@pytest.fixture(scope="module")
def attribution(units: tuple[Path, Path, Path]) -> tuple[Attribution, LinkedGraph]:
    library = linked(units[0].parent, *units)
    graph = graph_of(library, Wanted({}, ASKED, {}), *units)
    nobody = Asked({"model": ("forward at net.py:3",)})
    size = len(stripped(library))
    asked = dict.fromkeys(ASKED, nobody)
    return Attribution("toy", "abi", "", size, None, {}, asked, shares_of(graph)), graph


def test_the_sum_is_the_file(attribution: tuple[Attribution, LinkedGraph]) -> None:
    found, graph = attribution
    assert sum(share.bytes for share in found.shares) == found.size
    assert graph.bytes(range(len(graph.nodes))) == found.size
    assert found.base + found.several + sum(found.alone().values()) == found.size


def test_without_an_operator_the_library_is_smaller_by_what_is_its_alone(
    attribution: tuple[Attribution, LinkedGraph], units: tuple[Path, Path, Path]
) -> None:
    found, graph = attribution
    base, _, small = units
    without = len(stripped(linked(base.parent, base, small)))
    alone = found.alone()["toy::large"]
    assert alone > 16_384
    assert exclusive(graph, [graph.asked["toy::large"]]) == alone
    assert found.size - without == pytest.approx(alone, rel=0.02)
    # neither's alone: the function that both call, with its text
    assert found.several > 0
    assert found.shared()["toy::large"] == found.shared()["toy::small"] == found.several
    texts = {node.name for node in graph.nodes if node.unit == "texts and constants"}
    assert {"'the text of large'", "'the text of small'"} <= texts


def test_a_library_is_kept_as_a_text(attribution: tuple[Attribution, LinkedGraph]) -> None:
    found, _ = attribution
    assert Attribution.parse(json.loads(found.text())) == found
    other = dataclasses.replace(found, size=found.size + 1)
    with pytest.raises(ValueError, match="its shares do not add up to its size"):
        Attribution.parse(json.loads(other.text()))
    with pytest.raises(ValueError, match="format 3"):
        Attribution.parse({"format": 3})


def test_every_view_adds_up(attribution: tuple[Attribution, LinkedGraph]) -> None:
    found, graph = attribution
    for by in ("area", "operator", "dtype", "model", "unit", "symbol"):
        rows = sizes_json(found, graph, by)["rows"]
        assert sum(row["bytes"] for row in rows) == found.size, by
    assert "model: forward at net.py:3" in sizes_text(found, graph, "operator", top=9)


def of_dtypes(folder: Path, *dtypes: str) -> tuple[int, dict[str, int]]:
    """Bytes of a library whose operator has these dtypes, and those that are there for each."""
    cases = "\n".join(CASES[dtype] for dtype in dtypes)
    base = compiled(folder, "base", RAISING, ".cpp")
    name = "".join(dtypes)
    switching = compiled(folder, name, SWITCHING.format(cases=cases), ".cpp")
    library = linked(folder, base, switching)
    wanted = Wanted({}, {"toy::sum": [f"{name}.c"]}, {"sum_cpu": dtypes})
    graph = graph_of(library, wanted, base, switching)
    of, found = dtypes_of(graph), Counter[str]()
    for node, dtype in of.items():
        found[dtype] += graph.nodes[node].total
    assert graph.bytes(range(len(graph.nodes))) == len(stripped(library))
    return len(stripped(library)), dict(found)


def test_without_a_dtype_the_library_is_smaller_by_what_is_there_for_it(tmp_path: Path) -> None:
    whole, found = of_dtypes(tmp_path, "Float", "Long")
    assert found.keys() == {"Float", "Long", SEVERAL}
    assert found["Float"] > 1000
    without, left = of_dtypes(tmp_path, "Long")
    # the switch becomes its only dtype's
    assert left.keys() == {"Long"}
    assert left["Long"] == pytest.approx(found["Long"] + found[SEVERAL], rel=0.1)
    assert whole - without == pytest.approx(found["Float"], rel=0.1)


@pytest.mark.parametrize(
    ("symbol", "dtypes"),
    [
        ("_ZN2at6native12_GLOBAL__N_111cascade_sumILb0ENS_4HalfEEEvRNS8_14TensorIteratorE", "Half"),
        # accumulates in float
        ("_ZN2at13multi_row_sumINS_3vec10VectorizedIfEELl4ENS2_IN3c104HalfEEEEEvv", "Half"),
        ("_ZN2at13multi_row_sumINS_3vec10VectorizedIN3c107complexIfEEEELl4EEEvv", "ComplexFloat"),
        (
            "_ZN1kIZNS_1fEvENK3$_1clIiEEDaT_ENKUlvE9_clEvEUlN3c107complexINS9_4HalfEEEE_",
            "ComplexHalf",
        ),
        # the body of a switch is called with an int, which is no dtype
        ("_ZN1kIZNS_1fEvENK3$_1clIiEEDaT_ENKUlvE2_clEvEUlllE_ZNSG_IiEE10VectorizedIlEE", "Long"),
        ("_ZN2at6native7DEFAULT14topk_impl_loopIffEEvlllllbbPPcPKll", "Float"),
        ("_ZN2at12parallel_forIZNS_1fEENKUlvE6_clEvEUlllE_EEvlllRKT_", ""),
        ("_ZN3c108ArrayRefIlEC2ERKS1_", ""),
        ("_ZNK3c106Scalar6toHalfEv", ""),
        ("_ZN1f12direct_copyIZNK3$_1clEvEUlfE_NS_5otherIdEEEvv", "Double Float"),
    ],
)
def test_dtypes_in_names(symbol: str, dtypes: str) -> None:
    assert sorted(named(symbol)) == dtypes.split()


def test_dtypes_of_a_graph() -> None:
    names = {
        0: "lta_run",
        1: "several",  # a switch over all
        2: "one",  # a switch with one selected dtype
        3: "_ZN6kernelIfEEvv",
        4: "_ZN6kernelIlEEvv",
        5: "helper of the first",
        6: "helper of both",
        7: "helper of the other switch",
        8: "xnn_f32_gemm_minmax_ukernel_4x8__sse",
        9: "xnn_f32_qs8_vcvt_ukernel__sse",
        10: "of all",
    }
    edges = {0: {1, 2, 8, 9, 10}, 1: {3, 4, 6, 10}, 2: {7}, 3: {5, 6}, 4: {6}}
    nodes = [Node(names[n], "a.cpp", {}, edges.get(n, set())) for n in names]
    switches = {1: frozenset({"*"}), 2: frozenset({"Byte"})}
    assert dtypes_of(LinkedGraph(nodes, [0], {}, set(), switches)) == {
        1: SEVERAL,
        2: "Byte",
        3: "Float",
        4: "Long",
        5: "Float",
        6: SEVERAL,
        7: "Byte",
        8: "Float",
        9: SEVERAL,
    }


def test_sizes_kept_without_dtypes_are_read() -> None:
    value = {
        "format": 1,
        "app": "camera",
        "abi": "linux-x86_64",
        "library": "",
        "size": 7,
        "packed": None,
        "made": {},
        "asked": {},
        "claims": [[]],
        "units": ["a.cpp"],
        "shares": [[0, 0, 0, 7]],
    }
    assert Attribution.parse(value).by_dtype() == {"": 7}
