"""Throw-away workspaces and caches to measure in, so that a user's own are neither used nor harmed.

A scratch cache shares what is fetched and generated once for a PyTorch version with the user's own
cache, through symbolic links, and holds nothing that a build makes: no objects, precompiled
headers, registrations, projections or header lists. zig's own cache in it is a copy of a warm one:
libc++ and the libc's start files are in it, no compilation is.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from benchmarks.processes import run
from orchestrator.compilers.resolve import ResolvedToolchain, compiler_environment
from orchestrator.system.folders import ensure_folder
from orchestrator.trace.lock import lock_text, parse_lock

_SHARED = ("runtime", "generated", "debian")
# What a library and an executable of ours are linked with, from objects as ours are.
_LINKS: Sequence[tuple[str, ...]] = (
    ("-shared", "-Wl,--gc-sections", "-lpthread", "-ldl"),
    ("-Wl,--gc-sections", "-lpthread", "-ldl"),
)
_PROGRAM = '#include <stdio.h>\nint main(void) { return puts("") < 0; }\n'


def copy_workspace(root: Path, into: Path) -> Path:
    """A copy of the workspace's declarations, models and traces, without its budgets: a library
    that is too large is a number here, not an error."""
    into.mkdir(parents=True)
    shutil.copy2(root / "WORKSPACE", into)
    ignore = shutil.ignore_patterns("__pycache__")
    for folder in ("apps", "toolchains"):
        shutil.copytree(root / folder, into / folder, ignore=ignore)
    for declaration in sorted(into.glob("apps/*/app.yaml")):
        edit_app(declaration, {"budgets": None})
    return into


def edit_app(declaration: Path, changes: Mapping[str, Any]) -> None:
    """Set keys of an app.yaml; None removes one."""
    value = yaml.safe_load(declaration.read_text()) | dict(changes)
    kept = {key: one for key, one in value.items() if one is not None}
    declaration.write_text(yaml.safe_dump(kept, sort_keys=False))


def add_compile_flags(toolchain: Path, flags: Iterable[str]) -> None:
    """Append to the compile flags that a toolchain file declares."""
    value = yaml.safe_load(toolchain.read_text())
    value["compile_flags"] = [*value.get("compile_flags", ()), *flags]
    toolchain.write_text(yaml.safe_dump(value, sort_keys=False))


def replace_app(workspace: Path, app: str, other: str, traces: Path, runtime: str) -> None:
    """Give `app` the declaration and models of `other`, cut from `runtime`; `traces`: of these
    models, with that runtime."""
    folder = workspace / "apps" / app
    shutil.rmtree(folder)
    shutil.copytree(workspace / "apps" / other, folder, ignore=shutil.ignore_patterns("traces"))
    shutil.copytree(traces, folder / "traces")
    edit_app(folder / "app.yaml", {"runtime": runtime})
    for lock in (folder / "traces").glob("*.yaml"):
        # a lock is refused where it is not its app's
        trace = parse_lock(lock.read_text(encoding="utf-8"), lock.name)
        lock.write_text(lock_text(replace(trace, app=app)), encoding="utf-8")


def empty_cache(user_cache: Path, into: Path) -> Path:
    """A cache in which nothing has been built."""
    ensure_folder(into, "cache")
    for name in _SHARED:
        # no emulator was fetched, for one
        if (user_cache / name).is_dir():
            (into / name).symlink_to((user_cache / name).resolve())
    return into


def made_files(cache: Path) -> frozenset[Path]:
    """Every file that builds have made in a cache, zig's compilations too; what is shared lies
    behind symbolic links."""
    return frozenset(path for path in cache.rglob("*") if path.is_file())


def forget(cache: Path, known: frozenset[Path]) -> None:
    """Remove the files that were made since `made_files` said `known`."""
    for path in made_files(cache) - known:
        path.unlink()


def warm_zig(toolchains: Iterable[ResolvedToolchain], folder: Path, env: Mapping[str, str]) -> Path:
    """zig's cache folder after it has built what our links are given by it: start files and
    compiler-rt (about 5 s for each toolchain).

    For Linux: for Android zig makes its compiler-rt once for each path of the stand-in's sysroot.
    Raises CommandFailedError.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for toolchain in (one for one in toolchains if _brings_library(one)):
        source = folder / f"warm.{toolchain.config.abi}.c"
        source.write_text(_PROGRAM)
        made = folder / f"warm.{toolchain.config.abi}.o"
        compiled = ("-fPIC", "-MD", "-MF", f"{made}.d", "-c", str(source), "-o", str(made))
        commands: list[tuple[str, ...]] = [compiled]
        for number, flags in enumerate(_LINKS):
            output = str(folder / f"warm.{toolchain.config.abi}.{number}")
            commands.append((*flags, str(made), *toolchain.link_flags, "-o", output))
        for command in commands:
            # as ninja: in a folder above zig's own, its cache knows zig by a relative path
            run(
                [str(toolchain.cc), *command], env=compiler_environment(folder, env), cwd=folder
            ).require("warming zig's cache")
    return folder / "zig"


def _brings_library(toolchain: ResolvedToolchain) -> bool:
    return toolchain.config.system == "linux" and not toolchain.driver.cxx_sources
