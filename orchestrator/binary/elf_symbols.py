"""The symbols that a linked ELF library defines, and those that it needs from the system: names and
versions.

Contract: reads a file, changes nothing; raises `elf.NotElfError`, as `elf` does.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from elftools.common.exceptions import ELFError, ELFParseError
from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile
from elftools.elf.gnuversions import GNUVerNeedSection

from orchestrator.binary.elf import NotElfError
from orchestrator.errors import Place

_VERSION: Final = re.compile(r"([A-Z]+)_(\d+(?:\.\d+)*)$")
_UNDEFINED: Final = 0
# st_name, st_info and st_shndx of a symbol (System V ABI, chapter 4), for 64 and 32 bits.
_SYMBOL: Final = {64: struct.Struct("<IBxH16x"), 32: struct.Struct("<I8xBxH")}
_FUNCTION_OR_OBJECT: Final = frozenset((1, 2, 10))


def defined_symbols(path: Path) -> frozenset[str]:
    """The functions and objects that an unstripped library defines, local ones too."""
    with _elf(path) as elf:
        table = elf.get_section_by_name(".symtab")
        if table is None:
            return frozenset()
        names = elf.get_section(table["sh_link"]).data()
        rows = _SYMBOL[elf.elfclass].iter_unpack(table.data())
        return frozenset(
            names[name : names.index(b"\0", name)].decode()
            for name, info, section in rows
            if section != _UNDEFINED and info & 0xF in _FUNCTION_OR_OBJECT
        )


def needed_libraries(path: Path) -> tuple[str, ...]:
    """The libraries that the loader finds for it (DT_NEEDED)."""
    with _elf(path) as elf:
        dynamic = elf.get_section_by_name(".dynamic")
        if not isinstance(dynamic, DynamicSection):
            return ()
        return tuple(str(getattr(tag, "needed", "")) for tag in dynamic.iter_tags("DT_NEEDED"))


def needed_versions(path: Path) -> Mapping[str, str]:
    """Highest version that it needs of each set of symbol versions: `GLIBC` -> `2.27`."""
    found: dict[str, tuple[int, ...]] = {}
    with _elf(path) as elf:
        for section in elf.iter_sections():
            if not isinstance(section, GNUVerNeedSection):
                continue
            for _, versions in section.iter_versions():
                for version in versions:
                    match = _VERSION.fullmatch(version.name)
                    if match:
                        numbers = tuple(int(part) for part in match[2].split("."))
                        found[match[1]] = max(found.get(match[1], ()), numbers)
    return {name: ".".join(map(str, numbers)) for name, numbers in sorted(found.items())}


@contextmanager
def _elf(path: Path) -> Iterator[ELFFile]:
    with path.open("rb") as file:
        try:
            yield ELFFile(file)
        except (ELFError, ELFParseError, UnicodeDecodeError) as cause:
            raise NotElfError(
                "this is not an ELF library that can be read",
                place=Place(str(path)),
                seen=str(cause) or type(cause).__name__,
            ) from cause
