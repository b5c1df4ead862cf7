"""What a linked library has, and who asks for it: of a toy that is linked with and without."""

from __future__ import annotations

import dataclasses
import json
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
from orchestrator.size.graph import LinkedGraph, LinkedObject
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
FLAGS = ("-O2", "-g0", "-fPIC", "-fno-sanitize=all", "-fvisibility=hidden")
SECTIONS = ("-ffunction-sections", "-fdata-sections", "-fno-stack-protector")
ASKED = {"toy::large": ["large.c"], "toy::small": ["small.c"]}


def compiled(folder: Path, name: str, text: str) -> Path:
    source, unit = folder / f"{name}.c", folder / f"{name}.o"
    source.write_text(text)
    zig("cc", *FLAGS, *SECTIONS, "-c", source, "-o", unit)
    return unit


def linked(folder: Path, *units: Path) -> Path:
    library = folder / f"lib{len(units)}.so"
    zig("cc", "-shared", "-nostdlib", "-O2", "-Wl,--gc-sections", *units, "-o", library)
    return library


def stripped(library: Path) -> bytes:
    return split(library.read_bytes(), f"{library.name}.debug").stripped


def graph_of(library: Path, *units: Path) -> LinkedGraph:
    symbols = placed_symbols(library)
    return linked_graph(
        [LinkedObject(f"{u.stem}.c", read_object(u), u.stem == "base") for u in units],
        layout(stripped(library), symbols),
        symbols,
        exported_symbols(library),
        DIALECT.symbols,
        {},
        ASKED,
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
    graph = graph_of(library, *units)
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
    with pytest.raises(ValueError, match="format 2"):
        Attribution.parse({"format": 2})


def test_every_view_adds_up(attribution: tuple[Attribution, LinkedGraph]) -> None:
    found, graph = attribution
    for by in ("area", "operator", "model", "unit", "symbol"):
        rows = sizes_json(found, graph, by)["rows"]
        assert sum(row["bytes"] for row in rows) == found.size, by
    assert "model: forward at net.py:3" in sizes_text(found, graph, "operator", top=9)
