"""Checks on a delivered ELF shared object, and the sizes of its sections.

Contract: reads files, changes nothing. `check` raises an error that names the file, what was
expected and what was seen, with one class per violation. If there are several violations, it raises
the first, and its details list the others.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from elftools.common.exceptions import ELFError, ELFParseError
from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile

from orchestrator.binary import elf_hardening, elf_pages
from orchestrator.binary.self_relocation import begins_relocated, is_packed
from orchestrator.errors import OrchestratorError, Place

# e_machine and the class of each processor: System V ABI supplements.
_MACHINES: Final[Mapping[str, tuple[str, int]]] = {
    "x86_64": ("EM_X86_64", 64),
    "arm64": ("EM_AARCH64", 64),
    "armv7": ("EM_ARM", 32),
}
_DF_TEXTREL: Final = 0x4


class NotElfError(OrchestratorError):
    """The file is not an ELF shared object."""


class WrongMachineError(OrchestratorError):
    """The library is for another processor."""


class WrongSonameError(OrchestratorError):
    """The library's soname is not its file name."""


class ForeignLibraryError(OrchestratorError):
    """The library needs a library that the target system does not provide."""


class WrongExportsError(OrchestratorError):
    """The library's exported symbols are not exactly the API's."""


class TextRelocationError(OrchestratorError):
    """The library's code is changed when it is loaded, so it cannot be shared or protected."""


class UnrelocatedError(OrchestratorError):
    """The library must relocate itself, and nothing in it would begin to."""


class RunPathError(OrchestratorError):
    """The library carries a search path of the machine that linked it."""


@dataclass(frozen=True)
class ElfRules:
    """The rules for a library: `processor` as toolchains name it, `page_size` in bytes.

    relocated  who applies packed relocations: the system's loader (bionic), or the library
    canaries   whether functions must guard their stack
    checked    whether calls to the C library must be checked (glibc's _FORTIFY_SOURCE)
    symbols    the symbols that were stripped off it, where they are at hand
    besides    what the names begin with that it may export besides; None: it may not
    """

    soname: str
    processor: str
    exports: frozenset[str]
    system_libraries: frozenset[str]
    page_size: int = 0x1000
    relocated: Literal["by itself", "by loader"] = "by itself"
    canaries: bool = False
    checked: bool = False
    symbols: Path | None = None
    besides: str | None = None


def check(path: Path, rules: ElfRules) -> None:
    """Raises the first violation of the rules; see `violations` for all."""
    found = violations(path, rules)
    if not found:
        return
    first = found[0]
    others = [f"{error.what}: {error.seen}" for error in found[1:]]
    if others:
        first.details = "\n".join(["also:", *others])
    raise first


def violations(path: Path, rules: ElfRules) -> tuple[OrchestratorError, ...]:
    """All violations, one error each, not raised; raises only `NotElfError`."""
    elf, dynamic = _open(path.read_bytes(), path)
    found = [rule(elf, dynamic, rules) for rule in _RULES]
    found.append(elf_pages.fault(elf, rules.page_size))
    found += _hardening(elf, dynamic, rules)
    for error in found:
        if error is not None:
            error.place = Place(str(path))
    return tuple(error for error in found if error is not None)


def soname_of(data: bytes) -> str | None:
    """The soname of a shared object; raises `NotElfError`."""
    _, dynamic = _open(data, None)
    return next(iter(_texts(dynamic, "SONAME")), None)


def exported_symbols(path: Path) -> frozenset[str]:
    """The names that a dynamic linker can find in the library; raises `NotElfError`."""
    elf, _ = _open(path.read_bytes(), path)
    return _exports(elf)


def _open(data: bytes, path: Path | None) -> tuple[ELFFile, DynamicSection]:
    try:
        elf = ELFFile(io.BytesIO(data))
        dynamic = elf.get_section_by_name(".dynamic")
        kind = elf["e_type"]
    except (ELFError, ELFParseError, UnicodeDecodeError) as cause:
        raise _not_elf(path, str(cause) or "no ELF header") from cause
    if not isinstance(dynamic, DynamicSection) or kind != "ET_DYN":
        raise _not_elf(path, f"an ELF file of type {kind}")
    return elf, dynamic


def _not_elf(path: Path | None, seen: str) -> NotElfError:
    return NotElfError(
        "this is not a shared library",
        place=Place(str(path)) if path else None,
        expected="an ELF shared object with a dynamic section",
        seen=seen,
    )


def _texts(dynamic: DynamicSection, tag: str) -> list[str]:
    """The strings of the dynamic entries of one kind; pyelftools names the field as the tag."""
    return [str(getattr(entry, tag.lower())) for entry in dynamic.iter_tags("DT_" + tag)]


def _exports(elf: ELFFile) -> frozenset[str]:
    """Defined, visible symbols of .dynsym. Version names are absolute symbols: not exports."""
    table: Any = elf.get_section_by_name(".dynsym")
    if table is None:
        return frozenset()
    return frozenset(
        symbol.name
        for symbol in table.iter_symbols()
        if symbol["st_info"]["bind"] in ("STB_GLOBAL", "STB_WEAK", "STB_GNU_UNIQUE", "STB_LOOS")
        and symbol["st_shndx"] not in ("SHN_UNDEF", "SHN_ABS")
        and symbol["st_other"]["visibility"] in ("STV_DEFAULT", "STV_PROTECTED")
    )


def _machine(elf: ELFFile, _: DynamicSection, rules: ElfRules) -> OrchestratorError | None:
    expected = _MACHINES[rules.processor]
    seen = (str(elf["e_machine"]), int(elf.elfclass))
    if seen == expected:
        return None
    return WrongMachineError(
        "the library is for another processor",
        expected=f"{expected[0]}, {expected[1]} bits ({rules.processor})",
        seen=f"{seen[0]}, {seen[1]} bits",
    )


def _soname(_: ELFFile, dynamic: DynamicSection, rules: ElfRules) -> OrchestratorError | None:
    seen = next(iter(_texts(dynamic, "SONAME")), None)
    if seen == rules.soname:
        return None
    return WrongSonameError(
        "the library has another soname",
        expected=rules.soname,
        seen=seen or "none",
        hint="link with -Wl,-soname," + rules.soname,
    )


def _needed(_: ELFFile, dynamic: DynamicSection, rules: ElfRules) -> OrchestratorError | None:
    foreign = sorted(set(_texts(dynamic, "NEEDED")) - rules.system_libraries)
    if not foreign:
        return None
    return ForeignLibraryError(
        "the library has DT_NEEDED entries that the target system does not provide",
        expected="only " + ", ".join(sorted(rules.system_libraries)),
        seen=", ".join(foreign),
        hint="link these statically, or leave out what uses them",
    )


def _api(elf: ELFFile, _: DynamicSection, rules: ElfRules) -> OrchestratorError | None:
    seen = _exports(elf)
    if rules.besides is not None:
        seen = frozenset(name for name in seen if not name.startswith(rules.besides))
    missing, extra = sorted(rules.exports - seen), sorted(seen - rules.exports)
    if not missing and not extra:
        return None
    parts = [
        f"{len(names)} {word}: {', '.join(names[:8])}{', ...' if len(names) > 8 else ''}"
        for names, word in ((missing, "missing"), (extra, "too many"))
        if names
    ]
    return WrongExportsError(
        "the library does not export exactly the C API",
        expected=f"the {len(rules.exports)} functions of the C API",
        seen="; ".join(parts),
        hint="check the version script and -fvisibility=hidden",
    )


def _text_relocations(
    _: ELFFile, dynamic: DynamicSection, rules: ElfRules
) -> OrchestratorError | None:
    flags = any(tag.entry.d_val & _DF_TEXTREL for tag in dynamic.iter_tags("DT_FLAGS"))
    if not flags and not list(dynamic.iter_tags("DT_TEXTREL")):
        return None
    return TextRelocationError(
        "the library has relocations in its code",
        expected="no DT_TEXTREL",
        seen="DT_TEXTREL",
        hint="compile every unit with -fPIC",
    )


def _relocation(elf: ELFFile, _: DynamicSection, rules: ElfRules) -> OrchestratorError | None:
    if rules.relocated == "by loader" or not is_packed(elf) or begins_relocated(elf):
        return None
    return UnrelocatedError(
        "the library's own relocation would not run",
        expected="a first entry of .init_array that the loader relocates",
        seen="packed relocations, and that entry is one of them",
        hint="link runtime_library/relocate.cpp, or without --pack-dyn-relocs",
    )


def _run_path(_: ELFFile, dynamic: DynamicSection, rules: ElfRules) -> OrchestratorError | None:
    paths = _texts(dynamic, "RPATH") + _texts(dynamic, "RUNPATH")
    if not paths:
        return None
    return RunPathError(
        "the library carries a search path",
        expected="no DT_RPATH and no DT_RUNPATH",
        seen=", ".join(paths),
        hint="link without -rpath",
    )


def _hardening(
    elf: ELFFile, dynamic: DynamicSection, rules: ElfRules
) -> list[OrchestratorError | None]:
    return [
        elf_hardening.writable_tables(elf),
        elf_hardening.lazy_binding(dynamic),
        elf_hardening.executable_stack(elf),
        elf_hardening.missing_build_id(elf),
        elf_hardening.unguarded_stack(elf, rules.symbols) if rules.canaries else None,
        elf_hardening.unchecked_calls(elf) if rules.checked else None,
    ]


_RULES: Final[
    tuple[Callable[[ELFFile, DynamicSection, ElfRules], OrchestratorError | None], ...]
] = (_machine, _soname, _needed, _api, _text_relocations, _relocation, _run_path)
