"""The part of a static library for iOS that an app's linker keeps: its size before there is an app.

Follows ld64 with `-dead_strip`: referenced members are split into atoms at their symbols; atoms
that the C API or a static initialiser reaches through relocations are kept; of identical inline
functions, the first is kept. What the linker adds (unwind tables, stubs, alignment) is not counted.

Formats: `<mach-o/loader.h>`, `nlist.h`, `reloc.h`, `compact_unwind_encoding.h`; little-endian, 64
bits, as all of iOS is. LIEF is not used here: it stops at 65,535 relocations of a section.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from orchestrator.binary.macho import archive_members

_HEADER: Final = struct.Struct("<IiiIIIII")
_COMMAND: Final = struct.Struct("<II")
_SECTION: Final = struct.Struct("<16s16sQQIIIIIIII")
_SYMTAB: Final = struct.Struct("<IIII")
_NLIST: Final = struct.Struct("<IBBHQ")
_RELOCATION: Final = struct.Struct("<iI")
_LC_SYMTAB, _LC_SEGMENT_64 = 0x2, 0x19
_SEGMENT_BYTES: Final = 72
_N_STAB, _N_TYPE, _N_EXT, _N_SECT, _N_UNDF = 0xE0, 0x0E, 0x01, 0x0E, 0x00
_NO_DEAD_STRIP, _WEAK_DEF = 0x20, 0x80
_ZEROFILL: Final = frozenset((0x01, 0x0C, 0x12))
_MOD_INIT: Final = 0x09
# A compact unwinding entry: function, length, encoding, personality, LSDA.
_UNWIND_BYTES: Final = 32

# Of what the content is kept: texts.
_TEXTS: Final = "__cstring"

_Atom = tuple[int, int]  # member, number of the atom in it


@dataclass(frozen=True)
class Atom:
    """A function, an object or a text of a member, as ld64 keeps or drops it.

    section  that it is in
    size     0 of what a linker makes anew
    names    of its symbols, as in C++: without the underscore in front
    shared   whether other members may have the same, of which the first is kept
    starts   whether it has pointers to static initialisers
    refers   the offset, the symbol and the atom (-1: of another member) of each reference
    text     its bytes, of a text
    """

    section: str
    size: int
    names: tuple[str, ...]
    shared: bool
    starts: bool
    refers: tuple[tuple[int, str, int], ...]
    text: bytes


@dataclass(frozen=True)
class Atoms:
    """A member's atoms, the numbers of those that an app's linker keeps, and the names that other
    members see."""

    member: str
    atoms: tuple[Atom, ...]
    kept: frozenset[int]
    exported: frozenset[str]


@dataclass
class _Section:
    name: str
    address: int
    size: int
    kind: int
    relocations: list[tuple[int, int, bool, int]]  # offset, symbol or section, extern, log2 length
    data: bytes
    starts: list[int] = field(default_factory=list)
    first: int = 0  # the number of its first atom


@dataclass
class _Object:
    sections: list[_Section]
    names: list[str]
    symbols: list[tuple[int, int, int, int]]  # n_type, n_sect, n_desc, n_value
    atoms: list[int] = field(default_factory=list)  # sizes
    edges: dict[int, list[tuple[int, bool, int]]] = field(default_factory=dict)


def linked_bytes(path: Path) -> int:
    """Bytes of code and data that an app which calls all of the C API gets (`-dead_strip`)."""
    members = archive_members(path.read_bytes(), path)
    return _Walk([_cut(_parse(content)) for _, content in members]).size()


def atoms_of(path: Path) -> tuple[Atoms, ...]:
    """The same atom by atom, of every member: the sizes of those that are kept add up to that."""
    members = list(archive_members(path.read_bytes(), path))
    walk = _Walk([_cut(_parse(content)) for _, content in members])
    walk.size()
    return tuple(
        Atoms(member, tuple(_atoms(one)), walk.kept(number), _exported(one))
        for number, ((member, _), one) in enumerate(zip(members, walk.objects, strict=True))
    )


def _exported(one: _Object) -> frozenset[str]:
    return frozenset(
        name.removeprefix("_")
        for name, (kind, section, _, _) in zip(one.names, one.symbols, strict=True)
        if kind & _N_EXT and kind & _N_TYPE == _N_SECT and section
    )


def _atoms(one: _Object) -> Iterator[Atom]:
    names: dict[int, list[str]] = {}
    shared = set[int]()
    for symbol, (kind, section_number, desc, _) in enumerate(one.symbols):
        if kind & _N_TYPE == _N_SECT and section_number:
            atom = _atom_at(one, symbol)
            names.setdefault(atom, []).append(one.names[symbol].removeprefix("_"))
            if desc & _WEAK_DEF:
                shared.add(atom)
    for section in one.sections:
        ends = [*section.starts[1:], section.address + section.size]
        for number, (start, end) in enumerate(zip(section.starts, ends, strict=True)):
            atom = section.first + number
            at = start - section.address
            yield Atom(
                section.name,
                one.atoms[atom],
                tuple(names.get(atom, ())),
                atom in shared,
                section.kind == _MOD_INIT,
                tuple(_references(one, one.edges.get(atom, ()), at)),
                section.data[at : end - section.address],
            )


def _references(
    one: _Object, edges: Iterable[tuple[int, bool, int]], start: int
) -> Iterator[tuple[int, str, int]]:
    """Offsets in the atom, which begins at `start` of its section."""
    for target, is_symbol, offset in edges:
        if not is_symbol:
            yield offset - start, "", target
        else:
            kind, section, _, _ = one.symbols[target]
            own = kind & _N_TYPE == _N_SECT and section
            atom = _atom_at(one, target) if own else -1
            yield offset - start, one.names[target].removeprefix("_"), atom


class _Walk:
    """The atoms that are reached, over all members that are linked."""

    def __init__(self, objects: list[_Object]) -> None:
        self.objects = objects
        self._definitions = _definitions(objects)
        self._live: set[_Atom] = set()
        self._linked: set[int] = set()
        self._todo: list[_Atom] = []

    def size(self) -> int:
        for name in self._definitions:
            if name.startswith("_lta_"):
                self._refer(name)
        while self._todo:
            member, atom = self._todo.pop()
            one = self.objects[member]
            for target, is_symbol, _ in one.edges.get(atom, ()):
                if is_symbol:
                    self._refer_from(member, target)
                else:
                    self._reach((member, target))
        return sum(self.objects[member].atoms[atom] for member, atom in self._live)

    def kept(self, member: int) -> frozenset[int]:
        """The atoms of a member that are reached."""
        return frozenset(atom for number, atom in self._live if number == member)

    def _refer_from(self, member: int, symbol: int) -> None:
        one = self.objects[member]
        kind, section, _, _ = one.symbols[symbol]
        if kind & _N_EXT:
            self._refer(one.names[symbol])
        elif kind & _N_TYPE == _N_SECT and section:
            self._reach((member, _atom_at(one, symbol)))

    def _refer(self, name: str) -> None:
        found = self._definitions.get(name)
        if found is not None:
            self._link(found[0])
            self._reach(found)

    def _link(self, member: int) -> None:
        """A member is linked: its initialisers run, and what it refers to is linked too."""
        waiting = [member]
        while waiting:
            number = waiting.pop()
            if number in self._linked:
                continue
            self._linked.add(number)
            one = self.objects[number]
            for atom in _roots(one):
                self._reach((number, atom))
            for name, (kind, _, _, _) in zip(one.names, one.symbols, strict=True):
                if kind & _N_EXT and kind & _N_TYPE == _N_UNDF and name in self._definitions:
                    waiting.append(self._definitions[name][0])

    def _reach(self, atom: _Atom) -> None:
        if atom not in self._live:
            self._live.add(atom)
            self._todo.append(atom)


def _definitions(objects: list[_Object]) -> dict[str, _Atom]:
    """Name -> the atom that references find: a strong definition before the first weak one."""
    found: dict[str, _Atom] = {}
    weak: dict[str, _Atom] = {}
    for member, one in enumerate(objects):
        for symbol, (kind, section, desc, _) in enumerate(one.symbols):
            if kind & _N_EXT and kind & _N_TYPE == _N_SECT and section:
                chosen = weak if desc & _WEAK_DEF else found
                chosen.setdefault(one.names[symbol], (member, _atom_at(one, symbol)))
    return {**weak, **found}


def _roots(one: _Object) -> Iterator[int]:
    """Static initialisers, and what says of itself that it must stay."""
    for section in one.sections:
        if section.kind == _MOD_INIT:
            yield from range(section.first, section.first + len(section.starts))
    for symbol, (kind, section_number, desc, _) in enumerate(one.symbols):
        if desc & _NO_DEAD_STRIP and kind & _N_TYPE == _N_SECT and section_number:
            yield _atom_at(one, symbol)


def _atom_at(one: _Object, symbol: int) -> int:
    _, number, _, value = one.symbols[symbol]
    return _atom_in(one.sections[number - 1], value)


def _atom_in(section: _Section, address: int) -> int:
    return section.first + max(bisect_right(section.starts, address) - 1, 0)


def _cut(one: _Object) -> _Object:
    """The same object, its sections cut at their symbols, with what each atom refers to."""
    starts: dict[int, set[int]] = {}
    for kind, number, _, value in one.symbols:
        if kind & _N_TYPE == _N_SECT and number:
            starts.setdefault(number, set()).add(value)
    for number, section in enumerate(one.sections, start=1):
        section.first = len(one.atoms)
        section.starts = sorted({section.address, *starts.get(number, ())})
        ends = [*section.starts[1:], section.address + section.size]
        counted = section.name != "__compact_unwind"
        one.atoms += [
            (end - start) * counted for start, end in zip(section.starts, ends, strict=True)
        ]
    for section in one.sections:
        if section.name == "__compact_unwind":
            _unwinding_edges(one, section)
            continue
        for offset, target, extern, length in section.relocations:
            atom = _atom_in(section, section.address + offset)
            found = _target(one, section, offset, target, extern, length)
            one.edges.setdefault(atom, []).append((*found, offset))
    for section in one.sections:  # nobody reads it again, and a library has tens of megabytes
        section.relocations = []
        if section.name != _TEXTS:
            section.data = b""
    return one


def _unwinding_edges(one: _Object, section: _Section) -> None:
    """A function keeps what its unwinding needs."""
    entries: dict[int, dict[int, tuple[int, bool]]] = {}
    for offset, target, extern, length in section.relocations:
        entry, place = divmod(offset, _UNWIND_BYTES)
        found = _target(one, section, offset, target, extern, length)
        entries.setdefault(entry, {})[place] = found
    for places in entries.values():
        function = places.pop(0, None)
        if function is not None:
            atom = _atom_at(one, function[0]) if function[1] else function[0]
            one.edges.setdefault(atom, []).extend((*found, 0) for found in places.values())


def _target(
    one: _Object, section: _Section, offset: int, target: int, extern: bool, length: int
) -> tuple[int, bool]:
    """Return the target of a relocation: a symbol's number and True, or an atom's number and
    False."""
    if extern:
        return target, True
    found = one.sections[target - 1]
    value = int.from_bytes(section.data[offset : offset + (1 << length)], "little")
    inside = found.address <= value < found.address + found.size
    return _atom_in(found, value if inside else found.address), False


def _parse(data: bytes) -> _Object:
    one = _Object([], [], [])
    at, commands = _HEADER.size, _HEADER.unpack_from(data)[4]
    for _ in range(commands):
        command, size = _COMMAND.unpack_from(data, at)
        if command == _LC_SEGMENT_64:
            one.sections += _sections(data, at + _SEGMENT_BYTES, at + size)
        elif command == _LC_SYMTAB:
            one.names, one.symbols = _symbols(data, *_SYMTAB.unpack_from(data, at + 8))
        at += size
    return one


def _sections(data: bytes, start: int, end: int) -> Iterable[_Section]:
    for at in range(start, end, _SECTION.size):
        name, _, address, size, offset, _, reloff, count, flags, *_ = _SECTION.unpack_from(data, at)
        kind = flags & 0xFF
        relocations = [
            (address_in, info & 0xFFFFFF, bool(info >> 27 & 1), info >> 25 & 3)
            for address_in, info in _RELOCATION.iter_unpack(
                data[reloff : reloff + count * _RELOCATION.size]
            )
            # an addend is no reference: its number is a value
            if not (info >> 28 == _ARM64_ADDEND and not info >> 27 & 1)
        ]
        content = b"" if kind in _ZEROFILL else data[offset : offset + size]
        yield _Section(name.rstrip(b"\0").decode(), address, size, kind, relocations, content)


_ARM64_ADDEND: Final = 10


def _symbols(
    data: bytes, offset: int, count: int, strings: int, _: int
) -> tuple[list[str], list[tuple[int, int, int, int]]]:
    names: list[str] = []
    symbols: list[tuple[int, int, int, int]] = []
    for index, kind, section, desc, value in _NLIST.iter_unpack(
        data[offset : offset + count * _NLIST.size]
    ):
        start = strings + index
        names.append(data[start : data.index(b"\0", start)].decode())
        # a debugger's entry refers to nothing
        symbols.append((0 if kind & _N_STAB else kind, section, desc, value))
    return names, symbols
