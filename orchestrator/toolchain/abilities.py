"""What a toolchain can do. Probed with small sources once for each identity, then remembered."""

from __future__ import annotations

from dataclasses import dataclass

from orchestrator.toolchain.driver import Driver
from orchestrator.values.config import ToolchainConfig


@dataclass(frozen=True)
class Abilities:
    """What a toolchain can do.

    fold_functions  its linker folds equal functions (`--icf=safe`)
    precompile      it makes precompiled headers that need no times of files (clang's)
    """

    fold_functions: bool
    precompile: bool


def probe(config: ToolchainConfig, driver: Driver) -> Abilities:
    """The abilities of a toolchain."""
    zig = driver.zig is not None
    return Abilities(fold_functions=zig and config.format == "elf", precompile=zig)
