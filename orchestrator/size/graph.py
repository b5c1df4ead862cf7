"""The functions, objects and texts of a linked library, and what each refers to: a graph with the
bytes that they take.

Bytes are those of the linked file. What registers an operator refers to nothing: the operator does,
which somebody asks for. An operator that nothing but kernels call is referred to by its typed entry
point. Of a unit, static initialisers are there because something of the unit is.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from orchestrator.binary.elf_layout import Kind
from orchestrator.index.objects import ObjectFacts, Section
from orchestrator.values.operators import OperatorName

# Where functions, objects and the rest are from that are of no unit.
HEADER: Final = "a header of "
COMPILER: Final = "the compiler's own libraries"
SYSTEM: Final = "the system's libraries"
FILE: Final = "the file's format"
TEXTS: Final = "texts and constants"


@dataclass(frozen=True)
class LinkedObject:
    """An object of a link: its unit, and whether it is in each library.

    members  of an object that several units were compiled into: a symbol -> its unit
    """

    unit: str
    facts: ObjectFacts
    always: bool
    members: Mapping[str, str] = field(default_factory=dict)

    def unit_of(self, section: Section) -> str:
        """The unit that a section is from."""
        members = (self.members[name] for name in section.defines if name in self.members)
        return next(members, self.unit)


@dataclass(frozen=True)
class Registered:
    """Registration of an operator by the index: names of the functions that are registered for it,
    and units that are linked to register it."""

    kernels: frozenset[str]
    units: frozenset[str]


@dataclass(frozen=True)
class Wanted:
    """Needs that a library is linked for.

    selected  operators, each with what registers it
    asked     those of them, and classes, that models ask for -> units that it brings besides. What
              is selected for another reason, and nothing calls, counts as asked for
    dtypes    of kernel tags, those that are selected
    beside    unit -> units that are linked where it is
    """

    selected: Mapping[OperatorName, Registered]
    asked: Mapping[str, Collection[str]]
    dtypes: Mapping[str, Collection[str]]
    beside: Mapping[str, Collection[str]] = field(default_factory=dict)


@dataclass
class Node:
    """A function, an object, a text or a name of another library.

    name   mangled; of a text the text itself, in quotes
    unit   where it is from: a unit's path, or HEADER and a namespace where several may have it
    """

    name: str
    unit: str
    bytes: dict[Kind, int] = field(default_factory=dict)
    edges: set[int] = field(default_factory=set)

    @property
    def total(self) -> int:
        """All bytes that it takes, of every kind."""
        return sum(self.bytes.values())


@dataclass(frozen=True)
class Copy:
    """A copy of an inline function or a template, in bytes. presence: the node that stands for its
    object in the link."""

    presence: int
    bytes: int


@dataclass
class LinkedGraph:
    """Nodes by number.

    base      those that are there whatever is asked for. What they call of operators is there only
              if these are selected
    asked     what is asked for, an operator or a class -> the node that stands for it
    selected  those that stand for operators and classes
    switches  those that switch over dtypes -> the selected ones
    copies    function or object of which several objects have a copy -> all; the first is linked
    """

    nodes: list[Node]
    base: list[int]
    asked: dict[str, int]
    selected: set[int]
    switches: dict[int, frozenset[str]] = field(default_factory=dict)
    copies: dict[int, tuple[Copy, ...]] = field(default_factory=dict)

    def reached(self, start: Iterable[int], without: Collection[int] = ()) -> set[int]:
        """All nodes that these refer to, directly or not, past none of `without`."""
        left = [node for node in start if node not in without]
        found = set(left)
        while left:
            for target in self.nodes[left.pop()].edges:
                if target not in found and target not in without:
                    found.add(target)
                    left.append(target)
        return found

    def replaced(self, gone: Collection[int]) -> Iterator[tuple[int, int]]:
        """Yield what stays without these nodes and is linked of another object then, with the bytes
        by which that copy is smaller; negative where it is larger."""
        for node, (kept, *others) in self.copies.items():
            if kept.presence in gone and node not in gone:
                left = next((one for one in others if one.presence not in gone), kept)
                if left.bytes != kept.bytes:
                    yield node, kept.bytes - left.bytes

    def bytes(self, nodes: Iterable[int]) -> int:
        """Total bytes of these nodes."""
        return sum(self.nodes[node].total for node in nodes)
