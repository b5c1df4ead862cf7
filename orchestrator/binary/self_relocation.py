"""Recognises libraries that relocate themselves: files linked with `SELF_RELOCATED`.

ELF's table of relative relocations takes 24 bytes per pointer in data. The packed table (RELR:
System V gABI, "Relative Relocation Table") takes about one bit, but only glibc 2.36 and musl 1.2.4
and newer read it. So it gets the tags that Android used before the standard ones (bionic,
libc/include/elf.h), which neither glibc nor musl knows, and the library applies it itself:
native/runtime_library/relocate.cpp.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile
from elftools.elf.relocation import RelocationSection


def is_packed(elf: ELFFile) -> bool:
    """True if the shared object has a relocation table that it must apply itself, as bionic does
    not."""
    return any(_dynamic(elf, "DT_ANDROID_RELR"))


def begins_relocated(elf: ELFFile) -> bool:
    """True if the loader itself relocates the first entry of `DT_INIT_ARRAY`: the initialiser that
    can then relocate the rest."""
    first = next((tag.entry.d_val for tag in _dynamic(elf, "DT_INIT_ARRAY")), None)
    return any(
        relocation["r_offset"] == first
        for section in elf.iter_sections()
        if isinstance(section, RelocationSection)
        for relocation in section.iter_relocations()
    )


def _dynamic(elf: ELFFile, tag: str) -> Iterable[Any]:
    section = elf.get_section_by_name(".dynamic")
    return section.iter_tags(tag) if isinstance(section, DynamicSection) else ()
