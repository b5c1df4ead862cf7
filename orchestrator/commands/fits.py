"""`orchestrator fits`: says whether a model runs in libraries that were shipped."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from orchestrator.build.shipped.fits import Runs, fits
from orchestrator.build.workshop.invocation import load
from orchestrator.commands.views import stderr_logger
from orchestrator.context import Context
from orchestrator.errors import ExitCode
from orchestrator.report.fits import FitsReport
from orchestrator.system.terminal import shown
from orchestrator.system.workspace_lock import cache_in_use

NAME = "fits"
HELP = """\
Checks whether a model runs in libraries that were built for other models: in delivered folders, and
in packages, which need not come from this workspace. There are four answers: it fits, proven (it
ran in the library, on its inputs); it fits by the manifest (with the model's trace, or by static
analysis); it does not fit (with what is missing, where the model's source names it, and about how
large the library would be with it); cannot tell. Libraries in this workspace's dist/ run by
default; --run also runs those in packages, which are programs of their authors. The exit code is 0
if the model fits all libraries, 1 if it does not fit one or a package cannot be read, 2 if the
worst answer is `cannot tell`."""
EXAMPLE = """\
./orchestrate fits model.ptl --in dist/camera/linux-x86_64
./orchestrate fits model.ptl --no-run --in camera-libtorch-*.deb camera-libtorch-*.aar
./orchestrate fits model.ptl --trace model.yaml --json --in dist/camera"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the model, the packages, how to run, --trace and --json."""
    parser.add_argument("model", metavar="MODEL.ptl", help="the model")
    parser.add_argument(
        "--in",
        nargs="+",
        action="extend",
        default=[],
        dest="packages",
        metavar="PACKAGE",
        help="folders of dist/, .tar.zst, .deb, .aar, .whl and .xcframework.zip files",
    )
    parser.add_argument("--trace", metavar="LOCK", help="the model's lock, if no app here has it")
    how = parser.add_mutually_exclusive_group()
    how.add_argument(
        "--run",
        action="store_const",
        const="all",
        dest="runs",
        default="own",
        help="run it in every library that this machine can run",
    )
    how.add_argument(
        "--no-run", action="store_const", const="none", dest="runs", help="do not run it"
    )
    parser.add_argument("--json", action="store_true", help="print the answers as JSON")


def run(arguments: argparse.Namespace, context: Context) -> int:
    """Answer for each library; at the end the errors of those that cannot be read."""
    log = stderr_logger(arguments.quiet)
    here = load(context, log)
    runs: Runs = arguments.runs
    with cache_in_use(context.cache, log):
        report = fits(
            here,
            Path(arguments.model),
            [Path(name) for name in arguments.packages],
            lock=Path(arguments.trace) if arguments.trace else None,
            runs=runs,
        )
    print(report.to_json() if arguments.json else report.text(), end="")
    sys.stdout.flush()
    for row in report.rows:
        if row.error is not None:
            print(shown(row.error.render(), sys.stderr, context.env), file=sys.stderr)
    return _code(report)


def _code(report: FitsReport) -> int:
    if report.all_fit:
        return ExitCode.OK
    return ExitCode.UNDECIDED if report.undecided else ExitCode.USER_ERROR
