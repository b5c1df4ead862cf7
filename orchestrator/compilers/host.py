"""The host toolchain of a workspace: its binaries run natively on this machine."""

from __future__ import annotations

import platform
from collections.abc import Mapping

from orchestrator.errors import OrchestratorError
from orchestrator.platforms import PLATFORMS
from orchestrator.platforms.declared import declared_c_library
from orchestrator.values.config.toolchain import ToolchainConfig


class NoHostToolchainError(OrchestratorError):
    """Tracers and indexes run on this machine, and no toolchain compiles for it."""


def this_machine() -> tuple[str, str]:
    """Its system and its processor, as uname(1) says them: `Linux`, `x86_64`."""
    return platform.system(), platform.machine()


def host_abi(toolchains: Mapping[str, ToolchainConfig], machine: tuple[str, str]) -> str | None:
    """The ABI of the machine, one with glibc before one with musl; None where there is none."""
    system, processor = machine
    own = [
        (declared_c_library(config) == "musl", abi)
        for abi, config in toolchains.items()
        if (host := PLATFORMS[config.system].host) is not None
        and host.name == system
        and PLATFORMS[config.system].cmake_processors[config.processor] == processor
    ]
    return min(own)[1] if own else None


def required_host(toolchains: Mapping[str, ToolchainConfig], machine: tuple[str, str]) -> str:
    """The same for what must run here. Raises NoHostToolchainError."""
    abi = host_abi(toolchains, machine)
    if abi is None:
        raise NoHostToolchainError(
            f"no toolchain compiles for this machine, {' on '.join(machine)}",
            expected="one in toolchains/ whose binaries run here: tracers do",
            seen=", ".join(sorted(toolchains)) or "none",
            hint="add one: docs/guide/add-an-abi.md",
        )
    return abi
