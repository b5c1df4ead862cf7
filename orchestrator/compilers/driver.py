"""Facts that a compiler reports about itself, in a form that all kinds of compilers share."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from orchestrator.compilers.flags import Hardening
from orchestrator.errors import OrchestratorError
from orchestrator.platforms.platform import CLibrary

# Folders that a toolchain's flags may name; ninja's text fills them in.
_FOLDER: Final = re.compile(r"\$(?:native|zig)(?!\w)")


def names_folder(flag: str) -> bool:
    """True if a flag names a folder of ours, and so means nothing outside of a build.

    Any other `$` (`-Wl,-rpath,$ORIGIN`) is the flag's own.
    """
    return _FOLDER.search(flag) is not None


class CompilerMissingError(OrchestratorError):
    """A toolchain's compiler is not on this machine."""


# What lld is told of a link that optimises all its objects together: to merge equal functions and
# to inline only where it makes less code. It would warn of each loop that is not unrolled as
# PyTorch wishes.
LTO_LINK: Final = (
    "-Wl,--mllvm=-enable-merge-functions",
    "-Wl,--mllvm=-inline-threshold=0",
    "-Wl,--no-warnings",
)


# Packs relocations for a library that applies them itself (self_relocation.py tells why).
SELF_RELOCATED: Final = ("-Wl,--pack-dyn-relocs=relr", "-Wl,--use-android-relr-tags")


@dataclass(frozen=True)
class LinkedPart:
    """A library that the compiler's linker puts into binaries, with its licence.

    licence    an SPDX expression
    texts      file name to deliver it by -> the licence's text
    witnesses  beginnings of symbols: a binary that defines one of them holds the part
    folder     what `sources` are relative to
    sources    globs of the files that it is made of; none where they are not here
    """

    name: str
    version: str
    licence: str
    texts: Mapping[str, Path]
    witnesses: tuple[str, ...]
    folder: Path = Path()
    sources: tuple[str, ...] = ()


@dataclass(frozen=True)
class CxxSource:
    """A source of the C++ library: its path in zig's package (`libcxx/src/string.cpp`), and all
    flags besides the toolchain's."""

    unit: str
    language: Literal["c", "c++"]
    flags: tuple[str, ...]


@dataclass(frozen=True)
class AndroidFacts:
    """Facts about libraries for Android packages: the minimum API level, the NDK's major release
    (None for the stub sysroot), which C++ library."""

    api: int
    ndk: int | None
    stl: Literal["c++_static", "c++_shared"]


@dataclass(frozen=True)
class StubToolchain:
    """Why a compiler's output must not ship: the compiler that it replaces, what was found instead,
    and how to get the real one."""

    expected: str
    seen: str
    hint: str


@dataclass(frozen=True)
class Driver:
    """A compiler that was found on this machine.

    kind         what manifests call it: `zig`, `ndk`, `ndk-shim`
    version      for people and manifests
    target       for people: what it compiles for
    consumer_target  what a consumer's own compiler is told to compile for; None where the machine,
                 or the NDK, tells it
    identity     all that decides what it makes of a source, without paths of this machine
    commands     verb (`cxx`, `cc`, `ar`) -> argv of the program behind the wrapper
    zig          zig's program where the commands are zig's
    smallest     what `-Oz` stands for; empty where the compiler takes it as it is
    cxx_library  what its C++ objects need
    c_library    the C library that binaries need
    minimum      the least version of the system, where objects say it
    family       whose options it takes
    links_cxx_library  whether binaries hold the C++ library; else it is the machine's, or beside
    lto_flags    flags of a link that optimises all its objects together
    link_flags   flags of every link, besides those that its commands carry
    cxx_sources  the C++ library where a link does not bring one: compiled as all else is, and
                 found by `#include <../src/...>`
    links_cxx_whole  whether it is linked as objects, without our parts of it; where add-ons take
                 from it, as an archive
    beside       libraries that belong beside the shared one
    android      where it compiles for Android
    archiver     what the `ar` command is: an `ar`, or Apple's libtool
    stub         where what it makes must not be shipped: why
    linked       libraries that it may link into what it makes
    hardens      how it finds errors in memory without being told, or more of them than when told
    brought      headers and linked files of this machine that its identity has
    exports_more how a library that it links exports more once it is linked (`relink.py`), so that
                 add-ons extend it: by its wrapper, or where the compiler is called to link; None
                 where there are no add-ons for what it makes
    link_inputs  identifies what its links read besides what they are given and `identity` has;
                 None where not all of that is known, so that the cache keeps nothing that it links
    """

    version: str
    target: str
    identity: Mapping[str, object]
    commands: Mapping[str, tuple[str, ...]]
    kind: str
    cxx_library: Literal["libc++", "libstdc++"]
    c_library: CLibrary
    consumer_target: str | None = None
    minimum: str | None = None
    family: Literal["clang", "gcc"] = "clang"
    links_cxx_library: bool = True
    zig: str | None = None
    smallest: tuple[str, ...] = ()
    lto_flags: tuple[str, ...] = ("-flto", "-ffat-lto-objects", *LTO_LINK)
    link_flags: tuple[str, ...] = ()
    cxx_sources: tuple[CxxSource, ...] = ()
    links_cxx_whole: bool = False
    beside: tuple[Path, ...] = ()
    android: AndroidFacts | None = None
    archiver: Literal["ar", "libtool"] = "ar"
    stub: StubToolchain | None = None
    linked: tuple[LinkedPart, ...] = ()
    hardens: frozenset[Hardening] = frozenset()
    brought: tuple[Path, ...] = ()
    exports_more: Literal["by wrapper", "by compiler"] | None = None
    link_inputs: str | None = None


@dataclass(frozen=True)
class Tools:
    """The wrappers of a toolchain, and the environment that they run in."""

    cxx: Path
    cc: Path
    ar: Path
    env: Mapping[str, str]
