"""`orchestrator report`: writes a page of libraries, to look at in a browser."""

from __future__ import annotations

import argparse
from pathlib import Path

from orchestrator.build.delivering.page import made_page
from orchestrator.build.workshop.invocation import load
from orchestrator.build.workshop.traced import require_traced
from orchestrator.commands.patterns import add_patterns, resolve_patterns
from orchestrator.commands.views import stderr_logger
from orchestrator.context import Context
from orchestrator.errors import ExitCode
from orchestrator.report.table import human_bytes
from orchestrator.system.staging import write_text
from orchestrator.system.workspace_lock import cache_in_use

NAME = "report"
HELP = """\
Writes one HTML file about delivered libraries, for a browser: sizes by app and ABI, a treemap of
each library by part, operator, model and source file, what apps share, sizes over commits, and the
timeline of the last build with what it waited for. The file reads nothing from elsewhere. Beside
each chart is a table with its numbers, which needs no JavaScript. Compiles nothing: build the
libraries first."""
EXAMPLE = """\
./orchestrate report --html sizes.html
./orchestrate report //apps/camera --html camera.html
./orchestrate report --html sizes.html --history sizes"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add patterns, --html and --history."""
    add_patterns(parser)
    parser.add_argument(
        "--html", type=Path, required=True, metavar="FILE", help="the file to write"
    )
    parser.add_argument(
        "--history",
        default="dist",
        metavar="FOLDER",
        help="a folder of the workspace in which commits keep files of `size` or manifests"
        " (default: dist)",
    )


def run(arguments: argparse.Namespace, context: Context) -> int:
    """Write the page, and say where it is."""
    log = stderr_logger(arguments.quiet)
    here = load(context, log)
    labels = resolve_patterns(arguments.patterns, here.workspace, log)
    require_traced(here, labels)
    with cache_in_use(context.cache, log):
        text = made_page(here, labels, arguments.history)
    write_text(arguments.html, text)
    many = "library" if len(labels) == 1 else "libraries"
    print(f"{arguments.html}: {len(labels)} {many}, {human_bytes(len(text.encode()))}")
    return ExitCode.OK
