"""Runtimes that have a model's operators, for errors if the app's runtime lacks some. Pure."""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from orchestrator.values.operators import OperatorName


@dataclass(frozen=True)
class Offer:
    """A supported PyTorch version.

    names      as WORKSPACE pins it, sorted; none where it does not
    operators  that a model may name
    """

    version: str
    names: tuple[str, ...]
    operators: frozenset[OperatorName] = field(repr=False)

    def newer_than(self, version: str) -> bool:
        """True if this is a later release than `version`."""
        return _order(self.version) > _order(version)


def _order(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version))


def sorted_offers(offers: Iterable[Offer]) -> tuple[Offer, ...]:
    """Offers in the order in which they are reported: oldest version first."""
    return tuple(sorted(offers, key=lambda offer: _order(offer.version)))


def offering(operators: Collection[OperatorName], offers: Iterable[Offer]) -> tuple[Offer, ...]:
    """Return the versions that have all of these operators."""
    return tuple(offer for offer in offers if offer.operators.issuperset(operators))


def all_newer(
    missing: Iterable[OperatorName], runtime_version: str, offers: Collection[Offer]
) -> bool:
    """True if each operator, which a runtime lacks, is in a later release."""
    later = [offer for offer in offers if offer.newer_than(runtime_version)]
    return all(any(operator in offer.operators for offer in later) for operator in missing)


def advice(
    missing: Collection[OperatorName],
    offers: Iterable[Offer],
    declared: str,
    command: str | None = None,
) -> str | None:
    """Advise a runtime that has all missing operators; None if no runtime has them.

    A runtime that the workspace pins comes before one that it could pin.
    declared, command: as in `orchestrator.models.checks.check_operators`
    """
    able = offering(missing, offers)
    has = "has it" if len(missing) == 1 else "has them"
    named = [name for offer in able for name in offer.names]
    if named:
        if command is not None:
            return f"{named[0]} {has}: {_on(named[0], command)}"
        return f"{named[0]} {has}: `runtime: {named[0]}` in {declared}"
    if able:
        return f"PyTorch {able[0].version} {has}: pin it under `runtimes:` in WORKSPACE"
    return None


def _on(runtime: str, command: str) -> str:
    """The command for another runtime."""
    words = shlex.split(command)
    if "--runtime" in words:
        at = words.index("--runtime")
        del words[at : at + 2]
    return shlex.join([*words, "--runtime", runtime])


def owners(operator: OperatorName, offers: Iterable[Offer]) -> str:
    """The versions that have an operator, as text; empty where none has."""
    return " and ".join(
        f"PyTorch {offer.version}" for offer in offers if operator in offer.operators
    )
