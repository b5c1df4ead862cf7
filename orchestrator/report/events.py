"""Events of a build, as they happen: for other programs, and to look at afterwards.

A stream is one JSON object a line; a trace is Chrome's format of events with a duration (`ph: X`,
"Trace Event Format"), which Perfetto opens. Contract: the only effects are those of `write`; the
clock is passed in.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Literal, Self

from orchestrator.execute.ninja_progress import ProgressSink, parse_status

EventKind = Literal[
    "begun", "stage", "action", "cached", "failed", "changed", "verified", "delivered", "ended"
]
_MICROSECONDS: Final = 1_000_000


def last_events(state: Path) -> Path:
    """Path of the events of a workspace's last build."""
    return state / "last-build.jsonl"


@dataclass(frozen=True)
class Event:
    """Something that has happened.

    at       seconds since the build has begun
    name     of the stage, the action (as ninja describes it) or the variant
    seconds  how long it took until `at`, of a stage or an action
    said     what there is to tell besides
    """

    event: EventKind
    at: float
    name: str = ""
    seconds: float | None = None
    said: str = ""

    def line(self) -> str:
        """As JSON, without what it does not have."""
        known = {k: v for k, v in asdict(self).items() if v not in (None, "")}
        return json.dumps(known, separators=(",", ":")) + "\n"


@dataclass
class Events:
    """Collects the events of a build, and writes each as it comes."""

    clock: Callable[[], float]
    write: Callable[[str], object] = lambda line: None
    all: list[Event] = field(default_factory=list)
    _begun: float | None = None
    _running: dict[str, list[float]] = field(default_factory=dict)
    _started: int = 0
    _finished: int = 0

    def tell(self, event: EventKind, name: str = "", said: str = "") -> None:
        """Something has happened now."""
        self._add(Event(event, self._now(), name, None, said))

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Add an event with the duration of a stage of the build."""
        begun = self._now()
        try:
            yield
        finally:
            self._add(Event("stage", self._now(), name, round(self._now() - begun, 6)))

    def watching(
        self, view: Callable[[Any, int], ProgressSink]
    ) -> Callable[[Any, int], ProgressSink]:
        """A view of ninja that also tells each action."""
        return lambda costs, jobs: _Watched(view(costs, jobs), self)

    def line(self, line: str) -> None:
        """A line of ninja's."""
        status = parse_status(line)
        if status is None:
            return
        if status.finished > self._finished:
            self._finished = status.finished
            begun = (self._running.get(status.description) or [self._now()]).pop(0)
            seconds = round(self._now() - begun, 6)
            self._add(Event("action", self._now(), status.description, seconds))
        elif status.started > self._started:
            self._started = status.started
            self._running.setdefault(status.description, []).append(self._now())

    def _now(self) -> float:
        now = self.clock()
        self._begun = now if self._begun is None else self._begun
        return round(now - self._begun, 6)

    def _add(self, event: Event) -> None:
        self.all.append(event)
        self.write(event.line())


class _Watched:
    def __init__(self, view: ProgressSink, events: Events) -> None:
        self._view = view
        self._events = events

    def __enter__(self) -> Self:
        self._view.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._view.__exit__(kind, error, trace)

    def feed(self, line: str) -> None:
        """Takes one line of ninja's output."""
        self._events.line(line)
        self._view.feed(line)


def lanes(events: Iterable[Event]) -> Iterator[tuple[Event, int]]:
    """Stages and actions in the order in which they began, each with its row: 0 for stages, as many
    others as actions ran at once."""
    ends = list[float]()
    timed = [one for one in events if one.seconds is not None]
    for one in sorted(timed, key=lambda one: (one.at - (one.seconds or 0), one.name)):
        begin, lane = one.at - (one.seconds or 0), -1
        if one.event == "action":
            free = (n for n, end in enumerate(ends) if end <= begin)
            lane = next(free, len(ends))
            ends[lane : lane + 1] = [one.at]
        yield one, lane + 1


def chrome_trace(events: Iterable[Event]) -> str:
    """A file for Perfetto: the stages in one row, and actions in as many as ran at once."""
    rows = [
        {
            "name": one.name,
            "cat": one.event,
            "ph": "X",
            "ts": round((one.at - (one.seconds or 0)) * _MICROSECONDS),
            "dur": round((one.seconds or 0) * _MICROSECONDS),
            "pid": 1,
            "tid": lane,
        }
        for one, lane in lanes(events)
    ]
    return json.dumps({"traceEvents": rows, "displayTimeUnit": "ms"}, separators=(",", ":")) + "\n"


def read_events(text: str) -> tuple[Event, ...]:
    """The events of a stream. Raises ValueError, TypeError where it is none."""
    return tuple(Event(**json.loads(line)) for line in text.splitlines())


def critical_path(events: Iterable[Event]) -> tuple[Event, ...]:
    """The actions that a build waited for, first to last: before each the one that ended last
    before it began."""
    actions = [one for one in events if one.event == "action"]
    found = list[Event]()
    while actions:
        last = max(actions, key=lambda one: (one.at, one.name))
        found.append(last)
        begun = last.at - (last.seconds or 0)
        actions = [one for one in actions if one is not last and one.at <= begun]
    return tuple(reversed(found))


_MOST: Final = 10


def last_build_text(events: Sequence[Event]) -> str:
    """The last build for people: stages, what was compiled and why, what it waited for."""
    said = [one for one in events if one.event == "begun"]
    lines = [f"the last build: {said[0].said}"] if said else []
    for one in events:
        if one.event == "stage":
            lines.append(f"  {one.seconds or 0:8.2f} s  {one.name}")
        elif one.event == "cached":
            lines.append(f"  {one.said}")
        elif one.event in ("failed", "verified"):
            lines.append(f"  {one.event} {one.name}: {one.said}".rstrip(": "))
    changed = [one for one in events if one.event == "changed"]
    if changed:
        lines.append("what was made again, and why:")
        for one in changed[:_MOST]:
            lines += [f"  {line}" for line in one.said.splitlines()]
        if len(changed) > _MOST:
            lines.append(f"  and {len(changed) - _MOST} more")
    path = critical_path(events)
    if path:
        longest = sorted(path, key=lambda one: -(one.seconds or 0))[:_MOST]
        seconds = sum(one.seconds or 0 for one in path)
        lines.append(f"what it waited for, {len(path)} actions in {seconds:.2f} s, the longest:")
        lines += [f"  {one.seconds or 0:8.2f} s  {one.name}" for one in longest]
    return "".join(f"{line}\n" for line in lines)
