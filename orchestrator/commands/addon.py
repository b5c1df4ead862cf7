"""`orchestrator addon`: makes an add-on with what a shipped library lacks for a model."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from orchestrator.build.executing.launch import check_launcher
from orchestrator.build.shipped.addon import Addon, Fits, addon
from orchestrator.build.shipped.addon_models import Proof
from orchestrator.build.workshop.invocation import load
from orchestrator.commands.jobs import add_jobs
from orchestrator.commands.views import progress_view, stderr_logger
from orchestrator.context import Context
from orchestrator.errors import ExitCode, visible
from orchestrator.system.workspace_lock import cache_in_use, workspace_lock

NAME = "addon"
HELP = """\
Makes an add-on: a shared library with only what a shipped library lacks for a model. An app loads
it with lta_library_extend(). It works for libraries for Linux and Android on 64-bit processors that
were built with `extensible: true`, and only for exactly that build. Before it compiles, it says
about how large the add-on will be. The model must be in an app of this workspace, with its trace.
Before anything is written, it runs in the library with the add-on, and so does each model that the
library was built for, if this machine can run the ABI's binaries. These models are read from the
package or from apps of this workspace. If one is not here, nothing is written without --unverified.
The exit code is 0 if an add-on was made or the library needs none, 1 if an add-on is not
possible."""
EXAMPLE = """\
./orchestrate addon --for dist/camera/linux-x86_64 apps/scanner/models/pages.ptl
./orchestrate addon --for camera-libtorch-1.0.0-linux-x86_64.tar.zst new.ptl --name winter
./orchestrate addon --for camera-libtorch-1.0.0.aar --abi android-arm64-v8a new.ptl"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the model, the library's package, --name, --unverified, --json and --jobs."""
    parser.add_argument("model", metavar="MODEL.ptl", help="the model")
    parser.add_argument(
        "--for",
        required=True,
        dest="package",
        metavar="PACKAGE",
        help="the library: a folder of dist/, a .tar.zst, a .deb or an .aar",
    )
    parser.add_argument("--abi", help="its ABI, if the package has libraries for several")
    parser.add_argument("--name", help="the add-on's name (default: the model file's)")
    parser.add_argument(
        "--unverified",
        action="store_true",
        help="write it also if models of the library are not here to be run with it, and say which",
    )
    parser.add_argument("--json", action="store_true", help="print the add-on as JSON")
    add_jobs(parser)


def run(arguments: argparse.Namespace, context: Context) -> int:
    """Make it, and print what it has."""
    log = stderr_logger(arguments.quiet)
    here = load(context, log)
    check_launcher(here)
    with (
        cache_in_use(context.cache, log),
        workspace_lock(context.state, True, log, "addon"),
    ):
        made = addon(
            here,
            Path(arguments.package),
            Path(arguments.model),
            abi=arguments.abi,
            name=arguments.name,
            unverified=arguments.unverified,
            jobs=arguments.jobs or here.workspace.config.jobs,
            view=progress_view(arguments.quiet, arguments.verbose),
        )
    if arguments.json:
        print(json.dumps(_to_json(made, context), indent=2))
    else:
        print(_text(made, context))
    return ExitCode.OK


def _text(made: Addon | Fits, context: Context) -> str:
    if isinstance(made, Fits):
        return f"{made.library} needs no add-on: {made.reason}"
    folder, *packages = (path.relative_to(context.root) for path in (made.folder, *made.packages))
    own, *others = made.proofs
    lines = [
        f"{folder}: {made.bytes:,} bytes for {made.library}, {made.compiled} compiled",
        f"  operators: {', '.join(made.operators)}",
        f"  with the library, {_shown(own)}",
        *(f"  with the library, its own {_shown(one)}" for one in others),
        *(f"  {package}" for package in packages),
    ]
    return "\n".join(map(visible, lines))


def _shown(one: Proof) -> str:
    """A model, and what became of it: with what it was compared where that is no recording."""
    told = f"{one.model}: {one.status}"
    if one.compared_with == "the library alone":
        return f"{told}, compared with the library alone"
    return f"{told}, NOT VERIFIED: {one.reason}" if one.status == "not here" else told


def _to_json(made: Addon | Fits, context: Context) -> dict[str, Any]:
    if isinstance(made, Fits):
        return {"format": 1, "library": made.library, "reason": made.reason, "addon": None}
    folder, *packages = (
        path.relative_to(context.root).as_posix() for path in (made.folder, *made.packages)
    )
    addon = {
        "folder": folder,
        "archive": packages[0],
        "packages": packages,
        "bytes": made.bytes,
        "units_compiled": made.compiled,
        "operators": list(made.operators),
        "models": [one.to_json() for one in made.proofs],
    }
    return {"format": 1, "library": made.library, "reason": "", "addon": addon}
