"""Makes a declared toolchain usable here: finds its compiler, writes its wrappers, identifies it.

A toolchain's identity is a digest of the compiler's content (zig's wheel, a program's file) and of
the wrappers' text (target and fixed flags, without paths); it is part of every fingerprint.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from orchestrator.compilers.capabilities import Capabilities, capabilities
from orchestrator.compilers.driver import CompilerMissingError, Driver, Tools
from orchestrator.compilers.environment import own_environment, own_runner
from orchestrator.compilers.registry import COMPILERS
from orchestrator.compilers.run_prefix import Running, find_running
from orchestrator.compilers.wrappers import wrapper_digest, write_wrappers
from orchestrator.compilers.zig import claim_zig_cache, leave_zig_cache, seen_through, zig_cache
from orchestrator.compilers.zig_results import damaged_results, remove_results
from orchestrator.errors import Place
from orchestrator.platforms import PLATFORMS
from orchestrator.platforms.platform import SharedLibrary
from orchestrator.system.process import LOCAL, CommandRunner
from orchestrator.values.config.toolchain import ToolchainConfig

__all__ = [
    "CompilerMissingError",
    "ResolvedToolchain",
    "compiler_environment",
    "resolve_toolchain",
]


@dataclass(frozen=True)
class ResolvedToolchain:
    """A toolchain that is here. What it can do is found out when somebody asks.

    place     where it is declared
    identity  hex digest: compiler version, target, fixed flags
    tools     its wrappers
    runner    runs what finds out what it can do, in its own environment
    """

    config: ToolchainConfig
    place: Place
    driver: Driver
    identity: str
    tools: Tools
    runner: CommandRunner = field(compare=False)

    @cached_property
    def capabilities(self) -> Capabilities:
        """Capabilities of the toolchain. Raises CompilerBrokenError, LinkerBrokenError."""
        return capabilities(
            self.config, self.driver, self.tools, self.links_shared, self.place, self.runner
        )

    def running(self, cache_folder: Path, progress: Callable[[str], None]) -> Running:
        """Return how binaries of the toolchain run here; fetches an emulator if the machine has
        none."""
        return find_running(self.config, self.tools, cache_folder, progress, self.runner)

    @property
    def cxx(self) -> Path:
        return self.tools.cxx

    @property
    def cc(self) -> Path:
        return self.tools.cc

    @property
    def ar(self) -> Path:
        return self.tools.ar

    @property
    def abi(self) -> str:
        return self.config.abi

    @property
    def version(self) -> str:
        return self.driver.version

    @property
    def compiler(self) -> str:
        """The compiler, for people: `zig 0.17.0`; a command's own first line names it."""
        kind = self.driver.kind
        return self.version if kind == "command" else f"{kind} {self.version}"

    @property
    def compile_flags(self) -> tuple[str, ...]:
        return self.config.compile_flags

    @property
    def link_flags(self) -> tuple[str, ...]:
        return (*self.driver.link_flags, *self.config.link_flags)

    @property
    def for_release(self) -> bool:
        """True if its output may be shipped."""
        return self.driver.stub is None

    @property
    def links_shared(self) -> bool:
        """True if variants are shared libraries; apps of other platforms link static archives."""
        return isinstance(PLATFORMS[self.config.system].library, SharedLibrary)

    @property
    def relocates_itself(self) -> bool:
        """True if shared libraries relocate themselves."""
        library = PLATFORMS[self.config.system].library
        itself = isinstance(library, SharedLibrary) and library.relocated == "by itself"
        return itself and self.capabilities.self_relocate


def resolve_toolchain(
    config: ToolchainConfig,
    place: Place,
    cache_folder: Path,
    env: Mapping[str, str],
    runner: CommandRunner = LOCAL,
    state: Path | None = None,
) -> ResolvedToolchain:
    """Find the compiler and write its wrappers under `<cache>/toolchains/<abi>-<digest>/`, or in
    the workspace's `state` folder where the cache can only be read.

    Raises CompilerMissingError, and what the kinds of compilers raise: see `xcode` and `ndk`.
    """
    find, asked = COMPILERS[config.compiler.kind].find, own_runner(runner, env)
    driver = find(config, place, cache_folder, own_environment(env), asked)
    made_of = {**driver.identity, "wrapper": wrapper_digest()}
    identity = hashlib.sha256(json.dumps(made_of, sort_keys=True).encode()).hexdigest()
    wrappers = write_wrappers(cache_folder, state, config.abi, identity, driver)
    in_cache = wrappers["cxx"].is_relative_to(cache_folder)
    if driver.zig is not None:
        claim_zig_cache(cache_folder)
    return ResolvedToolchain(
        config=config,
        place=place,
        driver=driver,
        identity=identity,
        tools=Tools(
            cxx=wrappers["cxx"],
            cc=wrappers["cc"],
            ar=wrappers["ar"],
            env=compiler_environment(cache_folder, env, None if in_cache else state),
        ),
        runner=asked,
    )


def compiler_environment(
    cache_folder: Path, env: Mapping[str, str], scratch: Path | None = None
) -> dict[str, str]:
    """The environment for compiler processes: zig's own cache, so that libc++ is built once.

    scratch: a folder of the workspace for zig's intermediate files, through which it also sees a
    read-only cache. Without it, everything is in the cache.
    """
    zig = local = zig_cache(cache_folder)
    if scratch is not None:
        local = scratch / "zig"
        zig = seen_through(zig, local)
    caches = {"ZIG_GLOBAL_CACHE_DIR": str(zig), "ZIG_LOCAL_CACHE_DIR": str(local)}
    return {**own_environment(env), **caches}


def checked_environment(
    cache_folder: Path, env: Mapping[str, str], scratch: Path
) -> tuple[dict[str, str], int]:
    """`compiler_environment` in which zig links nothing that was damaged since it made it; the
    number of damaged files, which it will make again.

    The caller holds the workspace's lock. Raises OSError.
    """
    shared = zig_cache(cache_folder)
    environment = compiler_environment(cache_folder, env, scratch)
    found = {folder: damaged_results(folder) for folder in zig_caches(environment)}
    for folder in (folder for folder, damaged in found.items() if damaged):
        leave_zig_cache(folder)
        if folder == shared:
            claim_zig_cache(cache_folder)
            environment = compiler_environment(cache_folder, env, scratch)
        else:
            remove_results(folder)
    return environment, sum(map(len, found.values()))


def zig_caches(environment: Mapping[str, str]) -> tuple[Path, ...]:
    """The folders of zig's cache in a `compiler_environment`: the one that all share, and the
    workspace's."""
    names = ("ZIG_GLOBAL_CACHE_DIR", "ZIG_LOCAL_CACHE_DIR")
    return tuple(dict.fromkeys(Path(environment[name]) for name in names))
