"""CMake's words for systems and processors (cmake-toolchains(7), CMAKE_SYSTEM_PROCESSOR)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_SYSTEMS: Final = {
    "linux": "Linux",
    "android": "Android",
    "ios": "iOS",
    "ios-simulator": "iOS",
}
# Linux: `uname -m`. Android: what CMake's Platform/Android-Determine.cmake says of an ABI. iOS:
# Apple's architectures.
_PROCESSORS: Final[Mapping[str, Mapping[str, str]]] = {
    "Linux": {"x86_64": "x86_64", "arm64": "aarch64", "armv7": "armv7l"},
    "Android": {"x86_64": "x86_64", "arm64": "aarch64", "armv7": "armv7-a"},
    "iOS": {"x86_64": "x86_64", "arm64": "arm64"},
}


def cmake_system(system: str) -> str:
    """CMAKE_SYSTEM_NAME of a toolchain's `system`."""
    return _SYSTEMS[system]


def cmake_processor(system: str, processor: str) -> str:
    """CMAKE_SYSTEM_PROCESSOR of a toolchain's `processor`, which its `system` has."""
    return _PROCESSORS[_SYSTEMS[system]][processor]
