"""Finds what a library has by what refers to what, as a linker does: from the objects alone.

Sections of objects are what a linker keeps or drops; the walk begins at what the library exports.
What registers an operator is cut out (`index.registrations`).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import pairwise
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
    Copy,
    LinkedGraph,
    LinkedObject,
    Node,
    Wanted,
)
from orchestrator.values.operators import OperatorName

_STRINGS: Final = ".rodata.str"
_CONSTANTS: Final = re.compile(r"\.rodata\.cst(\d+)$")
_OUTLINED: Final = "OUTLINED_FUNCTION_"
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
        self._beside = wanted.beside
        self._dtypes = wanted.dtypes
        self._askers = {unit: frozenset(who) for unit, who in _inverse(asked.items()).items()}
        self._numbers = {one.unit: number for number, one in enumerate(objects)}
        self.definer: dict[str, Key] = {}
        # of inline functions and templates all copies, in the order of the link
        self._copies: dict[str, list[Key]] = {}
        for kind in ("global_symbols", "weak_symbols"):
            for number, of in enumerate(objects):
                for symbol, section in getattr(of.facts, kind).items():
                    self.definer.setdefault(symbol, (number, section))
                    if of.facts.sections[section].comdat:
                        self._copies.setdefault(symbol, []).append((number, section))
        self._handlers = {
            (number, function): handlers
            for number, one in enumerate(objects)
            for function, handlers in _handlers(one.facts)
        }
        # tables of exceptions that are there with their object, whether their functions are or not:
        # function -> the node that stands for the object, and the table's bytes
        self.tables: dict[Key, tuple[int, int]] = {}
        self._present: dict[int, int] = {}
        self._waiting: list[Key] = []

    def run(self, exports: Collection[str]) -> None:
        """From what is there in any case, and from what is asked for."""
        graph = self.graph
        graph.base += [self._node(self.definer[one]) for one in exports if one in self.definer]
        for number, one in enumerate(self.objects):
            if one.always:
                graph.base.append(self._presence(number))
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
            if number not in self._present:
                graph.base.append(self._presence(number))
                self._follow()
        self._keep_tables()
        self._follow()
        graph.copies = dict(self._other_copies())

    def _bring(self, name: str, units: Collection[str]) -> int:
        """The node of an operator or a class, which needs units."""
        node = self._other("operator", name, "")
        edges = self.graph.nodes[node].edges
        edges.update(self._presence(self._numbers[unit]) for unit in sorted(units))
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

    def _presence(self, number: int) -> int:
        """The node that stands for an object in the link, and refers to what is there with it
        whatever is used of it: its static initialisers, and the units beside it."""
        node = self._present.get(number)
        if node is None:
            one = self.objects[number]
            node = self._present[number] = self._new(one.unit, one.unit)
            self.graph.nodes[node].edges.update(
                self._node((number, section.index))
                for section in one.facts.sections.values()
                if section.init
            )
            self.graph.nodes[node].edges.update(
                self._presence(self._numbers[unit]) for unit in self._beside.get(one.unit, ())
            )
        return node

    def _keep_tables(self) -> None:
        """Find the tables of exceptions that the linker keeps also of functions that it drops: all
        that are not in a group with their function, and do not follow it."""
        for function, handlers in self._handlers.items():
            if not (handlers.comdat or handlers.follows):
                node = self._presence(function[0])
                self.tables[function] = node, handlers.size
                if function not in self.sections:
                    references = self._targets(function[0], handlers.references)
                    self.graph.nodes[node].edges.update(references)

    def _other_copies(self) -> Iterator[tuple[int, tuple[Copy, ...]]]:
        """Yield each function and object of which several objects have a copy, with all of them."""
        for key, node in self.sections.items():
            for name in self.objects[key[0]].facts.sections[key[1]].defines:
                copies = self._copies.get(name, ())
                if len(copies) > 1 and copies[0] == key:
                    yield node, tuple(self._copy(copy) for copy in copies)
                    break

    def _copy(self, key: Key) -> Copy:
        handlers = self._handlers.get(key)
        size = self.objects[key[0]].facts.sections[key[1]].size
        return Copy(self._presence(key[0]), size + (handlers.size if handlers else 0))

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
        # a local one is reached from its own object, also from a copy there that another could have
        if not section.comdat and any(
            name in facts.global_symbols or name in facts.weak_symbols for name in section.defines
        ):
            node.edges.add(self._presence(key[0]))
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
                edges.add(self._presence(key[0]))
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
        listed = list(self._listed(facts, section))
        if len(listed) > sum(one.operator in self._selected for one in cut.cuts):
            yield from listed
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

    def _listed(
        self, facts: ObjectFacts, section: Section
    ) -> Iterator[tuple[OperatorName, Sequence[Reference], int]]:
        """The same of a section that makes a list of operators and registers all of them at once:
        a schema, then the function."""
        for reference, following in pairwise(sorted(section.references, key=lambda r: r.offset)):
            text = facts.string_at(reference.section, reference.addend) or ""
            name = text.partition("(")[0]
            if name in self._selected:
                yield (
                    OperatorName(name),
                    [reference, following],
                    following.offset - reference.offset,
                )

    def _by_names(
        self, facts: ObjectFacts, section: Section
    ) -> Iterator[tuple[OperatorName, Sequence[Reference], int]]:
        """The same of a section of which the optimiser has made pieces functions of their own: by
        the names of the functions that are registered, each before the operator's name."""
        if self._known.library_block.search(section.name) is None:
            return
        pending, operators = list[Reference](), tuple[OperatorName, ...]()
        for reference in sorted(section.references, key=lambda r: r.offset):
            target = facts.sections.get(reference.section)
            symbol = reference.symbol or (target.defines[0] if target and target.defines else "")
            if symbol.startswith(_OUTLINED):
                continue
            pending.append(reference)
            operators = operators or (*self._kernels.get(readable(symbol).rpartition("::")[2], ()),)
            if facts.string_at(reference.section, reference.addend) is not None:
                for operator in operators:
                    yield operator, pending, reference.offset - pending[0].offset
                pending, operators = [], ()

    def _targets(self, number: int, references: Iterable[Reference]) -> Iterator[int]:
        facts = self.objects[number].facts
        for reference in references:
            section = facts.sections.get(reference.section)
            if reference.symbol in self.definer:
                yield self._node(self.definer[reference.symbol])
                if not reference.section:
                    # also of a template that the other object instantiates
                    yield self._presence(self.definer[reference.symbol][0])
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
