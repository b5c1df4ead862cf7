"""The environment that compilers and linkers run in, and are asked questions in.

An object's key and a library's identity have no environment: the toolchain's file says what is
compiled with which flags. So the variables that lead compilers to other files or arguments are left
out for all that a toolchain runs. No kind of compiler needs one of them:

- Xcode's programs and its SDK are asked of `xcrun` with `--sdk`, and named by path from then on;
  `DEVELOPER_DIR` and `TOOLCHAINS`, which choose among several Xcodes, stay: their choice is part of
  the identity.
- nixpkgs' wrappers have the flags for their own libc and C++ library in files beside them
  (`nix-support/`); variables add what a shell's other packages bring.

What stays is how this machine runs programs (`PATH`, `LD_LIBRARY_PATH`): programs, and what they
are linked with, are part of the identity by content.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from orchestrator.system.process import Command, CommandRunner, Finished

# Beginnings of names. clang: CCC_OVERRIDE_OPTIONS, and SDKROOT for Apple's systems; gcc and clang:
# folders of headers (OBJC_INCLUDE_PATH, too), programs and libraries; zig: ZIG_LIB_DIR, ZIG_LIBC;
# nixpkgs' wrappers: flags (pkgs/build-support/cc-wrapper/add-flags.sh, add-hardening.sh); the
# loader: code that takes the place of a compiler's own.
LEADING: Final = (
    *("CCC_", "COMPILER_PATH", "CPATH", "CPLUS_INCLUDE_PATH", "C_INCLUDE_PATH"),
    *("GCC_EXEC_PREFIX", "LD_PRELOAD", "LIBRARY_PATH", "NIX_CFLAGS", "NIX_CXXSTDLIB"),
    *("NIX_HARDENING", "NIX_LDFLAGS", "OBJC", "SDKROOT", "ZIG_LIB"),
)


def own_environment(env: Mapping[str, str]) -> dict[str, str]:
    """The environment without the variables that lead compilers elsewhere."""
    return {name: value for name, value in env.items() if not name.startswith(LEADING)}


@dataclass(frozen=True)
class OwnRunner:
    """Runs a toolchain's commands in its `own_environment` where they name none, so that it answers
    as it compiles.

    env: its variables; a set, as what a program said is remembered for each runner
    """

    runner: CommandRunner
    env: frozenset[tuple[str, str]]

    def run(self, command: Command) -> Finished:
        """See `CommandRunner`."""
        return self.runner.run(self._placed(command))

    def stream(self, command: Command, feed: Callable[[bytes], None]) -> int:
        """See `CommandRunner`."""
        return self.runner.stream(self._placed(command), feed)

    def _placed(self, command: Command) -> Command:
        return command if command.env is not None else replace(command, env=dict(self.env))


def own_runner(runner: CommandRunner, env: Mapping[str, str]) -> OwnRunner:
    """The runner for a toolchain that is found in an environment."""
    return OwnRunner(runner, frozenset(own_environment(env).items()))
