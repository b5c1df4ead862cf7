"""`orchestrator runtime index`: makes the shipped index of a PyTorch version."""

from __future__ import annotations

import argparse

from orchestrator.build.launch import check_launcher
from orchestrator.build.make_index import make_index
from orchestrator.build.session import Session
from orchestrator.commands.jobs import add_jobs
from orchestrator.commands.runtimes import add_runtime, chosen
from orchestrator.commands.views import progress_view, stderr_logger
from orchestrator.context import Context
from orchestrator.errors import ExitCode
from orchestrator.system.workspace_lock import cache_in_use, workspace_lock

NAME = "runtime"
HELP = """\
For maintainers. `index` compiles every unit of the pinned PyTorch once, with all operators and
dtypes (about 35 CPU minutes from an empty cache), and writes the runtime index and the entry
symbols that are shipped with the orchestrator."""
EXAMPLE = """\
./orchestrate runtime index
./orchestrate runtime index --jobs 16
./orchestrate runtime index --unit aten/src/ATen/native/Linear.cpp"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the action and --jobs."""
    parser.add_argument("action", choices=["index"], help="the file to make")
    parser.add_argument(
        "--unit",
        action="append",
        default=[],
        metavar="PATH",
        help="index only this unit again; repeatable",
    )
    add_runtime(parser)
    add_jobs(parser)


def run(arguments: argparse.Namespace, context: Context) -> int:
    """Make the index and print a summary."""
    log = stderr_logger(arguments.quiet)
    session = chosen(Session(context, log), arguments.runtime)
    check_launcher(session)
    with cache_in_use(context.cache, log):
        _ = session.runtime
        with workspace_lock(context.state, True, log, "runtime index"):
            made = make_index(
                session,
                jobs=arguments.jobs or session.workspace.config.jobs,
                view=progress_view(arguments.quiet),
                only=arguments.unit,
            )
    print(f"{made.path.name}: {made.path.stat().st_size:,} bytes")
    print(f"  {len(made.index.units)} units, {made.compiled} compiled now")
    print(f"  {len(made.index.names):,} functions and data, {len(made.index.edges):,} references")
    print(f"  {len(made.index.registrations):,} registrations")
    print(f"  {len(made.entry.library) + len(made.entry.tracer)} entry symbols")
    return ExitCode.OK
