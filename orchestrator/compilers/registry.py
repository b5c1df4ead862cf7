"""The kinds of compilers, by the keys of `compiler:` in toolchains/*.yaml."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from orchestrator.compilers import command, ndk, xcode, zig
from orchestrator.compilers.module import CompilerModule
from orchestrator.values.config.toolchain import CompilerKind

COMPILERS: Final[Mapping[CompilerKind, CompilerModule]] = {
    "zig": zig,
    "ndk": ndk,
    "xcode": xcode,
    "command": command,
}
