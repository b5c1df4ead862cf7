"""Makes objects import symbols from a library: drops their definitions of symbols that the library
has, and renames references to the names that it exports.

Contract: `importing` takes the bytes of a little-endian ELF object (32 or 64 bits) and returns an
object with the same sections. The linker drops sections that nothing references any more
(`--gc-sections`). Raises NotObjectError if the bytes are no such object, or its tables are
inconsistent.

Formats: System V ABI, chapter 4 (ELF header, sections, symbol table).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

from orchestrator.errors import OrchestratorError

_SYMTAB: Final = 2
_RELOCATABLE: Final = 1
_LOCAL, _GLOBAL, _WEAK = 0, 1, 2
_UNDEFINED: Final = 0
_FUNCTION: Final = 2
_VISIBILITY: Final = 3
_SYMBOL: Final = {True: struct.Struct("<IBBHQQ"), False: struct.Struct("<IIIBBH")}
_SECTION: Final = {True: struct.Struct("<IIQQQQIIQQ"), False: struct.Struct("<IIIIIIIIII")}


class NotObjectError(OrchestratorError):
    """A file that should be an ELF object is something else, or is damaged."""


class _Symbol(NamedTuple):
    """A row of a symbol table, in one order for 32 and 64 bits: that of 64."""

    name: int
    info: int
    other: int
    section: int
    value: int
    size: int

    @property
    def bind(self) -> int:
        return self.info >> 4


@dataclass(frozen=True)
class _Table:
    """An object's symbols but the local ones, which come first: where their rows are, and the
    header of their names' section."""

    wide: bool
    at: int
    symbols: tuple[_Symbol, ...]
    names: bytes
    names_header: int

    def name(self, symbol: _Symbol) -> str:
        end = self.names.index(b"\0", symbol.name)
        return self.names[symbol.name : end].decode()


def defined_names(data: bytes) -> frozenset[str]:
    """The symbols that an object defines for others, and that are its own: not those of inline
    functions, which are weak. Raises NotObjectError."""
    table = _parse(data)
    return frozenset(
        table.name(one)
        for one in table.symbols
        if one.bind == _GLOBAL and one.section != _UNDEFINED
    )


@dataclass(frozen=True)
class LinkedNames:
    """The symbols that an object defines, those of inline functions included, and the undefined
    ones that it needs from others."""

    defined: frozenset[str]
    wanted: frozenset[str]


def linked_names(data: bytes) -> LinkedNames:
    """The names that a link sees in an object. Raises NotObjectError."""
    table = _parse(data)
    visible = [one for one in table.symbols if one.bind != _LOCAL]
    return LinkedNames(
        frozenset(table.name(one) for one in visible if one.section != _UNDEFINED),
        frozenset(
            table.name(one) for one in visible if one.section == _UNDEFINED and one.bind == _GLOBAL
        ),
    )


def importing(data: bytes, imported: Callable[[str], str | None], *, hidden: bool = False) -> bytes:
    """The object with each symbol taken from a library for which `imported` gives a name there.

    hidden: its symbols are compiled as hidden ones, so that its code reaches its own data without
    the table of addresses that another library's need: such data stay. Raises NotObjectError.
    """
    table = _parse(data)
    names = bytearray(table.names)
    out = bytearray(data)
    pack = _SYMBOL[table.wide]
    for number, one in enumerate(table.symbols):
        if hidden and one.section != _UNDEFINED and one.info & 0xF != _FUNCTION:
            continue
        if one.bind == _LOCAL or not (new := imported(table.name(one))):
            continue
        # of no kind but that of its thread's own, which decides how it is reached
        kind = one.info & 0xF if one.info & 0xF == 6 else 0
        info, other = _GLOBAL << 4 | kind, one.other & ~_VISIBILITY
        start = len(names)
        names += new.encode() + b"\0"
        row = (start, info, other, _UNDEFINED, 0, 0)
        if not table.wide:
            row = (start, 0, 0, info, other, _UNDEFINED)
        pack.pack_into(out, table.at + number * pack.size, *row)
    if len(names) == len(table.names):
        return data
    at = len(out)
    out += names
    place, size = (24, 32) if table.wide else (16, 20)
    layout = "<Q" if table.wide else "<I"
    struct.pack_into(layout, out, table.names_header + place, at)
    struct.pack_into(layout, out, table.names_header + size, len(names))
    return bytes(out)


def _parse(data: bytes) -> _Table:
    if data[:4] != b"\x7fELF" or len(data) < 52 or data[5] != 1 or data[4] not in (1, 2):
        raise _not_object(data, "no little-endian ELF file")
    try:
        return _read(data, data[4] == 2)
    except (struct.error, ValueError, IndexError) as cause:
        raise _not_object(data, str(cause)) from cause


def _read(data: bytes, wide: bool) -> _Table:
    if struct.unpack_from("<H", data, 16)[0] != _RELOCATABLE:
        raise ValueError("a linked file")
    if wide:
        (at,), (size, count) = (
            struct.unpack_from("<Q", data, 40),
            struct.unpack_from("<HH", data, 58),
        )
    else:
        (at,), (size, count) = (
            struct.unpack_from("<I", data, 32),
            struct.unpack_from("<HH", data, 46),
        )
    if not count:  # more than 65,279 sections: the number stands in the first one
        count = _SECTION[wide].unpack_from(data, at)[5]
    text = data[at : at + count * size]
    if size != _SECTION[wide].size or len(text) != count * size:
        raise ValueError(f"not {count} section headers of {size} bytes")
    headers = list(_SECTION[wide].iter_unpack(text))
    table = next((one for one in headers if one[1] == _SYMTAB), None)
    if table is None:
        raise ValueError("no symbol table")
    strings = headers[table[6]]
    first = table[4] + table[7] * _SYMBOL[wide].size  # sh_info: the first that is not local
    rows = _rows(data[first : table[4] + table[5]], wide)
    names = data[strings[4] : strings[4] + strings[5]]
    if len(names) != strings[5] or not names.endswith(b"\0"):
        raise ValueError("names that do not end")
    return _Table(wide, first, tuple(rows), names, at + table[6] * size)


def _rows(data: bytes, wide: bool) -> Iterable[_Symbol]:
    rows = _SYMBOL[wide].iter_unpack(data)
    if wide:
        return map(_Symbol._make, rows)
    return (
        _Symbol(name, info, other, section, value, size)
        for name, value, size, info, other, section in rows
    )


def _not_object(data: bytes, seen: str) -> NotObjectError:
    return NotObjectError(
        "this is not an object that can be linked into an add-on",
        expected="a little-endian ELF object with a symbol table",
        seen=f"a file of {len(data)} bytes ({seen})",
    )
