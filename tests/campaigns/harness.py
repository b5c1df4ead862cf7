"""Campaigns: many damaged inputs, kills and full disks, with a seed and a time limit.

Each has a short form, which `./check --all` runs, and a long one: `./check --campaigns`. A failure
says the seed and the number of the try, which `--seed` and `--only` repeat.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Campaign:
    """How much of a campaign to run.

    long     all of it, or its short form
    seed     of all random numbers: try `n` of a seed is the same whatever ran before it
    only     the one try to repeat; None for all
    seconds  the most that one campaign may take; it ends then, with what it has tried
    tell     takes a line on a campaign that ended before all of its tries
    """

    long: bool
    seed: int
    only: int | None
    seconds: float
    tell: Callable[[str], None]

    def tries(self, short: int, long: int) -> Iterator[tuple[int, random.Random]]:
        """Number and random source of each try: `short` of them or `long`, within the time.

        The short form always runs in full: it is a test like all others.
        """
        count, end = (long if self.long else short), time.monotonic() + self.seconds
        for number in range(count) if self.only is None else [self.only]:
            if self.long and time.monotonic() > end:
                self.tell(f"{number} of {count} tries, then {self.seconds:.0f} s were over")
                return
            yield number, random.Random(f"{self.seed} {number}")
