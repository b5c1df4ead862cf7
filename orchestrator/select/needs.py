"""Computes what many sets of roots need, over one index: `closure.reach` with memoisation.

The closure of a set of roots is the union of their closures.  So every node, unit and operator is
visited once, whatever the number of apps. Strongly connected components are found on the way (R.
Tarjan, "Depth-first search and linear graph algorithms", 1972), and the result of each is one
integer, a bit set.  Only results are stored (units, operators, entry points, sizes), not the nodes
themselves: `closure.reach` finds the path to a node.

Apps differ in the units that are cut.  So a reference into a unit that may be cut is a result
itself, a crossing, and not followed on the way: each query follows the crossings that it does not
cut. One memo serves all queries; a memo for each set of cuts would take 40 MB with the shipped
index.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from orchestrator.index.model import COMDAT, Registration, RuntimeIndex
from orchestrator.select.closure import GENERATED, Registry, initialisers
from orchestrator.values.operators import OperatorName
from orchestrator.values.same import Same

Registrations = Mapping[OperatorName, tuple[Registration, ...]]

_Kind = Literal["unit", "generated", "operator", "called", "direct", "tag", "switch"]
_KINDS: tuple[_Kind, ...] = get_args(_Kind)
_Label = int | str | tuple[str, str]
_Named = tuple[_Kind, Any]
# Bytes of outcomes that are looked up together.
_WORD = 8
# The bits that are set in each byte.
_BITS = tuple(tuple(bit for bit in range(8) if byte >> bit & 1) for byte in range(256))


@dataclass(frozen=True)
class Needed:
    """Closure of a set of roots: the fields of `closure.Reach`, without paths.

    units       indices of the units to compile (without generated ones)
    generated   indices of the generated units with a reached node
    operators   the roots' operators; with calls followed, those that they may call too
    called      operators with a live typed entry point (`at::_ops::X::call`)
    direct      (dispatch key, operator) of kernels that live code calls without the dispatcher
    tags        kernel tags of reached code; empty unless calls are followed
    switches    nodes that switch on kernel tags
    stubs       functions of cut units that live code refers to: symbols to be stubbed
    bytes       total size of the reached sections, by the index
    """

    units: frozenset[int]
    generated: frozenset[int]
    operators: frozenset[OperatorName]
    called: frozenset[OperatorName]
    direct: frozenset[tuple[str, OperatorName]]
    tags: frozenset[str]
    switches: frozenset[int]
    stubs: frozenset[str]
    bytes: int


def needed(
    index: RuntimeIndex,
    kernels: Registry,
    *,
    entry: Iterable[int],
    operators: Iterable[OperatorName],
    units: Iterable[int] = (),
    cut: Iterable[int] = (),
    follow_calls: bool,
) -> Needed:
    """As `closure.reach`, for the same arguments; results are cached in `kernels`."""
    nodes, left = frozenset(entry), frozenset(cut)
    closures = _closures(index, kernels, nodes, left, follow_calls)
    return closures.needed(_Roots(kernels.by_operator, nodes, tuple(operators), tuple(units)), left)


def added_bytes(
    index: RuntimeIndex,
    kernels: Registry,
    *,
    entry: Iterable[int],
    operators: Iterable[OperatorName],
    units: Iterable[int],
    cut: Iterable[int],
    more: Iterable[OperatorName],
) -> tuple[dict[OperatorName, int], int]:
    """Bytes that each operator of `more` adds to what `operators` need, and bytes that all of them
    add together, which is not the sum: they share code."""
    before, new, whole = tuple(operators), tuple(more), tuple(units)
    nodes, left = frozenset(entry), frozenset(cut)
    closures = _closures(index, kernels, nodes, left, False)
    of = kernels.by_operator
    left = closures.reached(_Roots(of, nodes, (*before, *new), whole), left).left

    def outcome(roots: _Roots) -> int:
        return closures.reached(roots, left).outcome

    base = outcome(_Roots(of, nodes, before, whole))
    each = {name: closures.bytes_of(outcome(_Roots(of, operators=(name,))) & ~base) for name in new}
    return each, closures.bytes_of(outcome(_Roots(of, operators=new)) & ~base)


def _closures(
    index: RuntimeIndex,
    kernels: Registry,
    entry: frozenset[int],
    cut: frozenset[int],
    follow_calls: bool,
) -> _Closures:
    """Return the memo of an index. All registries with the same `kept` share one; with calls
    followed, each registry has its own, since it decides what a call reaches.

    A memo that does not know all of `entry` or of `cut` is replaced by one that does; queries
    differ in few of them.
    """
    key = (Same(index), Same(kernels.by_operator) if follow_calls else None)
    kept = kernels.kept.get(key)
    known = kept if isinstance(kept, _Closures) else None
    if known is None or not (entry <= known.entry and cut <= known.cuttable):
        if known is not None:
            entry, cut = entry | known.entry, cut | known.cuttable
        called = kernels.by_operator if follow_calls else None
        known = kernels.kept[key] = _Closures(index, called, entry, cut)
    return known


@dataclass(frozen=True)
class _Roots:
    """Roots of a query: nodes, operators with their `registrations`, and units. The nodes are among
    those of `_Closures.entry`."""

    registrations: Registrations
    entry: frozenset[int] = frozenset()
    operators: tuple[OperatorName, ...] = ()
    units: tuple[int, ...] = ()


@dataclass(frozen=True)
class _Crossing:
    """A reference into a unit that may be cut.

    vertex  what it leads to where the unit is not cut
    stub    the function that takes its place where it is; None if nothing can: the unit is not cut
    """

    vertex: int
    unit: int
    stub: str | None


@dataclass(frozen=True)
class _Reached:
    """Result of a query: the outcome as bits, the units that stay cut, and their stubs."""

    outcome: int
    left: frozenset[int]
    stubs: frozenset[str]


class _Closures:
    """Outcomes of roots.

    Vertices are nodes, then units, then operators.

    called     what a call of an operator brings; None where calls are not followed
    entry      the nodes that may be roots: they have a bit of their own if they have a size
    cuttable   the units that a question may cut
    done       vertex -> its outcome, as bits
    labels     bit -> what it stands for; None for one that stands for a size alone
    sizes      bit -> the bytes that it stands for
    crossings  the bits that stand for crossings, which have none
    """

    def __init__(
        self,
        index: RuntimeIndex,
        called: Registrations | None,
        entry: frozenset[int],
        cuttable: frozenset[int],
    ) -> None:
        self.index = index
        # not the registry itself: it keeps this, and a cycle is freed late
        self.called = called
        self.entry = entry
        self.cuttable = cuttable
        self.done: dict[int, int] = {}
        self.labels: list[_Named | None] = []
        self.sizes: list[int] = []
        self.crossings = 0
        self._words: dict[tuple[int, bytes], tuple[int, tuple[_Named, ...]]] = {}
        self._bits: dict[tuple[_Kind, _Label], int] = {}
        self._crossing_bits: dict[int, int] = {}
        self._crossings: dict[int, _Crossing] = {}
        self._equal: dict[int, int] = {}  # equal outcomes are one value in memory
        self._first_unit = len(index.owners)
        self._first_operator = self._first_unit + len(index.units)
        self._starts: dict[tuple[frozenset[int], tuple[int, ...]], int] = {}
        self._by_registry: dict[Same, dict[OperatorName, int]] = {}
        self._operators: dict[tuple[object, ...], int] = {}
        self._brought: list[tuple[OperatorName, tuple[Registration, ...]]] = []
        self._generated = [unit.path.startswith(GENERATED) for unit in index.units]

    def needed(self, roots: _Roots, cut: frozenset[int]) -> Needed:
        """Closure of the roots, with the units of `cut` excluded that can be."""
        reached = self.reached(roots, cut)
        size, labels = self._meaning(reached.outcome)
        found: dict[_Kind, list[Any]] = {kind: [] for kind in _KINDS}
        for kind, label in labels:
            found[kind].append(label)
        return Needed(
            units=frozenset(found["unit"]),
            generated=frozenset(found["generated"]),
            operators=frozenset(found["operator"]),
            called=frozenset(found["called"]),
            direct=frozenset(found["direct"]),
            tags=frozenset(found["tag"]),
            switches=frozenset(found["switch"]),
            stubs=reached.stubs,
            bytes=size,
        )

    def reached(self, roots: _Roots, cut: frozenset[int]) -> _Reached:
        """The roots' outcome, with that of all crossings into units that are not cut."""
        outcome, seen, left = self._outcome(roots), 0, cut
        waiting: list[_Crossing] = []
        while new := outcome & self.crossings & ~seen:
            seen |= new
            waiting += (self._crossings[bit] for bit in _positions(new))
            left -= {one.unit for one in waiting if one.stub is None}
            for one in waiting:
                if one.unit not in left:
                    outcome |= self._outcome_of(one.vertex)
            waiting = [one for one in waiting if one.unit in left]
        return _Reached(outcome, left, frozenset(one.stub or "" for one in waiting))

    def _outcome(self, roots: _Roots) -> int:
        outcome = self._outcome_of_start(roots.entry, roots.units)
        found = self._outcomes_of_operators(roots.registrations)
        for name in roots.operators:
            if name not in found:
                found[name] = self._outcome_of(self._operator(name, roots.registrations))
            outcome |= found[name]
        return outcome

    def _outcome_of_start(self, entry: frozenset[int], units: tuple[int, ...]) -> int:
        """Outcome of the roots that are not operators, memoised: many apps start with the same."""
        key = (entry, units)
        if key not in self._starts:
            outcome, vertices = 0, list[int]()
            for unit in units:
                outcome |= self._enter(unit, vertices)
            for node in entry:
                outcome |= self._refer(node, vertices)
            for vertex in vertices:
                outcome |= self._outcome_of(vertex)
            self._starts[key] = outcome
        return self._starts[key]

    def _outcomes_of_operators(self, registrations: Registrations) -> dict[OperatorName, int]:
        """Outcomes of a registry's operators that are known so far, by operator."""
        return self._by_registry.setdefault(Same(registrations), {})

    def _outcome_of(self, vertex: int) -> int:
        return self.done[vertex] if vertex in self.done else self._find(vertex)

    def bytes_of(self, outcome: int) -> int:
        """The size of what bits stand for."""
        return self._meaning(outcome)[0]

    def _meaning(self, outcome: int) -> tuple[int, list[_Named]]:
        """The size of what bits stand for, and their labels: word by word, since the outcomes of
        many apps have most words in common."""
        size, labels = 0, list[_Named]()
        words = outcome.to_bytes(-(-outcome.bit_length() // 8), "little")
        for start in range(0, len(words), _WORD):
            word = words[start : start + _WORD]
            found = self._words.get((start, word))
            if found is None:
                found = self._words[start, word] = self._meaning_of_word(start, word)
            size += found[0]
            labels += found[1]
        return size, labels

    def _meaning_of_word(self, start: int, word: bytes) -> tuple[int, tuple[_Named, ...]]:
        numbers = (8 * at + bit for at, byte in enumerate(word, start) for bit in _BITS[byte])
        bits = list(numbers)
        labels = (label for label in map(self.labels.__getitem__, bits) if label is not None)
        return sum(map(self.sizes.__getitem__, bits)), tuple(labels)

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
                    if alone and work and self._has_one_parent(vertex, work[-1][0]):
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

    def _has_one_parent(self, vertex: int, parent: int) -> bool:
        # an operator is a vertex for each set of registrations, and they may have one in common
        return (
            vertex < self._first_unit
            and parent < self._first_operator
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
            for node in initialisers(self.index, unit, follow_calls=self.called is not None):
                bits |= self._refer(node, targets, unit)
            return bits | self._bit("unit", unit), targets
        name, registrations = self._brought[vertex - self._first_operator]
        bits = self._bit("operator", name)
        for registration in registrations:
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
            else:
                targets.append(self._first_unit + owner)
        operator = self.index.operator_calls.get(node)
        if operator is not None:
            bits |= self._bit("called", operator)
            if self.called is not None:
                targets.append(self._operator(operator, self.called))
        tags = self.index.kernel_tags.get(node, ())
        if tags:
            bits |= self._bit("switch", node)
        if self.called is not None:
            for tag in tags:
                bits |= self._bit("tag", tag)
        for target in self.index.targets(node):
            bits |= self._refer(target, targets, owner)
        return bits

    def _enter(self, unit: int, targets: list[int]) -> int:
        if self._generated[unit]:
            return 0
        vertex = self._first_unit + unit
        if unit in self.cuttable:
            return self._crossing(vertex, unit, None)
        targets.append(vertex)
        return 0

    def _refer(self, node: int, targets: list[int], inside: int = COMDAT) -> int:
        """A reference to a node, from within the unit `inside`: where that is entered, it is not
        cut."""
        owner = self.index.owners[node]
        if owner == inside or owner not in self.cuttable:
            targets.append(node)
            return 0
        stub = self.index.names[node].split("@", 1)[0] if node in self.index.functions else None
        return self._crossing(node, owner, stub)

    def _crossing(self, vertex: int, unit: int, stub: str | None) -> int:
        bit = self._crossing_bits.get(vertex)
        if bit is None:
            self._crossings[len(self.labels)] = _Crossing(vertex, unit, stub)
            bit = self._crossing_bits[vertex] = self._new_bit(None, 0)
            self.crossings |= bit
        return bit

    def _operator(self, name: OperatorName, registrations: Registrations) -> int:
        """The vertex of an operator with what a registry has of it: most registries have the same
        of most operators."""
        brought = registrations.get(name, ())
        # of what `_brought` keeps: no other takes its identity
        key = (name, *map(id, brought))
        number = self._operators.get(key)
        if number is None:
            number = self._operators[key] = self._first_operator + len(self._brought)
            self._brought.append((name, brought))
        return number

    def _bit(self, kind: _Kind, label: _Label) -> int:
        bit = self._bits.get((kind, label))
        if bit is None:
            bit = self._bits[kind, label] = self._new_bit((kind, label), 0)
        return bit

    def _new_bit(self, label: _Named | None, size: int) -> int:
        self.labels.append(label)
        self.sizes.append(size)
        return 1 << (len(self.labels) - 1)


def _positions(bits: int) -> Iterator[int]:
    """The numbers of the bits that are set, the lowest first."""
    while bits:
        yield (bits & -bits).bit_length() - 1
        bits &= bits - 1


def _cut_off(stack: list[int], vertex: int) -> list[int]:
    """Take all from `vertex` on off the stack."""
    start = len(stack) - 1
    while stack[start] != vertex:
        start -= 1
    members = stack[start:]
    del stack[start:]
    return members
