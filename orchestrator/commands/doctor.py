"""`orchestrator doctor`: checks for required and optional tools, and says how to get them."""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import platform
import shutil
from dataclasses import asdict, replace
from pathlib import Path
from typing import Final

from rich.console import Console

from orchestrator.build.planning.model_needs import read_models, unfit, unusable, uses
from orchestrator.build.shipped.app_package import app_package
from orchestrator.build.workshop.fetch import is_fetched
from orchestrator.build.workshop.offers import offers
from orchestrator.commands.findings import EVERY_BUILD, Finding, Machine, findings
from orchestrator.commands.patterns import warn_of_broken
from orchestrator.commands.runtime_findings import runtime_findings
from orchestrator.commands.views import stderr_logger
from orchestrator.compilers.resolve import resolve_toolchain
from orchestrator.context import Context
from orchestrator.errors import ExitCode, OrchestratorError
from orchestrator.load.workspace import Toolchain, Workspace, load_workspace
from orchestrator.report.table import Column, Row, new_table, plain_text
from orchestrator.system.installation import install_again
from orchestrator.system.workspace_lock import cache_in_use

NAME = "doctor"
HELP = """\
Checks this machine for all required and optional tools of the workspace's targets, and the pinned
PyTorch versions for the apps' models. The exit code is 0 if nothing required is missing, else 1.
--verbose adds the capabilities of each toolchain.

With --apk or --aar it looks into an Android app's package instead, and builds nothing: which
PyTorch libraries are in it, whether devices with pages of 16 KB load them, and which of its models
would run in a library of this project. The exit code is 0 if all load and run, else 1."""
EXAMPLE = """\
./orchestrate doctor
./orchestrate doctor --verbose
./orchestrate doctor --json
./orchestrate doctor --apk app-release.apk"""

_PACKAGES = ("cmake", "ninja", "ziglang")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add --json, and --apk or --aar."""
    parser.add_argument("--json", action="store_true", help="print the findings as JSON")
    package = parser.add_mutually_exclusive_group()
    for kind, what in (("apk", "an app's .apk or .aab"), ("aar", "a library's .aar")):
        package.add_argument(
            f"--{kind}", dest="package", type=Path, metavar="FILE", help=f"look into {what}"
        )


def run(arguments: argparse.Namespace, context: Context) -> int:
    """Print the findings; raises what loading the workspace, and `app_package`, raise."""
    workspace = load_workspace(context.root, context.env)
    if arguments.package is not None:
        report = app_package(arguments.package, workspace)
        print(report.to_json() if arguments.json else report.text(), end="")
        return ExitCode.OK if report.well else ExitCode.USER_ERROR
    warn_of_broken(workspace, stderr_logger(arguments.quiet))
    found = (*findings(workspace, _machine(context)), *_runtimes(workspace))
    if arguments.json:
        print(json.dumps({"format": 1, "findings": list(map(asdict, found))}, indent=2))
    else:
        _print_table(found, arguments.verbose)
    missing = [finding for finding in found if finding.state == "missing"]
    return ExitCode.USER_ERROR if missing else ExitCode.OK


def _runtimes(workspace: Workspace) -> tuple[Finding, ...]:
    """The findings on PyTorch versions, from the shipped indices and the apps' models."""
    config = workspace.config
    offered = tuple(offers(config.pins, config.defaults.backends))
    models = tuple(read_models(workspace, offered))
    return runtime_findings(
        workspace,
        uses(models, offered),
        unusable(config.pins, offered),
        models,
        unfit(models, offered),
    )


def _machine(context: Context) -> Machine:
    cache = context.cache
    existing = next(folder for folder in (cache, *cache.parents) if folder.exists())
    return Machine(
        python=platform.python_version(),
        install=install_again(),
        packages={name: _version(name) for name in _PACKAGES},
        which=lambda name: shutil.which(name, path=context.env.get("PATH", "")),
        env=context.env,
        cache=cache,
        free=shutil.disk_usage(existing).free,
        writable=existing.is_dir() and os.access(existing, os.W_OK | os.X_OK),
        is_folder=lambda path: Path(path).is_dir(),
        fetched=lambda name, tree: is_fetched(cache, name, tree),
        able=lambda toolchain: _able(toolchain, context),
    )


def _able(toolchain: Toolchain, context: Context) -> str | None:
    """`zig 0.17.0: shared, lto; not: precompile`. Raises what probing raises."""
    cache = context.cache
    try:
        with cache_in_use(cache, _quiet):
            resolved = resolve_toolchain(
                toolchain.config,
                toolchain.place,
                cache,
                context.env,
                context.runner,
                context.state,
            )
    except (OrchestratorError, OSError):
        return None  # reported as a missing compiler or folder
    with cache_in_use(cache, _quiet):
        can = asdict(resolved.capabilities)
    listed = ", ".join(name for name, able in can.items() if able) or "nothing"
    cannot = ", ".join(name for name, able in can.items() if not able)
    return f"{resolved.compiler}: {listed}{f'; not: {cannot}' if cannot else ''}"


def _quiet(text: str) -> None:
    """Drop messages about waiting, which do not belong in the table."""


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _print_table(found: tuple[Finding, ...], whole: bool) -> None:
    rows = [
        Row(
            (
                _MARKS[finding.state],
                finding.name,
                _text(finding),
                ", ".join(finding.needed_by),
            ),
            {"": _STYLES[finding.state]},
        )
        for finding in (found if whole else _together(found))
    ]
    console = Console()
    if console.is_terminal:
        console.print(new_table(_COLUMNS, rows, console.width))
    else:
        console.file.write(plain_text(new_table(_COLUMNS, rows, None)))


def _text(finding: Finding) -> str:
    advice = finding.get if finding.state != "present" else ""
    return "; ".join(filter(None, (finding.found, advice)))


_MARKS: Final = {"present": "ok", "missing": "missing", "absent": "-"}
_STYLES: Final = {"present": "green", "missing": "red", "absent": ""}
_COLUMNS: Final = (
    Column(""),
    Column("what"),
    Column("found, or how to get it", wraps=True),
    Column("needed by", leaves=0, wraps=True),
)
# Findings that are grouped where they are alike, and the names of the groups.
_KINDS: Final = {"toolchain ": "toolchains", "source of ": "sources"}
# Findings of one row where they are present: those of versions, and those of paths.
_VERSIONS: Final = frozenset({"python", "ninja", "ziglang", "cmake"})
_PATHS: Final = frozenset({"javac", "git", "apt-get"})


def _together(found: tuple[Finding, ...]) -> list[Finding]:
    """The findings, with what is present of packages and of programs in a row each, and equal ones
    for toolchains and for sources merged: a report of one screen.
    """
    rows: dict[tuple[str, str], Finding] = {}
    for finding in found:
        name, head, shown = _row(finding)
        before = rows.get((name, head))
        needed = sorted({*finding.needed_by, *(before.needed_by if before else ())})
        if EVERY_BUILD in needed:
            needed = [EVERY_BUILD]
        text = f"{before.found}, {shown}" if before else head + shown
        rows[name, head] = replace(finding, name=name, found=text, needed_by=tuple(needed))
    return list(rows.values())


def _row(finding: Finding) -> tuple[str, str, str]:
    """Return a finding's row in the table: the row's name, the text that all findings of one row
    share, and the text that this one adds. A toolchain's capabilities are left out but for the
    version."""
    name = finding.name
    if finding.state != "present":
        return name, "", finding.found
    if name in _VERSIONS:
        return "packages", "", f"{name} {finding.found}"
    if name in _PATHS:
        return "programs", "", finding.found
    for kind, row in _KINDS.items():
        if name.startswith(kind):
            shared = finding.found.partition(":")[0] if kind == "toolchain " else finding.found
            return row, f"{shared}: ", name.removeprefix(kind)
    return name, "", finding.found
