"""The graph of a static library (Mach-O): what an app's linker keeps of it, atom by atom.

An atom is to ld64 what a section is to linkers of ELF, and so it is here.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from orchestrator.binary.elf_layout import Kind
from orchestrator.binary.macho_live import Atom, Atoms
from orchestrator.index.objects import ObjectFacts, Reference, Section
from orchestrator.pytorch.dialect import Symbols
from orchestrator.size.graph import LinkedGraph, LinkedObject, Node, Wanted
from orchestrator.size.walk import Walk

# Sections that are no data.
_ATOMS: Final[Mapping[str, Kind]] = {
    "__text": "code",
    "__StaticInit": "code",
    "__cstring": "strings",
    "__eh_frame": "unwinding",
    "__gcc_except_tab": "unwinding",
    "__mod_init_func": "loading",
}


def atoms_graph(
    members: Sequence[Atoms],
    units: Sequence[tuple[str, bool, Mapping[str, str]]],
    exports: Collection[str],
    known: Symbols,
    wanted: Wanted,
) -> LinkedGraph:
    """As `linked_graph` of a shared library: its bytes add up to what an app's linker keeps. units:
    of each member its unit, whether it is in each library, and the units that were compiled
    together (`LinkedObject.members`)."""
    objects = [
        LinkedObject(unit, _facts_of(one), always, together)
        for one, (unit, always, together) in zip(members, units, strict=True)
    ]
    walk = Walk(objects, (), known, wanted)
    walk.run(exports)
    graph = walk.graph
    for number, one in enumerate(members):
        for atom in sorted(one.kept):
            found = one.atoms[atom]
            node = walk.sections.get((number, atom))
            if node is None:
                linked = objects[number]
                unit = linked.unit_of(linked.facts.sections[atom])
                graph.nodes.append(Node(min(found.names, default=found.section), unit))
                node = len(graph.nodes) - 1
                graph.base.append(node)
            if found.size:
                graph.nodes[node].bytes[_ATOMS.get(found.section, "data")] = found.size
    return graph


def _facts_of(member: Atoms) -> ObjectFacts:
    """A Mach-O object as one of ELF: an atom is what a section is there."""
    names = [(name, number) for number, one in enumerate(member.atoms) for name in one.names]
    weak = {name: n for name, n in names if member.atoms[n].shared}
    return ObjectFacts(
        {number: _section_of(number, atom) for number, atom in enumerate(member.atoms)},
        {name: n for name, n in names if name in member.exported and name not in weak},
        weak,
        {number: atom.text for number, atom in enumerate(member.atoms) if atom.text},
    )


def _section_of(number: int, atom: Atom) -> Section:
    code = _ATOMS.get(atom.section) == "code"
    start = ".text." if code else ".data.rel.ro." if atom.section == "__const" else ".data."
    return Section(
        index=number,
        name=start + min(atom.names, default=""),
        size=atom.size,
        comdat=atom.shared,
        init=atom.starts,
        defines=atom.names,
        references=tuple(
            Reference(offset, symbol, target, 0) for offset, symbol, target in sorted(atom.refers)
        ),
    )
