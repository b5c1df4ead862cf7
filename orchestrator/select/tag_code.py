"""The code size of kernel tags, from the runtime's index, which has it for all dtypes. Pure."""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
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


@dataclass(frozen=True)
class Switched:
    """Bytes of the index that only switches over dtypes lead to.

    selected  of the cases that are selected
    hot       what of these is in hot units
    """

    bytes: int
    selected: int
    hot: int


class UnselectedDtypes:
    """Counts code for dtypes, by whether a selection has them. What a switch leads to is the same
    for all selections, and found once."""

    def __init__(self, index: RuntimeIndex) -> None:
        self._index = index
        self._behind_of: dict[int, frozenset[int]] = {}

    def bytes(self, switches: Iterable[int], selection: Selection) -> int:
        """Bytes of `switches` (nodes that switch on kernel tags), and of what only switches have
        behind them, that are not compiled: an estimate."""
        found = self.switched(switches, selection)
        return found.bytes - found.selected

    def switched(
        self, switches: Iterable[int], selection: Selection, hot: Container[int] = ()
    ) -> Switched:
        """The code of `switches` and what is only there for a switch: what several of them need is
        there for the one with most dtypes. hot: indices of units."""
        of_tags, of_cases = dict[tuple[str, ...], int](), dict[int, set[int]]()
        for node in switches:
            tags = self._index.kernel_tags[node]
            if tags not in of_tags:
                cases = _CASES if selection.everything else _selected_cases(tags, selection)
                of_tags[tags] = min(cases, _CASES)
            of_cases.setdefault(of_tags[tags], set()).update(self._behind(node))
        sizes, owners = self._index.sizes, self._index.owners
        seen, selected, in_hot = set[int](), 0, 0
        for cases in sorted(of_cases, reverse=True):
            new = of_cases[cases] - seen
            seen |= new
            kept = {node: sizes[node] * cases // _CASES for node in new} if cases else {}
            selected += sum(kept.values())
            in_hot += sum(size for node, size in kept.items() if owners[node] in hot)
        return Switched(sum(map(sizes.__getitem__, seen)), selected, in_hot)

    def _behind(self, node: int) -> frozenset[int]:
        found = self._behind_of.get(node)
        if found is None:
            reached, left = {node}, [node]
            while left:
                for called in self._index.targets(left.pop()):
                    if called in self._only_for_switches and called not in reached:
                        reached.add(called)
                        left.append(called)
            found = self._behind_of[node] = frozenset(reached)
        return found

    @cached_property
    def _only_for_switches(self) -> frozenset[int]:
        """Nodes that only switches lead to, from whatever registers or initialises something; no
        switches themselves."""
        index = self._index
        roots = chain.from_iterable(r.targets for r in index.registrations)
        plain = self._without(chain(roots, *(unit.init for unit in index.units)), index.kernel_tags)
        behind = chain.from_iterable(map(index.targets, index.kernel_tags))
        return frozenset(self._without(behind, plain)) - (index.kernel_tags.keys())

    def _without(self, roots: Iterable[int], left_out: Container[int]) -> set[int]:
        """Nodes that are reached from roots, and are not left out."""
        reached = {node for node in roots if node not in left_out}
        left = [*reached]
        while left:
            for called in self._index.targets(left.pop()):
                if called not in reached and called not in left_out:
                    reached.add(called)
                    left.append(called)
        return reached


def _selected_cases(tags: Iterable[str], selection: Selection) -> int:
    """Number of selected cases of a switch on these tags."""
    dtypes = [selection.kernel_dtypes.get(tag, {}) for tag in tags]
    return _CASES if any(_ALL_DTYPES in one for one in dtypes) else max(map(len, dtypes))
