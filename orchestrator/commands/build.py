"""`orchestrator build`: from committed traces to delivered, verified libraries."""

from __future__ import annotations

import argparse
import sys
from contextlib import suppress
from dataclasses import replace
from datetime import datetime

from rich.console import Console

from orchestrator.build.build import Built, build
from orchestrator.build.launch import check_launcher
from orchestrator.build.library_rules import require_releasable
from orchestrator.build.session import Session
from orchestrator.build.signing_key import check_signing
from orchestrator.commands.jobs import add_jobs
from orchestrator.commands.patterns import add_patterns, what_is_right
from orchestrator.commands.replay import forget, keep, started
from orchestrator.commands.views import progress_view, speaker
from orchestrator.context import Context
from orchestrator.errors import ExitCode
from orchestrator.load.validate import raise_all
from orchestrator.report.table import plain, show
from orchestrator.system.terminal import shown
from orchestrator.system.workspace_lock import cache_in_use, workspace_lock

NAME = "build"
HELP = """\
Builds every app and ABI that the patterns name into dist/<app>/<abi>/: reads the models' committed
traces, compiles only the units that they need (objects are shared through the user's cache folder),
links, delivers, runs every model in the delivered library, and makes the packages in
dist/<app>/packages/. What is wrong with an app's own app.yaml stops only what names that app."""
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
        help="build all that can be built, and tell every failure at the end",
    )
    parser.add_argument("--json", action="store_true", help="print the report for machines")
    parser.add_argument(
        "--release",
        action="store_true",
        help="refuse variants that must not be shipped: those of a stand-in for an Android NDK",
    )
    parser.add_argument(
        "--no-wait", action="store_true", help="fail if another build runs in this workspace"
    )


def run(arguments: argparse.Namespace, context: Context) -> int:
    """Build and print the report."""
    since = started(context.root)
    say = speaker(arguments.quiet)
    session = Session(context, say)
    labels, faults = what_is_right(arguments.patterns, session.workspace, say)
    if not arguments.keep_going:
        raise_all(faults)
    if arguments.release:
        require_releasable(session, labels)
    check_launcher(session)
    check_signing(session)
    with cache_in_use(context.cache, say):
        session.prepare(label.app for label in labels)
        with workspace_lock(context.state, not arguments.no_wait, say, "build"):
            forget(context.root)
            built = build(
                session,
                labels,
                jobs=arguments.jobs or session.workspace.config.jobs,
                view=progress_view(arguments.quiet, arguments.verbose),
                keep_going=arguments.keep_going,
            )
            if not session.workspace.broken:  # else the warning would not be told again
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


def _keep(arguments: argparse.Namespace, context: Context, built: Built, since: int) -> None:
    """Keep the report for the next build of the same, where this one has succeeded."""
    if built.read is None:
        return
    again = replace(built.report, actions_run=0, seconds=0.0, replayed=True)
    when = datetime.now().isoformat(" ", "seconds")
    told = f"nothing has changed since the build of {when}; its report again"
    # a build has not failed because the next one will take longer
    with suppress(OSError):
        keep(
            context.root,
            arguments.words,
            context.env,
            built.read,
            again.to_json() if arguments.json else f"{plain(again)}{told}\n",
            folder=context.cache,
            since=since,
        )
