"""`orchestrator build`: from committed traces to delivered, verified libraries."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from rich.console import Console

from orchestrator.build.delivering.build import Built, build
from orchestrator.build.delivering.library_rules import require_releasable
from orchestrator.build.delivering.signing_key import check_signing
from orchestrator.build.executing.launch import check_launcher
from orchestrator.build.workshop.invocation import Invocation, load
from orchestrator.build.workshop.traced import require_traced
from orchestrator.commands.jobs import add_jobs
from orchestrator.commands.patterns import add_patterns, valid_labels
from orchestrator.commands.replay import forget, keep, started
from orchestrator.commands.views import progress_view, stderr_logger
from orchestrator.context import Context
from orchestrator.errors import ExitCode
from orchestrator.load.validate import raise_all
from orchestrator.report.events import Events, chrome_trace, last_events
from orchestrator.report.table import plain, show
from orchestrator.system.terminal import shown
from orchestrator.system.workspace_lock import cache_in_use, workspace_lock
from orchestrator.values.labels import VariantLabel

NAME = "build"
HELP = """\
Builds every app and ABI that the patterns name into dist/<app>/<abi>/: reads the models' committed
traces, compiles only the units that they need (objects are shared through the user's cache folder),
links, delivers, runs every model in the delivered library, and makes the packages in
dist/<app>/packages/. An error in an app's app.yaml stops only the commands that name that app."""
EXAMPLE = """\
./orchestrate build //...
./orchestrate build //apps/camera:linux-x86_64
./orchestrate build //apps/... --json --jobs 8 --keep-going"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add patterns and options."""
    add_patterns(parser)
    add_jobs(parser)
    parser.add_argument(
        "--keep-going",
        "-k",
        action="store_true",
        help="build as much as possible, and report all failures at the end",
    )
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    parser.add_argument(
        "--engines",
        action="store_true",
        help="also report the bytes of XNNPACK, QNNPACK and our own kernels in each library",
    )
    parser.add_argument(
        "--release",
        action="store_true",
        help="fail if any variant would be built against the stub sysroot, without an Android NDK",
    )
    parser.add_argument(
        "--trace", metavar="FILE", help="write what ran when, for Perfetto (Chrome's trace format)"
    )
    parser.add_argument(
        "--events", metavar="FILE", help="write what happens as it happens: JSON, one object a line"
    )
    parser.add_argument(
        "--no-wait",
        action="store_true",
        help="fail instead of waiting if another build runs in this workspace",
    )


def run(arguments: argparse.Namespace, context: Context) -> int:
    """Build and print the report."""
    since = started(context.root)
    log = stderr_logger(arguments.quiet)
    here = load(context, log)
    labels, faults = valid_labels(arguments.patterns, here.workspace, log)
    if not arguments.keep_going:
        raise_all(faults)
        require_traced(here, labels)
    if arguments.release:
        require_releasable(here, labels)
    check_launcher(here)
    check_signing(here)
    with cache_in_use(context.cache, log):
        here.runtimes.prepare(label.app for label in labels)
        with workspace_lock(context.state, not arguments.no_wait, log, "build"):
            forget(context.root)
            built = _built(here, labels, arguments)
            if not here.workspace.broken:  # else the replayed report would lack the warning
                _keep(arguments, context, built, since)
    report = replace(built.report, errors=(*built.report.errors, *faults))
    if arguments.json:
        print(report.to_json(), end="")
    else:
        show(report, Console())
    failures = (*built.failures, *faults)
    if failures:
        sys.stdout.flush()
        for failure in failures:
            print(shown(failure.render(), sys.stderr, context.env), file=sys.stderr)
        return ExitCode.USER_ERROR
    return ExitCode.OK


def _built(
    here: Invocation, labels: Sequence[VariantLabel], arguments: argparse.Namespace
) -> Built:
    """Build, and write what happens to the files that are asked for and to the workspace's own."""
    with ExitStack() as files:
        own = last_events(here.context.state)
        streams = [files.enter_context(own.open("w", encoding="utf-8"))]
        if arguments.events:
            streams.append(files.enter_context(Path(arguments.events).open("w", encoding="utf-8")))
        trace = None
        if arguments.trace:
            trace = files.enter_context(Path(arguments.trace).open("w", encoding="utf-8"))

        def write(line: str) -> None:
            for stream in streams:
                stream.write(line)
                stream.flush()

        events = Events(time.monotonic, write)
        try:
            return build(
                here,
                labels,
                jobs=arguments.jobs or here.workspace.config.jobs,
                view=events.watching(progress_view(arguments.quiet, arguments.verbose)),
                keep_going=arguments.keep_going,
                engines=arguments.engines,
                events=events,
            )
        finally:
            if trace:
                trace.write(chrome_trace(events.all))


def _keep(arguments: argparse.Namespace, context: Context, built: Built, since: int) -> None:
    """Store the report for the next identical build, if this one has succeeded."""
    if built.read is None:
        return
    again = replace(built.report, actions_run=0, seconds=0.0, replayed=True)
    when = datetime.now().isoformat(" ", "seconds")
    note = f"up to date since the build of {when}; report replayed"
    # a report that cannot be stored is no reason to fail
    with suppress(OSError):
        keep(
            context.root,
            arguments.argv,
            context.env,
            built.read,
            again.to_json() if arguments.json else f"{plain(again)}{note}\n",
            folder=context.cache,
            since=since,
        )
