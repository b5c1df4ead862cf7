"""Functions of the C library that read or write numbers by LC_NUMERIC, and who takes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from elftools.elf.elffile import ELFFile

BY_LOCALE: Final = {
    *("strtod", "strtof", "strtold", "atof", "wcstod", "wcstof", "wcstold", "localeconv"),
    *("nl_langinfo", "strfmon", "sscanf", "fscanf", "scanf", "vsscanf", "vfscanf", "swscanf"),
    *("printf", "fprintf", "sprintf", "snprintf", "vprintf", "vfprintf", "vsprintf", "vsnprintf"),
    *("asprintf", "vasprintf", "dprintf", "swprintf", "vswprintf"),
    *("__printf_chk", "__fprintf_chk", "__sprintf_chk", "__snprintf_chk", "__vfprintf_chk"),
    *("__vsnprintf_chk", "__vasprintf_chk", "__vsprintf_chk", "__asprintf_chk"),
}
# Why a library may have them.
ALLOWED: Final = {
    "snprintf": "libc++'s streams, in its own C locale (uselocale); whole numbers elsewhere",
    "vsnprintf": "libc++'s streams, in its own C locale (uselocale)",
    "__vsnprintf_chk": "libc++'s streams, in its own C locale (uselocale)",
    "vasprintf": "libc++'s streams, in its own C locale (uselocale)",
    "__vasprintf_chk": "libc++'s streams, in its own C locale (uselocale)",
    "fprintf": "messages without numbers that have a point, before the process ends",
    "vfprintf": "messages without numbers that have a point, before the process ends",
    "__vfprintf_chk": "messages without numbers that have a point, before the process ends",
}


def imported(path: Path) -> set[str]:
    """The names of the functions and data that a program or library takes from others."""
    with path.open("rb") as file:
        table: Any = ELFFile(file).get_section_by_name(".dynsym")
        return {one.name for one in table.iter_symbols() if one["st_shndx"] == "SHN_UNDEF"}
