"""The symbols of the runtime that our own native code references: roots of every index traversal.

Shipped as data next to the index, since planning comes before compiling; a test compiles the native
sources and compares.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from orchestrator.index.model import RuntimeIndex, aliases
from orchestrator.index.objects import read_object
from orchestrator.pytorch.dialect import Dialect, Symbols

# Names of PyTorch's own and of QNNPACK's: anything else may be the system's, or a library's.
_OWN = ("_ZN2at", "_ZN3c10", "_ZN5torch", "_ZN6caffe2", "pytorch_")


@dataclass(frozen=True)
class Entry:
    """Symbols that our objects leave undefined, by what they are linked into.

    library   the C API: in every variant
    tracer    the recorder and what it calls, besides
    """

    library: frozenset[str]
    tracer: frozenset[str]


def load_entry(dialect: Dialect) -> Entry:
    """The shipped symbols."""
    data = json.loads(dialect.entry.read_text(encoding="utf-8"))
    return Entry(frozenset(data["library"]), frozenset(data["tracer"]))


def entry_text(entry: Entry) -> str:
    """The file's text; equal values give equal bytes."""
    data = {"library": sorted(entry.library), "tracer": sorted(entry.tracer)}
    return json.dumps(data, indent=1) + "\n"


def recording_symbols(index: RuntimeIndex, known: Symbols) -> frozenset[str]:
    """Symbols that the dispatcher calls to notify observers of an operator. Every call site of a
    tracer does so, and none in the objects of the index (PYTORCH_DISABLE_PER_OP_PROFILING)."""
    symbols = (name.split("@", 1)[0] for name in index.names)
    return frozenset(s for s in symbols if known.recording.match(s))


def loader_symbols(index: RuntimeIndex, known: Symbols) -> frozenset[str]:
    """PyTorch's own loaders, for consumers of the static libraries: the C API uses another one."""
    names = (name for name in index.names if name.startswith(known.loaders))
    return frozenset(name.split("@", 1)[0] for name in names)


def missing_symbols(index: RuntimeIndex, undefined: Iterable[str]) -> tuple[str, ...]:
    """Symbols out of `undefined` that are PyTorch's own, by their names, and that no unit of the
    index defines; sorted."""
    defined = {symbol for name in index.names for symbol in aliases(name.split("@", 1)[0])}
    return tuple(sorted(s for s in {*undefined} - defined if s.startswith(_OWN)))


def undefined_symbols(objects: list[Path]) -> frozenset[str]:
    """Symbols that the objects refer to and none of them defines. Raises ObjectUnreadableError."""
    needed: set[str] = set()
    defined: set[str] = set()
    for path in objects:
        facts = read_object(path)
        defined |= {*facts.global_symbols, *facts.weak_symbols}
        for section in facts.sections.values():
            needed |= {r.symbol for r in section.references if not r.section}
    return frozenset(needed - defined)
