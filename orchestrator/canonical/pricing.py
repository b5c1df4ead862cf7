"""Rewrites that an app's library can afford: those without which it is no smaller. Pure.

Models of an app are looked at together: an operator that one of them still names is in the library
anyway, and one that all of them lose is not.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Final

from orchestrator.canonical.lock import Rewrite
from orchestrator.values.operators import OperatorName

# What every conversion does, which is not to be left out.
ALWAYS: Final = frozenset({"freeze", "lowering", "trace"})
Roots = frozenset[OperatorName]
Names = frozenset[str]


@dataclass(frozen=True)
class Candidate:
    """A converted model.

    roots     its root operators, before and after
    rewrites  that were applied
    left      names of rewrites that were left out -> bytes that each would have cost
    """

    model: str
    roots: tuple[Roots, Roots]
    rewrites: tuple[Rewrite, ...]
    left: Mapping[str, int]

    def has(self, names: Names) -> bool:
        """True if one of these rewrites was applied."""
        return any(row.name in names for row in self.rewrites)

    def least(self, names: Names) -> Roots:
        """The least that the model names without these rewrites."""
        rows = [row for row in self.rewrites if row.name in names]
        new = {name for row in rows for name in row.new}
        return (self.roots[1] - new) | {OperatorName(row.old) for row in rows}


# Converts a model again, without the rewrites of these names.
Reconvert = Callable[[str, Mapping[str, int]], Candidate]


def affordable(
    made: Sequence[Candidate], others: Roots, size: Callable[[Roots], int], reconvert: Reconvert
) -> tuple[Candidate, ...]:
    """The candidates of an app, without the rewrites that make its library larger.

    made    with all rewrites
    others  what the app's library has besides
    size    bytes of a library for these root operators
    """
    library = cache(size)

    def total(candidates: Sequence[Candidate]) -> int:
        return library(others.union(*(one.roots[1] for one in candidates)))

    chosen, tried = tuple(made), set[Names]()
    while True:
        now = total(chosen)
        doubtful = (
            names
            for names in _options(chosen)
            if names not in tried
            and library(others.union(*(one.least(names) for one in chosen))) < now
        )
        names = next(doubtful, None)
        if names is None:
            return chosen
        tried.add(names)
        without = tuple(
            reconvert(one.model, {**one.left, **dict.fromkeys(names, 0)}) if one.has(names) else one
            for one in chosen
        )
        cost = now - total(without)
        if cost > 0:
            chosen = tuple(_with_cost(one, names, cost) for one in without)


def bringing(rewrites: Iterable[Rewrite], operators: Collection[str]) -> dict[str, str]:
    """Rewrites that bring one of these operators and can be left out: name -> operator."""
    return {
        row.name: name
        for row in rewrites
        for name in row.new
        if name in operators and row.name not in ALWAYS
    }


def _with_cost(one: Candidate, names: Names, cost: int) -> Candidate:
    return replace(one, left={name: cost if name in names else n for name, n in one.left.items()})


def _options(made: Sequence[Candidate]) -> list[Names]:
    """List the sets of rewrites that could be left out: each alone, and all that introduce the same
    operator."""
    bring: dict[str, set[str]] = {}
    for row in (row for one in made for row in one.rewrites if row.name not in ALWAYS):
        for operator in row.new:
            bring.setdefault(operator, set()).add(row.name)
    each = {frozenset({name}) for names in bring.values() for name in names}
    together = {frozenset(names) for names in bring.values()}
    return sorted(each | together, key=lambda names: (len(names), sorted(names)))
