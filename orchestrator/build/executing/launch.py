"""Prepares a build for a compiler launcher.

A launcher that shares objects between machines must see no path that differs between them. Most
folders in a command are in the user's cache folder, which the launcher is configured with. Our own
sources, the overlays of PyTorch versions and zig's library are in the installation, so they are
copied or linked into the cache folder, by content; our headers have a folder of their own, so that
a change to our sources does not affect PyTorch's units. Commands also run there, because zig names
the files of its library relative to the working folder.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256
from importlib import metadata
from pathlib import Path

from orchestrator.build.workshop.invocation import Invocation
from orchestrator.build.workshop.native import NATIVE
from orchestrator.compilers.environment import LEADING
from orchestrator.compilers.resolve import ResolvedToolchain
from orchestrator.errors import OrchestratorError, Place
from orchestrator.execute.launchers import Identity, folder_variables, launch_text, require_launcher
from orchestrator.load.workspace import FILE
from orchestrator.system.staging import part_of
from orchestrator.system.sums import is_whole, publish
from orchestrator.values.action import ActionGraph, Compile
from orchestrator.values.config.workspace import Launcher
from orchestrator.values.fingerprint import fingerprint

HEADERS = "native_headers"
_NATIVE = re.compile(r"\$native(?!\w)")
# Folders of the installation that stand in commands: our own, and overlays, by runtime.
_INSTALLED = re.compile(r"overlay(_\w+)?")


class LauncherVariableError(OrchestratorError):
    """WORKSPACE sets a variable for the launcher that would lead compilers to other files."""


@dataclass(frozen=True)
class Launching:
    """texts: abi -> what stands before its compile commands; the others are added to what is."""

    texts: Mapping[str, str] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    folders: Mapping[str, str] = field(default_factory=dict)


def check_launcher(here: Invocation) -> None:
    """Check the launcher that WORKSPACE declares, if any.

    Raises LauncherMissingError, LauncherVariableError.
    """
    launcher = here.workspace.config.launcher
    if launcher is not None:
        _check_variables(launcher.env)
        path = {**here.context.env, **launcher.env}.get("PATH")
        require_launcher(launcher.command, path, Place(FILE))


def _check_variables(env: Mapping[str, str]) -> None:
    """Raise LauncherVariableError if `env` has variables that compilers read: they get the
    launcher's."""
    leading = sorted(name for name in env if name.startswith(LEADING))
    if leading:
        raise LauncherVariableError(
            "`launcher` sets variables that lead compilers to other files or flags",
            place=Place(FILE),
            expected="variables of the launcher's own: the key of an object has none",
            seen=", ".join(leading),
            hint="name them in `compile_flags` or `link_flags` of toolchains/<abi>.yaml",
        )


def launching(here: Invocation, abis: Iterable[str]) -> Launching:
    """The command prefixes, environment and folders for the compiler launcher that WORKSPACE
    declares; empty where it declares none.

    Copies our own sources and headers into the cache folder, and links zig's library there, so that
    commands name no path that differs between machines. Raises OSError.
    """
    launcher = here.workspace.config.launcher
    if launcher is None:
        return Launching()
    toolchains = {abi: here.toolchains.of(abi) for abi in abis}
    cache = here.context.cache
    folders = {
        "native": str(_copy(NATIVE, cache / "native", "**/*")),
        HEADERS: str(_copy(NATIVE, cache / "native-headers", "**/*.h")),
        **{
            name: str(_copy(Path(folder), cache / "overlays", "**/*.h"))
            for name, folder in here.runtimes.folders.items()
            if _INSTALLED.fullmatch(name)
        },
    }
    env = folder_variables(launcher.command, str(cache))
    if "zig" in here.runtimes.folders:
        library = zig_link(cache, Path(here.runtimes.folders["zig"]))
        folders["zig"] = env["ZIG_LIB_DIR"] = str(library)
    return Launching(
        texts={abi: _text(launcher, toolchain) for abi, toolchain in toolchains.items()},
        env={**env, **launcher.env},
        folders=folders,
    )


def _text(launcher: Launcher, toolchain: ResolvedToolchain) -> str:
    who = Identity(toolchain.identity, toolchain.driver.family)
    return launch_text(launcher.command, launcher.env, who)


def with_headers(graph: ActionGraph) -> ActionGraph:
    """The graph with the headers' copy in the flags of PyTorch's units; their identity stays."""
    return ActionGraph(
        {
            name: action if _NATIVE.match(action.source) else _with_headers(action)
            for name, action in graph.compiles.items()
        },
        graph.links,
    )


def _with_headers(action: Compile) -> Compile:
    def moved(texts: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(_NATIVE.sub(f"${HEADERS}", text) for text in texts)

    return replace(action, flags=moved(action.flags), behind=moved(action.behind))


def _copy(source: Path, folder: Path, pattern: str) -> Path:
    """The files below `source` that match, in a folder below `folder` named by content; made once,
    and again where it is damaged."""
    files = sorted(path for path in source.glob(pattern) if path.is_file())
    names = [path.relative_to(source).as_posix() for path in files]
    contents = [sha256(path.read_bytes()).hexdigest() for path in files]
    digest = fingerprint(dict(zip(names, contents, strict=True)))
    copy = folder / digest[:12]
    if not is_whole(copy):
        staged = part_of(copy)
        try:
            for name, file in zip(names, files, strict=True):
                (staged / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(file, staged / name)
            publish(staged, copy)
        finally:
            shutil.rmtree(staged, ignore_errors=True)
    return copy


def zig_link(cache: Path, library: Path) -> Path:
    """A name in the cache folder for zig's library folder: one for each release, since another
    installation may build with its own at this moment."""
    link = cache / "toolchains" / f"zig-lib-{metadata.version('ziglang')}"
    if not link.is_symlink() or link.readlink() != library:
        link.parent.mkdir(parents=True, exist_ok=True)
        staged = part_of(link)
        staged.symlink_to(library)
        staged.replace(link)
    return link
