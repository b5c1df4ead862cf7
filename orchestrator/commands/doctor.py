"""`orchestrator doctor`: what is present, what is missing, and how to get it."""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import platform
import shutil
from dataclasses import asdict
from pathlib import Path

from orchestrator.commands.findings import Finding, Machine, findings
from orchestrator.context import Context
from orchestrator.errors import ExitCode, OrchestratorError, visible
from orchestrator.execute.lock import cache_in_use
from orchestrator.load.workspace import Toolchain, load_workspace
from orchestrator.runtime.source import read_marker
from orchestrator.toolchain.resolve import resolve_toolchain

NAME = "doctor"
HELP = """\
Looks for everything that the workspace's targets need, and for what they could use. The exit code
is 0 where all that is needed is there, else 1."""
EXAMPLE = """\
./orchestrate doctor
./orchestrate doctor --json"""

_PACKAGES = ("cmake", "ninja", "ziglang")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add --json."""
    parser.add_argument("--json", action="store_true", help="print a list for machines")


def run(arguments: argparse.Namespace, context: Context) -> int:
    """Print the findings; raises what loading the workspace raises."""
    found = findings(load_workspace(context.root, context.env), _machine(context))
    if arguments.json:
        print(json.dumps([asdict(finding) for finding in found], indent=2))
    else:
        _print_table(found)
    missing = [finding for finding in found if finding.state == "missing"]
    return ExitCode.USER_ERROR if missing else ExitCode.OK


def _machine(context: Context) -> Machine:
    cache = context.cache
    existing = next(folder for folder in (cache, *cache.parents) if folder.exists())
    return Machine(
        python=platform.python_version(),
        packages={name: _version(name) for name in _PACKAGES},
        which=lambda name: shutil.which(name, path=context.env.get("PATH", "")),
        env=context.env,
        cache=cache,
        free=shutil.disk_usage(existing).free,
        writable=existing.is_dir() and os.access(existing, os.W_OK | os.X_OK),
        is_folder=lambda path: Path(path).is_dir(),
        fetched=lambda name, tree: _is_fetched(cache, name, tree),
        able=lambda toolchain: _able(toolchain, context),
    )


def _able(toolchain: Toolchain, context: Context) -> str | None:
    """`zig 0.17.0: shared, lto; not: map_file`. Raises what probing raises."""
    cache = context.cache
    try:
        with cache_in_use(cache, _quiet):
            resolved = resolve_toolchain(toolchain.config, toolchain.place, cache, context.env)
    except (OrchestratorError, OSError):
        return None  # told as a compiler, or a folder, that is missing
    with cache_in_use(cache, _quiet):
        can = asdict(resolved.abilities)
    words = ", ".join(name for name, able in can.items() if able) or "nothing"
    cannot = ", ".join(name for name, able in can.items() if not able)
    return f"{resolved.version}: {words}{f'; not: {cannot}' if cannot else ''}"


def _quiet(text: str) -> None:
    """Nothing: who is waited for does not belong in the table."""


def _is_fetched(cache: Path, name: str, tree: str) -> bool:
    marker = read_marker(cache / "runtime" / f"{name}-{tree[:12]}")
    return marker is not None and marker.digest == tree


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _print_table(found: tuple[Finding, ...]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("", "what", "found", "needed by", "how to get it"):
        table.add_column(title, overflow="fold")
    marks = {"present": "[green]ok[/]", "missing": "[red]missing[/]", "absent": "-"}
    for finding in found:
        table.add_row(
            marks[finding.state],
            *map(
                Text,
                (
                    finding.name,
                    visible(finding.found),
                    ", ".join(finding.needed_by),
                    visible(finding.get) if finding.state != "present" else "",
                ),
            ),
        )
    Console().print(table)
