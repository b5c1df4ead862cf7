"""Tells what each byte of a stripped ELF library is there for.

Contract: reads bytes, changes nothing. The amounts of a `Layout` add up to the file, to the byte:
what belongs to a function or object is at its address, what loads something of another library at
that name, and the rest at the section that has it.

Formats: System V gABI, chapters 4 and 5, with SHT_RELR; `.eh_frame` and `.eh_frame_hdr` as of the
Linux Standard Base, "Exception Frames", with its encodings of pointers.
"""

from __future__ import annotations

import io
import struct
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final, Literal

from elftools.elf.elffile import ELFFile

from orchestrator.binary.elf_symbols import Placed

Kind = Literal["code", "data", "strings", "unwinding", "loading", "padding"]
KINDS: Final[tuple[Kind, ...]] = ("code", "data", "strings", "unwinding", "loading", "padding")
_ALLOC, _EXECUTE = 0x2, 0x4
# What the loader reads, and no function is of.
_LOADING: Final = (
    *(".dyn", ".gnu.version", ".gnu.hash", ".hash", ".rel", ".got", ".plt"),
    *(".init_array", ".fini_array"),
)
_UNWINDING: Final = (".eh_frame", ".gcc_except_table", ".ARM.ex")
_RELOCATIONS: Final = (".rela.dyn", ".relr.dyn")
# A smaller gap between functions is alignment, and goes with the function behind it.
_ALIGNMENT: Final = 64
_PLT_ENTRY: Final = 16
# Of exception tables.
_TABLE_ALIGNMENT: Final = 4
# Formats of pointers (the low four bits of an encoding), the bit for one that counts from its own
# place, and what stands for none.
_FIXED: Final = {0: "Q", 2: "H", 3: "I", 4: "Q", 0xA: "h", 0xB: "i", 0xC: "q"}
_RELATIVE: Final = 0x10
_OMITTED: Final = 0xFF


@dataclass(frozen=True)
class Loose:
    """Bytes of a section of data that no symbol covers."""

    section: str
    address: int
    content: bytes


@dataclass
class Layout:
    """Amounts of bytes, by what they are there for.

    placed   address of a function or object -> what it takes, by kind
    imports  a name of another library -> what loading it takes
    rest     section and kind -> what is left; the section `""` is what no section has: the file's
             own tables
    loose    what `rest` counts of sections of data: texts and constants can be found there
    """

    size: int
    placed: dict[int, dict[Kind, int]] = field(default_factory=dict)
    imports: dict[str, int] = field(default_factory=dict)
    rest: dict[tuple[str, Kind], int] = field(default_factory=dict)
    loose: list[Loose] = field(default_factory=list)

    @property
    def total(self) -> int:
        """The sum of all amounts, which is `size`."""
        placed = sum(sum(kinds.values()) for kinds in self.placed.values())
        return placed + sum(self.imports.values()) + sum(self.rest.values())


def layout(stripped: bytes, symbols: Iterable[Placed]) -> Layout:
    """The layout of a stripped library. symbols: of the library before it was stripped."""
    return _Reader(stripped, symbols).read()


class _Reader:
    def __init__(self, stripped: bytes, symbols: Iterable[Placed]) -> None:
        self._elf = ELFFile(io.BytesIO(stripped))
        self._word = self._elf.elfclass // 8
        self._sections: dict[str, Any] = {
            section.name: section
            for section in self._elf.iter_sections()
            if section["sh_type"] not in ("SHT_NULL", "SHT_NOBITS")
        }
        # the longest of those that begin at one place, and none inside of another
        self._symbols = list[tuple[int, int]]()
        end = 0
        for address, size in sorted((s.address, -s.bytes) for s in symbols if s.bytes):
            if address >= end:
                end = address - size
                self._symbols.append((address, end))
        self._starts = [address for address, _ in self._symbols]
        self._found = Layout(len(stripped))

    def read(self) -> Layout:
        """Count each section as left, then take from it what is of something."""
        found = self._found
        for name, section in self._sections.items():
            found.rest[name, _kind_of(name, section)] = section["sh_size"]
        found.rest["", "padding"] = found.size - sum(found.rest.values())
        for name, section in self._sections.items():
            if section["sh_flags"] & _ALLOC and not name.startswith((*_LOADING, *_UNWINDING)):
                self._contents(name, section)
        self._unwinding()
        self._dynamic()
        self._relocations()
        found.rest = {key: amount for key, amount in sorted(found.rest.items()) if amount}
        assert found.total == found.size, f"{found.total} bytes of {found.size} are laid out"
        return found

    def _take(self, section: str, address: int, kind: Kind, amount: int) -> None:
        """Take bytes off a section's rest and attribute them to the function or object at an
        address."""
        if self._left(section, amount):
            kinds = self._found.placed.setdefault(address, {})
            kinds[kind] = kinds.get(kind, 0) + amount

    def _import(self, section: str, name: str, amount: int) -> None:
        if self._left(section, amount):
            self._found.imports[name] = self._found.imports.get(name, 0) + amount

    def _left(self, section: str, amount: int) -> bool:
        key = (section, _kind_of(section, self._sections[section]))
        enough = self._found.rest[key] >= amount
        if enough:
            self._found.rest[key] -= amount
        return enough

    def _around(self, address: int) -> int | None:
        """Return the start of the function or object that contains an address; None if there is
        none."""
        at = bisect_right(self._starts, address) - 1
        inside = at >= 0 and address < self._symbols[at][1]
        return self._symbols[at][0] if inside else None

    def _contents(self, name: str, section: Any) -> None:
        """Functions and objects; behind them what is loose, or aligns the next."""
        start, content = section["sh_addr"], section.data()
        kind, at = _kind_of(name, section), start
        first = bisect_right(self._starts, start - 1)
        for begin, end in self._symbols[first:]:
            if begin >= start + len(content):
                break
            if kind == "code" and begin - at < _ALIGNMENT:
                self._take(name, begin, "padding", begin - at)
            elif begin > at:
                self._found.loose.append(Loose(name, at, content[at - start : begin - start]))
            at = min(end, start + len(content))
            self._take(name, begin, kind, at - begin)
        if at < start + len(content):
            self._found.loose.append(Loose(name, at, content[at - start :]))

    def _unwinding(self) -> None:
        """Each function's entries in the tables that unwind the stack."""
        frames = self._sections.get(".eh_frame")
        if frames is None:
            return
        tables = list[tuple[int, int]]()
        for function, size, table in _frames(frames.data(), frames["sh_addr"], self._word):
            self._take(".eh_frame", function, "unwinding", size)
            if ".eh_frame_hdr" in self._sections:
                self._take(".eh_frame_hdr", function, "unwinding", 8)
            if table:
                tables.append((table, function))
        section = self._sections.get(".gcc_except_table")
        if section is not None:
            content, start = section.data(), section["sh_addr"]
            end = (start + len(content), 0)
            for (table, function), (following, _) in pairwise([*sorted(tables), end]):
                # behind it may be those of functions that the linker has dropped
                size = _aligned(_handlers_end(content, table - start, self._word)) + start - table
                amount = min(size, following - table)
                self._take(".gcc_except_table", function, "unwinding", amount)

    def _dynamic(self) -> None:
        """Each name of another library, in the tables by which the loader finds it."""
        table = self._sections.get(".dynsym")
        if table is None:
            return
        names = [(one.name, one["st_shndx"] == "SHN_UNDEF") for one in table.iter_symbols()]
        for name, imported in names[1:]:
            if imported:
                self._import(".dynsym", name, table["sh_entsize"])
                self._import(".dynstr", name, len(name.encode()) + 1)
                if ".gnu.version" in self._sections:
                    self._import(".gnu.version", name, 2)
        calls = self._sections.get(".rela.plt")
        for one in () if calls is None else calls.iter_relocations():
            name = names[one["r_info_sym"]][0]
            self._import(".rela.plt", name, calls["sh_entsize"] if calls is not None else 0)
            self._import(".got.plt", name, self._word)
            self._import(".plt", name, _PLT_ENTRY)

    def _relocations(self) -> None:
        """Attribute each relocation entry to the object that the loader changes by it."""
        plain, packed = (self._sections.get(name) for name in _RELOCATIONS)
        if plain is not None and plain["sh_type"] == "SHT_RELA":
            for one in plain.iter_relocations():
                at = self._around(one["r_offset"])
                if at is not None:
                    self._take(".rela.dyn", at, "loading", plain["sh_entsize"])
        if packed is not None:
            for place in _relative(packed.data(), self._word):
                at = None if place is None else self._around(place)
                if at is not None:
                    self._take(".relr.dyn", at, "loading", self._word)


def _kind_of(name: str, section: Any) -> Kind:
    if not section["sh_flags"] & _ALLOC or section["sh_type"] == "SHT_NOTE":
        return "padding"
    if section["sh_flags"] & _EXECUTE and name not in (".plt", ".plt.sec"):
        return "code"
    if name.startswith(_UNWINDING):
        return "unwinding"
    return "loading" if name.startswith(_LOADING) else "data"


def _relative(table: bytes, word: int) -> Iterator[int | None]:
    """For each entry of `.relr.dyn`, yield the first address that it relocates; None if it has
    none."""
    bits, following = 8 * word - 1, 0
    for (entry,) in struct.iter_unpack("<Q" if word == 8 else "<I", table):
        if not entry & 1:
            yield entry
            following = entry + word
        else:
            lowest = (entry >> 1) & -(entry >> 1)
            yield following + word * (lowest.bit_length() - 1) if lowest else None
            following += word * bits


def _frames(table: bytes, address: int, word: int) -> Iterator[tuple[int, int, int]]:
    """Yield for each function in `.eh_frame`: its address, the size of its entry, and the address
    of its exception table (LSDA), or 0."""
    common: dict[int, tuple[int, int]] = {}
    at = 0
    while at + 8 <= len(table):
        (length,) = struct.unpack_from("<I", table, at)
        if length in (0, 0xFFFFFFFF):
            break
        (back,) = struct.unpack_from("<I", table, at + 4)
        if not back:
            common[at] = _encodings(table, at + 8, word)
        elif at + 4 - back in common:
            pointers, handlers = common[at + 4 - back]
            function, behind = _pointer(table, at + 8, address, pointers, word)
            behind += struct.calcsize("<" + _FIXED[pointers & 0xF])
            size, behind = _number(table, behind)
            handler = 0
            if size and handlers != _OMITTED:
                handler, _ = _pointer(table, behind, address, handlers, word)
            yield function, length + 4, handler
        at += length + 4


def _handlers_end(content: bytes, at: int, word: int) -> int:
    """The offset behind a function's exception table (LSDA), which begins at `at`: behind the types
    that it catches, or the list of calls where it catches none."""
    starts, at = content[at], at + 1
    if starts != _OMITTED:
        _, at = _pointer(content, at, 0, starts, word)
    types, at, end = content[at], at + 1, 0
    if types != _OMITTED:
        size, at = _number(content, at)
        end = at + size
    size, at = _number(content, at + 1)
    return max(end, at + size)


def _aligned(offset: int) -> int:
    return (offset + _TABLE_ALIGNMENT - 1) // _TABLE_ALIGNMENT * _TABLE_ALIGNMENT


def _encodings(table: bytes, at: int, word: int) -> tuple[int, int]:
    """Read from the augmentation of a CIE the pointer encodings of functions and of exception
    tables."""
    end = table.index(b"\0", at + 1)
    letters, at = table[at + 1 : end].decode(), end + 1
    _, at = _number(table, at)
    _, at = _number(table, at)
    _, at = _number(table, at)
    pointers, handlers = 0, _OMITTED
    if letters.startswith("z"):
        _, at = _number(table, at)
    for letter in letters[1:]:
        if letter == "R":
            pointers, at = table[at], at + 1
        elif letter == "L":
            handlers, at = table[at], at + 1
        elif letter == "P":
            _, at = _pointer(table, at + 1, 0, table[at], word)
    return pointers, handlers


def _pointer(table: bytes, at: int, address: int, encoding: int, word: int) -> tuple[int, int]:
    """A pointer, and where it ends; 0 for none."""
    layout = "<" + ("I" if word == 4 and not encoding & 0xF else _FIXED[encoding & 0xF])
    (value,) = struct.unpack_from(layout, table, at)
    if value and encoding & _RELATIVE:
        value += address + at
    return value, at + struct.calcsize(layout)


def _number(table: bytes, at: int) -> tuple[int, int]:
    """A number of variable length (LEB128), and where it ends."""
    value = shift = 0
    while True:
        byte = table[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if not byte & 0x80:
            return value, at
