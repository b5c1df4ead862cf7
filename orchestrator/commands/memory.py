"""`orchestrator memory`: tells what models take of memory in delivered libraries."""

from __future__ import annotations

import argparse
import json
from typing import Any

from orchestrator.build.delivering.memory import Measured, NotMeasuredError, measured
from orchestrator.build.executing.launch import check_launcher
from orchestrator.build.workshop.invocation import load
from orchestrator.build.workshop.store_in_use import store_in_use
from orchestrator.build.workshop.traced import require_traced
from orchestrator.commands.jobs import add_jobs, count
from orchestrator.commands.patterns import add_patterns, resolve_patterns
from orchestrator.commands.views import progress_view, stderr_logger
from orchestrator.context import Context
from orchestrator.errors import ExitCode
from orchestrator.report.memory import memory_json, memory_text
from orchestrator.system.workspace_lock import workspace_lock

NAME = "memory"
HELP = """\
Tells how much memory each model takes in its app's delivered library, when, and because of which
layer: once it is loaded, at the peak of a run of each of its inputs, and between runs. For the
highest peak it lists the largest tensors of that moment with their shapes, the operators that made
them and the lines in the model's source. Measured, by counting what the library asks the system
for, in libraries that run on this machine: build them first. `memory:` in app.yaml sets limits."""
EXAMPLE = """\
./orchestrate memory //apps/camera
./orchestrate memory //apps/camera:linux-x86_64 --top 40
./orchestrate memory //... --json"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add patterns, --top, --jobs and --json."""
    add_patterns(parser)
    parser.add_argument(
        "--top", type=count, default=10, metavar="N", help="tensors to list (default: 10)"
    )
    parser.add_argument("--json", action="store_true", help="print all that was measured as JSON")
    add_jobs(parser)


def run(arguments: argparse.Namespace, context: Context) -> int:
    """Measure and print, library by library."""
    log = stderr_logger(arguments.quiet)
    here = load(context, log)
    check_launcher(here)
    labels = resolve_patterns(arguments.patterns, here.workspace, log)
    require_traced(here, labels)
    with store_in_use(here), workspace_lock(context.state, True, log, NAME):
        found = measured(
            here,
            labels,
            jobs=arguments.jobs or here.workspace.config.jobs,
            view=progress_view(arguments.quiet, arguments.verbose),
        )
    if not any(one.models for one in found):
        raise NotMeasuredError(
            "no library of these runs on this machine",
            expected=f"a library for {here.toolchains.own_abi}, or one that an emulator runs",
            seen=", ".join(f"{one.label}: {one.why_not}" for one in found),
            hint="add the machine's own ABI to `targets`: most of a model's memory are its tensors,"
            " which are the same everywhere",
        )
    if arguments.json:
        print(json.dumps({"format": 1, **_value(found)}, indent=2))
        return ExitCode.OK
    tables = (memory_text(one.label, model, arguments.top) for one in found for model in one.models)
    print("\n".join(tables), end="")
    for one in found:
        if one.why_not:
            log(f"{one.label}: not measured: {one.why_not}")
    return ExitCode.OK


def _value(found: tuple[Measured, ...]) -> dict[str, Any]:
    return {
        "models": [memory_json(one.label, model) for one in found for model in one.models],
        "not_measured": [
            {"app": one.label.app, "abi": one.label.abi, "why": one.why_not}
            for one in found
            if one.why_not
        ],
    }
