"""Hardening rules of `elf.py`: they make memory errors in a shared library harder to exploit.

Contract: each rule takes an open ELF file and returns the error that it found, without raising it.
Tags and flags: System V gABI, "Dynamic Section"; PT_GNU_RELRO and PT_GNU_STACK: Linux Standard Base
Core, "Program Header".
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import NoteSection

from orchestrator.errors import OrchestratorError

_PF_X: Final = 0x1
_DF_BIND_NOW: Final = 0x8
_DF_1_NOW: Final = 0x1
# What a function calls that finds its canary changed (the same in glibc, musl and bionic).
_CANARY: Final = "__stack_chk_fail"
# What glibc's headers call in place of a function that writes, where _FORTIFY_SOURCE asks for it
# (Linux Standard Base Core, "Interfaces for libc": `__memcpy_chk`, `__vsnprintf_chk`).
_CHECKED: Final = re.compile(r"__[a-z]+_chk")


class WritableTablesError(OrchestratorError):
    """The table of function addresses that the loader fills in stays writable afterwards."""


class LazyBindingError(OrchestratorError):
    """Addresses of functions are filled in when they are first called, so they stay writable."""


class ExecutableStackError(OrchestratorError):
    """The library requires an executable stack."""


class MissingBuildIdError(OrchestratorError):
    """The library has no build id, so crash reports cannot name its build."""


class UnguardedStackError(OrchestratorError):
    """No function of the library would notice that its stack was written over."""


class UncheckedCallsError(OrchestratorError):
    """No call of the library to its C library checks the size of what it writes to."""


def writable_tables(elf: ELFFile) -> OrchestratorError | None:
    if _segment(elf, "PT_GNU_RELRO") is not None:
        return None
    return WritableTablesError(
        "the library's tables stay writable when it is loaded",
        expected="a segment PT_GNU_RELRO",
        seen="none",
        hint="link with -Wl,-z,relro",
    )


def lazy_binding(dynamic: DynamicSection) -> OrchestratorError | None:
    flags = _flags(dynamic, "DT_FLAGS") & _DF_BIND_NOW or _flags(dynamic, "DT_FLAGS_1") & _DF_1_NOW
    if flags or list(dynamic.iter_tags("DT_BIND_NOW")):
        return None
    return LazyBindingError(
        "the library binds its functions lazily",
        expected="DF_BIND_NOW or DF_1_NOW",
        seen="neither",
        hint="link with -Wl,-z,now",
    )


def executable_stack(elf: ELFFile) -> OrchestratorError | None:
    stack = _segment(elf, "PT_GNU_STACK")
    if stack is not None and not stack["p_flags"] & _PF_X:
        return None
    return ExecutableStackError(
        "the library requires an executable stack",
        expected="a segment PT_GNU_STACK without PF_X",
        # a loader takes its absence for a wish
        seen="no PT_GNU_STACK" if stack is None else "PF_X",
        hint="link with -Wl,-z,noexecstack",
    )


def missing_build_id(elf: ELFFile) -> OrchestratorError | None:
    found = [
        str(note["n_desc"])
        for section in elf.iter_sections()
        if isinstance(section, NoteSection)
        for note in section.iter_notes()
        if note["n_type"] == "NT_GNU_BUILD_ID"
    ]
    if any(text.strip("0") for text in found):
        return None
    return MissingBuildIdError(
        "the library has no build id",
        expected="a note NT_GNU_BUILD_ID",
        seen="an id of zeros, which was never filled in" if found else "none",
        hint="link with -Wl,--build-id",
    )


def unguarded_stack(elf: ELFFile, symbols: Path | None) -> OrchestratorError | None:
    """symbols: a file with those that were stripped off. Where zig's compiler-rt is linked for
    something else, its function is called, and not the C library's."""
    if _knows(elf, ".dynsym"):
        return None
    if symbols is not None and symbols.is_file():
        with symbols.open("rb") as file:
            if _knows(ELFFile(file), ".symtab"):
                return None
    return UnguardedStackError(
        "the library's functions have no stack protectors",
        expected=f"a reference to {_CANARY}",
        seen="none",
        hint="a toolchain without it says so: `compile_flags: [-fno-stack-protector]`",
    )


def unchecked_calls(elf: ELFFile) -> OrchestratorError | None:
    """Return an error if a library for glibc calls no checked functions of the C library. musl has
    no such functions, and the checks that bionic's headers make inline cannot be seen in a
    binary."""
    table: Any = elf.get_section_by_name(".dynsym")
    if table is not None and any(_CHECKED.fullmatch(one.name) for one in table.iter_symbols()):
        return None
    return UncheckedCallsError(
        "the library's calls to the C library are not checked",
        expected="a reference to a function such as __memcpy_chk",
        seen="none",
        hint="a toolchain without them says so: `compile_flags: [-U_FORTIFY_SOURCE]`",
    )


def _knows(elf: ELFFile, section: str) -> bool:
    table: Any = elf.get_section_by_name(section)
    return table is not None and bool(table.get_symbol_by_name(_CANARY))


def _segment(elf: ELFFile, kind: str) -> Any:
    return next((s for s in elf.iter_segments() if s["p_type"] == kind), None)


def _flags(dynamic: DynamicSection, tag: str) -> int:
    return sum(int(entry.entry.d_val) for entry in dynamic.iter_tags(tag))
