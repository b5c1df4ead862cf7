"""`orchestrator library`: makes the shipped index of a kernel library."""

from __future__ import annotations

import argparse
import json
from typing import Any, get_args

from orchestrator.build.executing.launch import check_launcher
from orchestrator.build.indexing.make_library_index import (
    MadeFeatures,
    MadeLibraryIndex,
    make_features,
    make_library_index,
)
from orchestrator.build.workshop.invocation import load
from orchestrator.build.workshop.libraries import PreparedLibrary
from orchestrator.build.workshop.runtime import Runtime
from orchestrator.commands.jobs import add_jobs
from orchestrator.commands.runtimes import add_runtime, chosen
from orchestrator.commands.views import progress_view, stderr_logger
from orchestrator.context import Context
from orchestrator.errors import ExitCode, OrchestratorError
from orchestrator.system.workspace_lock import cache_in_use, workspace_lock
from orchestrator.values.config.toolchain import Processor

NAME = "library"
HELP = """\
For maintainers. `index` compiles every unit of the pinned library for a processor (90 CPU
seconds from an empty cache), and writes the index that is shipped with the orchestrator. `kernels`
compiles our own sources that call it, and writes the list of symbols that they reference."""
EXAMPLE = """\
./orchestrate library index
./orchestrate library index --processor arm64 --jobs 1
./orchestrate library kernels"""


class LibraryUnpinnedError(OrchestratorError):
    """WORKSPACE does not pin all trees of a library."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the action, --processor, --json and --jobs."""
    parser.add_argument("action", choices=["index", "kernels"], help="the file to make")
    parser.add_argument(
        "--processor",
        choices=get_args(Processor),
        help="make only this processor's index; default: all",
    )
    parser.add_argument("--json", action="store_true", help="print the summary as JSON")
    add_runtime(parser)
    add_jobs(parser)


def run(arguments: argparse.Namespace, context: Context) -> int:
    """Make the requested file, and print a summary."""
    log = stderr_logger(arguments.quiet)
    here = load(context, log)
    name = chosen(here.workspace, arguments.runtime)
    check_launcher(here)
    jobs = arguments.jobs or here.workspace.config.jobs
    view = progress_view(arguments.quiet)
    files = list[dict[str, Any]]()
    with cache_in_use(context.cache, log):
        runtime = here.runtimes.on(name)
        library = _pinned(runtime)
        with workspace_lock(context.state, True, log, f"library {arguments.action}"):
            if arguments.action == "kernels":
                features = make_features(here, runtime, library, jobs=jobs, view=view)
                files.append(_of_kernels(features))
                if not arguments.json:
                    _print_kernels(features)
            for processor in sorted(library.data.indexed):
                if arguments.action == "index" and arguments.processor in (None, processor):
                    made = make_library_index(
                        here, runtime, library, processor, jobs=jobs, view=view
                    )
                    files.append(_of_index(processor, made))
                    if not arguments.json:
                        _print_index(made)
    if arguments.json:
        print(json.dumps({"format": 1, "files": files}, indent=2))
    return ExitCode.OK


def _pinned(runtime: Runtime) -> PreparedLibrary:
    if runtime.library is None:
        raise LibraryUnpinnedError(
            "WORKSPACE does not pin the library",
            expected="every tree of it under `runtime: libraries:`",
            hint="pin what `orchestrator/libraries/data/xnnpack.yaml` lists under `trees`",
        )
    return runtime.library


def _of_index(processor: Processor, made: MadeLibraryIndex) -> dict[str, Any]:
    index = made.index.index
    return {
        "file": made.path.name,
        "bytes": made.path.stat().st_size,
        "processor": processor,
        "units": len(index.units),
        "names": len(index.names),
        "references": len(index.edges),
        "left_out": list(made.omitted),
    }


def _print_index(made: MadeLibraryIndex) -> None:
    index = made.index.index
    print(f"{made.path.name}: {made.path.stat().st_size:,} bytes")
    print(f"  {len(index.units)} units")
    print(f"  {len(index.names):,} functions and data, {len(index.edges):,} references")
    for unit in made.omitted:
        print(f"  {unit} does not compile: omitted")


def _of_kernels(made: MadeFeatures) -> dict[str, Any]:
    return {
        "file": made.path.name,
        "bytes": made.path.stat().st_size,
        "kernels": {
            name: {"library": len(entry.library), "others": len(entry.runtime)}
            for name, entry in sorted(made.entries.items())
        },
    }


def _print_kernels(made: MadeFeatures) -> None:
    print(f"{made.path.name}: {made.path.stat().st_size:,} bytes")
    for name, entry in sorted(made.entries.items()):
        print(f"  {name}: {len(entry.library)} symbols of the library, {len(entry.runtime)} others")
