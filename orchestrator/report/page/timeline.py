"""The last build as bars: what ran when, and what it waited for. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from orchestrator.report.events import Event, critical_path, lanes

# Bars on the page; shorter ones are counted.
_MOST_BARS: Final = 600


@dataclass(frozen=True)
class Bar:
    """An action or a stage. left, width: in per cent of the whole."""

    name: str
    is_stage: bool
    is_critical: bool
    lane: int
    begin: float
    seconds: float
    left: float
    width: float


@dataclass(frozen=True)
class Timeline:
    """A build. left_out: actions that were too short to be shown; path: what it waited for."""

    said: str
    seconds: float
    bars: tuple[Bar, ...]
    lanes: int
    left_out: int
    path: tuple[Bar, ...]
    changed: tuple[str, ...]
    lines: tuple[str, ...]


def timeline(events: Sequence[Event]) -> Timeline | None:
    """The build that events tell of; None where they tell of none."""
    if not events:
        return None
    whole = max(max(one.at for one in events), 0.001)
    critical = {id(one) for one in critical_path(events)}
    placed = [
        Bar(
            name=one.name,
            is_stage=one.event == "stage",
            is_critical=id(one) in critical,
            lane=lane,
            begin=one.at - (one.seconds or 0),
            seconds=one.seconds or 0,
            left=100 * (one.at - (one.seconds or 0)) / whole,
            width=100 * (one.seconds or 0) / whole,
        )
        for one, lane in lanes(events)
    ]
    important = sorted(
        placed, key=lambda bar: (not bar.is_stage, not bar.is_critical, -bar.seconds)
    )
    kept = {id(bar) for bar in important[:_MOST_BARS]}
    bars = tuple(bar for bar in placed if id(bar) in kept)
    return Timeline(
        said=next((one.said for one in events if one.event == "begun"), ""),
        seconds=whole,
        bars=bars,
        lanes=1 + max((bar.lane for bar in bars), default=0),
        left_out=len(placed) - len(bars),
        path=tuple(bar for bar in placed if bar.is_critical),
        changed=tuple(one.said for one in events if one.event == "changed"),
        lines=tuple(one.said for one in events if one.event == "cached"),
    )
