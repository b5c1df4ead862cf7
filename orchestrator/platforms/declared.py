"""Facts about the platform that a toolchain's declaration gives, before its compiler is searched
for."""

from __future__ import annotations

from orchestrator.platforms import PLATFORMS
from orchestrator.platforms.linux import c_library_of
from orchestrator.platforms.platform import CLibrary
from orchestrator.values.config.app import PackageKind
from orchestrator.values.config.toolchain import ToolchainConfig


def declared_c_library(toolchain: ToolchainConfig) -> CLibrary | None:
    """The C library of its binaries; None where its compiler must be asked."""
    first, *others = PLATFORMS[toolchain.system].c_libraries
    if not others:
        return first
    zig = toolchain.compiler.zig
    return None if zig is None else c_library_of(zig.target)


def suitable_packages(toolchain: ToolchainConfig) -> tuple[PackageKind, ...]:
    """The kinds of packages that a toolchain's variants can be put in."""
    return _possible(toolchain, PLATFORMS[toolchain.system].packages)


def default_packages(toolchain: ToolchainConfig) -> tuple[PackageKind, ...]:
    """The kinds that are made of a toolchain's variants where the app names none."""
    return _possible(toolchain, PLATFORMS[toolchain.system].default_packages)


def _possible(
    toolchain: ToolchainConfig, kinds: tuple[PackageKind, ...]
) -> tuple[PackageKind, ...]:
    platform, c_library = PLATFORMS[toolchain.system], declared_c_library(toolchain)
    return tuple(kind for kind in kinds if platform.has_package(kind, c_library))
