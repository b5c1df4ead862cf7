"""What a build needs so that a compiler launcher can stand before its compilers.

A launcher that shares objects between machines must see no path that differs between them. All but
two of the folders in a command lie in the user's cache folder, which the launcher is told of; our
own sources and zig's headers lie in the installation, so that they get a name in the cache folder.
Commands run there too: zig names the files of its library relative to where it runs.
"""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from orchestrator.errors import Place
from orchestrator.execute.launchers import (
    Family,
    Identity,
    folder_variables,
    launch_text,
    require_launcher,
)
from orchestrator.load.workspace import FILE
from orchestrator.pipeline.prepare import NATIVE
from orchestrator.pipeline.session import Session
from orchestrator.toolchain.resolve import ResolvedToolchain
from orchestrator.values.config import Launcher


@dataclass(frozen=True)
class Launching:
    """texts: abi -> what stands before its compile commands. env and folders: in place of others."""

    texts: Mapping[str, str] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    folders: Mapping[str, str] = field(default_factory=dict)


def check_launcher(session: Session) -> None:
    """Raise LauncherMissingError where WORKSPACE names a launcher that is not here."""
    launcher = session.workspace.config.launcher
    if launcher is not None:
        path = {**session.context.env, **launcher.env}.get("PATH")
        require_launcher(launcher.command, path, Place(FILE))


def launching(session: Session, abis: Iterable[str]) -> Launching:
    """What the declared launcher needs; nothing where none is declared."""
    launcher = session.workspace.config.launcher
    if launcher is None:
        return Launching()
    toolchains = {abi: session.toolchain(abi) for abi in abis}
    cache = session.context.cache
    folders = {"native": str(_native_copy(cache, session.runtime.native))}
    env = folder_variables(launcher.command, str(cache))
    if "zig" in session.runtime.folders:
        library = _zig_link(cache, Path(session.runtime.folders["zig"]))
        folders["zig"] = env["ZIG_LIB_DIR"] = str(library)
    return Launching(
        texts={abi: _text(launcher, toolchain) for abi, toolchain in toolchains.items()},
        env={**env, **launcher.env},
        folders=folders,
    )


def _text(launcher: Launcher, toolchain: ResolvedToolchain) -> str:
    who = Identity(toolchain.identity, _family(toolchain))
    return launch_text(launcher.command, launcher.env, who)


def _family(toolchain: ResolvedToolchain) -> Family:
    command = toolchain.config.compiler.command
    return "clang" if command is None or "clang" in toolchain.version.lower() else "gcc"


def _native_copy(cache: Path, digest: str) -> Path:
    """Our own sources in the cache folder, by content; made once."""
    folder = cache / "native" / digest[:12]
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        staged = folder.with_name(f".{folder.name}.{secrets.token_hex(4)}")
        shutil.copytree(NATIVE, staged)
        try:
            staged.rename(folder)
        except OSError:
            # another process was quicker
            shutil.rmtree(staged)
            if not folder.is_dir():
                raise
    return folder


def _zig_link(cache: Path, library: Path) -> Path:
    """A name in the cache folder for zig's library folder."""
    link = cache / "toolchains" / "zig-lib"
    if not link.is_symlink() or link.readlink() != library:
        link.parent.mkdir(parents=True, exist_ok=True)
        staged = link.with_name(f".{link.name}.{os.getpid()}")
        staged.unlink(missing_ok=True)
        staged.symlink_to(library)
        staged.replace(link)
    return link
