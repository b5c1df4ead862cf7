"""Progress views for commands: on stderr, so that stdout is the result's alone."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Final

from rich.console import Console

from orchestrator.errors import visible
from orchestrator.execute.ninja_progress import Costs, Progress
from orchestrator.report.progress_view import ProgressView
from orchestrator.system.load import Load, present_load
from orchestrator.system.speed import core_speed


class QuietView:
    """A view that shows nothing."""

    def __enter__(self) -> QuietView:
        return self

    def __exit__(self, *details: object) -> None: ...

    def feed(self, line: str) -> None: ...


# Less work than so many CPU seconds is over before a forecast of it is of use.
_FORECAST_SECONDS: Final = 10.0

View = Callable[[Costs, int], "ProgressView | QuietView"]


def progress_view(quiet: bool, verbose: bool = False) -> View:
    """A live line on a terminal, else one at start and end and now and then; nothing with --quiet,
    a line for each command that was run with --verbose."""

    def view(costs: Costs, jobs: int) -> ProgressView | QuietView:
        if quiet:
            return QuietView()
        console = Console(stderr=True)
        if sum(map(sum, costs.values())) < _FORECAST_SECONDS:
            return ProgressView(Progress(costs, jobs, time.monotonic), console, verbose=verbose)
        load = present_load()
        cores = load.cores_for(jobs) * core_speed()
        progress = Progress(costs, jobs, time.monotonic, cores)
        return ProgressView(progress, console, verbose=verbose, assumed=assumption(jobs, load))

    return view


def assumption(jobs: int, load: Load) -> str:
    """Describe the load that a forecast assumes: ` with 2 jobs on 2 cores, beside 8 processes`."""
    others = round(load.others)
    beside = f", beside {others} process{'' if others == 1 else 'es'}" if others else ""
    return (
        f" with {jobs} job{'' if jobs == 1 else 's'}"
        f" on {load.usable} core{'' if load.usable == 1 else 's'}{beside}"
    )


def stderr_logger(quiet: bool) -> Callable[[str], None]:
    """A logger that prints lines to stderr, or drops them with --quiet."""

    def log(text: str) -> None:
        if not quiet:
            print(visible(text), file=sys.stderr, flush=True)

    return log
