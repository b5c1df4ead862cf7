"""Tells code apart by the dtype that it is there for: of a library's graph. Pure.

What only switches over dtypes lead to is there for the dtypes that are selected. Of a switch with
one selected dtype, that is all of it. Of another one, code is a dtype's by its mangled name, which
has the types that templates and lambdas were instantiated with, or by who refers to it; code of
several dtypes is not told apart: a switch itself, into which cases are inlined, and what several
of its cases need. Kernels of XNNPACK have their types in their names. Mangled names: the Itanium
C++ ABI, 5.1.5.2 (builtin types) and 5.1.7 (lambdas).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Final

from orchestrator.size.graph import LinkedGraph
from orchestrator.values.selection import ALL_DTYPES

# What stands for a dtype: code that is there whatever the dtypes, and code of several.
ANY: Final = ""
SEVERAL: Final = "several"
_BUILTIN: Final = {
    "f": "Float",
    "d": "Double",
    "l": "Long",
    "x": "Long",  # as 64-bit Apple systems have int64_t
    "i": "Int",
    "s": "Short",
    "a": "Char",
    "h": "Byte",
    "b": "Bool",
}
_NAMED: Final = {
    "4Half": "Half",
    "8BFloat16": "BFloat16",
    "11Float8_e5m2": "Float8_e5m2",
    "13Float8_e4m3fn": "Float8_e4m3fn",
    "15Float8_e5m2fnuz": "Float8_e5m2fnuz",
    "15Float8_e4m3fnuz": "Float8_e4m3fnuz",
    "5qint8": "QInt8",
    "6quint8": "QUInt8",
    "6qint32": "QInt32",
    "8quint4x2": "QUInt4x2",
    "8quint2x4": "QUInt2x4",
}
_COMPLEX: Final = {"f": "ComplexFloat", "d": "ComplexDouble"}
# A name tells of the types that it computes with, too: Half in float, indices in long. Of those in
# it, the kernel's are in the first row that has any.
_ROWS: Final = (
    frozenset({*_NAMED.values(), *_COMPLEX.values(), "ComplexHalf"}),
    frozenset({"Float", "Double"}),
    frozenset({"Short", "Char", "Byte"}),
    frozenset({"Int", "Long", "Bool"}),
)
_LETTERS: Final = "".join(_BUILTIN)
_COMPLEX_NAME: Final = re.compile(r"7complexI(?:([fd])|N?(?:S[0-9A-Z]*_|3c10)4HalfE)E")
_NAMED_TYPE: Final = re.compile(rf"(?:(?<=3c10)|(?<!\d))({'|'.join(_NAMED)})(?=[EIS_]|$)")
# Template arguments that are numbers and builtin types alone. Traps: `clIiE` and `SG_IiE` are the
# body of a switch, which is a generic lambda called with an int; the arguments of these containers
# are indices and sizes.
_ARGUMENTS: Final = re.compile(rf"(?<!cl)(?<![_\d])I((?:L[a-z]n?\d+E|[{_LETTERS}])+)E")
_CONTAINERS: Final = ("8ArrayRef", "11SmallVector", "8optional", "6vector", "4pair")
_NUMBER: Final = re.compile(r"L[a-z]n?\d+E")
_LAMBDA: Final = re.compile(rf"Ul([{_LETTERS}]+)E\d*_")
# Lambdas of at::parallel_for.
_RANGES: Final = frozenset({"l", "ll", "x", "xx"})
_XNNPACK: Final = "xnn_"
_XNNPACK_TYPES: Final = {"f32": "Float", "f16": "Half", "qs8": "QInt8", "qu8": "QUInt8"}


def dtypes_of(graph: LinkedGraph) -> dict[int, str]:
    """Node -> the dtype that it is there for, or SEVERAL; without nodes that are there for any."""
    starts = [*graph.base, *graph.asked.values()]
    plain = graph.reached(starts, graph.switches.keys())
    behind = graph.reached(starts) - plain
    switches = {node: dtypes for node, dtypes in graph.switches.items() if node in behind}
    selected = _flowing(graph, behind, switches, frozenset())
    known = {node: own for node in behind if (own := _own(graph, node, selected[node]))}
    told = _flowing(graph, behind, known, known.keys())
    found = {node: _only(told[node]) for node in behind}
    for node in plain:
        if (name := graph.nodes[node].name).startswith(_XNNPACK):
            words = _XNNPACK_TYPES.keys() & name.split("_")
            found[node] = _only({_XNNPACK_TYPES[word] for word in words})
    return {node: dtype for node, dtype in found.items() if dtype != ANY}


def named(symbol: str) -> frozenset[str]:
    """The dtypes that a mangled name tells of its code."""
    found = set(_types(symbol))
    return next((row & found for row in _ROWS if row & found), frozenset())


def _types(symbol: str) -> Iterator[str]:
    for one in _COMPLEX_NAME.finditer(symbol):
        yield _COMPLEX.get(one[1] or "", "ComplexHalf")
    rest = _COMPLEX_NAME.sub("", symbol)
    for one in _NAMED_TYPE.finditer(rest):
        yield _NAMED[one[1]]
    for one in _ARGUMENTS.finditer(rest):
        if not rest[: one.start()].endswith(_CONTAINERS):
            yield from (_BUILTIN[letter] for letter in _NUMBER.sub("", one[1]))
    for one in _LAMBDA.finditer(rest):
        if one[1] not in _RANGES:
            yield from (_BUILTIN[letter] for letter in one[1])


def _own(graph: LinkedGraph, node: int, selected: frozenset[str]) -> frozenset[str]:
    """The dtypes of a node by itself; none where only who refers to it can tell. selected: by the
    switches that lead to it."""
    if len(selected) == 1 and ALL_DTYPES not in selected:
        return selected
    if node in graph.switches:
        return frozenset({SEVERAL})
    own = named(graph.nodes[node].name)
    return own if ALL_DTYPES in selected or own <= selected else frozenset({SEVERAL})


def _flowing(
    graph: LinkedGraph,
    within: Collection[int],
    values: Mapping[int, frozenset[str]],
    fixed: Collection[int],
) -> dict[int, frozenset[str]]:
    """Values of nodes, and of those that they lead to; `fixed` nodes keep their own."""
    found = {node: values.get(node, frozenset()) for node in within}
    left = list(values)
    while left:
        node = left.pop()
        for target in graph.nodes[node].edges:
            if target in found and target not in fixed and not found[node] <= found[target]:
                found[target] |= found[node]
                left.append(target)
    return found


def _only(dtypes: Collection[str]) -> str:
    """The one dtype; SEVERAL where there are more, ANY where there is none."""
    if len(dtypes) > 1:
        return SEVERAL
    return next(iter(dtypes), ANY)
