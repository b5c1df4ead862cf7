"""Progress views for commands: on stderr, so that stdout is the result's alone."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping

from rich.console import Console

from orchestrator.errors import visible
from orchestrator.execute.ninja_progress import Progress
from orchestrator.report.progress_view import ProgressView


class QuietView:
    """A view that shows nothing."""

    def __enter__(self) -> QuietView:
        return self

    def __exit__(self, *details: object) -> None: ...

    def feed(self, line: str) -> None: ...


View = Callable[[Mapping[str, float], int], "ProgressView | QuietView"]


def progress_view(quiet: bool, verbose: bool = False) -> View:
    """A live line on a terminal, else one at start and end and now and then; nothing with --quiet,
    a line for each command that was run with --verbose."""

    def view(costs: Mapping[str, float], jobs: int) -> ProgressView | QuietView:
        if quiet:
            return QuietView()
        return ProgressView(
            Progress(costs, jobs, time.monotonic), Console(stderr=True), verbose=verbose
        )

    return view


def speaker(quiet: bool) -> Callable[[str], None]:
    """A logger that prints lines to stderr, or drops them with --quiet."""

    def say(text: str) -> None:
        if not quiet:
            print(visible(text), file=sys.stderr, flush=True)

    return say
