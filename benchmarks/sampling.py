"""A stratified sample of upstream's compilations, and the scaling back to all of them. Pure.

Nothing is random: inside a family the units are sorted, and every k-th is taken, so that the same
tree gives the same sample everywhere.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, variance
from typing import TypeVar

from orchestrator.errors import OrchestratorError

T = TypeVar("T")


class SampleTooThinError(OrchestratorError):
    """A family of units has no measurement, so that it cannot be scaled."""


@dataclass(frozen=True)
class FamilyEstimate:
    """One family: how many units it has, how many were measured, and CPU seconds."""

    family: str
    units: int
    measured: int
    mean_seconds: float
    total_seconds: float


@dataclass(frozen=True)
class Estimate:
    """All families; `error` is the standard error of `seconds`, in seconds."""

    families: tuple[FamilyEstimate, ...]
    seconds: float
    error: float


def allocate(counts: Mapping[str, int], total: int, least: int) -> dict[str, int]:
    """How many units to take of each family: in proportion, at least `least`, in all at least
    `total`; never more than the family has.

    The largest remainders get what rounding down leaves over; ties go by name.
    """
    quotas = {f: total * counts[f] / sum(counts.values()) for f in sorted(counts)}
    taken = {f: min(counts[f], max(least, math.floor(q))) for f, q in quotas.items()}
    for family in sorted(quotas, key=lambda f: (math.floor(quotas[f]) - quotas[f], f)):
        if sum(taken.values()) >= total:
            break
        taken[family] = min(counts[family], taken[family] + 1)
    return taken


def every_kth(items: Sequence[T], count: int) -> tuple[T, ...]:
    """`count` of the sorted items, evenly spread: the middle of each of `count` equal parts."""
    return tuple(items[int((i + 0.5) * len(items) / count)] for i in range(count))


def scale(counts: Mapping[str, int], seconds: Mapping[str, Sequence[float]]) -> Estimate:
    """The cost of all units from that of the measured ones: each family at its mean.

    The standard error is that of a stratified sample without replacement (Cochran, Sampling
    Techniques, chapter 5). Raises SampleTooThinError for a family without a measurement.
    """
    unmeasured = sorted(f for f in counts if not seconds.get(f))
    if unmeasured:
        raise SampleTooThinError(
            "a family of upstream's units has no measured unit",
            seen=", ".join(unmeasured),
            hint="compile more of them: --sample",
        )
    families = tuple(
        FamilyEstimate(
            family=family,
            units=counts[family],
            measured=len(seconds[family]),
            mean_seconds=fmean(seconds[family]),
            total_seconds=counts[family] * fmean(seconds[family]),
        )
        for family in sorted(counts)
    )
    spread = sum(_variance(counts[family], seconds[family]) for family in counts)
    return Estimate(families, sum(f.total_seconds for f in families), math.sqrt(spread))


def _variance(units: int, measured: Sequence[float]) -> float:
    if len(measured) < 2:
        return 0.0
    unseen = 1 - len(measured) / units
    return units**2 * unseen * variance(measured) / len(measured)
