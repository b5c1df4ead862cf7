"""`orchestrator explain`: explains why a unit is compiled again, or a library linked again."""

from __future__ import annotations

import argparse
import json

from orchestrator.build.explaining.actions import explain
from orchestrator.build.workshop.invocation import load
from orchestrator.build.workshop.traced import require_traced
from orchestrator.commands.patterns import resolve_patterns
from orchestrator.commands.views import stderr_logger
from orchestrator.context import Context
from orchestrator.errors import ExitCode, OrchestratorError, Place
from orchestrator.report.events import Event, last_build_text, last_events, read_events
from orchestrator.system.workspace_lock import cache_in_use

NAME = "explain"
HELP = """\
Prints what the next build does with a unit of a variant, and why. It compares what the last build
of that variant in this workspace used for the unit (compiler, flags, headers, selection) with what
it would use now, and lists the differences. UNIT is a unit's path, as builds and errors print it;
`link` stands for all files that the variant links. `why` explains which models need a unit.
`--last` tells of the last build what was compiled and why, and which actions it waited for."""
EXAMPLE = """\
./orchestrate explain //apps/camera:linux-x86_64 aten/src/ATen/native/Linear.cpp
./orchestrate explain //apps/camera:linux-x86_64 link
./orchestrate explain --last"""


class SeveralVariantsError(OrchestratorError):
    """A question about one variant that names several."""


class NothingToExplainError(OrchestratorError):
    """`explain` was asked about nothing."""


class NoLastBuildError(OrchestratorError):
    """Nothing is known of a last build in this workspace."""


def _last(context: Context) -> tuple[Event, ...]:
    path = last_events(context.state)
    try:
        return read_events(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, TypeError) as error:
        raise NoLastBuildError(
            "nothing is known of the last build here",
            place=Place(str(path)),
            seen=type(error).__name__,
            hint="build first: ./orchestrate build",
        ) from None


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the label, the unit and --json."""
    parser.add_argument(
        "label", nargs="?", metavar="LABEL", help="one ABI of an app: //apps/camera:ABI"
    )
    parser.add_argument("unit", nargs="?", metavar="UNIT", help="a unit's path, or `link`")
    parser.add_argument(
        "--last",
        action="store_true",
        help="of the last build: what was compiled, and why",
    )
    parser.add_argument("--json", action="store_true", help="print the answer as JSON")


def run(arguments: argparse.Namespace, context: Context) -> int:
    """Explain and print."""
    log = stderr_logger(arguments.quiet)
    if arguments.last:
        events = _last(context)
        if arguments.json:
            values = [json.loads(one.line()) for one in events]
            print(json.dumps({"format": 1, "events": values}, indent=2))
        else:
            print(last_build_text(events), end="")
        return ExitCode.OK
    if arguments.label is None or arguments.unit is None:
        raise NothingToExplainError(
            "there is nothing to explain",
            expected="LABEL and UNIT, or --last",
            hint="./orchestrate explain //apps/camera:linux-x86_64 link",
        )
    here = load(context, log)
    labels = resolve_patterns([arguments.label], here.workspace, log)
    if len(labels) > 1:
        raise SeveralVariantsError(
            "explain needs one variant",
            expected=f"one label, such as {labels[0]}",
            seen=f"{arguments.label}, which is {len(labels)} variants",
        )
    require_traced(here, labels)
    with cache_in_use(context.cache, log):
        found = explain(here, labels[0], arguments.unit)
    if arguments.json:
        answer = {"label": str(labels[0]), "subject": arguments.unit}
        actions = [one.to_json() for one in found]
        print(json.dumps({"format": 1, **answer, "actions": actions}, indent=2))
    else:
        print("".join(one.text() for one in found), end="")
    return ExitCode.OK
