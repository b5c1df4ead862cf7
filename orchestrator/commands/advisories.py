"""`orchestrator advisories`: answers known vulnerabilities of PyTorch for apps' libraries."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from orchestrator.build.explaining.advisories import judged
from orchestrator.build.workshop.invocation import load
from orchestrator.build.workshop.traced import require_traced
from orchestrator.commands.patterns import add_patterns, resolve_patterns
from orchestrator.commands.views import stderr_logger
from orchestrator.context import Context
from orchestrator.deliver import vex
from orchestrator.errors import ExitCode
from orchestrator.load.advisories import OWN, read_advisories
from orchestrator.report import advisories as report
from orchestrator.system.staging import write_text
from orchestrator.system.workspace_lock import cache_in_use

NAME = "advisories"
HELP = """\
Answers known vulnerabilities of PyTorch for apps' libraries, from the models' traces and the index
of PyTorch's code, without building: the code with the fault is not in the library; it is, and no
operator or class of the models reaches it; one does, and which; or a check of ours stands before
it. `--vex` writes the answers as CycloneDX, which scanners read."""
EXAMPLE = """\
./orchestrate advisories
./orchestrate advisories //apps/keyboard --vex vex
./orchestrate advisories --data advisories.yaml --check"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add patterns, --data, --vex, --check and --json."""
    add_patterns(parser)
    parser.add_argument(
        "--data",
        type=Path,
        default=OWN,
        metavar="FILE",
        help="advisories to answer, in the form of this release's advisories.yaml",
    )
    parser.add_argument(
        "--vex",
        type=Path,
        metavar="DIR",
        help="write <app>-<abi>.vex.cdx.json for each library into this folder",
    )
    parser.add_argument(
        "--check", action="store_true", help="fail if a model reaches a vulnerability"
    )
    parser.add_argument("--json", action="store_true", help="print the answers as JSON")


def run(arguments: argparse.Namespace, context: Context) -> int:
    """Judge, print, write."""
    log = stderr_logger(arguments.quiet)
    advisories = read_advisories(arguments.data)
    here = load(context, log)
    labels = resolve_patterns(arguments.patterns, here.workspace, log)
    require_traced(here, labels)
    with cache_in_use(context.cache, log):
        libraries = judged(here, labels, advisories)
    if arguments.vex is not None:
        arguments.vex.mkdir(parents=True, exist_ok=True)
        for library in libraries:
            name = f"{library.label.app}-{library.label.abi}.vex.cdx.json"
            write_text(arguments.vex / name, vex.text(library))
    if arguments.json:
        print(json.dumps({"format": 1, "libraries": report.values(libraries)}, indent=2))
    else:
        print(report.text(libraries), end="")
    sys.stdout.flush()
    if arguments.check:
        report.require_none(libraries)
    return ExitCode.OK
