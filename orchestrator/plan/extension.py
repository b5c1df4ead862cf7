"""Lists the symbols that add-ons import from the library that they extend, by the runtime's index.
Pure.

A library exports the functions and data that have one definition and that other units reference. An
add-on compiles inline functions again. The type information of a class is exported even so, since
it is compared by address.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from functools import lru_cache

from orchestrator.compilers.relink import EXPORTED, EXTENSIBLE
from orchestrator.index.model import COMDAT, RuntimeIndex, aliases

# A function or a variable that no other unit can name.
_INTERNAL = "_GLOBAL__N_"
# Type information of PyTorch's classes (Itanium C++ ABI, 5.1.4.1), not of pointers or functions.
_CLASSES = ("_ZTIN2at", "_ZTIN3c10", "_ZTIN5torch", "_ZTIN6caffe2")
# `std::__1`, in which libc++ keeps its classes on the index's own system.
_LIBCXX = "St3__1"
# Of ours, what all units may call (native/capi/selection_error.h, native/selection).
_OURS = (
    "_ZN3lta12check_failedEPKcjS1_",
    "_ZN3lta18dtype_not_selectedEPKcS1_",
    "_ZN3lta21dtype_not_implementedEPKcN3c1010ScalarTypeE",
)


def extension_symbols(index: RuntimeIndex) -> tuple[str, ...]:
    """The symbols of a runtime that an add-on may take from a library which has them, sorted."""
    found = {name for node in _foreign(index) for name in aliases(_symbol(index, node))}
    found |= {name for name in map(_plain, index.names) if name.startswith(_CLASSES)}
    return tuple(sorted(name for name in {*found, *_OURS} if _INTERNAL not in name))


def _foreign(index: RuntimeIndex) -> set[int]:
    """The nodes of one unit that something outside of it refers to."""
    found: set[int] = set()

    def refer(owner: int, nodes: Iterable[int]) -> None:
        for node in nodes:
            if index.owners[node] not in (COMDAT, owner):
                found.add(node)

    for node in range(len(index.names)):
        refer(index.owners[node], index.targets(node))
    for number, unit in enumerate(index.units):
        refer(number, unit.init)
    for one in index.registrations:
        refer(one.unit, one.targets)
    return found


def _symbol(index: RuntimeIndex, node: int) -> str:
    return _plain(index.names[node])


def _plain(name: str) -> str:
    return name.split("@", 1)[0]


def respelled(symbol: str, namespace: str) -> str:
    """A symbol of the index where libc++ has another inline namespace. What refers back to a part
    of a name counts parts, of which there are as many (Itanium C++ ABI, 5.1.10)."""
    return symbol.replace(_LIBCXX, f"St{len(namespace)}{namespace}")


@lru_cache(maxsize=8)
def version_script(
    app: str, symbols: tuple[str, ...], besides: frozenset[str] = frozenset()
) -> str:
    """The version script of an app's library that takes add-ons: see `compilers/relink.py`.

    besides: what it exports in addition to the C API: functions that the system calls.
    """
    return f"{EXTENSIBLE}{app} */\n" + "".join(_script(symbols, besides))


def _script(symbols: Iterable[str], besides: Iterable[str]) -> Iterator[str]:
    yield "/*\n"
    yield from (f"{symbol}\n" for symbol in symbols)
    names = "; ".join(("lta_*", *sorted(besides), f"{EXPORTED}*"))
    yield f"*/\n{{ global: {names}; local: *; }};\n"


def exports_file(text: str) -> str:
    """The path of a version script in the cache, `$cache/exports/<sha256 of the text>.map`.

    The format: https://sourceware.org/binutils/docs/ld/VERSION.html
    """
    return f"$cache/exports/{hashlib.sha256(text.encode()).hexdigest()}.map"
