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
from orchestrator.size.graph import LinkedGraph, LinkedObject, Node, Registered, Wanted
from orchestrator.size.linked import linked_graph
from orchestrator.values.operators import OperatorName

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
# what units with exceptions need of the C++ library
PERSONALITY = """
extern "C" {
int __gxx_personality_v0(...) { return 0; }
void __cxa_begin_catch(void*) {}
void __cxa_end_catch() {}
void _Unwind_Resume(void*) {}
int may_throw(int x) { __builtin_trap(); }
__attribute__((visibility("default"))) int lta_run(int x) { return may_throw(x); }
}
"""
# an operator's unit, with functions that nothing refers to: each has a table of exceptions
CATCHING = """
extern "C" int may_throw(int);
#define TRIED(name) int name(int x) {{ {tries} return 0; }}
{dropped}
namespace {{ TRIED(kept) }}
int (*volatile entry)(int);
__attribute__((constructor)) static void start() {{ entry = kept; }}
"""
# units with a copy each of an inline function, of different sizes, and with code of their own
COPIES = """
extern "C" int may_throw(int);
namespace at {{ __attribute__((noinline)) inline int copied(int x) {{ {calls} return x; }} }}
static int own(int x) {{ {own} return at::copied(x); }}
int (*volatile {name}_entry)(int);
__attribute__((constructor)) static void start() {{ {name}_entry = own; }}
"""
# a list of the interpreter's operators, all of which are then registered at once
LISTED = """
namespace torch::jit {
struct Operator {
  __attribute__((noinline)) Operator(int kind) { given = kind; }
  volatile int given;
};
__attribute__((noinline, optnone)) void take(const char* schema, int (*function)(int)) {
  function(schema[0]);
}
}
volatile int seen;
#define TEN(x) x x x x x x x x x x
static int one(int x) { TEN(x = x * seen + 77;) return x; }
static int two(int x) { TEN(TEN(x = x * seen + 77;)) return x; }
__attribute__((constructor)) static void start() {
  torch::jit::take("aten::one(int a) -> int", one);
  torch::jit::take("aten::two(int a) -> int", two);
  torch::jit::Operator other(3);
}
extern "C" __attribute__((visibility("default"))) void lta_run() {}
"""
FLAGS = ("-O2", "-g0", "-fPIC", "-fno-sanitize=all", "-fvisibility=hidden")
SECTIONS = ("-ffunction-sections", "-fdata-sections", "-fno-stack-protector")
ASKED = {"toy::large": ["large.c"], "toy::small": ["small.c"]}


def compiled(folder: Path, name: str, text: str, suffix: str = ".c", *flags: str) -> Path:
    source, unit = folder / f"{name}{suffix}", folder / f"{name}.o"
    source.write_text(text)
    zig("c++" if suffix == ".cpp" else "cc", *FLAGS, *SECTIONS, *flags, "-c", source, "-o", unit)
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


def alone_and_gone(
    wanted: Wanted, name: str, without: tuple[Path, ...], *units: Path
) -> tuple[int, int]:
    """Bytes that the first unit's operator has alone, and those by which a library of the units
    `without` it is smaller."""
    library = linked(units[0].parent, *units)
    size = len(stripped(library))
    graph = graph_of(library, wanted, *units)
    shares = shares_of(graph)
    assert sum(share.bytes for share in shares) == size
    alone = sum(share.bytes for share in shares if share.asked == (name,))
    return alone, size - len(stripped(linked(units[0].parent, *without)))


@pytest.mark.parametrize("flags", [(), ("-fbinutils-version=2.36",)])
def test_tables_of_dropped_functions_are_their_units(
    tmp_path: Path, flags: tuple[str, ...]
) -> None:
    base = compiled(tmp_path, "base", PERSONALITY, ".cpp")
    tries = "".join(f"try {{ may_throw({n}); }} catch (...) {{ }}" for n in range(20))
    dropped = "\n".join(f"TRIED(dropped_{n})" for n in range(300))
    text = CATCHING.format(tries=tries, dropped=dropped)
    catching = compiled(tmp_path, "catching", text, ".cpp", *flags)
    wanted = Wanted({}, {"toy::catching": ["catching.c"]}, {})
    alone, gone = alone_and_gone(wanted, "toy::catching", (base,), base, catching)
    # the linker keeps all of them, but for those that it is told to keep with their functions alone
    assert (alone > 300 * 20 * 4) == (not flags)
    assert gone == pytest.approx(alone, rel=0.02, abs=800)


@pytest.mark.parametrize(("first", "second"), [(100, 400), (400, 100)])
def test_without_an_operator_another_units_copy_is_linked(
    tmp_path: Path, first: int, second: int
) -> None:
    base = compiled(tmp_path, "base", PERSONALITY, ".cpp")
    call = "x = may_throw(x) * 7;"
    one, other = (
        compiled(
            tmp_path,
            name,
            COPIES.format(name=name, calls=call * calls, own=call * 800),
            ".cpp",
        )
        for name, calls in (("one", first), ("other", second))
    )
    wanted = Wanted({}, {"toy::one": ["one.c"], "toy::other": ["other.c"]}, {})
    alone, gone = alone_and_gone(wanted, "toy::one", (base, other), base, one, other)
    assert gone == pytest.approx(alone, rel=0.02)
    # by 300 calls more or less than what is its alone in any case
    assert gone == pytest.approx(14 * (800 + first - second), rel=0.2)


def test_units_that_are_linked_beside_another_are_there_for_it(
    units: tuple[Path, Path, Path],
) -> None:
    base, large, small = units
    asked = {"toy::large": ["large.c"]}
    wanted = Wanted({}, asked, {}, {"large.c": {"small.c"}})
    alone, gone = alone_and_gone(wanted, "toy::large", (base,), base, large, small)
    # with the sections that nothing else is in
    assert gone == pytest.approx(alone, rel=0.03)


def test_listed_operators_have_their_functions(tmp_path: Path) -> None:
    listed = compiled(tmp_path, "base", LISTED, ".cpp")
    operators = [OperatorName(f"aten::{one}") for one in ("one", "two")]
    selected = {one: Registered(frozenset(), frozenset()) for one in operators}
    wanted = Wanted(selected, {str(one): () for one in operators}, {})
    shares = shares_of(graph_of(linked(tmp_path, listed), wanted, listed))
    code = Counter[tuple[str, ...]]()
    for share in shares:
        code[share.asked] += share.bytes if share.kind == "code" else 0
    assert code["aten::two",] > 1.5 * code["aten::one",] > 0
    # what registers any of them is nobody's
    strings = {share.asked: share.bytes for share in shares if share.kind == "strings"}
    assert strings["aten::one",] == strings["aten::two",] == len("aten::one(int a) -> int") + 1


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
