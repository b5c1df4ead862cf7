"""Takes the bitcode out of objects that hold code and bitcode, as a static library delivers them.

`python -m orchestrator.binary.bitcode <list of objects> <folder>`, as ninja runs it: copies the
objects into the new folder, and writes their list to `<folder>/members`.

Bitcode is read by one release of one compiler, is four times as large as the code, and holds the
paths of this machine. Format: System V ABI, chapter 4; the section is `.llvm.lto` (LLVM,
docs/FatLTO.rst). It stays in the section table as an empty entry, so that nothing that refers to a
section by its number (symbols, groups, relocations) has to change.
"""

from __future__ import annotations

import shlex
import struct
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from orchestrator.errors import OrchestratorError, Place

SECTION: Final = ".llvm.lto"
_NULL: Final = 0
_NOBITS: Final = 8


class NotAnObjectError(OrchestratorError):
    """A file that should be an ELF object is something else, or is damaged."""


@dataclass(frozen=True)
class _Layout:
    """Layout of the ELF header and section headers of one word width.

    offset   offset of `e_shoff`, and its struct format
    counts   offset of `e_shentsize`, which `e_shnum` and `e_shstrndx` follow
    section  struct format of a section header up to `sh_addralign`
    """

    offset: tuple[int, str]
    counts: int
    section: str


_LAYOUTS: Final = {
    1: _Layout((32, "<I"), 46, "<IIIIIIIII"),
    2: _Layout((40, "<Q"), 58, "<IIQQQQIIQ"),
}


def without_bitcode(data: bytes, path: Path) -> bytes:
    """The object without its bitcode; as it is where it has none. Raises NotAnObjectError."""
    if data[:4] != b"\x7fELF" or data[4:6] not in (b"\x01\x01", b"\x02\x01"):
        raise _not_an_object(path, f"a file that begins with {data[:6]!r}")
    try:
        return _cut(data, _LAYOUTS[data[4]])
    except (struct.error, IndexError, ValueError) as cause:
        raise _not_an_object(path, f"a file of {len(data)} bytes ({cause})") from cause


def _not_an_object(path: Path, seen: str) -> NotAnObjectError:
    return NotAnObjectError(
        "the bitcode of this object cannot be taken out",
        place=Place(str(path)),
        expected="a little-endian ELF object",
        seen=seen,
    )


def _cut(data: bytes, layout: _Layout) -> bytes:
    at, packed = layout.offset
    (table,) = struct.unpack_from(packed, data, at)
    size, count, names = struct.unpack_from("<HHH", data, layout.counts)
    places = [table + number * size for number in range(count)]
    rows = [list(struct.unpack_from(layout.section, data, place)) for place in places]
    strings = rows[names][4]
    bitcode = next((r for r in rows if _name(data, strings + r[0]) == SECTION), None)
    if bitcode is None:
        return data
    start, length, align = bitcode[4], bitcode[5], max(row[8] for row in rows)
    # what stands behind keeps its alignment
    gone = length - length % max(align, 16)
    bitcode[1], bitcode[5] = _NULL, 0
    out = bytearray(data[:start] + bytes(length - gone) + data[start + length :])
    for row, place in zip(rows, places, strict=True):
        if row[4] > start and row[1] != _NOBITS:
            row[4] -= gone
        struct.pack_into(layout.section, out, place - gone * (place > start), *row)
    struct.pack_into(packed, out, at, table - gone * (table > start))
    return bytes(out)


def _name(data: bytes, start: int) -> str:
    return data[start : data.index(b"\0", start)].decode("latin-1")


def main(arguments: Sequence[str]) -> int:
    """Copy the listed objects without their bitcode."""
    listed, folder = (Path(argument) for argument in arguments)
    folder.mkdir()
    members = []
    # quoted as ninja quotes, and as archivers read
    try:
        for source in map(Path, shlex.split(listed.read_text(encoding="utf-8"))):
            member = folder / source.name
            member.write_bytes(without_bitcode(source.read_bytes(), source))
            members.append(shlex.quote(str(member)) + "\n")
    except OrchestratorError as error:
        print(error.render(), file=sys.stderr)
        return 1
    (folder / "members").write_text("".join(members), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
