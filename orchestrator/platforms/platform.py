"""A platform as the rest of the code sees it: a table of facts that do not depend on the compiler.

Contract: pure values. What depends on the compiler (its target, its flags, the oldest release that
it builds for) belongs to `compilers`; what depends on a format belongs to its reader or writer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from orchestrator.values.config.app import PackageKind
from orchestrator.values.config.toolchain import CompilerKind, ObjectFormat, Processor, System

CLibrary = Literal["gnu", "musl", "bionic", "libsystem"]
# Their names for people.
C_LIBRARIES: Final[Mapping[CLibrary, str]] = {
    "gnu": "glibc",
    "musl": "musl",
    "bionic": "bionic",
    "libsystem": "libSystem",
}
Relocated = Literal["by itself", "by loader"]


@dataclass(frozen=True, kw_only=True)
class SharedLibrary:
    """Apps load one shared library; archives for consumers of the C++ API lie beside it.

    system_libraries  C library -> what its systems bring along, so that a library may need it
    cxx_libraries     what a library needs besides that does not hold its C++ library
    page_sizes        bytes: segments are aligned to at least as much
    relocated         who applies packed relocations: the library itself, or the system's loader
    exports           functions that the system calls, beside those of the C API
    addons            the processors that add-ons are made for
    checked           C libraries whose checked functions (`_FORTIFY_SOURCE`) a library must call
    """

    system_libraries: Mapping[CLibrary, frozenset[str]]
    cxx_libraries: frozenset[str]
    page_sizes: Mapping[Processor, int]
    relocated: Relocated
    exports: frozenset[str] = frozenset()
    addons: frozenset[Processor] = frozenset()
    checked: frozenset[CLibrary] = frozenset()


@dataclass(frozen=True, kw_only=True)
class StaticLibrary:
    """Apps link one archive, and nothing else is delivered.

    sdk        Apple's SDK, by its name for xcrun
    simulator  whether the platform is a simulator of the one that apps are shipped for
    """

    sdk: str
    simulator: bool


@dataclass(frozen=True)
class RelativeSize:
    """Size of a library against the same for x86-64 Linux, by the demo apps: its bytes times
    `scale`, and `more`."""

    scale: float = 1.0
    more: int = 0


@dataclass(frozen=True, kw_only=True)
class Host:
    """A system that runs this tool, and so tracers.

    name        what uname(1) calls it
    link_flags  of a program, besides what every variant links: they drop what nothing refers to
    """

    name: str
    link_flags: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Platform:
    """A system that variants are built for.

    system           its name in toolchains/*.yaml
    format           of its objects
    library          what apps link
    compilers        the kinds of compilers that can build for it
    c_libraries      of its releases and distributions
    link_libraries   what every variant links of it
    packages         the kinds of packages that can be made
    default_packages those that are made where an app names none
    package_needs    of these kinds: the one C library that a package has a place for
    cmake_name       CMAKE_SYSTEM_NAME
    cmake_processors CMAKE_SYSTEM_PROCESSOR of each processor that it runs on
    cmake_advice     where consumers take the toolchain file of the platform's own: which; empty
                     where we write one
    host             where the tool runs on it
    checked_calls    whether its C library checks calls for being asked (`_FORTIFY_SOURCE`)
    lacks            functions that PyTorch would call and its C library does not have
    cxx_namespace    the inline namespace of libc++ in `std`
    not_inline       functions of PyTorch, as symbols, that are inline elsewhere: the runtime's
                     index, which is of one system, knows no reference to them
    threads_hold_libraries  whether a library stays loaded while a thread has an object of it
    java             whether apps call the library from Java
    sizes            of its libraries, for processors for which they were measured
    """

    system: System
    format: ObjectFormat
    library: SharedLibrary | StaticLibrary
    compilers: tuple[CompilerKind, ...]
    c_libraries: tuple[CLibrary, ...]
    link_libraries: tuple[str, ...]
    packages: tuple[PackageKind, ...]
    default_packages: tuple[PackageKind, ...]
    package_needs: Mapping[PackageKind, CLibrary] = field(default_factory=dict)
    cmake_name: str
    cmake_processors: Mapping[Processor, str]
    cmake_advice: str = ""
    host: Host | None = None
    checked_calls: bool
    lacks: frozenset[str] = frozenset()
    cxx_namespace: str = "__1"
    not_inline: frozenset[str] = frozenset()
    threads_hold_libraries: bool = False
    java: bool = False
    sizes: Mapping[Processor, RelativeSize] = field(default_factory=dict)

    @property
    def processors(self) -> tuple[Processor, ...]:
        """Processors that the platform runs on."""
        return tuple(self.cmake_processors)

    def has_package(self, kind: PackageKind, c_library: CLibrary | None) -> bool:
        """True if a library can be put in a package; None is a C library that is not known yet."""
        wanted = self.package_needs.get(kind)
        return kind in self.packages and (None in (wanted, c_library) or wanted == c_library)
