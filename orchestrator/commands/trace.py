"""`orchestrator trace`: runs apps' models in the tracer and writes their lock files."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from typing import Any

from orchestrator.build.launch import check_launcher
from orchestrator.build.session import Session
from orchestrator.build.trace import TracedApp, trace_apps
from orchestrator.commands.jobs import add_jobs
from orchestrator.commands.patterns import add_patterns, resolve_patterns
from orchestrator.commands.views import progress_view, speaker
from orchestrator.context import Context
from orchestrator.errors import ExitCode, visible
from orchestrator.system.workspace_lock import cache_in_use, workspace_lock

NAME = "trace"
HELP = """\
Builds each app's tracer (PyTorch cut to what the app's models could reach, with recording compiled
in), runs every model on its inputs, and writes apps/<app>/traces/<model>.yaml and the recorded
outputs beside it. Commit both: builds read them."""
EXAMPLE = """\
./orchestrate trace //apps/camera
./orchestrate trace //..."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add patterns, --all-operators, --json and --jobs."""
    add_patterns(parser)
    parser.add_argument(
        "--all-operators",
        action="store_true",
        help="a tracer that holds every operator: slow, a cross-check of the runtime index",
    )
    parser.add_argument("--json", action="store_true", help="print what ran for machines")
    add_jobs(parser)


def run(arguments: argparse.Namespace, context: Context) -> int:
    """Trace and print one line a model."""
    say = speaker(arguments.quiet)
    session = Session(context, say)
    labels = resolve_patterns(arguments.patterns, session.workspace, say)
    apps = [session.workspace.apps[name] for name in sorted({label.app for label in labels})]
    check_launcher(session)
    with cache_in_use(context.cache, say):
        session.prepare(app.name for app in apps)
        with workspace_lock(context.state, True, say, "trace"):
            traced = trace_apps(
                session,
                apps,
                all_operators=arguments.all_operators,
                jobs=arguments.jobs or session.workspace.config.jobs,
                view=progress_view(arguments.quiet, arguments.verbose),
            )
    if arguments.json:
        print(json.dumps({"format": 1, "apps": [_row(one) for one in traced]}, indent=2))
    else:
        for one in traced:
            _tell(one)
    return ExitCode.OK


def _row(traced: TracedApp) -> dict[str, Any]:
    return {
        "app": traced.app.name,
        "units": traced.units,
        "units_compiled": traced.compiled,
        "models": [
            {
                "model": model.trace.model,
                "operators": len(model.trace.called_operators),
                "kernel_tags": len(model.trace.kernel_tags),
                "never_ran": list(model.trace.unrun_operators),
                "uncompared": list(model.uncompared),
                "cannot_run": list(model.misfits),
                "changes": None if model.changes is None else [asdict(c) for c in model.changes],
            }
            for model in traced.models
        ],
    }


def _tell(traced: TracedApp) -> None:
    print(f"//apps/{traced.app.name}: tracer of {traced.units} units, {traced.compiled} compiled")
    for model in traced.models:
        trace = model.trace
        unrun = trace.unrun_operators
        print(
            f"  {trace.model}: {len(trace.called_operators)} operators ran,"
            f" {len(trace.kernel_tags)} kernel tags"
            + (f"; never ran: {', '.join(unrun)}" if unrun else "")
        )
        if model.uncompared:
            print(f"    compared by kind and shape only: {visible(', '.join(model.uncompared))}")
        if model.misfits:
            print(f"    never ran, and cannot in this runtime: {visible(', '.join(model.misfits))}")
        if model.changes:
            print(f"    changed in the lock: {'; '.join(map(str, model.changes))}")
