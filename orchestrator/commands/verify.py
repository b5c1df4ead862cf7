"""`orchestrator verify`: runs apps' models in the delivered libraries."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

from rich.console import Console
from rich.text import Text

from orchestrator.build.delivering.verify import verify_delivered
from orchestrator.build.workshop.invocation import load
from orchestrator.commands.patterns import add_patterns, resolve_patterns
from orchestrator.commands.views import stderr_logger
from orchestrator.context import Context
from orchestrator.errors import ExitCode, OrchestratorError, visible
from orchestrator.system.terminal import shown
from orchestrator.system.workspace_lock import cache_in_use
from orchestrator.values.labels import VariantLabel
from orchestrator.verify.verdict import Status, VerifyResult, require_verified

NAME = "verify"
HELP = """\
Compares each delivered file with its digest in the manifest, runs each app's models in the library
in dist/ on the traced inputs, and compares the outputs with the recorded ones. `build` ends with
the same checks. A failing variant does not stop the others."""
EXAMPLE = """\
./orchestrate verify //apps/camera
./orchestrate verify //... --json"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add patterns and --json."""
    add_patterns(parser)
    parser.add_argument("--json", action="store_true", help="print the verdicts as JSON")


def run(arguments: argparse.Namespace, context: Context) -> int:
    """Verify and print one line a model; at the end all errors."""
    log = stderr_logger(arguments.quiet)
    here = load(context, log)
    labels = resolve_patterns(arguments.patterns, here.workspace, log)
    console = Console(highlight=False)
    rows: list[dict[str, Any]] = []
    errors: list[OrchestratorError] = []
    with cache_in_use(context.cache, log):
        for label in labels:
            results: Sequence[VerifyResult] = ()
            error = None
            try:
                results = verify_delivered(here, label)
                if not arguments.json:
                    _print(label, results, console)
                require_verified(str(label), results)
            except OrchestratorError as caught:
                error = caught
                errors.append(caught)
            rows.append(_row(label, results, error))
    if arguments.json:
        print(json.dumps({"format": 1, "variants": rows}, indent=2))
    sys.stdout.flush()
    for failure in errors:
        print(shown(failure.render(), sys.stderr, context.env), file=sys.stderr)
    return ExitCode.USER_ERROR if errors else ExitCode.OK


def _row(
    label: VariantLabel, results: Sequence[VerifyResult], error: OrchestratorError | None
) -> dict[str, Any]:
    return {
        "app": label.app,
        "abi": label.abi,
        "models": [asdict(result) for result in results],
        "error": error and error.to_json(),
    }


_STYLES: Final[Mapping[Status, str]] = {
    "ok": "green",
    "ok in part": "yellow",
    "failed": "red",
    "not run here": "yellow",
}


def _print(label: VariantLabel, results: Sequence[VerifyResult], console: Console) -> None:
    for result in results:
        detail = f", {result.runs} runs" if result.runs else ""
        if result.levels:
            detail += f", also at CPU level {', '.join(result.levels)}"
        if result.levels_not_run:
            detail += f", not run here at {', '.join(result.levels_not_run)}"
        if result.threads:
            detail += f", with {' and '.join(map(str, result.threads))} threads"
        console.print(
            Text.assemble(
                f"{label} {result.model}: ", (result.status, _STYLES[result.status]), detail
            ),
            soft_wrap=True,
        )
        if result.uncompared:
            places = visible(", ".join(result.uncompared))
            console.print(
                f"  compared by kind and shape only: {places}", soft_wrap=True, markup=False
            )
