"""`orchestrator addon`: makes what a shipped library lacks for a model."""

from __future__ import annotations

import argparse
from pathlib import Path

from orchestrator.build.addon import Addon, Fits, addon
from orchestrator.build.launch import check_launcher
from orchestrator.build.session import Session
from orchestrator.commands.jobs import add_jobs
from orchestrator.commands.views import progress_view, speaker
from orchestrator.context import Context
from orchestrator.errors import ExitCode
from orchestrator.system.workspace_lock import cache_in_use, workspace_lock

NAME = "addon"
HELP = """\
Makes an add-on: a shared library with only what a shipped one lacks for a model, which
lta_library_extend() adds to it. For libraries for Linux that were built with `extensible: true`;
the add-on is for that very build. The model must be in an app of this workspace, with its trace; it
runs in the library with the add-on, as do the library's own models, before anything is written. The
exit code is 0 where an add-on was made or the library needs none, 1 where there can be none."""
EXAMPLE = """\
./orchestrate addon --for dist/camera/linux-x86_64 apps/scanner/models/pages.ptl
./orchestrate addon --for camera-libtorch-1.0.0-linux-x86_64.tar.zst new.ptl --name winter"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the model, the library's package, --name and --jobs."""
    parser.add_argument("model", metavar="MODEL.ptl", help="the model")
    parser.add_argument(
        "--for",
        required=True,
        dest="package",
        metavar="PACKAGE",
        help="the library: a folder of dist/, a .tar.zst or a .deb",
    )
    parser.add_argument("--name", help="what it is called (default: as the model's file)")
    add_jobs(parser)


def run(arguments: argparse.Namespace, context: Context) -> int:
    """Make it, and print what it has."""
    say = speaker(arguments.quiet)
    session = Session(context, say)
    check_launcher(session)
    with (
        cache_in_use(context.cache, say),
        workspace_lock(context.state, True, say, "addon"),
    ):
        made = addon(
            session,
            Path(arguments.package),
            Path(arguments.model),
            name=arguments.name,
            jobs=arguments.jobs or session.workspace.config.jobs,
            view=progress_view(arguments.quiet, arguments.verbose),
        )
    print(_told(made, context))
    return ExitCode.OK


def _told(made: Addon | Fits, context: Context) -> str:
    if isinstance(made, Fits):
        return f"{made.library} needs no add-on: {made.reason}"
    folder, archive = (path.relative_to(context.root) for path in (made.folder, made.archive))
    proof = ", ".join(f"{one.model}: {one.status}" for one in made.results)
    return (
        f"{folder}: {made.bytes:,} bytes for {made.library}, {made.compiled} compiled\n"
        f"  operators: {', '.join(made.operators)}\n"
        f"  with the library, {proof}\n"
        f"  {archive}"
    )
