"""`orchestrator plan`: shows what a build would need, share and compile, without building."""

from __future__ import annotations

import argparse

from rich.console import Console

from orchestrator.build.planning.plan import planned
from orchestrator.build.workshop.invocation import load
from orchestrator.build.workshop.traced import require_traced
from orchestrator.commands.patterns import add_patterns, resolve_patterns
from orchestrator.commands.views import stderr_logger
from orchestrator.context import Context
from orchestrator.errors import ExitCode
from orchestrator.report.plan import show
from orchestrator.system.collector import collector_paused
from orchestrator.system.workspace_lock import cache_in_use

NAME = "plan"
HELP = """\
Shows, for each app and ABI that the patterns name, how many units it needs, how many of their
objects are in the cache, how many are shared with other variants of the same plan and with which,
and about how many CPU seconds the rest takes. Nothing is built; the sources, generated headers and
compilers that a plan reads are prepared on first use, as for a build. The estimated size is that of
the stripped shared library, on iOS of what an app's linker keeps; it is mostly within 8 %, and not
known for 32-bit processors. Estimates over an app's budget are reported."""
EXAMPLE = """\
./orchestrate plan
./orchestrate plan //apps/camera //apps/scanner:linux-x86_64
./orchestrate plan //... --json"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add patterns and --json."""
    add_patterns(parser)
    parser.add_argument("--json", action="store_true", help="print the plan as JSON")


@collector_paused()
def run(arguments: argparse.Namespace, context: Context) -> int:
    """Plan and print the report."""
    log = stderr_logger(arguments.quiet)
    here = load(context, log)
    labels = resolve_patterns(arguments.patterns, here.workspace, log)
    require_traced(here, labels)
    with cache_in_use(context.cache, log):
        report = planned(here, labels)
    if arguments.json:
        print(report.to_json(), end="")
    else:
        show(report, Console())
    return ExitCode.OK
