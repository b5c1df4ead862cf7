"""What the link of a variant must find defined, told from the runtime index without a compiler.

A linker that collects sections reports an undefined symbol where a section that is kept refers to
it, and nowhere else (lld, ELF/Relocations.cpp: `scanRelocations` passes over sections that are not
live; ld64 the same with -dead_strip).  So a plan is sound if all that is live is defined.

Live from the start are

* what our own code refers to, and what registering itself calls (`entry_nodes`);
* the static initialisers of every unit that is compiled: a linker takes an object for any
  reference, one from a section that it drops afterwards too;
* what a compiled unit registers of its own, of every operator that its projection selects, under
  every dispatch key: a projection knows operators, and a registry leaves keys out;
* the kernels and schemas that torchgen is asked to register;
* the kernels that typed entry points are asked to call: each as if its entry point were live.

All that they refer to is live, and so on.  It is defined

* in a COMDAT section: every object that refers to it has a copy;
* in a unit that is compiled, or as a stub;
* in the typed entry points (`at::_ops::X::call`) that are asked for;
* in torchgen's kernels that are asked for, registered or not: torchgen writes a kernel's wrapper,
  what the wrapper is made of, and the function `at::cpu::X` for callers in C++, together.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache, cached_property

from orchestrator.index.model import COMDAT, Registration, RuntimeIndex
from orchestrator.plan.planner import entry_nodes
from orchestrator.plan.variant import VariantPlan
from orchestrator.pytorch.dialect import Dialect
from orchestrator.select.closure import GENERATED
from orchestrator.values.operators import OperatorName as Op

# written for a request: see planner's _SELECTED_FILES
_ENTRY_POINTS, _KERNELS = f"{GENERATED}Operators_", f"{GENERATED}Register"
# Not dispatch keys with kernels in a file of their own: schemas and kernels of these operators.
_OF_OPERATORS = ("schema", "BackendSelect")
_ROOT = -1


class LinkRule:
    """The rule for the variants of one runtime."""

    def __init__(self, index: RuntimeIndex, dialect: Dialect) -> None:
        self.index = index
        # what the template of RegisterBackendSelect.cpp registers whatever is selected
        self.always = dialect.generated.always
        self._entry = cache(lambda symbols: entry_nodes(index, symbols, dialect.symbols))

    def undefined(self, plan: VariantPlan) -> dict[str, list[str]]:
        """What is live and not defined: each symbol, with the way to it from what is live first."""
        parents, faults = self._live(plan)
        return {self.index.names[node]: self._way(parents, node) for node in sorted(faults)}

    def reached(self, plan: VariantPlan) -> set[str]:
        """The names of all that is live."""
        return {self.index.names[node] for node in self._live(plan)[0]}

    def _live(self, plan: VariantPlan) -> tuple[Mapping[int, int], set[int]]:
        """All that is live, with what led to it; and what of it is not defined."""
        index, parents, faults = self.index, dict[int, int](), set[int]()
        given = _Given(self, plan)
        here = frozenset((COMDAT, *given.units))
        owners, starts, edges = index.owners, index.edge_starts, index.edges
        waiting = list[int]()

        def refer(node: int, parent: int) -> None:
            if node in parents:
                return
            parents[node] = parent
            if owners[node] in here or given.defines(node):
                waiting.append(node)
            elif not given.stubs(node):
                faults.add(node)

        for node in given.roots():
            refer(node, _ROOT)
        while waiting:
            node = waiting.pop()
            for target in edges[starts[node] : starts[node + 1]]:
                refer(target, node)
        return parents, faults

    def _way(self, parents: Mapping[int, int], node: int) -> list[str]:
        way = list[str]()
        while node != _ROOT:
            way.append(self.index.names[node])
            node = parents[node]
        return way[::-1]

    @cached_property
    def numbers(self) -> Mapping[str, int]:
        return {unit.path: number for number, unit in enumerate(self.index.units)}

    @cached_property
    def registrations(self) -> Mapping[int, tuple[Registration, ...]]:
        """Unit -> what it registers of its own and can leave out, under whatever key."""
        found: dict[int, list[Registration]] = {}
        for one in self.index.registrations:
            if one.targets and one.operator in self.index.units[one.unit].operators:
                found.setdefault(one.unit, []).append(one)
        return {unit: tuple(some) for unit, some in found.items()}

    @cached_property
    def generated(self) -> Mapping[tuple[str, str], tuple[Registration, ...]]:
        """(dispatch key, operator) -> torchgen's registrations."""
        found: dict[tuple[str, str], list[Registration]] = {}
        for one in self.index.registrations:
            if self.index.units[one.unit].path.startswith(_KERNELS):
                found.setdefault((one.key, one.operator), []).append(one)
        return {key: tuple(some) for key, some in found.items()}

    @cached_property
    def wrappers(self) -> Mapping[int, tuple[str, str]]:
        """Node of a registering file -> the dispatch key and operator whose kernel it wraps."""
        return {
            node: key
            for key, some in self.generated.items()
            for one in some
            for node in one.targets
            if self.index.owners[node] == one.unit
        }

    @cached_property
    def files(self) -> Mapping[int, str]:
        """The generated files that are written for a request, by number."""
        selected = (_ENTRY_POINTS, _KERNELS)
        units = enumerate(self.index.units)
        return {number: unit.path for number, unit in units if unit.path.startswith(selected)}

    def entry(self, symbols: frozenset[str]) -> list[int]:
        return self._entry(symbols)


class _Given:
    """What one plan compiles and has generated."""

    def __init__(self, rule: LinkRule, plan: VariantPlan) -> None:
        self.rule = rule
        self.plan = plan
        request = plan.request
        compiled = (one for action in plan.compiles for one in action.members or (action,))
        self.units = {rule.numbers[one.unit] for one in compiled}
        self.registered = {
            (key, operator) for key, operators in request.kernels for operator in operators
        } | {(key, operator) for key in _OF_OPERATORS for operator in request.operators}
        self.registered |= {("BackendSelect", Op(operator)) for operator in rule.always}
        self.kernels = self.registered | {
            (key, operator) for key, operators in request.direct for operator in operators
        }
        self.calls = frozenset(request.calls)
        self.resolved = {(key, operator) for operator, key in request.resolved}

    def roots(self) -> Iterator[int]:
        rule, selected = self.rule, self.plan.selection.operators
        yield from rule.entry(self.plan.spec.entry)
        for unit in sorted(self.units):
            yield from rule.index.units[unit].init
            for one in rule.registrations.get(unit, ()):
                if one.operator in selected:
                    yield from one.targets
        for key in sorted(self.registered | self.resolved):
            for one in rule.generated.get(key, ()):
                yield from one.targets

    def defines(self, node: int) -> bool:
        """Whether torchgen writes a node of its files for this request."""
        rule = self.rule
        file = rule.files.get(rule.index.owners[node])
        if file is None:
            return False
        if file.startswith(_ENTRY_POINTS):
            operator = rule.index.operator_calls.get(node)
            return operator is None or operator in self.calls
        kernel = rule.index.direct_kernel(node) or rule.wrappers.get(node)
        return kernel is None or kernel in self.kernels

    def stubs(self, node: int) -> bool:
        return self.rule.index.names[node].split("@", 1)[0] in self.plan.needed.stubs
