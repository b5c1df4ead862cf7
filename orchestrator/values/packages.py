"""Which packages suit which toolchains: told by the declaration, before anything is built."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from orchestrator.values.config import PackageKind, System, ToolchainConfig

_SUITABLE: Final[Mapping[System, tuple[PackageKind, ...]]] = {
    "linux": ("tar", "deb"),
    "android": ("aar", "tar"),
    "ios": ("xcframework", "tar"),
    "ios-simulator": ("xcframework", "tar"),
}
_DEFAULT: Final[Mapping[System, tuple[PackageKind, ...]]] = {
    "linux": ("tar", "deb"),
    "android": ("aar",),
    "ios": ("xcframework",),
    "ios-simulator": ("xcframework",),
}
# Packages of systems with glibc: Debian has no ABI for musl.
GLIBC_ONLY: Final[frozenset[PackageKind]] = frozenset(("deb",))


def default_package_name(app: str) -> str:
    """The name of an app's packages where it gives none: `_`, which Debian's names may not have
    (Debian Policy, 5.6.1), becomes `-`."""
    return f"{app.lower().replace('_', '-')}-libtorch"


def suitable_packages(toolchain: ToolchainConfig) -> tuple[PackageKind, ...]:
    """The kinds of packages that a toolchain's variants can be put in."""
    return _possible(toolchain, _SUITABLE[toolchain.system])


def default_packages(toolchain: ToolchainConfig) -> tuple[PackageKind, ...]:
    """The kinds that are made of a toolchain's variants where the app names none."""
    return _possible(toolchain, _DEFAULT[toolchain.system])


def _possible(
    toolchain: ToolchainConfig, kinds: tuple[PackageKind, ...]
) -> tuple[PackageKind, ...]:
    zig = toolchain.compiler.zig
    musl = zig is not None and "musl" in zig.target
    return tuple(kind for kind in kinds if not (musl and kind in GLIBC_ONLY))
