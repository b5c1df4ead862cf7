"""Finds out whether the code that an advisory names is in a library, and what reaches it. Pure.

A library contains what the walk of its plan reaches, since the linker drops the rest. An operator
of the app's models reaches a function if a chain of references leads from one of the operator's
kernels to it; so may the app's own sources, whose operators are all registered. Code that only the
library's own code refers to cannot be called by a model.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping

from orchestrator.index.model import RuntimeIndex
from orchestrator.select.closure import Reach, Registry
from orchestrator.select.readable import readable
from orchestrator.values.advisories import Advisory, Verdict
from orchestrator.values.operators import OperatorName
from orchestrator.values.selection import ALL_CLASSES, Selection


class LinkedCode:
    """The code of one library, and what of it its models' operators and classes reach."""

    def __init__(
        self,
        index: RuntimeIndex,
        kernels: Registry,
        selection: Selection,
        walk: Reach,
        *,
        whole_units: bool = False,
        own: Iterable[int] = (),
        mends: Collection[str] | None = None,
    ) -> None:
        """whole_units: whether the library is an archive, which has all of a unit that it needs.

        own    nodes that the app's own sources begin with, or refer to
        mends  names of the advisories that are mended in it; None: all that can be
        """
        self.index = index
        self.selection = selection
        self.walk = walk
        self.whole_units = whole_units
        self._mends = mends
        self._operators = sorted(
            kernels.by_operator if selection.everything else selection.operators
        )
        self._parents: dict[int, int] = {}
        self._roots: dict[int, str] = {}
        self._reach(kernels, own)

    def _reach(self, kernels: Registry, own: Iterable[int]) -> None:
        left = deque[int]()

        def add(node: int, root: str) -> None:
            if node in self.walk.parents and node not in self._roots:
                self._roots[node] = root
                left.append(node)

        for operator in self._operators:
            for registration in kernels.kernels(operator):
                for node in registration.targets:
                    add(node, f"operator {operator}")
        selected = self.selection.custom_classes
        every = ALL_CLASSES in selected
        for unit in self.index.units:
            for name in sorted(one for one in unit.classes if every or one in selected):
                for node in unit.init:
                    add(node, f"class {name}")
        for node in own:
            add(node, "the app's own sources")
        while left:
            node = left.popleft()
            for target in self.index.targets(node):
                known = target in self._parents or target in self._roots
                if not known and target in self.walk.parents:
                    self._parents[target] = node
                    left.append(target)

    def verdict(self, advisory: Advisory) -> Verdict:
        """The meaning of an advisory that concerns the library's version of PyTorch."""
        if advisory.elsewhere is not None:
            lines = (f"it is in {advisory.elsewhere}",)
            return Verdict(advisory, "not_affected", "code_not_present", lines)
        operators = self._selected(advisory.operators)
        nodes = [node for name in advisory.functions for node in self._nodes(name)]
        linked = [node for node in nodes if node in self.walk.parents]
        if not operators and not linked:
            kept = self.whole_units and any(self._in_a_unit(node) for node in nodes)
            if kept:
                lines = ("the archive has its unit, and nothing refers to it",)
                return Verdict(advisory, "not_affected", "code_not_reachable", lines)
            return Verdict(advisory, "not_affected", "code_not_present", ())
        ways = [*map(self._asked, operators), *self._ways(linked)]
        if not ways and advisory.loads:
            ways = ["loading a model reaches it"]
        if not ways:
            lines = ("no operator or class of a model leads to it",)
            return Verdict(advisory, "not_affected", "code_not_reachable", lines)
        if advisory.mended is not None and (self._mends is None or advisory.id in self._mends):
            lines = (f"{advisory.mended.header} {advisory.mended.how}",)
            return Verdict(advisory, "resolved", None, lines)
        return Verdict(advisory, "exploitable", None, tuple(ways))

    def _selected(self, names: Iterable[str]) -> list[OperatorName]:
        wanted = set(names)
        return [one for one in self._operators if one.qualified in wanted]

    def _asked(self, operator: OperatorName) -> str:
        models = sorted(self.selection.operators.get(operator, ()))
        if self.selection.everything:
            models = ["the library has all operators"]
        return f"operator {operator}" + (f": {', '.join(models)}" if models else "")

    def _nodes(self, function: str) -> list[int]:
        pattern, nested = mangled(function), mangled_name(function)
        # an index has 100,000 names, of which most are done with at once
        first = (f"_ZN{nested}", f"_ZNK{nested}")
        return [
            node
            for node, name in enumerate(self.index.names)
            if name.startswith(first) and pattern.match(name)
        ]

    def _in_a_unit(self, node: int) -> bool:
        return self.index.owners[node] in self.walk.units

    def _ways(self, nodes: Iterable[int]) -> Iterator[str]:
        for node in nodes:
            if node in self._roots or node in self._parents:
                yield self._way(node)

    def _way(self, node: int) -> str:
        chain = [node]
        while chain[-1] in self._parents:
            chain.append(self._parents[chain[-1]])
        names = [self._roots[chain[-1]], *(readable(self.index.names[n]) for n in reversed(chain))]
        return " -> ".join(names)


def verdicts(
    advisories: Iterable[Advisory], pytorch: str, code: LinkedCode
) -> Mapping[str, Verdict]:
    """Name -> verdict, of the advisories that concern a version of PyTorch."""
    return {one.id: code.verdict(one) for one in advisories if one.concerns(pytorch)}


def mangled(function: str) -> re.Pattern[str]:
    """The mangled names of a function's overloads and instances (Itanium C++ ABI, 5.1.2)."""
    return re.compile(rf"_ZNK?{mangled_name(function)}[EI]")


def mangled_name(function: str) -> str:
    """The parts of a qualified name as they are in a mangled one: `2at6native9lstm_cell`."""
    return "".join(f"{len(part)}{part}" for part in function.split("::"))
