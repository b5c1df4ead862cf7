"""Running actions and the remaining time of a build, read from ninja's status lines.

Contract: pure but for the clock, which is passed in. ninja runs with `NINJA_STATUS` set to
`STATUS_FORMAT`. On a pipe it reports each action's end; on a pseudo terminal (`TERM` not `dumb`)
each start as well, so the names of running actions are known only there. `NinjaStream` cuts either
into lines, `Progress` follows them.

The estimate weighs each action by its expected CPU seconds: a count of actions misleads where one
unit takes 0.3 s and another 25 s.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Protocol, Self

# Finished, total, running, started, seconds since the start.
STATUS_FORMAT: Final = "@@%f %t %r %s %e@@"
_STATUS: Final = re.compile(r"@@(\d+) (\d+) (\d+) (\d+) ([0-9.]+)@@(.*)")
_LINE_END: Final = re.compile(r"\r\n|\r|\n")
_ERASE: Final = "\x1b[K"
# How many seconds of watching the machine outweigh the first guess at its speed.
_PRIOR_SECONDS: Final = 10.0


class ProgressSink(Protocol):
    """A progress view: a context manager that takes ninja's lines."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
        /,
    ) -> None: ...

    def feed(self, line: str) -> None: ...


class NinjaStream:
    """Cuts what ninja writes, as it comes in, into lines; a status line is kept whole."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, chunk: bytes) -> list[str]:
        """The lines that this chunk completes; without empty ones.

        A status line on a terminal ends with an erase code, and is overwritten, not ended.
        """
        data = self._rest + chunk
        ended = data.endswith((b"\n", b"\r", _ERASE.encode()))
        text = data.decode("utf-8", errors="replace").replace(_ERASE, "\n")
        lines = _LINE_END.split(text)
        self._rest = b"" if ended else data[len(data) - len(_tail(data)) :]
        if not ended:
            lines.pop()
        return [line for line in lines if line]

    def end(self) -> list[str]:
        """Return the rest at the end of ninja's output: one line without a line end, or none."""
        rest, self._rest = self._rest, b""
        return [rest.decode("utf-8", errors="replace")] if rest else []


def _tail(data: bytes) -> bytes:
    """The bytes behind the last end of a line."""
    erase = _ERASE.encode()
    ends = [data.rfind(b"\n") + 1, data.rfind(b"\r") + 1]
    if erase in data:
        ends.append(data.rfind(erase) + len(erase))
    return data[max(ends) :]


# Expected CPU seconds of each action, by what ninja says of it: see `Progress`.
Costs = Mapping[str, Sequence[float]]


@dataclass(frozen=True)
class Status:
    """One status line: counts of actions, and the description of the one that it is about."""

    finished: int
    total: int
    running: int
    started: int
    elapsed: float
    description: str


def parse_status(line: str) -> Status | None:
    """The numbers and the description in a status line of the form `STATUS_FORMAT`; None for other
    output.

    https://ninja-build.org/manual.html#_environment_variables
    """
    match = _STATUS.fullmatch(line)
    if match is None:
        return None
    finished, total, running, started = (int(match[i]) for i in range(1, 5))
    return Status(finished, total, running, started, float(match[5]), match[6])


@dataclass(frozen=True)
class Snapshot:
    """A moment: actions, names of the running ones (oldest first), seconds gone and to go.

    `running` is empty where ninja writes to a pipe. `remaining` is None before the first action
    has begun. `last` is the name of what the last status line is about.
    """

    finished: int
    total: int
    running: tuple[str, ...]
    elapsed: float
    remaining: float | None
    last: str = ""


class Progress:
    """Follows ninja. `costs` are expected CPU seconds of each action by the actions' descriptions,
    or by a description's first word (`link`): several ABIs and apps compile a unit of one name.

    They may name actions that ninja finds up to date, and may lack some that it runs. `jobs` is how
    many run at once, and `cores` how many of the costs' CPU seconds they are expected to do in a
    second (default: one each); what is measured corrects it. `snapshot` may be called by another
    thread than `feed`: it works on values that do not change.
    """

    def __init__(
        self,
        costs: Costs,
        jobs: int,
        clock: Callable[[], float],
        cores: float | None = None,
    ) -> None:
        self._means = {name: sum(each) / len(each) for name, each in costs.items() if each}
        self._left = {name: len(each) for name, each in costs.items()}
        self._jobs = max(jobs, 1)
        self._cores = self._jobs if cores is None else cores
        self._clock = clock
        self._begin: float | None = None
        self._status = Status(0, 0, 0, 0, 0.0, "")
        # description and start, oldest first
        self._running: tuple[tuple[str, float], ...] = ()
        self._done_cost = 0.0
        known = [one for each in costs.values() for one in each]
        self._mean = sum(known) / len(known) if known else 1.0
        self._known_left = sum(known)

    def feed(self, line: str) -> bool:
        """Takes a line; False where it is not a status line but something to show."""
        status = parse_status(line)
        if status is None:
            return False
        now = self._clock()
        if self._begin is None:
            self._begin = now
        before, self._status = self._status, status
        if status.finished > before.finished:
            self._finish(status.description)
        elif status.started > before.started:
            self._running = (*self._running, (status.description, now))
        return True

    def _finish(self, description: str) -> None:
        running = list(self._running)
        first = next((one for one in running if one[0] == description), None)
        if first is not None:
            running.remove(first)
        self._running = tuple(running)
        self._done_cost += self._cost(description)
        name = self._name(description)
        if self._left.get(name):
            self._known_left -= self._means[name]
            self._left[name] -= 1

    def snapshot(self) -> Snapshot:
        """Counts, running actions, seconds since the start and the estimate of those that
        remain."""
        status = self._status
        if self._begin is None:
            return Snapshot(0, 0, (), 0.0, None)
        elapsed = self._clock() - self._begin
        return Snapshot(
            status.finished,
            status.total,
            tuple(description for description, _ in self._running),
            elapsed,
            self._remaining(elapsed),
            status.description,
        )

    def _name(self, description: str) -> str:
        """Return the name that an action has in the costs."""
        return description if description in self._means else description.partition(" ")[0]

    def _cost(self, description: str) -> float:
        return self._means.get(self._name(description), self._mean)

    def _remaining(self, elapsed: float) -> float:
        """Wall seconds to go: what is left at the speed seen, but no less than the longest left."""
        left = self._status.total - self._status.finished
        if left <= 0:
            return 0.0
        now = self._clock()
        share = min(self._cores / self._jobs, 1.0)
        spent = [(self._cost(name), (now - start) * share) for name, start in self._running]
        in_flight = sum(min(cost, gone) for cost, gone in spent)
        speed = self._speed(elapsed, self._done_cost + in_flight)
        work = max(self._expected_left(left) - in_flight, 0.0)
        # One action cannot be spread over several cores.
        longest = max((cost - gone for cost, gone in spent), default=0.0)
        return max(work / speed, longest * self._jobs / speed, 0.0)

    def _speed(self, elapsed: float, done: float) -> float:
        """Expected CPU seconds that are done in a second."""
        return (self._cores * _PRIOR_SECONDS + done) / (_PRIOR_SECONDS + elapsed)

    def _expected_left(self, left: int) -> float:
        """CPU seconds of the actions to go. Which ones ninja still runs is not known: their number
        times the mean of those that have not run, which is exact where all of them will."""
        candidates = sum(self._left.values())
        mean = self._known_left / candidates if candidates else self._mean
        return left * mean


def human_seconds(seconds: float) -> str:
    """Rounded as an estimate is: `8 s`, `50 s`, `1 min 30 s`, `6 min`, `1 h 20 min`."""
    if seconds < 10:
        return f"{max(round(seconds), 1)} s"
    if seconds < 55:
        return f"{round(seconds / 5) * 5} s"
    if seconds < 285:
        minutes, rest = divmod(max(round(seconds / 15), 4) * 15, 60)
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{max(minutes, 1)} min"
    hours, minutes = divmod(round(minutes / 5) * 5, 60)
    return f"{hours} h {minutes} min" if minutes else f"{hours} h"
