"""Plans the contents of an add-on: the units, entry points and stubs that its operators need and
that its library does not export. Pure.

The traversal is that of `select/closure.py`, but stops at symbols that the library has. A unit
whose object would differ in the add-on (its projection has more dtypes) belongs to the add-on, with
everything that it defines.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field

from orchestrator.codegen.requests import RegistrationRequest
from orchestrator.index.model import Registration, RuntimeIndex, aliases
from orchestrator.pytorch.dialect import Dialect
from orchestrator.select.closure import GENERATED, Registry
from orchestrator.values.operators import OperatorName


@dataclass
class AddonNeeds:
    """Result of the traversal.

    units      numbers of units to compile
    called     operators whose typed entry points the add-on defines
    direct     (dispatch key, operator) of kernels that it calls without the dispatcher
    stubs      functions of cut units that it refers to
    by_hand    operator that a unit registers by code of its own -> the unit
    tags       kernel tags on which reached code of these units switches
    """

    units: set[int] = field(default_factory=set)
    called: set[OperatorName] = field(default_factory=set)
    direct: set[tuple[str, OperatorName]] = field(default_factory=set)
    stubs: set[str] = field(default_factory=set)
    by_hand: dict[OperatorName, str] = field(default_factory=dict)
    tags: set[str] = field(default_factory=set)


@dataclass(frozen=True)
class AddonRoots:
    """Roots of an add-on's plan, and the contents of its library.

    operators  operators that the add-on registers
    has        True for a symbol that the library exports
    entered    operators whose typed entry points may be imported: the library selected them
    own        units that the add-on compiles even if the library exports their symbols
    cut        units that no tensor of the models can enter
    by_hand    whether the add-on takes units that register operators by code of their own
    there      units that the library contains whole
    whole      units that are linked unconditionally: an app's own
    """

    operators: tuple[OperatorName, ...]
    has: Callable[[str], bool]
    entered: Collection[OperatorName]
    own: frozenset[int]
    cut: frozenset[int]
    by_hand: bool = False
    there: frozenset[int] = frozenset()
    whole: frozenset[int] = frozenset()


def addon_needs(
    index: RuntimeIndex, dialect: Dialect, kernels: Registry, roots: AddonRoots
) -> AddonNeeds:
    """The units, entry points and stubs that operators need beyond what a library already has.

    kernels  the registrations that the models can reach
    roots    the operators, and what the library has and exports

    Follows references as `select/closure.py` does, and stops at symbols that the library exports.
    Pure.
    """
    walk = _Walk(index, dialect, roots)
    for operator in roots.operators:
        for one in kernels.kernels(operator):
            walk.register(operator, one)
    for unit in sorted(roots.whole):
        walk.take(unit)
    walk.run()
    return walk.found


class _Walk:
    def __init__(self, index: RuntimeIndex, dialect: Dialect, roots: AddonRoots) -> None:
        self.index, self.dialect, self.roots = index, dialect, roots
        self.found = AddonNeeds()
        self._seen: set[int] = set()
        self._waiting: list[int] = []

    def register(self, operator: OperatorName, one: Registration) -> None:
        if self.index.units[one.unit].path.startswith(GENERATED):
            self._refer(one.targets)
            if one.key == self.dialect.keys.backend_select:
                self.found.called.add(operator)  # its kernel calls its own operator again
            return
        self.found.by_hand[operator] = self.index.units[one.unit].path
        if self.roots.by_hand:
            self.take(one.unit)
            self._refer(one.targets)

    def run(self) -> None:
        while self._waiting:
            self._visit(self._waiting.pop())

    def _visit(self, node: int) -> None:
        index, owner = self.index, self.index.owners[node]
        symbol = index.names[node].split("@", 1)[0]
        operator = index.operator_calls.get(node)
        taken = operator is None or operator in self.roots.entered
        if taken and owner not in self.roots.own and any(map(self.roots.has, aliases(symbol))):
            return
        if operator is not None:
            self.found.called.add(operator)
        if owner in self.roots.cut and node in index.functions:
            self.found.stubs.add(symbol)
            return
        if owner >= 0:
            self._enter(owner, node)
        self.found.tags.update(index.kernel_tags.get(node, ()))
        self._refer(index.targets(node))

    def _enter(self, unit: int, node: int) -> None:
        path = self.index.units[unit].path
        if path.startswith(self.dialect.generated.selected):
            direct = self.index.direct_kernel(node)
            if direct is not None:
                self.found.direct.add(direct)
        else:
            self.take(unit)

    def take(self, unit: int) -> None:
        if unit not in self.found.units and unit not in self.roots.there:
            self.found.units.add(unit)
            self._refer(self.index.units[unit].init)

    def _refer(self, nodes: Iterable[int]) -> None:
        for node in nodes:
            if node not in self._seen:
                self._seen.add(node)
                self._waiting.append(node)


def registration_request(
    index: RuntimeIndex,
    dialect: Dialect,
    kernels: Registry,
    operators: Iterable[OperatorName],
    needs: AddonNeeds,
) -> RegistrationRequest:
    """The registrations that torchgen writes of an add-on's operators, without typed entry points.
    What a unit registers by hand is not among them."""
    without_file = {"schema", "catchall", dialect.keys.backend_select}
    by_key: dict[str, set[OperatorName]] = {}
    names = set[OperatorName]()
    for name in operators:
        for one in kernels.kernels(name):
            if index.units[one.unit].path.startswith(GENERATED):
                names.add(name)
                if one.key not in without_file:
                    by_key.setdefault(one.key, set()).add(name)
    direct: dict[str, set[OperatorName]] = {}
    for key, name in needs.direct:
        if name not in by_key.get(key, ()):
            direct.setdefault(key, set()).add(name)
    return RegistrationRequest(tuple(sorted(names)), (), _pairs(by_key), _pairs(direct))


def entry_request(needs: AddonNeeds, operators: Iterable[OperatorName]) -> RegistrationRequest:
    """The typed entry points that an add-on defines; of `operators`, which are registered by it or
    by the library, through the dispatcher."""
    return RegistrationRequest(tuple(sorted(operators)), tuple(sorted(needs.called)), ())


def _pairs(
    found: dict[str, set[OperatorName]],
) -> tuple[tuple[str, tuple[OperatorName, ...]], ...]:
    return tuple((key, tuple(sorted(found[key]))) for key in sorted(found))
