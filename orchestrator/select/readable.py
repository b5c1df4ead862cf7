"""Mangled names of C++ for people: `at::native::add` for `_ZN2at6native3addERKNS_6TensorE`. Pure.

By the Itanium C++ ABI, 5.1. Of a nested name it is what stands before template arguments, and
nothing tells of the parameters: enough to find a function in PyTorch's sources.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

# Special names (5.1.4.1 and 5.1.4.4), longest first.
_OF: Final[Mapping[str, str]] = {
    "GV": "guard of",
    "TC": "construction vtable of",
    "TH": "thread-local initialisation of",
    "TI": "type information of",
    "TS": "type name of",
    "TT": "virtual table table of",
    "TV": "vtable of",
    "TW": "thread-local access to",
}
# 5.1.3; what kernels' objects have besides is told without its operator.
_OPERATORS: Final[Mapping[str, str]] = {
    "aS": "=",
    "cl": "()",
    "cv": " (a conversion)",
    "dl": " delete",
    "eq": "==",
    "ix": "[]",
    "lS": "<<=",
    "ls": "<<",
    "lt": "<",
    "mI": "-=",
    "mi": "-",
    "mL": "*=",
    "ml": "*",
    "ne": "!=",
    "nw": " new",
    "pL": "+=",
    "pl": "+",
    "pt": "->",
    "rs": ">>",
}
_INITIALISERS: Final = "_GLOBAL__sub_I_"


def readable(symbol: str) -> str:
    """A node's name, without `@` and what follows; names that are not C++ as they are."""
    name = symbol.partition("@")[0]
    if name.startswith("#"):
        return "a section without a symbol"
    if name.startswith(_INITIALISERS):
        return f"static initialisers of {name.removeprefix(_INITIALISERS)}"
    if not name.startswith("_Z"):
        return name
    return _encoding(name.removeprefix("_Z")) or name


def _encoding(text: str) -> str:
    """Readable form of a mangled name without its `_Z`; empty if there is no identifier in it."""
    if text[:2] in _OF:
        inner = "a function type" if text[2:3] in ("F", "P") else _encoding(text[2:])
        return inner and f"{_OF[text[:2]]} {inner}"
    if thunk := re.match("T[hcv]+(n?[0-9]+_)+", text):  # with offsets before the function
        inner = _encoding(text[thunk.end() :])
        return inner and f"thunk to {inner}"
    if text.startswith("Z"):
        inner = _encoding(text.lstrip("Z"))
        return inner and f"a local of {inner}"
    start = re.match(r"N[rVKRO]*(St)?|(St)|L|", text)
    assert start is not None, "the pattern matches nothing too"
    parts = ["std"] if start[1] or start[2] else []
    position = start.end()
    while length := re.compile(r"L?(\d+)").match(text, position):
        position = length.end() + int(length[1])
        parts.append(text[length.end() : position].replace("_GLOBAL__N_1", "(anonymous)"))
        if not text.startswith("N"):
            break
    else:
        parts += _last(parts, text[position : position + 2])
    # `__1` is the C++ library's inline namespace
    return "::".join(part for part in parts if part != "__1")


def _last(parts: list[str], code: str) -> list[str]:
    """The end of a nested name that is no word: a constructor, a destructor or an operator."""
    if parts and re.fullmatch("C[123]", code):
        return [parts[-1]]
    if parts and re.fullmatch("D[012]", code):
        return [f"~{parts[-1]}"]
    return [f"operator{_OPERATORS[code]}"] if code in _OPERATORS else []
