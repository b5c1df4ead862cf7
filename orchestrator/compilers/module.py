"""The protocol of the kinds of compilers: one module per kind, listed in `registry`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from orchestrator.compilers.driver import Driver
from orchestrator.errors import Place
from orchestrator.system.process import CommandRunner
from orchestrator.values.config.toolchain import ToolchainConfig


class Declared(Protocol):
    """A toolchain, and the file that declares it."""

    @property
    def config(self) -> ToolchainConfig: ...

    @property
    def place(self) -> Place: ...


class Machine(Protocol):
    """This machine, as a search for a compiler sees it.

    which      returns the path of a program on PATH, or None
    is_folder  True if a path is a folder
    """

    @property
    def which(self) -> Callable[[str], str | None]: ...

    @property
    def env(self) -> Mapping[str, str]: ...

    @property
    def is_folder(self) -> Callable[[str], bool]: ...


@dataclass(frozen=True)
class Requirement:
    """A program or a folder that a kind of compiler is.

    found      where it is; None where it is not here
    needed_by  the ABIs that nothing else compiles
    get        how to get it
    """

    name: str
    found: str | None
    needed_by: tuple[str, ...]
    get: str


class CompilerModule(Protocol):
    """A kind of compiler. Modules satisfy it: `compilers.zig`, `compilers.ndk`.

    The toolchains that a module is given declare its kind.
    """

    def find(
        self,
        config: ToolchainConfig,
        place: Place,
        cache_folder: Path,
        env: Mapping[str, str],
        runner: CommandRunner,
    ) -> Driver:
        """The declared compiler, or its replacement on this machine.

        Raises CompilerMissingError if there is none, and the kind's own errors.
        """

    def runs_zig(self, config: ToolchainConfig, machine: Machine) -> bool:
        """True if zig compiles for the toolchain on this machine."""

    def requirements(
        self, toolchains: Sequence[Declared], machine: Machine
    ) -> Iterator[Requirement]:
        """Yield the toolchains' requirements on a machine besides the Python package ziglang;
        optional ones too."""

    def release_files(self, driver: Driver, runner: CommandRunner) -> Iterator[Path]:
        """The files that say which release was found, besides the programs of the driver."""

    def searched(
        self,
        config: ToolchainConfig,
        driver: Driver,
        env: Mapping[str, str],
        runner: CommandRunner,
    ) -> Iterator[Path]:
        """Yield the paths at which the compiler was looked for, present or not: a change to one
        selects another compiler."""
