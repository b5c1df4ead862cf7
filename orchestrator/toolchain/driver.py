"""What a kind of compiler tells about itself, in the words that all kinds share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from orchestrator.errors import OrchestratorError


class CompilerMissingError(OrchestratorError):
    """A toolchain's compiler is not on this machine."""


@dataclass(frozen=True)
class LinkedPart:
    """A library that the compiler's linker puts into binaries, with its licence.

    licence    an SPDX expression
    texts      file name to deliver it by -> the licence's text
    witnesses  beginnings of symbols: a binary that defines one of them holds the part
    """

    name: str
    version: str
    licence: str
    texts: Mapping[str, Path]
    witnesses: tuple[str, ...]


@dataclass(frozen=True)
class Driver:
    """A compiler that was found here.

    version      for people and manifests
    target       for people: what it compiles for
    identity     all that decides what it makes of a source, without paths of this machine
    commands     verb (`cxx`, `cc`, `ar`) -> argv of the program behind the wrapper
    zig          zig's program where the commands are zig's
    smallest     what `-Oz` stands for; empty where the compiler takes it as it is
    cxx_library  what its C++ objects need
    brings_cxx_sources  whether `<../src/...>` finds the C++ library's own sources
    for_release  False where what it makes must not be shipped
    linked       libraries that it may link into what it makes
    """

    version: str
    target: str
    identity: Mapping[str, object]
    commands: Mapping[str, tuple[str, ...]]
    cxx_library: Literal["libc++", "libstdc++"]
    zig: str | None = None
    smallest: tuple[str, ...] = ()
    brings_cxx_sources: bool = False
    for_release: bool = True
    linked: tuple[LinkedPart, ...] = ()
