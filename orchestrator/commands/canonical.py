"""`orchestrator canonical`: makes apps' models functional, in fewer operators, and compares."""

from __future__ import annotations

import argparse
import sys

from rich.console import Console

from orchestrator.build.authoring.canonical import canonical_apps
from orchestrator.build.workshop.invocation import load
from orchestrator.canonical.python import VARIABLE
from orchestrator.commands.patterns import add_patterns, resolve_patterns
from orchestrator.commands.views import stderr_logger
from orchestrator.context import Context
from orchestrator.errors import ExitCode
from orchestrator.report.canonical import show, to_json
from orchestrator.system.terminal import shown
from orchestrator.system.workspace_lock import cache_in_use, workspace_lock

NAME = "canonical"
HELP = """\
Rewrites models with torch's own passes: freezes them, makes in-place calls functional where nothing
else sees the tensor, and replaces operators, so that fewer remain, as far as the app's library does
not grow. `traced` also runs each method once, with symbolic sizes, and keeps the operators that
ran. Compares the result with the model on its inputs, on other sizes and on random values. A
model that is refused stays as it is, and does not stop the others. Without --write it prints what
it would do, also for models of which app.yaml says nothing. With --write it writes
<name>.canonical.ptl and its lock next to each model that has `canonical: static` or `traced` in
app.yaml: commit them, and trace the app again. Builds need no torch."""
EXAMPLE = """\
./orchestrate canonical //apps/camera --python ~/torch/bin/python
./orchestrate canonical //... --write"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add patterns, --write, --kind, --python and --json."""
    add_patterns(parser)
    parser.add_argument(
        "--write", action="store_true", help="write the canonical models and their locks"
    )
    parser.add_argument(
        "--kind",
        choices=("static", "traced"),
        default="static",
        help="how to convert models of which app.yaml says nothing; default: static",
    )
    parser.add_argument(
        "--python",
        metavar="PROGRAM",
        help=f"a Python that has torch; default: ${VARIABLE}, else the orchestrator's own",
    )
    parser.add_argument("--json", action="store_true", help="print the report as JSON")


def run(arguments: argparse.Namespace, context: Context) -> int:
    """Convert and print the report."""
    log = stderr_logger(arguments.quiet)
    here = load(context, log)
    labels = resolve_patterns(arguments.patterns, here.workspace, log)
    apps = here.workspace.apps_of(labels)
    with cache_in_use(context.cache, log):
        here.runtimes.prepare(app.name for app in apps)
        with workspace_lock(context.state, True, log, "canonical"):
            report = canonical_apps(
                here,
                apps,
                python=arguments.python,
                write=arguments.write,
                kind=arguments.kind,
            )
    if arguments.json:
        print(to_json(report), end="")
    else:
        show(report, Console())
    sys.stdout.flush()
    for one in report.refused:
        print(shown(one.error.render(), sys.stderr, context.env), file=sys.stderr)
    return ExitCode.USER_ERROR if report.refused else ExitCode.OK
