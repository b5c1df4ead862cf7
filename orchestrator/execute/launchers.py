"""The environment of compiler launchers: the compiler's identity, and the base folder of paths.

A launcher sees a small script of ours instead of the compiler, so a cache would return old objects
after an upgrade of the real compiler. It also sees one machine's paths, so that another machine
would never hit. Variables that differ from launcher to launcher fix both. Pure: names in, variables
out. A launcher that is not in the table gets none.

Sources: ccache 4.7's manual (COMPILER_CHECK, COMPILER_TYPE, BASE_DIR, HASH_DIR); sccache's
docs/Configuration.md (SCCACHE_C_CUSTOM_CACHE_BUSTER, SCCACHE_BASEDIRS); recc's
docs/source/configuration-variables.rst (RECC_ACTION_SALT, RECC_PROJECT_ROOT). distcc and icecc
cache nothing: distcc runs the script, which must be on its servers at the same path, and icecc
learns about compilers from its own ICECC_VERSION.
"""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Final, Literal

from orchestrator.errors import OrchestratorError, Place

Family = Literal["clang", "gcc"]


class LauncherMissingError(OrchestratorError):
    """The launcher that WORKSPACE names is not on PATH."""


@dataclass(frozen=True)
class Identity:
    """A compiler for a cache: a digest of all that decides what it makes, and its kind."""

    digest: str
    family: Family


@dataclass(frozen=True)
class _Variables:
    """Variables about one toolchain, and about the folder that all paths begin with."""

    compiler: Callable[[Identity], Mapping[str, str]]
    folder: Callable[[str], Mapping[str, str]]


_LAUNCHERS: Final[Mapping[str, _Variables]] = {
    "ccache": _Variables(
        lambda who: {
            "CCACHE_COMPILERCHECK": f"string:{who.digest}",
            # detected by the compiler's name, which ours does not have
            "CCACHE_COMPILERTYPE": who.family,
        },
        lambda folder: {"CCACHE_BASEDIR": folder, "CCACHE_NOHASHDIR": "true"},
    ),
    "sccache": _Variables(
        lambda who: {"SCCACHE_C_CUSTOM_CACHE_BUSTER": who.digest},
        lambda folder: {"SCCACHE_BASEDIRS": folder},
    ),
    "recc": _Variables(
        lambda who: {"RECC_ACTION_SALT": who.digest},
        lambda folder: {"RECC_PROJECT_ROOT": folder},
    ),
}


def compiler_variables(command: Sequence[str], who: Identity) -> dict[str, str]:
    """The variables that identify the compiler to the launchers in `command`."""
    return _merged(known.compiler(who) for known in _known(command))


def folder_variables(command: Sequence[str], folder: str) -> dict[str, str]:
    """The variables that make `folder` relocatable for the launchers in `command`."""
    return _merged(known.folder(folder) for known in _known(command))


def launch_text(command: Sequence[str], declared: Mapping[str, str], who: Identity) -> str:
    """The prefix of a compiler command in a shell: variables, then the launcher.

    declared: the environment that WORKSPACE gives the launcher; it takes precedence.
    """
    own = compiler_variables(command, who)
    words = [f"{name}={shlex.quote(own[name])}" for name in sorted(own) if name not in declared]
    return " ".join([*words, shlex.join(command)])


def require_launcher(command: Sequence[str], path: str | None, place: Place) -> None:
    """Raise LauncherMissingError where the launcher's program is not on `path`, the value of
    PATH."""
    if shutil.which(command[0], path=path) is None:
        raise LauncherMissingError(
            f"the compiler launcher {command[0]} is not on PATH",
            place=place,
            hint=f"install {command[0]}, or remove `launcher` from WORKSPACE",
        )


def _known(command: Sequence[str]) -> list[_Variables]:
    """Find the launchers in the command: any word may be one, as in `nice ccache`."""
    names = (PurePath(word).name for word in command)
    return [_LAUNCHERS[name] for name in names if name in _LAUNCHERS]


def _merged(parts: Iterable[Mapping[str, str]]) -> dict[str, str]:
    return {name: part[name] for part in parts for name in part}
