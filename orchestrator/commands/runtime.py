"""`orchestrator runtime index`: makes the shipped index of a PyTorch version."""

from __future__ import annotations

import argparse
import json
from typing import Any

from orchestrator.build.executing.launch import check_launcher
from orchestrator.build.indexing.make_index import MadeIndex, make_index
from orchestrator.build.workshop.invocation import load
from orchestrator.commands.jobs import add_jobs
from orchestrator.commands.runtimes import add_runtime, chosen
from orchestrator.commands.views import progress_view, stderr_logger
from orchestrator.context import Context
from orchestrator.errors import ExitCode
from orchestrator.system.workspace_lock import cache_in_use, workspace_lock

NAME = "runtime"
HELP = """\
For maintainers. `index` compiles every unit of the pinned PyTorch once, with all operators and
dtypes (about 20 CPU minutes from an empty cache), and writes the runtime index and the entry
symbols that are shipped with the orchestrator."""
EXAMPLE = """\
./orchestrate runtime index
./orchestrate runtime index --jobs 16
./orchestrate runtime index --unit aten/src/ATen/native/Linear.cpp"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the action, --unit, --json, --runtime and --jobs."""
    parser.add_argument("action", choices=["index"], help="the file to make")
    parser.add_argument(
        "--unit",
        action="append",
        default=[],
        metavar="PATH",
        help="index only this unit again; repeatable",
    )
    parser.add_argument("--json", action="store_true", help="print the summary as JSON")
    add_runtime(parser)
    add_jobs(parser)


def run(arguments: argparse.Namespace, context: Context) -> int:
    """Make the index and print a summary."""
    log = stderr_logger(arguments.quiet)
    here = load(context, log)
    name = chosen(here.workspace, arguments.runtime)
    check_launcher(here)
    with cache_in_use(context.cache, log):
        runtime = here.runtimes.on(name)
        with workspace_lock(context.state, True, log, "runtime index"):
            made = make_index(
                here,
                runtime,
                jobs=arguments.jobs or here.workspace.config.jobs,
                view=progress_view(arguments.quiet),
                only=arguments.unit,
            )
    facts = _facts(made)
    if arguments.json:
        print(json.dumps({"format": 1, **facts}, indent=2))
        return ExitCode.OK
    print(f"{facts['file']}: {facts['bytes']:,} bytes")
    print(f"  {facts['units']} units, {facts['compiled']} compiled now")
    print(f"  {facts['names']:,} functions and data, {facts['references']:,} references")
    print(f"  {facts['registrations']:,} registrations")
    print(f"  {sum(facts['entry_symbols'].values())} entry symbols")
    for symbol in made.undefined:
        print(f"  no unit defines {symbol}")
    return ExitCode.OK


def _facts(made: MadeIndex) -> dict[str, Any]:
    index, entry = made.index, made.entry
    return {
        "file": made.path.name,
        "bytes": made.path.stat().st_size,
        "units": len(index.units),
        "compiled": made.compiled,
        "names": len(index.names),
        "references": len(index.edges),
        "registrations": len(index.registrations),
        "entry_symbols": {"library": len(entry.library), "tracer": len(entry.tracer)},
        "undefined": list(made.undefined),
    }
