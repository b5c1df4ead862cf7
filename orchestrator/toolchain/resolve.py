"""Makes a declared toolchain usable here: finds its compiler, writes its wrappers, tells who it is.

A toolchain's identity is a digest of the compiler's version and of the wrappers' text (target and
fixed flags, without paths); it is part of every object's fingerprint.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from orchestrator.errors import OrchestratorError, Place
from orchestrator.toolchain.abilities import Abilities, probe
from orchestrator.toolchain.command import find_command
from orchestrator.toolchain.driver import CompilerMissingError, Driver
from orchestrator.toolchain.wrappers import write_wrappers
from orchestrator.toolchain.zig import find_zig
from orchestrator.values.config import ToolchainConfig

__all__ = [
    "CompilerMissingError",
    "CompilerUnsupportedError",
    "ResolvedToolchain",
    "compiler_environment",
    "resolve_toolchain",
]


class CompilerUnsupportedError(OrchestratorError):
    """A toolchain names a compiler of a kind that cannot be used for it."""


@dataclass(frozen=True)
class ResolvedToolchain:
    """A toolchain that can compile here.

    identity    hex digest: compiler version, target, fixed flags
    cxx, cc, ar paths of the wrappers
    run         argv prefix that runs its binaries here; None where they cannot run
    """

    config: ToolchainConfig
    driver: Driver
    abilities: Abilities
    identity: str
    cxx: Path
    cc: Path
    ar: Path
    run: tuple[str, ...] | None

    @property
    def abi(self) -> str:
        return self.config.abi

    @property
    def version(self) -> str:
        return self.driver.version

    @property
    def compile_flags(self) -> tuple[str, ...]:
        return self.config.compile_flags

    @property
    def link_flags(self) -> tuple[str, ...]:
        return self.config.link_flags

    @property
    def for_release(self) -> bool:
        """Whether what it makes may be shipped."""
        return self.driver.for_release

    @property
    def links_shared(self) -> bool:
        """Whether variants are shared libraries; iOS apps link static archives."""
        return self.config.format == "elf"


def resolve_toolchain(
    config: ToolchainConfig, place: Place, cache_folder: Path, env: Mapping[str, str]
) -> ResolvedToolchain:
    """Find the compiler and write its wrappers under `<cache>/toolchains/<abi>-<identity>/`.

    Raises CompilerMissingError, CompilerUnsupportedError.
    """
    driver = _find(config, place, env)
    identity = hashlib.sha256(json.dumps(driver.identity, sort_keys=True).encode()).hexdigest()
    wrappers = write_wrappers(cache_folder / "toolchains" / f"{config.abi}-{identity[:12]}", driver)
    return ResolvedToolchain(
        config=config,
        driver=driver,
        abilities=probe(config, driver),
        identity=identity,
        cxx=wrappers["cxx"],
        cc=wrappers["cc"],
        ar=wrappers["ar"],
        run=_runner(config, env),
    )


def _find(config: ToolchainConfig, place: Place, env: Mapping[str, str]) -> Driver:
    compiler = config.compiler
    if compiler.zig is not None:
        return find_zig(compiler.zig, place)
    if compiler.command is not None:
        return find_command(compiler.command, place, env)
    raise CompilerUnsupportedError(
        f"the toolchain {config.abi} needs a compiler that this version cannot drive yet",
        place=place,
        expected="compiler: zig or command",
        hint="choose a toolchain of zig or of this machine's compilers",
    )


def compiler_environment(cache_folder: Path, env: Mapping[str, str]) -> dict[str, str]:
    """The environment for compiler processes: one zig cache, so that libc++ is built once."""
    zig = str(cache_folder / "zig")
    return {**env, "ZIG_GLOBAL_CACHE_DIR": zig, "ZIG_LOCAL_CACHE_DIR": zig}


def _runner(config: ToolchainConfig, env: Mapping[str, str]) -> tuple[str, ...] | None:
    if config.run == "native":
        return ()
    if config.run == "none":
        return None
    emulator = tuple(config.run.emulator)
    return emulator if shutil.which(emulator[0], path=env.get("PATH")) else None
