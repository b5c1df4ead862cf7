"""`orchestrator trace`: runs apps' models in what records them and writes their lock files."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from typing import Any

from orchestrator.build.executing.launch import check_launcher
from orchestrator.build.tracing.trace import TracedApp, TracedModel, trace_apps
from orchestrator.build.workshop.invocation import load
from orchestrator.build.workshop.store_in_use import store_in_use
from orchestrator.commands.coverage import add_requirement
from orchestrator.commands.jobs import add_jobs
from orchestrator.commands.patterns import add_patterns, resolve_patterns
from orchestrator.commands.views import progress_view, stderr_logger
from orchestrator.context import Context
from orchestrator.errors import ExitCode, visible
from orchestrator.report.coverage import ModelCoverage, require, value_of
from orchestrator.report.devices import devices_line
from orchestrator.system.terminal import shown
from orchestrator.system.workspace_lock import workspace_lock
from orchestrator.verify.flat import flat_line

NAME = "trace"
HELP = """\
Runs every model on its inputs in PyTorch with recording compiled in, and writes
apps/<app>/traces/<model>.yaml and the recorded outputs next to it. Commit both: builds read them.
Only the operators that the models call are compiled, when they are first called; on machines other
than Linux on x86-64, those that the models could reach (a tracer for each app). A model that fails
does not stop the others; of an app with such a model nothing is written."""
EXAMPLE = """\
./orchestrate trace //apps/camera
./orchestrate trace //..."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add patterns, --tracer, --all-operators, --require-coverage, --json and --jobs."""
    add_patterns(parser)
    recorder = parser.add_mutually_exclusive_group()
    recorder.add_argument(
        "--tracer",
        dest="recorder",
        action="store_const",
        const="tracer",
        default="development library",
        help="build each app's tracer, with all that its models could reach, and record in it: it"
        " takes longer, and the locks are the same",
    )
    recorder.add_argument(
        "--all-operators",
        dest="recorder",
        action="store_const",
        const="everything",
        help="build a tracer with every operator: slow; cross-checks the runtime index",
    )
    add_requirement(parser, "--require-coverage")
    parser.add_argument("--json", action="store_true", help="print the traces as JSON")
    add_jobs(parser)


def run(arguments: argparse.Namespace, context: Context) -> int:
    """Trace and print one line a model; at the end all errors."""
    log = stderr_logger(arguments.quiet)
    here = load(context, log)
    labels = resolve_patterns(arguments.patterns, here.workspace, log)
    apps = here.workspace.apps_of(labels)
    check_launcher(here)
    with store_in_use(here):
        here.runtimes.prepare(app.name for app in apps)
        with workspace_lock(context.state, True, log, "trace"):
            traced = trace_apps(
                here,
                apps,
                recorder=arguments.recorder,
                jobs=arguments.jobs or here.workspace.config.jobs,
                view=progress_view(arguments.quiet, arguments.verbose),
            )
    if arguments.json:
        print(json.dumps({"format": 1, "apps": [_row(one) for one in traced]}, indent=2))
    else:
        for one in traced:
            print_traced(one)
    sys.stdout.flush()
    if errors := [error for one in traced for error in one.errors]:
        for error in errors:
            print(shown(error.render(), sys.stderr, context.env), file=sys.stderr)
        return ExitCode.USER_ERROR
    if arguments.require is not None:
        require([row for one in traced for row in _covered(one)], arguments.require)
    return ExitCode.OK


def _covered(traced: TracedApp) -> tuple[ModelCoverage, ...]:
    return tuple(_coverage(traced, model) for model in traced.models)


def _coverage(traced: TracedApp, model: TracedModel) -> ModelCoverage:
    return ModelCoverage(traced.app.name, model.trace.model, model.methods)


def _row(traced: TracedApp) -> dict[str, Any]:
    return {
        "app": traced.app.name,
        "recorder": traced.recorder,
        "units": traced.units,
        "units_compiled": traced.compiled,
        "models": [
            {
                "model": model.trace.model,
                "operators": len(model.trace.called_operators),
                "kernel_tags": len(model.trace.kernel_tags),
                "never_ran": list(model.trace.unrun_operators),
                "unreachable": list(model.trace.unreachable_operators),
                "coverage": value_of(_coverage(traced, model)),
                "uncompared": list(model.uncompared),
                "flat": list(model.flat),
                "cannot_run": list(model.misfits),
                "foreign_devices": list(model.devices),
                "changes": None if model.changes is None else [asdict(c) for c in model.changes],
            }
            for model in traced.models
        ],
        "errors": [error.to_json() for error in traced.errors],
    }


def print_traced(traced: TracedApp) -> None:
    """Print what was recorded of an app, without its errors."""
    if traced.recorder is None:
        known = len(traced.app.config.models)
        print(f"//apps/{traced.app.name}: {len(traced.errors)} of {known} models refused")
        return
    print(
        f"//apps/{traced.app.name}: {traced.recorder} of {traced.units} units,"
        f" {traced.compiled} compiled"
    )
    for model in traced.models:
        trace = model.trace
        unrun, unreachable = trace.unrun_operators, trace.unreachable_operators
        print(
            f"  {trace.model}: {len(trace.called_operators)} operators ran,"
            f" {len(trace.kernel_tags)} kernel tags"
            + (f"; never ran: {', '.join(unrun)}" if unrun else "")
            + (f"; no input can reach: {', '.join(unreachable)}" if unreachable else "")
        )
        ran = _coverage(traced, model).sum
        if ran.percent < 100:
            print(
                f"    its inputs ran {ran.percent} % of its code: {ran.unrun} instructions and"
                f" {ran.untaken} ways out of branches are left"
                f" (./orchestrate coverage //apps/{traced.app.name})"
            )
        if model.uncompared:
            print(f"    compared by kind and shape only: {visible(', '.join(model.uncompared))}")
        if model.flat:
            print(f"    {visible(flat_line(model.flat))}")
        if model.misfits:
            print(
                "    never ran, and would fail in this runtime: "
                f"{visible(', '.join(model.misfits))}"
            )
        if model.devices:
            print(f"    {devices_line(model.devices)}")
        if model.changes:
            print(f"    changed in the lock: {visible('; '.join(map(str, model.changes)))}")
    if traced.errors:
        failed, known = len(traced.errors), len(traced.errors) + len(traced.models)
        print(f"  no lock was written: {failed} of {known} models failed")
