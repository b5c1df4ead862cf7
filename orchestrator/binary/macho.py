"""Checks a static library for iOS: every member of the archive.

Contract: reads a file, changes nothing. Objects are read by LIEF; the archive around them is BSD's
`ar` (`/usr/include/ar.h`, `ranlib.h`): names longer than 16 bytes, and names with a space, precede
the content (`#1/<length>`), and the symbol table is a member called `__.SYMDEF`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final

from orchestrator.errors import OrchestratorError, Place

if TYPE_CHECKING:
    import lief

ARCHIVE: Final = b"!<arch>\n"
_HEADER: Final = 60
# <mach-o/nlist.h>
_N_STAB, _N_PEXT, _N_TYPE, _N_EXT, _N_UNDF = 0xE0, 0x10, 0x0E, 0x01, 0x00
# Type information of types that are made of built-in ones alone, such as `void (*)(void*)`. On
# x86-64 it is compared by address, so that clang hides none of it; a class's would have a length in
# its name (Itanium C++ ABI, 5.1).
_BUILT_IN: Final = re.compile(r"__ZT[IS][^0-9]+")
# What a function calls that finds its canary changed.
_CANARY: Final = "___stack_chk_fail"
# C++ names that the system's libc++ and libc++abi define; any other is code that we left out.
_SYSTEM_CXX: Final = re.compile(
    r"__Z(?:N[KVrR]*St|S[tabiosd]|T[ISVCT]+N?K?St|T[IS][a-z]|T[IS]PK?[a-z]"
    r"|TVN10__cxxabiv1|n[wa]|d[la])"
)


class NotMachoError(OrchestratorError):
    """A file is not an archive of Mach-O objects."""


class WrongPlatformError(OrchestratorError):
    """A member of a static library is for another platform."""


class WrongMinimumError(OrchestratorError):
    """A member of a static library needs another least version of the system."""


class WrongArchitectureError(OrchestratorError):
    """A member of a static library is for another processor."""


class WrongSymbolsError(OrchestratorError):
    """A static library does not offer exactly the C API."""


class UnguardedObjectsError(OrchestratorError):
    """No function of a static library would notice that its stack was written over."""


class UnresolvedError(OrchestratorError):
    """A static library refers to code of PyTorch's that is not in it."""


@dataclass(frozen=True)
class MachoRules:
    """Requirements for every member of a static library.

    minimum   least version of the system, such as `15.0`
    exports   C names
    canaries  True if functions must guard their stack
    """

    system: str
    processor: str
    minimum: str
    exports: frozenset[str]
    canaries: bool = False


@dataclass(frozen=True)
class Member:
    """One object of an archive."""

    name: str
    binary: lief.MachO.Binary

    @property
    def processor(self) -> str:
        return self.binary.header.cpu_type.name.lower()

    @property
    def system(self) -> str:
        """The platform of LC_BUILD_VERSION, in the words of toolchains."""
        version = self.binary.build_version
        if version is None:
            return "no LC_BUILD_VERSION"
        return version.platform.name.lower().replace("_", "-")

    @property
    def minimum(self) -> str:
        """`15.0`, from LC_BUILD_VERSION; empty where there is none."""
        version = self.binary.build_version
        return "" if version is None else version_text(version.minos)

    @cached_property
    def exported(self) -> frozenset[str]:
        """The symbols that references find, and that an image exports."""
        return frozenset(name for name, kind in self._symbols if kind == _DEFINED)

    @cached_property
    def hidden(self) -> frozenset[str]:
        """The symbols that references find at a link, and that no image then exports."""
        return frozenset(name for name, kind in self._symbols if kind == _HIDDEN)

    @cached_property
    def undefined(self) -> frozenset[str]:
        return frozenset(name for name, kind in self._symbols if kind == _UNDEFINED)

    @cached_property
    def _symbols(self) -> tuple[tuple[str, str], ...]:
        return tuple((str(s.name), _kind(s.raw_type)) for s in self.binary.symbols)


_DEFINED, _HIDDEN, _UNDEFINED, _OTHER = "defined", "hidden", "undefined", "other"


def _kind(n_type: int) -> str:
    if n_type & _N_STAB or not n_type & _N_EXT:
        return _OTHER
    if n_type & _N_TYPE == _N_UNDF:
        return _UNDEFINED
    return _HIDDEN if n_type & _N_PEXT else _DEFINED


def check(path: Path, rules: MachoRules) -> None:
    """Raises the first rule that a static library breaks, with the member's name."""
    members = read_archive(path)
    for member in members:
        for rule in (_architecture, _platform, _minimum):
            fault = rule(member, rules)
            if fault is not None:
                raise _at(fault, path, member)
    for whole in (_api, _resolved, _guarded):
        fault = whole(members, rules)
        if fault is not None:
            fault.place = Place(str(path))
            raise fault


def read_archive(path: Path) -> tuple[Member, ...]:
    """The objects of a static library. Raises NotMachoError."""
    found = tuple(
        Member(name, parse_object(content, path, name))
        for name, content in archive_members(path.read_bytes(), path)
    )
    if not found:
        raise _not_macho(path, "an archive without members")
    return found


def archive_members(data: bytes, path: Path) -> Iterator[tuple[str, bytes]]:
    """Name and content of an archive's members, without its table of symbols."""
    if not data.startswith(ARCHIVE):
        raise _not_macho(path, "a file that is not an archive")
    at = len(ARCHIVE)
    while at < len(data):
        header = data[at : at + _HEADER]
        size = header[48:58].strip()
        if len(header) < _HEADER or header[58:] != b"`\n" or not size.isdigit():
            raise _not_macho(path, f"no member at byte {at}")
        content = data[at + _HEADER : at + _HEADER + int(size)]
        if len(content) < int(size):
            raise _not_macho(path, f"a member that is cut off at byte {len(data)}")
        name = header[:16].rstrip().decode("latin-1")
        if name.startswith("#1/") and name[3:].isdigit():
            length = int(name[3:])
            name, content = content[:length].rstrip(b"\0").decode("latin-1"), content[length:]
        at += _HEADER + int(size) + int(size) % 2
        if not name.startswith("__.SYMDEF"):
            yield name, content


def needed_symbols(path: Path) -> frozenset[str]:
    """The symbols that a static library leaves to the system, as the linker writes them."""
    return _left_open(read_archive(path))


def missing_symbols(members: Iterable[Member]) -> frozenset[str]:
    """Symbols that members reference and that neither they nor the system's libraries define."""
    return frozenset(
        name
        for name in _left_open(tuple(members))
        if (name.startswith("__Z") and not _SYSTEM_CXX.match(name)) or name.startswith("_lta_")
    )


def _left_open(members: tuple[Member, ...]) -> frozenset[str]:
    defined = {name for member in members for name in member.exported | member.hidden}
    return frozenset(n for member in members for n in member.undefined) - defined


def read_object(path: Path) -> Member:
    """One object file. Raises NotMachoError."""
    return Member(path.name, parse_object(path.read_bytes(), path, path.name))


def version_text(numbers: Iterable[int]) -> str:
    """`15.0` for 15, 0, 0."""
    major, minor, patch = [*numbers, 0, 0, 0][:3]
    return f"{major}.{minor}.{patch}" if patch else f"{major}.{minor}"


def parse_image(content: bytes) -> lief.MachO.Binary | None:
    """One Mach-O file, of whatever kind; None where the bytes are none, or several."""
    import lief  # a third of a second, which only iOS should cost

    lief.logging.disable()  # it tells of empty tables that zig and Apple's ld write alike
    fat = lief.MachO.parse(content)
    return fat.at(0) if fat is not None and fat.size == 1 else None


def parse_object(content: bytes, path: Path, name: str) -> lief.MachO.Binary:
    """One member's content, read. Raises NotMachoError."""
    binary = parse_image(content)
    if binary is None or binary.header.file_type.name != "OBJECT":
        raise _not_macho(path, f"the member {name}, which is not a Mach-O object")
    return binary


def _not_macho(path: Path, seen: str) -> NotMachoError:
    return NotMachoError(
        "this is not a static library for iOS",
        place=Place(str(path)),
        expected="an archive of Mach-O objects",
        seen=seen,
    )


def _at(fault: OrchestratorError, path: Path, member: Member) -> OrchestratorError:
    fault.place = Place(f"{path}({member.name})")
    return fault


def _architecture(member: Member, rules: MachoRules) -> OrchestratorError | None:
    if member.processor == rules.processor:
        return None
    return WrongArchitectureError(
        "an object is for another processor", expected=rules.processor, seen=member.processor
    )


def _platform(member: Member, rules: MachoRules) -> OrchestratorError | None:
    if member.system == rules.system:
        return None
    return WrongPlatformError(
        "an object is for another platform", expected=rules.system, seen=member.system
    )


def _minimum(member: Member, rules: MachoRules) -> OrchestratorError | None:
    if member.minimum == version_text(int(part) for part in rules.minimum.split(".")):
        return None
    return WrongMinimumError(
        "an object has another minimum version of iOS", expected=rules.minimum, seen=member.minimum
    )


def _api(members: tuple[Member, ...], rules: MachoRules) -> OrchestratorError | None:
    wanted = {f"_{name}" for name in rules.exports}
    seen = {name for member in members for name in member.exported if not _BUILT_IN.fullmatch(name)}
    if seen == wanted:
        return None
    parts = [
        f"{len(names)} {word}: {', '.join(sorted(names)[:8])}{', ...' if len(names) > 8 else ''}"
        for names, word in ((wanted - seen, "missing"), (seen - wanted, "too many"))
        if names
    ]
    return WrongSymbolsError(
        "the library does not export exactly the C API",
        expected=f"the {len(wanted)} functions of the C API",
        seen="; ".join(parts),
        hint="check -fvisibility=hidden, and the prelink",
    )


def _resolved(members: tuple[Member, ...], _: MachoRules) -> OrchestratorError | None:
    missing = sorted(missing_symbols(members))
    if not missing:
        return None
    return UnresolvedError(
        "the library has undefined references",
        expected="references to the system's libraries only",
        seen=", ".join(missing[:8]) + (", ..." if len(missing) > 8 else ""),
        hint="the runtime index lacks references of this platform's code",
    )


def _guarded(members: tuple[Member, ...], rules: MachoRules) -> OrchestratorError | None:
    if not rules.canaries or any(_CANARY in member.undefined for member in members):
        return None
    return UnguardedObjectsError(
        "the library's functions have no stack protectors",
        expected=f"a reference to {_CANARY}",
        seen="none",
        hint="a toolchain without it says so: `compile_flags: [-fno-stack-protector]`",
    )
