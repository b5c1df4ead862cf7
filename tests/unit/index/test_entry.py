"""What our native code needs of the runtime: how it is found, and the shipped list."""

from __future__ import annotations

from pathlib import Path

import pytest
from core_toy import ROOT, compile_text

from orchestrator.build.workshop.runtime_index import shipped_index
from orchestrator.index.entry import (
    Entry,
    entry_text,
    load_entry,
    missing_symbols,
    undefined_symbols,
)
from orchestrator.index.model import aliases
from orchestrator.index.objects import ObjectUnreadableError
from orchestrator.load.workspace import load_config
from orchestrator.plan.planner import entry_nodes
from orchestrator.pytorch.dialect import Dialect
from orchestrator.pytorch.dialects import dialect_of

PINS = load_config(ROOT)[0].pins
every_dialect = pytest.mark.parametrize(
    ("dialect", "tree"),
    [(dialect_of(pin.pytorch), pin.tree) for pin in PINS.values()],
    ids=PINS,
)


def test_undefined_symbols_are_those_that_no_object_defines(tmp_path: Path) -> None:
    one = compile_text(
        tmp_path,
        "one",
        "int two(); int gone(); static int here() { return 1; }\n"
        "inline int shared() { return gone(); }\n"
        "int one() { return two() + here() + shared(); }\n",
    )
    two = compile_text(tmp_path, "two", "int one(); int two() { return one(); }\n")
    assert undefined_symbols([one]) == {"_Z3twov", "_Z4gonev"}
    assert undefined_symbols([one, two]) == {"_Z4gonev"}
    assert undefined_symbols([]) == frozenset()


def test_missing_symbols_are_pytorchs_and_no_units() -> None:
    index = shipped_index(dialect_of("2.6.0"), PINS["pytorch_2_6"].tree, "pytorch_2_6")
    # of the index, where it may have the name of another that has the same body
    a_constructor = next(
        symbol
        for name in index.names
        if "C1E" in name
        for symbol in aliases(name.split("@", 1)[0])
        if symbol not in index.by_name
    )
    asked = {
        "pytorch_q8gemm_ukernel_8x1__none",
        "_ZN2at4noneEv",
        a_constructor,
        # others'
        "malloc",
        "_ZNSt3__16vectorIlED1Ev",
        "xnn_initialize",
    }
    assert missing_symbols(index, asked) == (
        "_ZN2at4noneEv",
        "pytorch_q8gemm_ukernel_8x1__none",
    )


def test_an_object_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "x.o").write_text("no")
    with pytest.raises(ObjectUnreadableError):
        undefined_symbols([tmp_path / "x.o"])


def test_the_exact_text() -> None:
    assert entry_text(Entry(frozenset({"b", "a"}), frozenset())) == (
        '{\n "library": [\n  "a",\n  "b"\n ],\n "tracer": []\n}\n'
    )


@every_dialect
def test_the_shipped_file_is_what_we_write(dialect: Dialect, tree: str) -> None:
    entry = load_entry(dialect)
    assert entry_text(entry) == dialect.entry.read_text()
    assert not entry.library & entry.tracer


@every_dialect
def test_the_shipped_symbols_are_the_runtimes(dialect: Dialect, tree: str) -> None:
    index, entry = shipped_index(dialect, tree), load_entry(dialect)
    known = {alias for name in index.names for alias in aliases(name.split("@", 1)[0])}
    # the rest is libc's and libc++'s
    own = {symbol for symbol in entry.library | entry.tracer if symbol in known}
    assert {s for s in entry.library if "_load_for_mobile" in s} & own
    assert len(entry_nodes(index, entry.library, dialect.symbols)) >= 20
    strange = {
        symbol
        for symbol in (entry.library | entry.tracer) - own
        if symbol.startswith(("_ZN2at", "_ZN3c10", "_ZN5torch", "_ZNK2at", "_ZNK3c10"))
        and not symbol.startswith("_ZN2at4_ops")
    }
    assert strange == set()
