"""The code size of kernel tags, from the runtime's index, which has it for all dtypes. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from orchestrator.index.model import COMDAT, RuntimeIndex
from orchestrator.values.selection import Selection

# The cases of a switch over dtypes, which the index does not tell: 4 (floats) to 12 (all) in
# ATen/Dispatch.h. With this number plans of the demo apps come closest to their libraries.
_CASES: Final = 8
_ALL_DTYPES: Final = "*"


def size_of_tag(index: RuntimeIndex, tag: str, unit: int) -> int:
    """Bytes of the unit's functions that switch on the tag, and of its own that these can call.

    Functions that other units have too do not count: the linker keeps one copy of them anyway.
    """
    own = [n for n, tags in index.kernel_tags.items() if tag in tags and index.owners[n] == unit]
    return sum(index.sizes[node] for node in _reached_in_unit(index, own, unit))


def code_behind(index: RuntimeIndex, switches: Iterable[int]) -> set[int]:
    """Nodes that switch on kernel tags, and what only their units have behind them."""
    of_unit = dict[int, list[int]]()
    for node in switches:
        of_unit.setdefault(index.owners[node], []).append(node)
    # behind a function that several units have, all is anybody's
    found = set(of_unit.pop(COMDAT, ()))
    return found.union(*(_reached_in_unit(index, own, unit) for unit, own in of_unit.items()))


def _reached_in_unit(index: RuntimeIndex, nodes: Collection[int], unit: int) -> set[int]:
    reached, left = set(nodes), list(nodes)
    while left:
        node = left.pop()
        for called in index.edges[index.edge_starts[node] : index.edge_starts[node + 1]]:
            if called not in reached and index.owners[called] == unit:
                reached.add(called)
                left.append(called)
    return reached


class UnselectedDtypes:
    """Counts bytes of the index that are code for dtypes outside of a selection. Results are
    memoised, since most variants have most of their units in common."""

    def __init__(self, index: RuntimeIndex) -> None:
        self._index = index
        self._reached: dict[int, set[int]] = {}
        self._of_unit: dict[frozenset[tuple[int, int]], int] = {}

    def bytes(self, switches: Iterable[int], selection: Selection) -> int:
        """Bytes of `switches` (nodes that switch on kernel tags), and of what only their unit has
        behind them, that are not compiled: an estimate."""
        if selection.everything:
            return 0
        cases: dict[int, set[tuple[int, int]]] = {}
        of_tags: dict[tuple[str, ...], int] = {}
        for node in switches:
            tags = self._index.kernel_tags[node]
            if tags not in of_tags:
                of_tags[tags] = _selected_cases(tags, selection)
            selected = of_tags[tags]
            if self._index.owners[node] >= 0 and selected < _CASES:
                cases.setdefault(self._index.owners[node], set()).add((node, selected))
        return sum(self._left_out(frozenset(of_unit)) for of_unit in cases.values())

    def _left_out(self, cases: frozenset[tuple[int, int]]) -> int:
        kept = self._of_unit.get(cases)
        if kept is None:
            most = dict[int, int]()
            for node, selected in cases:
                for reached in self._behind(node):
                    most[reached] = max(selected, most.get(reached, 0))
            sizes = self._index.sizes
            kept = sum(sizes[node] * (_CASES - n) // _CASES for node, n in most.items())
            self._of_unit[cases] = kept
        return kept

    def _behind(self, node: int) -> set[int]:
        found = self._reached.get(node)
        if found is None:
            unit = self._index.owners[node]
            found = self._reached[node] = _reached_in_unit(self._index, [node], unit)
        return found


def _selected_cases(tags: Iterable[str], selection: Selection) -> int:
    """Number of selected cases of a switch on these tags."""
    dtypes = [selection.kernel_dtypes.get(tag, {}) for tag in tags]
    return _CASES if any(_ALL_DTYPES in one for one in dtypes) else max(map(len, dtypes))
