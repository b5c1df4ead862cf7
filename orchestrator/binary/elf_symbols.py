"""The symbols that a linked ELF library defines, and those that it needs from the system: names and
versions.

Contract: reads a file, changes nothing; raises `elf.NotElfError`, as `elf` does.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from elftools.common.exceptions import ELFError, ELFParseError
from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile
from elftools.elf.gnuversions import GNUVerNeedSection
from elftools.elf.sections import SymbolTableSection

from orchestrator.binary.elf import NotElfError
from orchestrator.errors import Place

_VERSION: Final = re.compile(r"([A-Z]+)_(\d+(?:\.\d+)*)$")
_UNDEFINED: Final = 0
_WEAK: Final = 2
# A symbol (System V ABI, chapter 4): st_name, st_info, st_shndx, st_value and st_size; for 32 bits
# in another order.
_SYMBOL: Final = {64: struct.Struct("<IBxHQQ"), 32: struct.Struct("<IIIBxH")}
# Of `.gnu.hash`: how many buckets, the first symbol that it has, words of the filter, a shift.
_HASH_HEADER: Final = 16
_FUNCTION_OR_OBJECT: Final = frozenset((1, 2, 10))


def defined_symbols(path: Path) -> frozenset[str]:
    """The functions and objects that an unstripped library defines, local ones too."""
    with _elf(path) as elf:
        return frozenset(name for name, _, _, _ in _defined(elf))


@dataclass(frozen=True)
class Placed:
    """A function or object that a file defines: its name, where it begins, and its bytes.

    shared  whether other files may define the same (a weak symbol, as inline functions are)
    """

    name: str
    address: int
    bytes: int
    shared: bool


def placed_symbols(path: Path) -> tuple[Placed, ...]:
    """The functions and objects that an object or an unstripped library defines, local ones too, in
    the order of its table."""
    with _elf(path) as elf:
        return tuple(
            Placed(name, address, size, binding == _WEAK)
            for name, binding, address, size in _defined(elf)
        )


def _defined(elf: ELFFile) -> Iterator[tuple[str, int, int, int]]:
    """Name, binding, address and size of each function and object that `.symtab` defines."""
    table = elf.get_section_by_name(".symtab")
    if table is None:
        return
    names = elf.get_section(table["sh_link"]).data()
    for row in _SYMBOL[elf.elfclass].iter_unpack(table.data()):
        if elf.elfclass == 64:
            name, info, section, address, size = row
        else:
            name, address, size, info, section = row
        if section != _UNDEFINED and info & 0xF in _FUNCTION_OR_OBJECT:
            yield names[name : names.index(b"\0", name)].decode(), info >> 4, address, size


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


def exported_bytes(path: Path, prefix: str) -> tuple[int, Mapping[str, int]]:
    """Return the number of exported names with a prefix, and their bytes in each section.

    Exactly the entries of the loader's tables for them: in `.dynsym` a symbol each, in `.dynstr` a
    name and a null byte, in `.gnu.version` an entry, in `.gnu.hash` a hash. The rest of that table,
    buckets and a Bloom filter, grows with all exported names, and is counted whole; its header is
    not. Code is not counted: the loader of add-ons, and functions that the linker keeps since they
    are exported.
    """
    with _elf(path) as elf:
        symbols, hashes = elf.get_section_by_name(".dynsym"), elf.get_section_by_name(".gnu.hash")
        if not isinstance(symbols, SymbolTableSection) or hashes is None:
            return 0, {}
        names = [
            one.name
            for one in symbols.iter_symbols()
            if one["st_shndx"] != "SHN_UNDEF" and one.name.startswith(prefix)
        ]
        (first,) = struct.unpack_from("<I", hashes.data(), 4)
        others = symbols.num_symbols() - first - len(names)
        found = {
            ".dynsym": symbols["sh_entsize"] * len(names),
            ".dynstr": sum(len(name.encode()) + 1 for name in names),
            ".gnu.hash": hashes["sh_size"] - _HASH_HEADER - 4 * others,
        }
        versions = elf.get_section_by_name(".gnu.version")
        if versions is not None:
            found[".gnu.version"] = versions["sh_entsize"] * len(names)
        return len(names), found if names else {}


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
