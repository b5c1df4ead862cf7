"""How a library that relocates itself is told: of the files that `SELF_RELOCATED` links.

ELF's table of relative relocations takes 24 bytes for each pointer in data. The packed one (RELR:
System V gABI, "Relative Relocation Table") takes a bit, but is read by glibc from 2.36 on and by
musl from 1.2.4 on only. So it gets the tags that Android had for it before they were standard
(bionic, libc/include/elf.h), which no glibc and no musl knows, and the library applies it itself:
native/runtime_library/relocate.cpp.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile
from elftools.elf.relocation import RelocationSection


def is_packed(elf: ELFFile) -> bool:
    """Whether the shared object has a table that it must apply itself, where bionic does not."""
    return any(_dynamic(elf, "DT_ANDROID_RELR"))


def begins_relocated(elf: ELFFile) -> bool:
    """Whether the loader itself relocates the shared object's first initialiser: the one that
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
