"""Small ELF files for tests, put together by hand: 64 bits, little-endian."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

LOCAL, GLOBAL, WEAK = 0, 1, 2
NONE, OBJECT, FUNCTION, THREAD = 0, 1, 2, 6


@dataclass(frozen=True)
class Symbol:
    """A row of a symbol table; section 0: not defined here."""

    name: str
    section: int = 1
    bind: int = GLOBAL
    kind: int = FUNCTION
    visibility: int = 2


def elf(sections: Mapping[str, tuple[int, bytes, int]], kind: int = 1) -> bytes:
    """A file of sections: name -> type, content, link. `.shstrtab` is added as the last one."""
    names = b"\0"
    rows = [struct.pack("<IIQQQQIIQQ", *(10 * [0]))]
    content = bytes(64)
    for name, (type_, data, link) in {**sections, ".shstrtab": (3, b"", 0)}.items():
        start = len(names)
        names += name.encode() + b"\0"
        data = names if name == ".shstrtab" else data
        rows.append(
            struct.pack("<IIQQQQIIQQ", start, type_, 0, 0, len(content), len(data), link, 0, 1, 0)
        )
        content += data
    head = b"\x7fELF\x02\x01\x01" + bytes(9)
    head += struct.pack("<HHIQQQIHHHHHH", kind, 62, 1, 0, 0, len(content), 0, 64, 56, 0, 64,
                        len(rows), len(rows) - 1)  # fmt: skip
    return head + content[64:] + b"".join(rows)


def elf_object(symbols: Sequence[Symbol], kind: int = 1) -> bytes:
    """An object, or another kind of file, with one section of code and these symbols."""
    text = b"\0"
    table = bytes(24)
    for one in symbols:
        info = one.bind << 4 | one.kind
        table += struct.pack("<IBBHQQ", len(text), info, one.visibility, one.section, 0, 0)
        text += one.name.encode() + b"\0"
    return elf({".text": (1, b"\xc3", 0), ".symtab": (2, table, 3), ".strtab": (3, text, 0)}, kind)


def symbols_of(data: bytes) -> dict[str, tuple[int, int, int, int]]:
    """name -> bind, kind, visibility and section of an object's symbols."""
    (at,) = struct.unpack_from("<Q", data, 40)
    table = struct.unpack_from("<IIQQQQIIQQ", data, at + 2 * 64)
    names = struct.unpack_from("<IIQQQQIIQQ", data, at + 3 * 64)
    text = data[names[4] : names[4] + names[5]]
    return {
        text[row[0] : text.index(b"\0", row[0])].decode(): (
            row[1] >> 4,
            row[1] & 0xF,
            row[2],
            row[3],
        )
        for row in struct.iter_unpack("<IBBHQQ", data[table[4] : table[4] + table[5]])
        if row[0]
    }
