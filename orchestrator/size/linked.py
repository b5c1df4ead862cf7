"""The graph of a shared library (ELF): walked in its objects, and found in the linked file."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from typing import Final

from orchestrator.binary.elf_layout import Kind, Layout
from orchestrator.binary.elf_symbols import Placed
from orchestrator.index.objects import ObjectFacts, Section
from orchestrator.pytorch.dialect import Symbols
from orchestrator.size.graph import (
    COMPILER,
    FILE,
    SYSTEM,
    LinkedGraph,
    LinkedObject,
    Node,
    Wanted,
)
from orchestrator.size.walk import Walk

# Beginnings of input sections' names, each the output section that a linker puts them in.
_OUTPUT: Final = (".data.rel.ro", ".rodata", ".text", ".tdata", ".data", ".init_array")
_TABLES: Final = ".gcc_except_table"


def linked_graph(
    objects: Sequence[LinkedObject],
    layout: Layout,
    symbols: Sequence[Placed],
    exports: Collection[str],
    known: Symbols,
    wanted: Wanted,
) -> LinkedGraph:
    """The graph of a library, whose bytes add up to the file.

    objects: in the order of the link; symbols, exports: of the linked library
    """
    walk = Walk(objects, layout.imports, known, wanted)
    walk.run(exports)
    _Placing(walk, layout, symbols).run()
    return walk.graph


class _Placing:
    """Finds the nodes of a walk in the linked file."""

    def __init__(self, walk: Walk, layout: Layout, symbols: Iterable[Placed]) -> None:
        self._walk = walk
        self._nodes = walk.graph.nodes
        self._placed = layout.placed
        self._layout = layout
        self._rest = dict(layout.rest)
        self._addresses: dict[str, list[int]] = defaultdict(list)
        for one in symbols:
            self._addresses[one.name].append(one.address)
        self._owners: dict[int, int] = {}
        self._folded: dict[int, int] = {}

    def run(self) -> None:
        """Give each node its bytes; what is of none is there in any case."""
        for (number, section), node in sorted(self._walk.sections.items()):
            facts = self._walk.objects[number].facts
            self._section(facts, facts.sections[section], node)
        for key, shares in self._walk.shares.items():
            self._share(self._walk.sections[key], shares)
        for (kind, name), node in self._walk.others.items():
            if kind == "compiler":
                for address in self._addresses.get(str(name), ()):
                    self._own(address, node)
        for function, (node, amount) in sorted(self._walk.tables.items()):
            self._table(self._walk.sections.get(function), node, amount)
        self._texts()
        for name, amount in self._layout.imports.items():
            caller = self._walk.others.get(("import", name))
            self._add(self._base(name, SYSTEM) if caller is None else caller, "loading", amount)
        names = {one: name for name, all_of in self._addresses.items() for one in all_of}
        for address in self._placed.keys() - self._owners.keys():
            self._own(address, self._base(names[address], COMPILER))
        for (name, kind), amount in self._rest.items():
            if amount:
                self._add(self._base(name or "headers", FILE), kind, amount)

    def _base(self, name: str, unit: str) -> int:
        self._nodes.append(Node(name, unit))
        self._walk.graph.base.append(len(self._nodes) - 1)
        return len(self._nodes) - 1

    def _add(self, node: int, kind: Kind, amount: int) -> None:
        kinds = self._nodes[node].bytes
        kinds[kind] = kinds.get(kind, 0) + amount

    def _own(self, address: int, node: int) -> None:
        """Attribute the bytes at an address to a node. Nodes of functions that the linker has
        folded keep their own edges; the bytes become a node of their own, which each of them refers
        to."""
        owner = self._owners.get(address)
        if owner is None:
            self._owners[address] = node
            for kind, amount in self._placed.get(address, {}).items():
                self._add(node, kind, amount)
        elif owner != node:
            first = self._nodes[owner]
            body = self._folded.get(address)
            if body is None:
                body = self._folded[address] = len(self._nodes)
                self._nodes.append(Node(first.name, first.unit))
                first.edges.add(body)
                for kind, amount in self._placed.get(address, {}).items():
                    first.bytes[kind] -= amount
                    self._add(body, kind, amount)
            self._nodes[node].edges.add(body)

    def _section(self, facts: ObjectFacts, section: Section, node: int) -> None:
        named = False
        for name in section.defines:
            addresses = self._addresses.get(name)
            if addresses:
                named = True
                # several objects may have local functions of a name: in the order of the link
                several = len(addresses) > 1 and name not in self._walk.definer
                self._own(addresses.pop(0) if several else addresses[0], node)
        if not named:
            output = next((o for o in _OUTPUT if f"{section.name}.".startswith(f"{o}.")), None)
            for kind in ("data", "code", "loading"):
                self._loose(output or "", kind, section.size, node, kind)

    def _loose(self, output: str, kind: Kind, amount: int, node: int, becomes: Kind) -> None:
        """Attribute to a node up to `amount` bytes of an output section that no symbol covers, as
        of the kind `becomes`."""
        amount = min(amount, self._rest.get((output, kind), 0))
        if amount:
            self._rest[output, kind] -= amount
            self._add(node, becomes, amount)

    def _table(self, function: int | None, node: int, amount: int) -> None:
        """Attribute a function's table of exceptions to a node; of one that the linker has dropped
        it is in the file too."""
        if function is None:
            self._loose(_TABLES, "unwinding", amount, node, "unwinding")
            return
        kinds = self._nodes[function].bytes
        amount = min(amount, kinds.get("unwinding", 0))
        if amount:
            kinds["unwinding"] -= amount
            self._add(node, "unwinding", amount)

    def _share(self, node: int, shares: Sequence[tuple[int, int]]) -> None:
        """Move to each operator its part of the code or the table that registers it."""
        for kind in ("code", "data"):
            whole = self._nodes[node].bytes.get(kind, 0)
            for operator, amount in shares:
                part = min(amount, self._nodes[node].bytes.get(kind, 0))
                if whole and part:
                    self._nodes[node].bytes[kind] -= part
                    self._add(operator, kind, part)

    def _texts(self) -> None:
        """Texts and constants, longest first: a linker lets a text be the end of a longer one."""
        taken: dict[int, tuple[int, int]] = {}
        texts = [
            (str(kind), bytes(name), node)
            for (kind, name), node in self._walk.others.items()
            if isinstance(name, bytes)
        ]
        loose = [one for one in self._layout.loose if one.section == ".rodata"]
        for kind, text, node in sorted(texts, key=lambda one: (-len(one[1]), one[1])):
            content = text + b"\0" if kind == "text" else text
            for one in loose:
                at = one.content.find(content)
                if at < 0:
                    continue
                end = one.address + at + len(content)
                if end not in taken:
                    taken[end] = (node, len(content))
                    self._loose(
                        ".rodata",
                        "data",
                        len(content),
                        node,
                        "strings" if kind == "text" else "data",
                    )
                elif taken[end][0] != node:
                    self._nodes[node].edges.add(taken[end][0])
                break
