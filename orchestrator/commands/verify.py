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

from orchestrator.build.delivering.memory import check_delivered_memory
from orchestrator.build.delivering.rebuilt import (
    RebuildDiffersError,
    Rebuilt,
    rebuilt,
    require_same,
)
from orchestrator.build.delivering.verify import verify_delivered
from orchestrator.build.workshop.invocation import load
from orchestrator.commands.patterns import add_patterns, resolve_patterns
from orchestrator.commands.views import progress_view, stderr_logger
from orchestrator.context import Context
from orchestrator.errors import ExitCode, OrchestratorError, visible
from orchestrator.system.terminal import shown
from orchestrator.system.workspace_lock import cache_in_use
from orchestrator.values.labels import VariantLabel
from orchestrator.verify.flat import flat_line
from orchestrator.verify.verdict import Status, VerifyResult, require_verified

NAME = "verify"
HELP = """\
Compares each delivered file with its digest in the manifest, runs each app's models in the library
in dist/ on the traced inputs, and compares the outputs with the recorded ones. `build` ends with
the same checks. A failing variant does not stop the others. With --rebuild it also builds the
variants again, from nothing but the sources, and compares the bytes."""
EXAMPLE = """\
./orchestrate verify //apps/camera
./orchestrate verify //... --json
./orchestrate verify //apps/camera:linux-x86_64 --rebuild"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add patterns, --rebuild and --json."""
    add_patterns(parser)
    parser.add_argument(
        "--rebuild",
        action="store_true",
        help="also build in an empty cache and other folders, and fail if a file differs from the"
        " delivered one; takes as long as a first build",
    )
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
                check_delivered_memory(here, label)
            except OrchestratorError as caught:
                error = caught
                errors.append(caught)
            rows.append(_row(label, results, error))
        if arguments.rebuild and not errors:
            for found in rebuilt(here, labels, progress_view(arguments.quiet)):
                errors += _differing(found, rows, arguments.json)
    if arguments.json:
        print(json.dumps({"format": 1, "variants": rows}, indent=2))
    sys.stdout.flush()
    for failure in errors:
        print(shown(failure.render(), sys.stderr, context.env), file=sys.stderr)
    return ExitCode.USER_ERROR if errors else ExitCode.OK


def _differing(
    found: Rebuilt, rows: Sequence[dict[str, Any]], as_json: bool
) -> list[OrchestratorError]:
    """Tell of a second build, in the variant's row or by a line; its error, where bytes differ."""
    row = next(
        row for row in rows if (row["app"], row["abi"]) == (found.label.app, found.label.abi)
    )
    row["rebuilt"] = {"same": found.same, "differing": list(found.differing)}
    try:
        require_same(found)
    except RebuildDiffersError as error:
        row["error"] = error.to_json()
        return [error]
    if not as_json:
        print(f"{found.label}: built again, {found.same} files are the same to the byte")
    return []


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
        if result.flat:
            console.print(f"  {visible(flat_line(result.flat))}", soft_wrap=True, markup=False)
