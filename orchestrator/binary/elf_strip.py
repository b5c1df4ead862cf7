"""Splits an unstripped ELF shared object into the one to ship and the symbols kept aside.

Contract: `split` takes the bytes of a little-endian ELF file (32 or 64 bits) from any linker and
returns two files whose loaded bytes are the same. zig has no working strip (`zig objcopy` answers
"unimplemented"), and linking a second time with `-s` would cost a second action for bytes that are
already there: what is stripped is never loaded, and linkers put it behind everything that is.

The linker's build id would hash the debug sections of zig's libc++, which hold paths of this
machine. So the link gives a placeholder note (`--build-id=0x` and 40 zeros), and the id is filled
in here from the loaded bytes alone: the same inputs get the same id on every machine.

Formats: System V ABI, chapter 4 (ELF header, section header); `.gnu_debuglink` is a file name,
zero-padded to four bytes, and the CRC-32 of that file (GDB manual, "Separate Debug Files").
"""

from __future__ import annotations

import hashlib
import struct
import sys
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from orchestrator.errors import OrchestratorError

_ALLOC: Final = 0x2
_INFO_LINK: Final = 0x40
_RELOCATIONS: Final = (4, 9)
_NOBITS: Final = 8
_STRTAB: Final = 3
_SYMTAB: Final = 2
_RESERVED_INDEX: Final = 0xFF00
# Processor attributes (.ARM.attributes, .riscv.attributes): not loaded, yet linkers read them.
_ATTRIBUTES: Final = 0x70000003
_BUILD_ID: Final = ".note.gnu.build-id"
_SHA1_BYTES: Final = 20


class NotStrippableError(OrchestratorError):
    """A file that should be an unstripped ELF library is something else, or is damaged."""


@dataclass(frozen=True)
class Split:
    """The two halves of a library; `build_id` is lower-case hex, or None without a note."""

    stripped: bytes
    debug: bytes
    build_id: str | None


@dataclass(frozen=True)
class _Section:
    name: str
    type: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    align: int
    entry: int

    @property
    def loaded(self) -> bool:
        return bool(self.flags & _ALLOC)


@dataclass(frozen=True)
class _Elf:
    """The parts of a file that are rewritten: `data` up to `loaded_end` is copied as it is."""

    data: bytes
    wide: bool
    sections: tuple[_Section, ...]
    loaded_end: int

    @property
    def section_format(self) -> str:
        return "<IIQQQQIIQQ" if self.wide else "<IIIIIIIIII"


def split(data: bytes, debug_name: str, *, keep_dwarf: bool = False) -> Split:
    """The stripped library and its symbol file; `debug_name` is the symbol file's plain name.

    `keep_dwarf` keeps `.debug_*` sections in the symbol file: for units that were compiled with
    debug information. Without it only the symbol table is kept. Raises `NotStrippableError`.
    """
    elf, build_id = _fill_build_id(_parse(data))
    debug = _rewrite(elf, lambda s: keep_dwarf or not s.name.startswith((".debug_", ".zdebug_")))
    link = debug_name.encode() + b"\0"
    link += b"\0" * (-len(link) % 4) + struct.pack("<I", zlib.crc32(debug))
    stripped = _rewrite(elf, lambda s: s.type == _ATTRIBUTES, debuglink=link)
    return Split(stripped, debug, build_id)


def _parse(data: bytes) -> _Elf:
    if data[:4] != b"\x7fELF" or len(data) < 52 or data[5] != 1 or data[4] not in (1, 2):
        raise NotStrippableError(
            "this is not a library that can be stripped",
            expected="a little-endian ELF file",
            seen=f"a file of {len(data)} bytes that begins with {data[:6]!r}",
        )
    wide = data[4] == 2
    try:
        sections, loaded_end = _read_tables(data, wide)
    except (struct.error, ValueError, IndexError) as cause:
        raise NotStrippableError(
            "this ELF library is damaged",
            expected="section and program headers inside the file",
            seen=f"a file of {len(data)} bytes ({cause})",
        ) from cause
    return _Elf(data, wide, sections, loaded_end)


def _read_tables(data: bytes, wide: bool) -> tuple[tuple[_Section, ...], int]:
    if wide:
        phoff, shoff = struct.unpack_from("<QQ", data, 32)
        phsize, phnum, shsize, shnum, names = struct.unpack_from("<HHHHH", data, 54)
    else:
        phoff, shoff = struct.unpack_from("<II", data, 28)
        phsize, phnum, shsize, shnum, names = struct.unpack_from("<HHHHH", data, 42)
    layout = "<IIQQQQIIQQ" if wide else "<IIIIIIIIII"
    rows = [struct.unpack_from(layout, data, shoff + i * shsize) for i in range(shnum)]
    strings = data[rows[names][4] : rows[names][4] + rows[names][5]]
    sections = tuple(
        _Section(strings[row[0] : strings.index(b"\0", row[0])].decode(), *row[1:]) for row in rows
    )
    ends = [phoff + phsize * phnum]
    for i in range(phnum):
        at = phoff + i * phsize
        offset, size = (
            (*struct.unpack_from("<Q", data, at + 8), *struct.unpack_from("<Q", data, at + 32))
            if wide
            else (*struct.unpack_from("<I", data, at + 4), *struct.unpack_from("<I", data, at + 16))
        )
        ends.append(offset + size)
    ends += [s.offset + s.size for s in sections if s.loaded and s.type != _NOBITS]
    if max(ends) > len(data):
        raise ValueError(f"its segments end at {max(ends)}")
    return sections, max(ends)


def _fill_build_id(elf: _Elf) -> tuple[_Elf, str | None]:
    """The file with its build id made from its loaded bytes, and that id."""
    note = next((s for s in elf.sections if s.name == _BUILD_ID), None)
    if note is None:
        return elf, None
    name_size, size = struct.unpack_from("<II", elf.data, note.offset)
    start = note.offset + 12 + name_size + -name_size % 4
    if size != _SHA1_BYTES or start + size > note.offset + note.size:
        raise NotStrippableError(
            "the build id of this library has another length",
            expected=f"a note of {_SHA1_BYTES} bytes, as --build-id=0x and 40 zeros gives",
            seen=f"{size} bytes",
        )
    data = bytearray(elf.data)
    data[start : start + size] = bytes(size)
    header = bytearray(data[: elf.loaded_end])
    # e_shoff, e_shnum and e_shstrndx tell about what is not loaded.
    blank = ((40, 8), (60, 4)) if elf.wide else ((32, 4), (48, 4))
    for at, length in blank:
        header[at : at + length] = bytes(length)
    identity = hashlib.sha1(header, usedforsecurity=False)
    data[start : start + size] = identity.digest()
    return replace(elf, data=bytes(data)), identity.hexdigest()


def _rewrite(
    elf: _Elf, keep_unloaded: Callable[[_Section], bool], *, debuglink: bytes | None = None
) -> bytes:
    """The file with its loaded sections, the others that are wanted, and a new section table."""
    kept = [
        (i, s)
        for i, s in enumerate(elf.sections)
        if i == 0 or s.loaded or (keep_unloaded(s) and s.name != ".shstrtab")
    ]
    index = {old: new for new, (old, _) in enumerate(kept)}
    out = bytearray(elf.data[: elf.loaded_end])
    table: list[_Section] = []
    for old, section in kept:
        moved = _relinked(section, index)
        if old and not section.loaded:
            out += b"\0" * (-len(out) % max(section.align, 1))
            moved = replace(moved, offset=len(out))
            out += _content(elf, section, index)
        table.append(moved)
    if debuglink is not None:
        out += b"\0" * (-len(out) % 4)
        table.append(_Section(".gnu_debuglink", 1, 0, 0, len(out), len(debuglink), 0, 0, 4, 0))
        out += debuglink
    return _with_table(elf, out, table)


def _relinked(section: _Section, index: dict[int, int]) -> _Section:
    """The section with the numbers of the sections that it refers to brought up to date."""
    refers = section.type in _RELOCATIONS or section.flags & _INFO_LINK
    info = index.get(section.info, 0) if refers else section.info
    return replace(section, link=index.get(section.link, 0), info=info)


def _content(elf: _Elf, section: _Section, index: dict[int, int]) -> bytes:
    """A section's bytes; a symbol table's symbols name their sections by number."""
    data = elf.data[section.offset : section.offset + section.size]
    if section.type != _SYMTAB or all(old == new for old, new in index.items()):
        return data
    symbols = bytearray(data)
    size, at = (24, 6) if elf.wide else (16, 14)
    for start in range(0, len(symbols), size):
        (old,) = struct.unpack_from("<H", symbols, start + at)
        if old < _RESERVED_INDEX:
            struct.pack_into("<H", symbols, start + at, index.get(old, 0))
    return bytes(symbols)


def _with_table(elf: _Elf, out: bytearray, table: list[_Section]) -> bytes:
    names = bytearray(b"\0")
    starts = []
    for name in [section.name for section in table[1:]] + [".shstrtab"]:
        starts.append(len(names))
        names += name.encode() + b"\0"
    table.append(_Section(".shstrtab", _STRTAB, 0, 0, len(out), len(names), 0, 0, 1, 0))
    out += names
    out += b"\0" * (-len(out) % 8)
    offset = len(out)
    for start, s in zip([0, *starts], table, strict=True):
        out += struct.pack(
            elf.section_format, start, s.type, s.flags, s.address, s.offset, s.size, s.link,
            s.info, s.align, s.entry,
        )  # fmt: skip
    if elf.wide:
        struct.pack_into("<Q", out, 40, offset)
        struct.pack_into("<HH", out, 60, len(table), len(table) - 1)
    else:
        struct.pack_into("<I", out, 32, offset)
        struct.pack_into("<HH", out, 48, len(table), len(table) - 1)
    return bytes(out)


def main(arguments: Sequence[str]) -> int:
    """As a program: `elf_strip LIBRARY STRIPPED SYMBOLS`."""
    library, stripped, symbols = map(Path, arguments)
    parts = split(library.read_bytes(), symbols.name)
    stripped.write_bytes(parts.stripped)
    stripped.chmod(0o755)
    symbols.write_bytes(parts.debug)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except OrchestratorError as error:
        sys.exit(str(error))
