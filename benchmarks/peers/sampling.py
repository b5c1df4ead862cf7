"""How many runs are timed, and what is made of them. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any, Final

# Warm runs before; then runs until both SECONDS and LEAST are reached, never more than MOST.
WARM: Final = 5
LEAST: Final = 20
MOST: Final = 5000
SECONDS: Final = 0.5


def summary(rounds: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Microseconds of all rounds of a case: the least of all, and the least of the rounds' medians;
    likewise the least of what each process took to load and to its first result, and of the memory
    that it added."""
    found: dict[str, Any] = {"samples": [len(one["wall"]) for one in rounds]}
    for clock in ("cpu", "wall"):
        found[clock] = {
            "least": round(min(min(one[clock]) for one in rounds) / 1000, 2),
            "median": round(min(median(one[clock]) for one in rounds) / 1000, 2),
        }
    for name in ("load", "load_cpu", "first", "first_cpu"):
        values = [one[name] for one in rounds if one[name] is not None]
        found[name] = round(min(values) / 1000, 1) if values else None
    for name in ("added", "model_added"):
        found[name] = min(one[name] for one in rounds)
    found["level"] = rounds[-1]["level"]
    return found
