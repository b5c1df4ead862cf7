"""Sizes of libraries over commits, as lines of points. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

# A line's drawing area, in its own units.
WIDTH: Final = 240
HEIGHT: Final = 36
_MARGIN: Final = 4
# A line that is nearly level is drawn nearly level.
_LEAST_RANGE: Final = 0.02


@dataclass(frozen=True)
class Recorded:
    """Sizes that a commit keeps, by app and ABI. date: `YYYY-MM-DD`."""

    commit: str
    date: str
    sizes: Mapping[tuple[str, str], int]


@dataclass(frozen=True)
class Step:
    """A commit since which a library has another size."""

    commit: str
    date: str
    bytes: int
    difference: int | None


@dataclass(frozen=True)
class Line:
    """The sizes of one library, oldest first. points: of an SVG polyline."""

    app: str
    abi: str
    steps: tuple[Step, ...]
    points: str


def lines_of(recorded: Sequence[Recorded]) -> tuple[Line, ...]:
    """A line for each library that was recorded. recorded: oldest first."""
    keys = sorted({key for one in recorded for key in one.sizes})
    return tuple(
        Line(*key, tuple(_steps(recorded, key)), _points([one.sizes.get(key) for one in recorded]))
        for key in keys
    )


def _steps(recorded: Sequence[Recorded], key: tuple[str, str]) -> Iterator[Step]:
    before: int | None = None
    for one in recorded:
        size = one.sizes.get(key)
        if size is not None and size != before:
            yield Step(one.commit, one.date, size, None if before is None else size - before)
            before = size


def _points(sizes: Sequence[int | None]) -> str:
    known = [size for size in sizes if size is not None]
    low, high = min(known), max(known)
    spread = max(high - low, _LEAST_RANGE * high, 1)
    bottom = (low + high - spread) / 2
    step = (WIDTH - 2 * _MARGIN) / max(len(sizes) - 1, 1)
    room = HEIGHT - 2 * _MARGIN
    at = [
        f"{_MARGIN + step * number:.1f},{HEIGHT - _MARGIN - room * (size - bottom) / spread:.1f}"
        for number, size in enumerate(sizes)
        if size is not None
    ]
    return " ".join(at if len(at) > 1 else [at[0], f"{WIDTH - _MARGIN},{at[0].split(',')[1]}"])
