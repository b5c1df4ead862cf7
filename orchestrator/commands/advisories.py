"""`orchestrator advisories`: answers known vulnerabilities of PyTorch for apps' libraries."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from orchestrator.build.explaining.advisories import Judge, is_package, judged
from orchestrator.build.workshop.invocation import load
from orchestrator.build.workshop.traced import require_traced
from orchestrator.commands.patterns import resolve_patterns
from orchestrator.commands.views import stderr_logger
from orchestrator.context import Context
from orchestrator.deliver import vex
from orchestrator.errors import ExitCode, OrchestratorError
from orchestrator.load.advisories import OWN, read_advisories
from orchestrator.report import advisories as report
from orchestrator.system.staging import write_text
from orchestrator.system.terminal import shown
from orchestrator.system.workspace_lock import cache_in_use
from orchestrator.values.advisories import Advisory, LibraryVerdicts

NAME = "advisories"
HELP = """\
Answers known vulnerabilities of PyTorch for libraries, without building: the code with the fault is
not in the library; it is, and no operator or class of the models reaches it; one does, and which;
or a check of ours stands before it. Libraries of apps are judged from the models' traces and the
index of PyTorch's code; those in delivered folders and packages, which need not come from this
workspace, from their manifests and the same index. `--vex` writes the answers as CycloneDX, which
scanners read."""
EXAMPLE = """\
./orchestrate advisories
./orchestrate advisories //apps/keyboard --vex vex
./orchestrate advisories camera-libtorch-0.1.0-linux-x86_64.tar.zst
./orchestrate advisories --data advisories.yaml --check"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add patterns and packages, --data, --vex, --check and --json."""
    parser.add_argument(
        "subjects",
        nargs="*",
        default=["//..."],
        metavar="PATTERN|PACKAGE",
        help="//apps/camera:linux-x86_64, //apps/camera, //apps/... or //... (default: //...);"
        " folders of dist/, .tar.zst, .deb, .aar, .whl and .xcframework.zip files",
    )
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
        help="write <app>-<abi>.vex.cdx.json for each library, and <package>.vex.cdx.json for each"
        " package, into this folder",
    )
    parser.add_argument(
        "--check", action="store_true", help="fail if a model reaches a vulnerability"
    )
    parser.add_argument("--json", action="store_true", help="print the answers as JSON")


def run(arguments: argparse.Namespace, context: Context) -> int:
    """Judge, write, print; at the end the errors of packages that cannot be judged."""
    advisories = read_advisories(arguments.data)
    packages = [Path(one) for one in arguments.subjects if is_package(one)]
    patterns = [one for one in arguments.subjects if not is_package(one)]
    statements = dict[str, str]()
    libraries = []
    for library in _of_apps(patterns, context, advisories, arguments.quiet):
        libraries.append(library)
        name = f"{library.label.app}-{library.label.abi}{vex.SUFFIX}"
        statements[name] = vex.text(library)
    judge, errors = Judge(advisories), list[OrchestratorError]()
    for path in packages:
        try:
            found = judge.package(path)
        except OrchestratorError as error:
            errors.append(error)
            continue
        libraries += found.libraries
        statements[f"{path.resolve().name}{vex.SUFFIX}"] = vex.text_of_package(
            found.first.package_name, found.first.version, found.bills, found.libraries
        )
    if arguments.vex is not None:
        arguments.vex.mkdir(parents=True, exist_ok=True)
        for name, text in statements.items():
            write_text(arguments.vex / name, text)
    if arguments.json:
        print(json.dumps({"format": 1, "libraries": report.values(libraries)}, indent=2))
    else:
        print(report.text(libraries), end="")
    sys.stdout.flush()
    # `packages/*` has other files too: what can be answered is
    for refused in errors:
        print(shown(refused.render(), sys.stderr, context.env), file=sys.stderr)
    if arguments.check:
        report.require_none(libraries)
    return ExitCode.USER_ERROR if errors else ExitCode.OK


def _of_apps(
    patterns: Sequence[str], context: Context, advisories: Sequence[Advisory], quiet: bool
) -> Sequence[LibraryVerdicts]:
    """The verdicts on the libraries of apps, from their plans."""
    if not patterns:
        return ()
    log = stderr_logger(quiet)
    here = load(context, log)
    labels = resolve_patterns(patterns, here.workspace, log)
    require_traced(here, labels)
    with cache_in_use(context.cache, log):
        return judged(here, labels, advisories)
