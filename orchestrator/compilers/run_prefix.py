"""Execution of a toolchain's binaries on this machine: directly, under an emulator, or not at all.

Contract: probed, never assumed. A program that needs its own shared library is linked and run,
first directly (the machine's own ABI, or a kernel with the emulator registered), then with the
machine's emulator, then with one from Debian packages that are unpacked in the user's cache. A
success is stored next to the toolchain's wrappers; a failure is tried again next time.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from orchestrator.compilers.driver import Tools, names_folder
from orchestrator.errors import OrchestratorError
from orchestrator.source.debian import binary_packages
from orchestrator.system.process import Command, CommandRunner
from orchestrator.system.reading import read_json
from orchestrator.system.staging import write_text
from orchestrator.values.config.toolchain import Emulator, ToolchainConfig
from orchestrator.values.fingerprint import fingerprint

_SECONDS: Final = 60
_SOURCES: Final = {
    "answer.c": "int lta_answer(void) { return 42; }\n",
    "asks.c": "int lta_answer(void);\nint main(void) { return lta_answer() == 42 ? 0 : 1; }\n",
}


@dataclass(frozen=True)
class Running:
    """The argv prefix that runs a toolchain's binaries here; None, and why, where nothing does."""

    prefix: tuple[str, ...] | None
    why_not: str = ""


def find_running(
    config: ToolchainConfig,
    tools: Tools,
    cache_folder: Path,
    progress: Callable[[str], None],
    runner: CommandRunner,
) -> Running:
    """Find out how binaries run here; the emulator's packages are fetched where that helps."""
    if config.run == "none":
        return Running(None, "nothing on this machine runs its binaries")
    known = remembered(config, tools)
    if known is not None:
        return Running(known)
    with tempfile.TemporaryDirectory(prefix="orchestrator-run-") as folder:
        problem = _build(config, tools, Path(folder), runner)
        if problem:
            return Running(None, f"no program could be linked to try it: {problem}")
        reasons = []
        for name, prefix in _candidates(config, cache_folder, tools.env, progress, runner):
            if prefix is None:
                reasons.append(name)
                continue
            reason = _try(prefix, Path(folder), tools.env, runner)
            if not reason:
                _keep(config, tools, prefix)
                return Running(prefix)
            reasons.append(f"{name}: {reason}")
    return Running(None, "; ".join(reasons))


def _candidates(
    config: ToolchainConfig,
    cache_folder: Path,
    env: Mapping[str, str],
    progress: Callable[[str], None],
    runner: CommandRunner,
) -> Iterator[tuple[str, tuple[str, ...] | None]]:
    """Name and prefix of each way to try; a prefix of None: the name says why there is none."""
    yield "as it is", ()
    emulator = config.run
    if isinstance(emulator, str):
        return
    roots = [Path("/")]
    prefix = _prefix(emulator, roots, env)
    yield "by the machine's emulator" + ("" if prefix else ": there is none"), prefix
    for name in emulator.debian:
        try:
            folder = cache_folder / "debian" / name.replace(":", "_")
            roots.append(binary_packages([name], folder, env, progress, runner))
        except OrchestratorError as error:
            yield f"{error.what} ({error.seen})", None
            return
        # the first that does is enough: the machine may have the rest
        prefix = _prefix(emulator, roots, env)
        yield f"with {name}" + ("" if prefix else ": not enough"), prefix


def _prefix(
    emulator: Emulator, roots: Sequence[Path], env: Mapping[str, str]
) -> tuple[str, ...] | None:
    """The argument list, where its program and its libraries are in PATH or below the roots."""
    name, *arguments = emulator.emulator
    # one by one: the path of a root may have a colon
    unpacked = (str(root / "usr/bin" / name) for root in roots[1:])
    there = (path for path in unpacked if os.access(path, os.X_OK))
    program = shutil.which(name, path=env.get("PATH", "")) or next(there, None)
    if program is None:
        return None
    if emulator.sysroot is None:
        return (program, *arguments)
    inside = emulator.sysroot.lstrip("/")
    sysroot = next((str(root / inside) for root in roots if (root / inside).is_dir()), None)
    if sysroot is None:
        return None
    return (program, *(argument.replace("$sysroot", sysroot) for argument in arguments))


def _build(config: ToolchainConfig, tools: Tools, folder: Path, runner: CommandRunner) -> str:
    """Link the program that is tried; the first line of what went wrong, or nothing."""
    for name, text in _SOURCES.items():
        (folder / name).write_text(text, encoding="utf-8")
    flags = [f for f in (*config.compile_flags, *config.link_flags) if not names_folder(f)]
    # as variants are linked: zig makes compiler-rt again for a debug build, and a library for UBSan
    flags.append("-O2")
    for argv in (
        [str(tools.cc), "-shared", "-fPIC", "answer.c", *flags, "-o", "libanswer.so"],
        [str(tools.cc), "asks.c", "libanswer.so", *flags, "-o", "asks"],
    ):
        done = runner.run(Command(argv, tools.env, folder))
        if done.code:
            return next(iter(done.err.strip().splitlines()), "the linker said nothing")
    return ""


def _try(
    prefix: tuple[str, ...], folder: Path, env: Mapping[str, str], runner: CommandRunner
) -> str:
    """Run the program; why it did not work, or nothing."""
    try:
        own = {**env, "LD_LIBRARY_PATH": str(folder)}
        done = runner.run(Command([*prefix, str(folder / "asks")], own, folder, _SECONDS))
    except OSError as error:
        return error.strerror or "it cannot be run"
    if done.code is None:
        return f"still running after {_SECONDS} s"
    if done.code == 0:
        return ""
    return next(iter(done.err.strip().splitlines()), f"exit code {done.code}")


def remembered(config: ToolchainConfig, tools: Tools) -> tuple[str, ...] | None:
    """The prefix that worked before, if its emulator is still there; nothing is tried."""
    try:
        value = read_json(_kept(config, tools))
        prefix = tuple(value["prefix"])
        same = value["declared"] == _declared(config)
    except (OSError, ValueError, KeyError, TypeError):
        return None
    there = not prefix or os.access(prefix[0], os.X_OK)
    return prefix if same and there else None


def _kept(config: ToolchainConfig, tools: Tools) -> Path:
    """Workspaces that declare something else of this compiler have files of their own."""
    return tools.cc.with_name(f"running-{fingerprint(_declared(config))[:12]}.json")


def _keep(config: ToolchainConfig, tools: Tools, prefix: tuple[str, ...]) -> None:
    text = json.dumps({"declared": _declared(config), "prefix": prefix}) + "\n"
    write_text(_kept(config, tools), text)


def _declared(config: ToolchainConfig) -> dict[str, object]:
    run = config.run if isinstance(config.run, str) else config.run.model_dump(mode="json")
    return {"run": run, "link_flags": list(config.link_flags)}
