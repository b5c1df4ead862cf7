"""Files that are looked at until one of them has changed, and stays as it is.

By stat(2), a few times a second: no service of a system tells of changes on all file systems, and
there are few files. What is being written is waited for: a file counts as changed when it did not
change any more for `SETTLED` seconds. One that looks as if it were not finished, or is gone, gets
`PATIENCE` seconds: an exporter writes for long, or takes its file away before it writes another.
"""

from __future__ import annotations

import stat
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

# Seconds between two looks.
EVERY: Final = 0.25
SETTLED: Final = 0.5
PATIENCE: Final = 5.0

# What tells one state of a file from another: inode, size, time of its last change in ns.
State = tuple[int, int, int]


def state_of(path: Path) -> State | None:
    """None where there is no such file."""
    try:
        found = path.stat()
    except OSError:
        return None
    return (found.st_ino, found.st_size, found.st_mtime_ns) if stat.S_ISREG(found.st_mode) else None


@dataclass(frozen=True)
class Edge:
    """A watcher's effects, replaced in tests.

    state  returns the state of a file, now
    now    returns seconds of a monotonic clock
    wait   sleeps for some seconds
    """

    state: Callable[[Path], State | None] = state_of
    now: Callable[[], float] = time.monotonic
    wait: Callable[[float], None] = time.sleep


@dataclass
class Watcher:
    """Waits for changes of files.

    is_whole  whether a file looks finished
    """

    is_whole: Callable[[Path], bool]
    edge: Edge = field(default_factory=Edge)
    _taken: dict[Path, State | None] = field(default_factory=dict)

    def take(self, paths: Iterable[Path]) -> None:
        """These files are looked at as they are now: what changes from here on is a change."""
        self._taken = {path: self.edge.state(path) for path in paths}

    def follow(self, paths: Iterable[Path]) -> None:
        """These files are looked at, and no others: what was taken is, as it was then."""
        taken = self._taken
        self._taken = {p: taken[p] if p in taken else self.edge.state(p) for p in paths}

    def changed(self, also: Callable[[], Iterable[Path]] = tuple) -> frozenset[Path]:
        """Wait until files that were taken have changed, all of them settled; which these are.

        also: gives files that count as not there when they were not taken; asked at each look, so
        that it finds those that are made in the meantime
        """
        since: dict[Path, tuple[State | None, float]] = {}
        while True:
            now = self.edge.now()
            seen = {path: self.edge.state(path) for path in {*self._taken, *also()}}
            new = {path: state for path, state in seen.items() if state != self._taken.get(path)}
            since = {
                path: since[path] if path in since and since[path][0] == state else (state, now)
                for path, state in new.items()
            }
            if since and all(self._is_settled(path, now - at) for path, (_, at) in since.items()):
                return frozenset(since)
            self.edge.wait(EVERY)

    def _is_settled(self, path: Path, seconds: float) -> bool:
        if seconds < SETTLED:
            return False
        return seconds >= PATIENCE or self.is_whole(path)
