"""Shows a build's progress: a live line on a terminal, otherwise one line at its start and end, and
one every 30 seconds in between, since CI systems kill jobs that print nothing for minutes.

Contract: writes only to the console that it is given. Output of commands (warnings, errors) is
passed on unchanged in either case.
"""

from __future__ import annotations

from threading import Event, Thread
from types import TracebackType
from typing import Final, Self

from rich.console import Console, RenderableType
from rich.live import Live
from rich.text import Text

from orchestrator.execute.ninja_progress import Progress, Snapshot, human_seconds
from orchestrator.system.heartbeat import BEAT_SECONDS

_BAR: Final = 20
_REFRESH_PER_SECOND: Final = 4


class ProgressView:
    """A context manager around ninja's run; `feed` takes its lines.

    `auto_refresh` lets a thread keep the clock ticking; without it each line refreshes. With
    `verbose`, each command that was run is printed. `beat` is the longest silence in seconds
    without a terminal. `assumed` says what the first forecast takes for granted; later ones follow
    what is measured.
    """

    def __init__(
        self,
        progress: Progress,
        console: Console,
        *,
        auto_refresh: bool = True,
        verbose: bool = False,
        beat: float = BEAT_SECONDS,
        assumed: str = "",
    ) -> None:
        self._progress = progress
        self._console = console
        self._verbose = verbose
        self._beat = beat
        self._assumed = assumed
        self._over = Event()
        self._beating = Thread(target=self._beats, daemon=True)
        self._announced = False
        self._live: Live | None = None
        if console.is_terminal:
            self._live = Live(
                get_renderable=self._line,
                console=console,
                auto_refresh=auto_refresh,
                refresh_per_second=_REFRESH_PER_SECOND,
                transient=True,
                redirect_stdout=False,
                redirect_stderr=False,
            )

    def __enter__(self) -> Self:
        if self._live:
            self._live.start()
        else:
            self._beating.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._live:
            self._live.stop()
        else:
            self._over.set()
            self._beating.join()
        state = self._progress.snapshot()
        if state.total:
            interrupted = kind is not None and issubclass(kind, KeyboardInterrupt)
            self._print(
                f"{_count(state.finished, state.total)} in {exact_seconds(state.elapsed)}"
                f"{'; the next run goes on from there' if interrupted else ''}"
            )

    def feed(self, line: str) -> None:
        """Takes one line of ninja's output."""
        before = self._progress.snapshot().finished
        if not self._progress.feed(line):
            self._print(line)
        elif self._verbose and self._progress.snapshot().finished > before:
            state = self._progress.snapshot()
            self._print(f"[{state.finished}/{state.total}] {state.last}")
        elif not self._announced:
            self._announced = True
            state = self._progress.snapshot()
            if self._assumed or not self._live:
                about = _about(state)
                self._print(f"{_actions(state.total)} to run{about}{about and self._assumed}")
        if self._live and not self._live.auto_refresh:
            self._live.refresh()

    def _beats(self) -> None:
        while not self._over.wait(self._beat):
            self._print(beat_line(self._progress.snapshot()))

    def _print(self, text: str) -> None:
        # soft_wrap: a compiler's line is not ours to break.
        self._console.print(Text.from_ansi(text), soft_wrap=True, highlight=False)

    def _line(self) -> RenderableType:
        return live_line(self._progress.snapshot())


def live_line(state: Snapshot) -> Text:
    """The line on a terminal; the names at its end are cut at the terminal's width."""
    if not state.total:
        return Text("checking for changes")
    filled = _BAR * state.finished // state.total
    line = Text(no_wrap=True, overflow="ellipsis")
    line.append("━" * filled, style="green")
    line.append("─" * (_BAR - filled), style="dim")
    line.append(f" {state.finished}/{state.total}{_about(state)}")
    if state.running:
        line.append("  " + ", ".join(_short(name) for name in state.running), style="dim")
    return line


def beat_line(state: Snapshot) -> str:
    """The line that is printed at intervals without a terminal."""
    if not state.total:
        return "checking for changes"
    line = f"{state.finished} of {_actions(state.total)} run after {exact_seconds(state.elapsed)}"
    names = ", ".join(_short(name) for name in state.running)
    return f"{line}{_about(state)}" + (f": {names}" if names else "")


def exact_seconds(seconds: float) -> str:
    """A time that has passed: `0.4 s`, `12 s`, `3 min 05 s`."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02} s" if minutes else f"{rest} s"


def _about(state: Snapshot) -> str:
    if state.remaining is None or state.finished == state.total:
        return ""
    return f", about {human_seconds(state.remaining)}"


def _count(finished: int, total: int) -> str:
    done = "" if finished == total else f"{finished} of "
    return f"{done}{_actions(total)} run"


def _actions(count: int) -> str:
    return f"{count} action{'' if count == 1 else 's'}"


# What ninja's rules put before a path (execute/ninja_file.py).
_PHASES: Final = ("archive ", "link ", "precompile ")


def _short(name: str) -> str:
    """A description without folders: `aten/src/ATen/native/Add.cpp` -> `Add.cpp`, `link a/b.so` ->
    `link b.so`."""
    phase = next((phase for phase in _PHASES if name.startswith(phase)), "")
    # ninja puts a path with a blank in quotes
    return phase + name.removeprefix(phase).rsplit("/", 1)[-1].removesuffix("'")
