"""`orchestrator verify`: runs apps' models in the libraries that were delivered."""

from __future__ import annotations

import argparse

from orchestrator.commands.patterns import add_patterns, resolve_patterns
from orchestrator.commands.views import speaker
from orchestrator.context import Context
from orchestrator.errors import ExitCode, visible
from orchestrator.execute.lock import cache_in_use
from orchestrator.pipeline.session import Session
from orchestrator.pipeline.verifying import verify_delivered
from orchestrator.report.verify import require_verified
from orchestrator.values.labels import Label

NAME = "verify"
HELP = """\
Runs each app's models in the library that lies in dist/, on the traced inputs, and compares the
outputs with the tracer's. `build` does the same at its end."""
EXAMPLE = """\
./orchestrate verify //apps/camera"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add patterns."""
    add_patterns(parser)


def run(arguments: argparse.Namespace, context: Context) -> int:
    """Verify and print one line a model."""
    say = speaker(arguments.quiet)
    session = Session(context, say)
    labels = resolve_patterns(arguments.patterns, session.workspace)
    with cache_in_use(context.cache, say):
        assert session.runtime
        for label in labels:
            _verify(session, label)
    return ExitCode.OK


def _verify(session: Session, label: Label) -> None:
    results = verify_delivered(session, label)
    for result in results:
        detail = f", {result.runs} runs" if result.runs else ""
        if result.levels:
            detail += f", also at CPU level {', '.join(result.levels)}"
        if result.threads:
            detail += f", with {' and '.join(map(str, result.threads))} threads"
        print(f"{label} {result.model}: {result.status}{detail}")
        if result.uncompared:
            print(f"  compared by kind and shape only: {visible(', '.join(result.uncompared))}")
    require_verified(str(label), results)
