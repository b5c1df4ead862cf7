"""Reachability over the runtime index: which units and operators a set of roots needs.

Pure.  This is the traversal itself. It records the parent of every node, from which `why` prints
paths. Plans and static closures need no paths, and are many: `needs` computes the same sets faster.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from orchestrator.index.model import Registration, RuntimeIndex
from orchestrator.pytorch.dialect import DispatchKeys
from orchestrator.values.operators import OperatorName

# Markers of the index: what is registered without a dispatch key.
_WITHOUT_KEY = frozenset({"catchall", "fallback", "jit", "promoted", "schema"})
GENERATED = "generated/"
ROOT = -1


@dataclass(frozen=True)
class Registry:
    """The registrations of one index that count for a set of backends, by operator name.

    kept  the results of `needs` for them, not part of the value; registries of one index may keep
          them in one place: most are the same for all
    """

    by_operator: Mapping[OperatorName, tuple[Registration, ...]]
    kept: dict[object, object] = field(default_factory=dict, compare=False, repr=False)

    def kernels(self, operator: OperatorName) -> tuple[Registration, ...]:
        """Every registration that a selected `operator` brings."""
        return self.by_operator.get(operator, ())


def registry(
    index: RuntimeIndex,
    backends: Iterable[str],
    known: DispatchKeys,
    kept: dict[object, object] | None = None,
) -> Registry:
    """The registrations under `backends` and the alias keys; others are not built. kept: as of
    `Registry`; None: a place of its own."""
    keys = _WITHOUT_KEY | known.alias | {known.backend_select, *backends}
    found: dict[OperatorName, list[Registration]] = {}
    fallback: dict[OperatorName, list[Registration]] = {}
    for registration in index.registrations:
        if registration.key in keys:
            found.setdefault(registration.operator, []).append(registration)
        elif registration.key == known.non_functional:
            fallback.setdefault(registration.operator, []).append(registration)
    for operator, registrations in fallback.items():
        if not any(r.key == known.host for r in found.get(operator, ())):
            found.setdefault(operator, []).extend(registrations)
    by_operator = {operator: tuple(found[operator]) for operator in sorted(found)}
    return Registry(by_operator, {} if kept is None else kept)


@dataclass(frozen=True)
class Reach:
    """Result of a walk.

    parents       node -> the node that led to it, or ROOT
    operators     operator -> the node whose code calls it, or ROOT for a root operator
    units         indices of the units to compile (without generated ones)
    called        operators with a live typed entry point (`at::_ops::X::call`)
    stubs         functions of cut units that live code refers to: symbols to be stubbed
    direct        (dispatch key, operator) of kernels that live code calls without the dispatcher
    """

    parents: Mapping[int, int]
    operators: Mapping[OperatorName, int]
    units: frozenset[int]
    called: frozenset[OperatorName]
    stubs: frozenset[str] = frozenset()
    direct: frozenset[tuple[str, OperatorName]] = frozenset()


def reach(
    index: RuntimeIndex,
    kernels: Registry,
    *,
    entry: Iterable[int],
    operators: Iterable[OperatorName],
    units: Iterable[int] = (),
    cut: Iterable[int] = (),
    follow_calls: bool,
) -> Reach:
    """Traverse from the nodes `entry`, the kernels of `operators` and the initialisers of `units`.

    follow_calls: an operator whose typed entry point is reached counts as selected too: these are
    the operators that the roots may call. cut: units that are not entered. A unit that registers a
    selected operator, or whose data is referenced, is entered all the same, because only a function
    can be replaced by a stub.
    """
    nodes, roots, whole, left = tuple(entry), tuple(operators), tuple(units), frozenset(cut)
    while True:
        walk = _walk(index, kernels, nodes, roots, whole, left, follow_calls)
        if not walk.uncuttable:
            break
        left -= walk.uncuttable
    return Reach(
        walk.parents,
        walk.operators,
        frozenset(walk.units),
        frozenset(walk.called),
        frozenset(walk.stubs),
        frozenset(walk.direct),
    )


def initialisers(index: RuntimeIndex, unit: int, *, follow_calls: bool) -> tuple[int, ...]:
    """The nodes that are reached because `unit` is.

    The operators that the interpreter's units register at start are not callable from roots: each
    is called by its name in a model's bytecode, and brings its own registration.
    """
    if follow_calls and unit in index.interpreter_units:
        return ()
    return index.units[unit].init


def _walk(
    index: RuntimeIndex,
    kernels: Registry,
    entry: Iterable[int],
    operators: Iterable[OperatorName],
    units: Iterable[int],
    cut: frozenset[int],
    follow_calls: bool,
) -> _Walk:
    walk = _Walk(index, kernels, follow_calls, cut)
    for unit in sorted(set(units)):
        walk.add_unit(unit, ROOT)
    for node in sorted(set(entry)):
        walk.add_node(node, ROOT)
    for operator in sorted(set(operators)):
        walk.add_operator(operator, ROOT)
    walk.run()
    return walk


class _Walk:
    def __init__(
        self, index: RuntimeIndex, kernels: Registry, follow_calls: bool, cut: frozenset[int]
    ) -> None:
        self.index = index
        self.kernels = kernels
        self.follow_calls = follow_calls
        self.parents: dict[int, int] = {}
        self.operators: dict[OperatorName, int] = {}
        self.units: set[int] = set()
        self.called: set[OperatorName] = set()
        self.cut = cut
        self.stubs: set[str] = set()
        self.direct: set[tuple[str, OperatorName]] = set()
        self.uncuttable: set[int] = set()
        self.queue: list[int] = []

    def add_node(self, node: int, parent: int) -> None:
        if self.index.owners[node] in self.cut:
            self.stub(node)
        elif node not in self.parents:
            self.parents[node] = parent
            self.queue.append(node)

    def stub(self, node: int) -> None:
        if node in self.index.functions:
            self.stubs.add(self.index.names[node].split("@", 1)[0])
        else:
            self.uncuttable.add(self.index.owners[node])

    def add_unit(self, unit: int, parent: int) -> None:
        if unit in self.units or self.index.units[unit].path.startswith(GENERATED):
            return
        if unit in self.cut:
            self.uncuttable.add(unit)
            return
        self.units.add(unit)
        for node in initialisers(self.index, unit, follow_calls=self.follow_calls):
            self.add_node(node, parent)

    def add_operator(self, operator: OperatorName, parent: int) -> None:
        if operator in self.operators:
            return
        self.operators[operator] = parent
        for registration in self.kernels.kernels(operator):
            self.add_unit(registration.unit, parent)
            for node in registration.targets:
                self.add_node(node, parent)

    def run(self) -> None:
        index, parents, cursor = self.index, self.parents, 0
        while cursor < len(self.queue):  # breadth first: parents give shortest explanations
            node = self.queue[cursor]
            cursor += 1
            if index.owners[node] >= 0:
                self.add_unit(index.owners[node], node)
            direct = index.direct_kernel(node)
            if direct is not None:
                self.direct.add(direct)
            operator = index.operator_calls.get(node)
            if operator is not None:
                self.called.add(operator)
                if self.follow_calls:
                    self.add_operator(operator, node)
            for target in index.targets(node):
                if target not in parents:
                    self.add_node(target, node)
