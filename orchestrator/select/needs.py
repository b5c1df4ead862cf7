"""What many sets of roots need, over one index: `closure.reach` with memoisation.

The closure of a set of roots is the union of their closures.  So every node, unit and operator is
visited once, whatever the number of apps. Strongly connected components are found on the way (R.
Tarjan, "Depth-first search and linear graph algorithms", 1972), and the result of each is one
integer, a bit set.  Only results are kept (units, operators, entry points, stubs, sizes), not the
nodes themselves: `closure.reach` finds how something was reached.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import compress
from typing import Any, Literal, get_args

from orchestrator.index.model import RuntimeIndex
from orchestrator.select.closure import GENERATED, Registry, initialisers, is_function

_Kind = Literal[
    "unit", "generated", "operator", "called", "direct", "tag", "switch", "stub", "uncuttable"
]
_KINDS: tuple[_Kind, ...] = get_args(_Kind)
_Label = int | str | tuple[str, str]
_ASCII_BITS = bytes.maketrans(b"01", b"\0\1")


@dataclass(frozen=True)
class Needed:
    """What a set of roots needs; the fields of `closure.Reach`, without paths.

    units       indices of the units to compile (without generated ones)
    generated   indices of generated units of which a node is reached
    operators   the roots' operators; with calls followed, those that they may call too
    called      operators with a live typed entry point (`at::_ops::X::call`)
    direct      (dispatch key, operator) of kernels that live code calls without the dispatcher
    tags        kernel tags that what is reached asks for; with calls followed, and else none
    switches    nodes that switch on kernel tags
    stubs       functions of cut units that live code refers to: symbols to be stubbed
    bytes       size of all sections that are reached, as the index has it
    """

    units: frozenset[int]
    generated: frozenset[int]
    operators: frozenset[str]
    called: frozenset[str]
    direct: frozenset[tuple[str, str]]
    tags: frozenset[str]
    switches: frozenset[int]
    stubs: frozenset[str]
    bytes: int


def needed(
    index: RuntimeIndex,
    kernels: Registry,
    *,
    entry: Iterable[int],
    operators: Iterable[str],
    units: Iterable[int] = (),
    cut: Iterable[int] = (),
    follow_calls: bool,
) -> Needed:
    """As `closure.reach`, for the same arguments; results are cached in `kernels`."""
    nodes, left = frozenset(entry), frozenset(cut)
    roots, whole = tuple(operators), tuple(units)
    while True:
        closures = _closures(index, kernels, nodes, left, follow_calls)
        found, uncuttable = closures.of(nodes, roots, whole)
        if not uncuttable:
            return found
        left -= uncuttable


def added_bytes(
    index: RuntimeIndex,
    kernels: Registry,
    *,
    entry: Iterable[int],
    operators: Iterable[str],
    units: Iterable[int],
    cut: Iterable[int],
    more: Iterable[str],
) -> tuple[dict[str, int], int]:
    """What each of `more` operators adds to the bytes that `operators` need, and what all of them
    add together: they share code."""
    before, new = tuple(operators), tuple(more)
    nodes, left = frozenset(entry), frozenset(cut)
    roots = (*before, *new)
    while uncuttable := _closures(index, kernels, nodes, left, False).of(nodes, roots, units)[1]:
        left -= uncuttable
    closures = _closures(index, kernels, nodes, left, False)
    base = closures.outcome(nodes, before, units)
    each = {name: closures.bytes_of(closures.outcome((), (name,), ()) & ~base) for name in new}
    return each, closures.bytes_of(closures.outcome((), new, ()) & ~base)


def _closures(
    index: RuntimeIndex,
    kernels: Registry,
    entry: frozenset[int],
    cut: frozenset[int],
    follow_calls: bool,
) -> _Closures:
    """Those of an index with these units cut, made anew where they do not know all of `entry`: what
    apps enter by differs in little, and each set of its own would take 40 MB."""
    key = (id(index), cut, follow_calls)
    kept = kernels.kept.get(key)
    known = kept.entry if isinstance(kept, _Closures) else frozenset[int]()
    if not isinstance(kept, _Closures) or not entry <= known:
        kept = kernels.kept[key] = _Closures(index, kernels, known | entry, cut, follow_calls)
    return kept


class _Closures:
    """Outcomes of roots, for one set of cut units.

    Vertices are nodes, then units, then operators.

    entry   the nodes that may be roots: they have a bit of their own if they have a size
    done    vertex -> its outcome, as bits
    labels  bit -> what it stands for; None for one that stands for a size alone
    sizes   bit -> the bytes that it stands for
    named   the bits that have a label
    """

    def __init__(
        self,
        index: RuntimeIndex,
        kernels: Registry,
        entry: frozenset[int],
        cut: frozenset[int],
        follow_calls: bool,
    ) -> None:
        self.index = index
        # not the registry itself: it keeps this, and a cycle is freed late
        self._registrations = kernels.by_operator
        self.entry = entry
        self.cut = cut
        self.follow_calls = follow_calls
        self.done: dict[int, int] = {}
        self.labels: list[tuple[_Kind, Any] | None] = []
        self.sizes: list[int] = []
        self.named = 0
        self._bits: dict[tuple[_Kind, _Label], int] = {}
        self._equal: dict[int, int] = {}  # equal outcomes are one value in memory
        self._first_unit = len(index.owners)
        self._first_operator = self._first_unit + len(index.units)
        self._operators: dict[str, int] = {}
        self._names: list[str] = []
        self._generated = [unit.path.startswith(GENERATED) for unit in index.units]

    def of(
        self, entry: Iterable[int], operators: Iterable[str], units: Iterable[int]
    ) -> tuple[Needed, frozenset[int]]:
        """What the roots need, and the cut units that they need after all."""
        outcome = self.outcome(entry, operators, units)
        found: dict[_Kind, list[Any]] = {kind: [] for kind in _KINDS}
        for named in compress(self.labels, _selectors(outcome & self.named)):
            assert named is not None
            found[named[0]].append(named[1])
        return (
            Needed(
                units=frozenset(found["unit"]),
                generated=frozenset(found["generated"]),
                operators=frozenset(found["operator"]),
                called=frozenset(found["called"]),
                direct=frozenset(found["direct"]),
                tags=frozenset(found["tag"]),
                switches=frozenset(found["switch"]),
                stubs=frozenset(found["stub"]),
                bytes=self.bytes_of(outcome),
            ),
            frozenset(found["uncuttable"]),
        )

    def outcome(self, entry: Iterable[int], operators: Iterable[str], units: Iterable[int]) -> int:
        """What the roots need, as bits. entry: of `self.entry`."""
        outcome, vertices = 0, list[int]()
        for unit in units:
            outcome |= self._enter(unit, vertices)
        for node in entry:
            outcome |= self._refer(node, vertices)
        vertices += [self._operator(operator) for operator in operators]
        for vertex in vertices:
            outcome |= self.done[vertex] if vertex in self.done else self._find(vertex)
        return outcome

    def bytes_of(self, outcome: int) -> int:
        """The size of what bits stand for."""
        return sum(compress(self.sizes, _selectors(outcome)))

    def _find(self, root: int) -> int:
        """Tarjan's algorithm from `root`, without recursion; `done` grows by all that it visits."""
        done, order = self.done, dict[int, int]()
        least, outcome, sizes = dict[int, int](), dict[int, int](), dict[int, int]()
        open_parts: list[int] = []
        work: list[tuple[int, Iterator[int]]] = []

        def visit(vertex: int) -> None:
            order[vertex] = least[vertex] = len(order)
            outcome[vertex], targets = self._edges(vertex)
            sizes[vertex] = self.index.sizes[vertex] if vertex < self._first_unit else 0
            open_parts.append(vertex)
            work.append((vertex, iter(targets)))

        visit(root)
        while work:
            vertex, targets = work[-1]
            for target in targets:
                if target in done:
                    outcome[vertex] |= done[target]
                elif target in order:
                    least[vertex] = min(least[vertex], order[target])
                else:
                    visit(target)
                    break
            else:
                work.pop()
                if least[vertex] == order[vertex]:
                    members = _cut_off(open_parts, vertex)
                    alone = len(members) == 1
                    size = sizes[vertex] if alone else sum(map(sizes.__getitem__, members))
                    if alone and work and self._has_one_parent(vertex):
                        # reached whenever its parent is, and never without: no bit of its own
                        sizes[work[-1][0]] += size
                    elif size:
                        outcome[vertex] |= self._new_bit(None, size)
                    outcome[vertex] = self._equal.setdefault(outcome[vertex], outcome[vertex])
                    done.update(dict.fromkeys(members, outcome[vertex]))
                if work:
                    parent = work[-1][0]
                    least[parent] = min(least[parent], least[vertex])
                    outcome[parent] |= outcome[vertex]
        return done[root]

    def _has_one_parent(self, vertex: int) -> bool:
        return (
            vertex < self._first_unit
            and bool(self.index.referred_to_once[vertex])
            and vertex not in self.entry
        )

    def _edges(self, vertex: int) -> tuple[int, list[int]]:
        """A vertex's own bits, and the vertices that it leads to: `closure._Walk`, step by step."""
        targets: list[int] = []
        if vertex < self._first_unit:
            return self._node_edges(vertex, targets), targets
        if vertex < self._first_operator:
            unit, bits = vertex - self._first_unit, 0
            for node in initialisers(self.index, unit, follow_calls=self.follow_calls):
                bits |= self._refer(node, targets)
            return bits | self._bit("unit", unit), targets
        name = self._names[vertex - self._first_operator]
        bits = self._bit("operator", name)
        for registration in self._registrations.get(name, ()):
            bits |= self._enter(registration.unit, targets)
            for node in registration.targets:
                bits |= self._refer(node, targets)
        return bits, targets

    def _node_edges(self, node: int, targets: list[int]) -> int:
        owner, bits = self.index.owners[node], 0
        if owner >= 0:
            if self._generated[owner]:
                bits |= self._bit("generated", owner)
                direct = self.index.direct_kernel(node)
                if direct is not None:
                    bits |= self._bit("direct", direct)
            bits |= self._enter(owner, targets)
        operator = self.index.operator_calls.get(node)
        if operator is not None:
            bits |= self._bit("called", operator)
            if self.follow_calls:
                targets.append(self._operator(operator))
        tags = self.index.kernel_tags.get(node, ())
        if tags:
            bits |= self._bit("switch", node)
        if self.follow_calls:
            for tag in tags:
                bits |= self._bit("tag", tag)
        owners, cut = self.index.owners, self.cut
        for target in self.index.targets(node):
            if owners[target] in cut:
                bits |= self._refer(target, targets)
            else:
                targets.append(target)
        return bits

    def _enter(self, unit: int, targets: list[int]) -> int:
        if self._generated[unit]:
            return 0
        if unit in self.cut:
            return self._bit("uncuttable", unit)
        targets.append(self._first_unit + unit)
        return 0

    def _refer(self, node: int, targets: list[int]) -> int:
        owner = self.index.owners[node]
        if owner not in self.cut:
            targets.append(node)
            return 0
        symbol = self.index.names[node].split("@", 1)[0]
        return self._bit("stub", symbol) if is_function(symbol) else self._bit("uncuttable", owner)

    def _operator(self, name: str) -> int:
        number = self._operators.get(name)
        if number is None:
            number = self._operators[name] = self._first_operator + len(self._names)
            self._names.append(name)
        return number

    def _bit(self, kind: _Kind, label: _Label) -> int:
        bit = self._bits.get((kind, label))
        if bit is None:
            bit = self._bits[kind, label] = self._new_bit((kind, label), 0)
            self.named |= bit
        return bit

    def _new_bit(self, label: tuple[_Kind, _Label] | None, size: int) -> int:
        self.labels.append(label)
        self.sizes.append(size)
        return 1 << (len(self.labels) - 1)


def _selectors(bits: int) -> bytes:
    """A byte for each bit, the lowest first, as `itertools.compress` takes them."""
    return bin(bits)[:1:-1].encode().translate(_ASCII_BITS)


def _cut_off(stack: list[int], vertex: int) -> list[int]:
    """Take all from `vertex` on off the stack."""
    start = len(stack) - 1
    while stack[start] != vertex:
        start -= 1
    members = stack[start:]
    del stack[start:]
    return members
