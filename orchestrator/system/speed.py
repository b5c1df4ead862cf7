"""Speed of a core of this machine, relative to the one whose CPU seconds the indexes hold.

A fixed piece of Python is timed: like a compiler, an interpreter follows pointers and branches.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

# CPU seconds of `_work` on the machine where compilations take what the indexes say.
REFERENCE_SECONDS: Final = 0.0175
_TRIES: Final = 5


def core_speed(clock: Callable[[], float] = time.process_time) -> float:
    """Return how many of the indexes' CPU seconds a core does in a second; takes 0.1 s.

    The fastest of some tries counts: others share caches and frequency.
    """
    return REFERENCE_SECONDS / min(_timed(clock) for _ in range(_TRIES))


def _timed(clock: Callable[[], float]) -> float:
    begun = clock()
    _work()
    return max(clock() - begun, 1e-6)


def _work() -> int:
    """Names, a table of them and a walk through it, as in a symbol table."""
    table: dict[str, list[str]] = {}
    for number in range(40_000):
        name = f"at::native::kernel_{number * 7919 % 10_007}"
        table.setdefault(name[-3:], []).append(name)
    return sum(len(sorted(names)) for names in table.values())
