"""`orchestrator library`: makes what is shipped for a library of kernels."""

from __future__ import annotations

import argparse
from typing import get_args

from orchestrator.build.launch import check_launcher
from orchestrator.build.libraries import PreparedLibrary
from orchestrator.build.make_library_index import make_features, make_library_index
from orchestrator.build.session import RuntimeSession, Session
from orchestrator.commands.jobs import add_jobs
from orchestrator.commands.runtimes import add_runtime, chosen
from orchestrator.commands.views import progress_view, speaker
from orchestrator.context import Context
from orchestrator.errors import ExitCode, OrchestratorError
from orchestrator.system.workspace_lock import cache_in_use, workspace_lock
from orchestrator.values.config import Processor

NAME = "library"
HELP = """\
A maintainer's verb. `index` compiles every unit of the pinned library for a processor (90 CPU
seconds from an empty cache), and writes the index that is shipped with the orchestrator. `kernels`
compiles our own sources that call it, and writes which symbols they refer to."""
EXAMPLE = """\
./orchestrate library index
./orchestrate library index --processor arm64 --jobs 1
./orchestrate library kernels"""


class LibraryUnpinnedError(OrchestratorError):
    """WORKSPACE does not pin all trees of a library."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the action, --processor and --jobs."""
    parser.add_argument("action", choices=["index", "kernels"], help="what to make")
    parser.add_argument(
        "--processor",
        choices=get_args(Processor),
        help="make the index of this processor alone; default: all",
    )
    add_runtime(parser)
    add_jobs(parser)


def run(arguments: argparse.Namespace, context: Context) -> int:
    """Make what is asked for, and say what it holds."""
    say = speaker(arguments.quiet)
    session = chosen(Session(context, say), arguments.runtime)
    check_launcher(session)
    with cache_in_use(context.cache, say):
        library = _pinned(session)
        with workspace_lock(context.state, True, say, f"library {arguments.action}"):
            if arguments.action == "kernels":
                _kernels(session, library, arguments)
                return ExitCode.OK
            for processor in sorted(library.data.indexed):
                if arguments.processor in (None, processor):
                    _index(session, library, processor, arguments)
    return ExitCode.OK


def _pinned(session: RuntimeSession) -> PreparedLibrary:
    if session.library is None:
        raise LibraryUnpinnedError(
            "WORKSPACE does not pin the library",
            expected="every tree of it under `runtime: libraries:`",
            hint="pin what `orchestrator/libraries/data/xnnpack.yaml` lists under `trees`",
        )
    return session.library


def _index(
    session: RuntimeSession,
    library: PreparedLibrary,
    processor: Processor,
    arguments: argparse.Namespace,
) -> None:
    made = make_library_index(
        session,
        library,
        processor,
        jobs=arguments.jobs or session.workspace.config.jobs,
        view=progress_view(arguments.quiet),
    )
    index = made.index.index
    print(f"{made.path.name}: {made.path.stat().st_size:,} bytes")
    print(f"  {len(index.units)} units")
    print(f"  {len(index.names):,} functions and data, {len(index.edges):,} references")
    for unit in made.left_out:
        print(f"  {unit} does not compile: left out")


def _kernels(
    session: RuntimeSession, library: PreparedLibrary, arguments: argparse.Namespace
) -> None:
    made = make_features(
        session,
        library,
        jobs=arguments.jobs or session.workspace.config.jobs,
        view=progress_view(arguments.quiet),
    )
    print(f"{made.path.name}: {made.path.stat().st_size:,} bytes")
    for name, entry in sorted(made.entries.items()):
        print(
            f"  {name}: {len(entry.library)} symbols of the library's, {len(entry.runtime)} others"
        )
