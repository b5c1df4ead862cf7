"""Finds what a library has by what refers to what, as a linker does: from the objects alone.

Sections of objects are what a linker keeps or drops; the walk begins at what the library exports.
What registers an operator is cut out (`index.registrations`).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Final, TypeVar

from orchestrator.index.objects import ObjectFacts, Reference, Section
from orchestrator.index.registrations import cut_registrations
from orchestrator.pytorch.dialect import Symbols
from orchestrator.select.readable import readable
from orchestrator.size.graph import (
    COMPILER,
    HEADER,
    SYSTEM,
    TEXTS,
    LinkedGraph,
    LinkedObject,
    Node,
    Wanted,
)
from orchestrator.values.operators import OperatorName

_STRINGS: Final = ".rodata.str"
_CONSTANTS: Final = re.compile(r"\.rodata\.cst(\d+)$")
_HANDLERS: Final = ".gcc_except_table"
# What a switch over dtypes calls for those that it does not have (native/capi/selection_error.h).
_RAISING: Final = re.compile(r"_ZN3lta(18dtype_not_selected|21dtype_not_implemented)E")

Name = TypeVar("Name", bound=str)
Key = tuple[int, int]  # an object, and a section of it


class Walk:
    """Walks references as a linker does, and finds the contents of a library from its objects
    alone."""

    def __init__(
        self,
        objects: Sequence[LinkedObject],
        imports: Collection[str],
        known: Symbols,
        wanted: Wanted,
    ) -> None:
        selected, asked = wanted.selected, wanted.asked
        self.graph = LinkedGraph([], [], {}, set())
        self.objects = objects
        self.sections: dict[Key, int] = {}
        # of a registering section's bytes those that are of an operator
        self.shares: dict[Key, list[tuple[int, int]]] = {}
        self.others: dict[tuple[str, object], int] = {}
        self._imports = imports
        self._known = known
        self._selected = frozenset(selected)
        self._kernels = _inverse((name, sorted(one.kernels)) for name, one in selected.items())
        self._structs = {
            one.removeprefix("aten::").replace(".", "_"): one
            for one in self._selected
            if one.startswith("aten::")
        }
        self._asked = asked
        self._brought = selected
        self._dtypes = wanted.dtypes
        self._askers = {unit: frozenset(who) for unit, who in _inverse(asked.items()).items()}
        self._numbers = {one.unit: number for number, one in enumerate(objects)}
        self.definer: dict[str, Key] = {}
        for kind in ("global_symbols", "weak_symbols"):
            for number, of in enumerate(objects):
                for symbol, section in getattr(of.facts, kind).items():
                    self.definer.setdefault(symbol, (number, section))
        self._handlers = {
            (number, function): handlers
            for number, one in enumerate(objects)
            for function, handlers in _handlers(one.facts)
        }
        self._inits: dict[int, tuple[int, ...]] = {}
        self._waiting: list[Key] = []

    def run(self, exports: Collection[str]) -> None:
        """From what is there in any case, and from what is asked for."""
        graph = self.graph
        graph.base += [self._node(self.definer[one]) for one in exports if one in self.definer]
        for number, one in enumerate(self.objects):
            if one.always:
                graph.base += self._init(number)
        for operator, registered in self._brought.items():
            self._bring(operator, registered.units)
        for name, units in sorted(self._asked.items()):
            graph.asked[name] = self._bring(name, units)
        self._follow()
        called = graph.reached(graph.asked.values())
        for name in sorted(self._selected - graph.asked.keys()):
            if (node := self._other("operator", name, "")) not in called:
                graph.asked[name] = node
        for number in range(len(self.objects)):
            if number not in self._inits:
                graph.base += self._init(number)
                self._follow()

    def _bring(self, name: str, units: Collection[str]) -> int:
        """The node of an operator or a class, which refers to the initialisers of units."""
        node = self._other("operator", name, "")
        edges = self.graph.nodes[node].edges
        for unit in sorted(units):
            edges.update(self._init(self._numbers[unit]))
        return node

    def _other(self, kind: str, name: str | bytes, unit: str) -> int:
        """The node of what is no section of an object."""
        number = self.others.get((kind, name))
        if number is None:
            text = name if isinstance(name, str) else repr(name.decode("utf-8", "replace"))
            number = self.others[kind, name] = self._new(text, unit)
            if kind == "operator":
                self.graph.selected.add(number)
        return number

    def _new(self, name: str, unit: str) -> int:
        self.graph.nodes.append(Node(name, unit))
        return len(self.graph.nodes) - 1

    def _node(self, key: Key) -> int:
        """The node of an object's section: of the copy that the linker keeps."""
        facts = self.objects[key[0]].facts
        for name in facts.sections[key[1]].defines:
            if name in self.definer and (
                name in facts.global_symbols or name in facts.weak_symbols
            ):
                key = self.definer[name]
                break
        number = self.sections.get(key)
        if number is None:
            one = self.objects[key[0]]
            section = one.facts.sections[key[1]]
            name = min(section.defines) if section.defines else section.name
            number = self._new(name, header_of(name) if section.comdat else one.unit_of(section))
            self.sections[key] = number
            self._waiting.append(key)
        return number

    def _init(self, number: int) -> tuple[int, ...]:
        """An object's static initialisers."""
        if number not in self._inits:
            self._inits[number] = ()
            self._inits[number] = tuple(
                self._node((number, section.index))
                for section in self.objects[number].facts.sections.values()
                if section.init
            )
        return self._inits[number]

    def _follow(self) -> None:
        while self._waiting:
            key = self._waiting.pop()
            self._section(key, self.graph.nodes[self.sections[key]])

    def _section(self, key: Key, node: Node) -> None:
        facts = self.objects[key[0]].facts
        section, handlers = facts.sections[key[1]], self._handlers.get(key)
        references = [*section.references, *(handlers.references if handlers else ())]
        if dtypes := self._switched(facts, section):
            self.graph.switches[self.sections[key]] = dtypes
        if not section.comdat:
            node.edges.update(self._init(key[0]))
        called = self._called(section)
        if called is not None:
            # what an operator's entry point refers to is there for the operator
            number = self._other("operator", called, "")
            node.edges.add(number)
            node = self.graph.nodes[number]
        of_operators = set[Reference]()
        for operator, own, amount in self._registrations(facts, section):
            of_operators.update(own)
            number = self._other("operator", operator, "")
            edges = self.graph.nodes[number].edges
            edges.update(self._targets(key[0], own))
            if not self.objects[key[0]].always:
                edges.update(self._init(key[0]))
            self.shares.setdefault(key, []).append((number, amount))
        left = (reference for reference in references if reference not in of_operators)
        self._refer(key[0], node, self._targets(key[0], left))

    def _refer(self, number: int, node: Node, targets: Iterable[int]) -> None:
        """Note references. What a unit refers to in one that fewer ask for is there for these: a
        table has an entry for each."""
        own = self._askers.get(self.objects[number].unit)
        for target in targets:
            theirs = self._askers.get(self.graph.nodes[target].unit)
            if own is None or theirs is None or not theirs < own:
                node.edges.add(target)
            else:
                for name in theirs:
                    self.graph.nodes[self._other("operator", name, "")].edges.add(target)

    def _switched(self, facts: ObjectFacts, section: Section) -> frozenset[str]:
        """The selected dtypes of the kernel tags that a section switches on: it names them, and
        raises for other dtypes."""
        if not any(_RAISING.match(one.symbol) for one in section.references):
            return frozenset()
        texts = (facts.string_at(one.section, one.addend) for one in section.references)
        return frozenset[str]().union(*(self._dtypes.get(text or "", ()) for text in texts))

    def _called(self, section: Section) -> str | None:
        """The selected operator whose typed entry point a section is."""
        matches = map(self._known.operator_call.match, section.defines)
        found = (self._structs.get(match[2][: int(match[1])]) for match in matches if match)
        return next(found, None)

    def _registrations(
        self, facts: ObjectFacts, section: Section
    ) -> Iterator[tuple[OperatorName, Sequence[Reference], int]]:
        """Yield each operator that a section registers, with the references of its registration and
        the bytes of the section that make it."""
        cut = cut_registrations(facts, section, self._known)
        if cut is None:
            yield from self._by_names(facts, section)
            return
        begin = 0
        for one in cut.cuts:
            if one.operator in self._selected:
                # its texts, and the template that registers it
                others = [
                    reference
                    for reference in section.references
                    if begin <= reference.offset <= one.end
                    and (
                        reference.offset == one.end
                        or facts.string_at(reference.section, reference.addend) is not None
                    )
                ]
                yield one.operator, [*one.references, *others], one.end - begin
            begin = one.end

    def _by_names(
        self, facts: ObjectFacts, section: Section
    ) -> Iterator[tuple[OperatorName, Sequence[Reference], int]]:
        """The same of a section that an optimiser has cut into pieces: by the names of the
        functions that are registered."""
        if self._known.library_block.search(section.name) is None:
            return
        for reference in section.references:
            target = facts.sections.get(reference.section)
            symbol = reference.symbol or (target.defines[0] if target and target.defines else "")
            for operator in self._kernels.get(readable(symbol).rpartition("::")[2], ()):
                yield operator, [reference], 0

    def _targets(self, number: int, references: Iterable[Reference]) -> Iterator[int]:
        facts = self.objects[number].facts
        for reference in references:
            section = facts.sections.get(reference.section)
            if reference.symbol in self.definer:
                yield self._node(self.definer[reference.symbol])
                if not reference.section:
                    # also of a template that the other object instantiates
                    yield from self._init(self.definer[reference.symbol][0])
            elif section is None:
                if reference.symbol in self._imports:
                    yield self._other("import", reference.symbol, SYSTEM)
                elif reference.symbol:
                    yield self._other("compiler", reference.symbol, COMPILER)
            elif section.name.startswith(_STRINGS):
                text = facts.bytes_at(reference.section, reference.addend)
                if text:
                    yield self._other("text", text, TEXTS)
            elif constant := _CONSTANTS.fullmatch(section.name):
                size = int(constant[1])
                at = reference.addend - reference.addend % size
                value = facts.strings[section.index][at : at + size]
                yield self._other("constant", value, TEXTS)
            elif not section.name.startswith((_HANDLERS, ".eh_frame")):
                yield self._node((number, section.index))


def _inverse(pairs: Iterable[tuple[Name, Collection[str]]]) -> dict[str, list[Name]]:
    """Part -> the names that have it, of names with several parts each."""
    found = dict[str, list[Name]]()
    for name, parts in pairs:
        for part in parts:
            found.setdefault(part, []).append(name)
    return found


def _handlers(facts: ObjectFacts) -> Iterator[tuple[int, Section]]:
    """Each function's table of exception handlers."""
    functions = {s.name: s.index for s in facts.sections.values() if s.name.startswith(".text")}
    for section in facts.sections.values():
        if section.name.startswith(_HANDLERS):
            function = functions.get(".text" + section.name.removeprefix(_HANDLERS))
            if function is not None:
                yield function, section


def header_of(symbol: str) -> str:
    """Name of the headers that a template or an inline function is from, by its namespace."""
    # of a table without a symbol the section's name: `.rodata._ZN...`
    name = readable(symbol[max(symbol.find("_Z"), 0) :]).rpartition(" ")[2]
    outer, inner = [*name.split("::"), ""][:2]
    if outer == name or not outer.isidentifier():
        return f"{HEADER}C"
    return f"{HEADER}{'at::native' if (outer, inner) == ('at', 'native') else outer}"
