"""The CMake toolchain file with which a consumer compiles for an ABI as the orchestrator does.

It is next to the wrappers and, like them, specific to this machine. (A delivered library includes
its own `toolchain.cmake`, which does not need the orchestrator.) The build systems of Android and
iOS have their own: the NDK's android.toolchain.cmake, and Xcode.
"""

from __future__ import annotations

import shlex
from pathlib import Path

from orchestrator.compilers.driver import names_folder
from orchestrator.compilers.resolve import ResolvedToolchain
from orchestrator.compilers.run_prefix import Running
from orchestrator.compilers.wrappers import render, write_text
from orchestrator.errors import OrchestratorError
from orchestrator.platforms import PLATFORMS


class NoToolchainFileError(OrchestratorError):
    """A system whose consumers have a toolchain file of the system's own."""


def write_toolchain_file(toolchain: ResolvedToolchain, running: Running) -> Path:
    """Write `toolchain.cmake` next to the wrappers. Raises NoToolchainFileError, UnfitTextError."""
    config = toolchain.config
    platform = PLATFORMS[config.system]
    if platform.cmake_advice:
        ours = [name for name, one in PLATFORMS.items() if not one.cmake_advice]
        raise NoToolchainFileError(
            f"there is no CMake toolchain file for {config.abi}",
            place=toolchain.place,
            expected=f"an ABI of the system {' or '.join(ours)}",
            seen=f"system: {config.system}",
            hint=platform.cmake_advice,
        )
    text = render(
        "toolchain.cmake.j2",
        abi=config.abi,
        version=toolchain.version,
        target=toolchain.driver.target,
        system=platform.cmake_name,
        musl=toolchain.driver.c_library == "musl",
        processor=platform.cmake_processors[config.processor],
        emulator=running.prefix or (),
        # By the shell's rules, as CMake takes them. Folders of ours hold what PyTorch needs; a
        # delivered library brings it along.
        compile_flags=shlex.join(f for f in config.compile_flags if not names_folder(f)),
        link_flags=shlex.join(f for f in config.link_flags if not names_folder(f)),
    )
    return write_text(toolchain.cc.with_name("toolchain.cmake"), text, mode=0o644)
