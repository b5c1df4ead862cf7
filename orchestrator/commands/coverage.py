"""`orchestrator coverage`: prints which code of apps' models their inputs ran, from the locks."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from rich.console import Console

from orchestrator.build.tracing.coverage import covered
from orchestrator.build.workshop.invocation import load
from orchestrator.commands.patterns import add_patterns, resolve_patterns
from orchestrator.commands.views import stderr_logger
from orchestrator.context import Context
from orchestrator.errors import ExitCode
from orchestrator.report.coverage import ModelCoverage, require, show, value_of
from orchestrator.system.workspace_lock import cache_in_use

NAME = "coverage"
HELP = """\
Prints which instructions and branches of their methods the apps' models ran when they were traced,
as coverage tools do: with the lines of the model's source if the file has them. Code that always
ends in an error is not counted. It reads the committed locks and runs nothing; `trace` records
coverage."""
EXAMPLE = """\
./orchestrate coverage //apps/camera
./orchestrate coverage //... --require 90"""


def add_requirement(parser: argparse.ArgumentParser, option: str) -> None:
    """Add an option that takes a percentage, 100 where none is given; None by default."""
    parser.add_argument(
        option,
        nargs="?",
        const=100,
        type=_percent,
        dest="require",
        metavar="PERCENT",
        help="fail if a model's inputs run less of its code (default: 100)",
    )


def _percent(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or int(text[:4]) > 100:
        raise argparse.ArgumentTypeError(f"`{text}` is not a percentage: 0 to 100")
    return int(text)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add patterns, --require and --json."""
    add_patterns(parser)
    add_requirement(parser, "--require")
    parser.add_argument("--json", action="store_true", help="print the coverage as JSON")


def run(arguments: argparse.Namespace, context: Context) -> int:
    """Print; fail where more is required."""
    log = stderr_logger(arguments.quiet)
    here = load(context, log)
    labels = resolve_patterns(arguments.patterns, here.workspace, log)
    apps = here.workspace.apps_of(labels)
    with cache_in_use(context.cache, log):
        models = [one for app in apps for one in covered(here, app)]
    if arguments.json:
        print(json.dumps({"format": 1, "models": [_row(one) for one in models]}, indent=2))
    else:
        show(models, Console())
    sys.stdout.flush()
    if arguments.require is not None:
        require(models, arguments.require)
    return ExitCode.OK


def _row(model: ModelCoverage) -> dict[str, Any]:
    return {"app": model.app, "model": model.model, "coverage": value_of(model)}
