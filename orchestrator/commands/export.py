"""`orchestrator export`: writes a plan for another build system."""

from __future__ import annotations

import argparse
from pathlib import Path

from orchestrator.build.export import export_bazel
from orchestrator.build.session import Session
from orchestrator.commands.patterns import add_patterns, resolve_patterns
from orchestrator.commands.views import speaker
from orchestrator.context import Context
from orchestrator.errors import ExitCode
from orchestrator.system.workspace_lock import cache_in_use

NAME = "export"
HELP = """\
Writes the plan of the apps and ABIs that the patterns name into a folder, as a Bazel workspace: a
target for every compilation and link, with its inputs, and `//apps/<app>:<abi>` for each library.
The folder holds all sources and the compiler, so that it builds on other machines and with a remote
cache. It replaces what an earlier export wrote, and refuses a folder that holds anything else."""
EXAMPLE = """\
./orchestrate export bazel ~/libtorch-bazel //...
cd ~/libtorch-bazel && bazel build //apps/camera:linux-x86_64"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the format, the folder and patterns."""
    parser.add_argument("format", choices=("bazel",), help="the build system")
    parser.add_argument("folder", type=Path, metavar="DIR", help="the folder to write")
    add_patterns(parser)


def run(arguments: argparse.Namespace, context: Context) -> int:
    """Plan and write."""
    say = speaker(arguments.quiet)
    session = Session(context, say)
    labels = resolve_patterns(arguments.patterns, session.workspace, say)
    folder = Path.cwd() / arguments.folder.expanduser()
    with cache_in_use(context.cache, say):
        session.prepare(label.app for label in labels)
        export_bazel(session, labels, folder)
    print(f"{folder}: {len(labels)} variant{'' if len(labels) == 1 else 's'}")
    return ExitCode.OK
