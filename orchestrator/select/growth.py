"""Bounds the growth of a library by what a model was seen to use. Pure.

Sizes are the index's, which has all functions with all dtypes: so each is an upper bound.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from orchestrator.index.model import RuntimeIndex
from orchestrator.select.closure import Registry
from orchestrator.select.needs import Needed, added_bytes, needed
from orchestrator.select.tag_code import code_behind
from orchestrator.values.growth import Growth, NewDtypes
from orchestrator.values.operators import OperatorName
from orchestrator.values.selection import ALL_DTYPES, Selection


@dataclass(frozen=True)
class Grown:
    """The library that grows.

    kernels      those that its models can reach, with the new one
    entry        nodes that our own native code refers to
    units, cut   that it has in any case, and that its models cannot enter, by their numbers
    selection    what it has of operators and dtypes
    """

    index: RuntimeIndex
    kernels: Registry
    entry: Collection[int]
    units: Collection[int]
    cut: Collection[int]
    selection: Selection

    def needed(self, operators: Collection[OperatorName]) -> Needed:
        """Closure of the library's entry symbols and units, and of the kernels of `operators`."""
        return needed(
            self.index,
            self.kernels,
            entry=self.entry,
            operators=sorted(operators),
            units=sorted(self.units),
            cut=sorted(self.cut),
            follow_calls=False,
        )


def unknown_to(
    traced: Selection,
    operators: Collection[OperatorName],
    kernel_dtypes: Mapping[str, Collection[str]],
) -> tuple[frozenset[OperatorName], dict[str, tuple[str, ...]]]:
    """Operators, and dtypes by kernel tag, that no trace has."""
    dtypes = dict[str, tuple[str, ...]]()
    for tag in sorted(kernel_dtypes):
        missing = set(kernel_dtypes[tag]).difference(traced.kernel_dtypes.get(tag, ()))
        if missing:
            dtypes[tag] = tuple(sorted(missing))
    return frozenset(operators).difference(traced.operators), dtypes


def growth(
    library: Grown,
    operators: Collection[OperatorName],
    kernel_dtypes: Mapping[str, tuple[str, ...]],
) -> Growth:
    """Upper bound of what new operators, and dtypes of kernel tags, add to a library.

    Code of a tag that only new operators reach is counted with these operators. Dtypes that the
    library has though no trace names them, for operators that no input ran, add nothing.
    """
    known = library.kernels.by_operator.keys()
    before = known & library.selection.operators.keys()
    new = known & frozenset(operators)
    total = 0
    if new:
        _, total = added_bytes(
            library.index,
            library.kernels,
            entry=library.entry,
            operators=sorted(before),
            units=sorted(library.units),
            cut=sorted(library.cut),
            more=sorted(new),
        )
    lacking = [
        tag for tag in kernel_dtypes if not _has_dtypes(library.selection, tag, kernel_dtypes[tag])
    ]
    sizes, code = library.index.sizes, _code_of(library, before, new, lacking)
    rows = []
    for tag, dtypes in sorted(kernel_dtypes.items()):
        behind = code.get(tag, frozenset())
        size = None if behind is None else sum(sizes[node] for node in behind)
        rows.append(NewDtypes(tag, dtypes, size))
    total += sum(sizes[node] for node in frozenset[int]().union(*filter(None, code.values())))
    return Growth(tuple(sorted(operators)), tuple(rows), total)


def _code_of(
    library: Grown,
    before: Collection[OperatorName],
    new: Collection[OperatorName],
    tags: Collection[str],
) -> dict[str, frozenset[int] | None]:
    """For each tag the nodes behind its switches in the library; None where the library has none,
    also with the new operators."""
    if not tags:
        return {}
    has = library.needed(before)
    later = library.needed({*before, *new}) if new else has
    code = dict[str, frozenset[int] | None]()
    for tag in tags:
        behind = frozenset(code_behind(library.index, _switches(library.index, has, tag)))
        known = behind or _switches(library.index, later, tag)
        code[tag] = behind if known else None
    return code


def _has_dtypes(selection: Selection, tag: str, dtypes: Collection[str]) -> bool:
    has = selection.kernel_dtypes.get(tag, {})
    return ALL_DTYPES in has or has.keys() >= set(dtypes)


def _switches(index: RuntimeIndex, found: Needed, tag: str) -> list[int]:
    return [node for node in found.switches if tag in index.kernel_tags[node]]
