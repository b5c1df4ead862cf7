"""The parts of a function's bytecode that a model's inputs ran, as the trace's lock stores them.

Instructions are numbered from 0. Those that no input can run are not counted: code after a `raise`,
and code that leads only to one, since a model that raises an error is not traced.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

# Of all functions of a model together; its reader refuses more.
MOST_INSTRUCTIONS: Final = 250_000

Ranges = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class FunctionCoverage:
    """One function's.

    instructions  how many count
    ways          how many ways out of its branches count: mostly two of each
    unrun         instructions that never ran: ascending, first and last of each range
    never_held    branches that never went on: an `if` whose condition never held, a loop whose body
                  was never entered
    never_failed  branches that never jumped: an `if` whose condition always held, a loop that was
                  never left by its head
    """

    instructions: int
    ways: int
    unrun: Ranges = ()
    never_held: Ranges = ()
    never_failed: Ranges = ()

    @property
    def unrun_count(self) -> int:
        return count(self.unrun)

    @property
    def untaken(self) -> int:
        """Number of ways out of branches that no input took."""
        return count(self.never_held) + count(self.never_failed)


@dataclass(frozen=True)
class CoverageSum:
    """Totals over several functions."""

    instructions: int
    unrun: int
    ways: int
    untaken: int

    @property
    def percent(self) -> int:
        """Percentage of the instructions and ways that ran, rounded down: 100 only if everything
        ran."""
        every = self.instructions + self.ways
        return 100 * (every - self.unrun - self.untaken) // every if every else 100


@dataclass(frozen=True)
class MethodCoverage:
    """One function's, for people.

    missing  what no input ran: `net.py:12-14, 20`, and `if at net.py:33 never false`; without lines
             in the model's file instructions, and the operators that they call
    """

    method: str
    sum: CoverageSum
    missing: tuple[str, ...]


def sum_of(one: FunctionCoverage) -> CoverageSum:
    """A function's own sum."""
    return CoverageSum(one.instructions, one.unrun_count, one.ways, one.untaken)


def total(sums: Iterable[CoverageSum]) -> CoverageSum:
    """The sum of sums; of nothing, zeros."""
    every = list(sums)
    return CoverageSum(
        sum(one.instructions for one in every),
        sum(one.unrun for one in every),
        sum(one.ways for one in every),
        sum(one.untaken for one in every),
    )


def count(ranges: Ranges) -> int:
    """Number of integers in ranges."""
    return sum(last - first + 1 for first, last in ranges)


def ranges_of(numbers: Iterable[int]) -> Ranges:
    """The ranges of numbers, in any order."""
    found: list[tuple[int, int]] = []
    for number in sorted(set(numbers)):
        if found and found[-1][1] == number - 1:
            found[-1] = (found[-1][0], number)
        else:
            found.append((number, number))
    return tuple(found)


def numbers_in(ranges: Ranges) -> Iterable[int]:
    """The numbers in ranges, ascending."""
    return (number for first, last in ranges for number in range(first, last + 1))


def ranges_text(ranges: Ranges) -> str:
    """`3-5 9`; "" for none."""
    return " ".join(f"{a}-{b}" if b > a else str(a) for a, b in ranges)


def parse_ranges(text: str) -> Ranges | None:
    """The ranges that `ranges_text` writes; None where it would not write this text."""
    found = []
    for part in text.split():
        first, _, last = part.partition("-")
        if not (_is_number(first) and (not last or _is_number(last))):
            return None
        found.append((int(first), int(last or first)))
    ranges = tuple(found)
    before = [-2, *(last for _, last in ranges)]
    ascend = all(b + 1 < first <= last for b, (first, last) in zip(before, ranges, strict=False))
    return ranges if ascend and ranges_text(ranges) == text else None


def _is_number(text: str) -> bool:
    # as many digits as MOST_INSTRUCTIONS has
    return len(text) <= 6 and text.isascii() and text.isdigit()
