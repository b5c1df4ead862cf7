"""Rewrites are left out where an app's library would be larger by them, of all models together."""

from __future__ import annotations

from collections.abc import Mapping

from orchestrator.canonical.lock import Rewrite
from orchestrator.canonical.pricing import Candidate, affordable
from orchestrator.values.operators import OperatorName as Op

BYTES = {"a": 10, "b": 20, "c": 5, "d": 100, "x": 7}


def rewrite(name: str, old: str, *new: str) -> Rewrite:
    return Rewrite.model_validate({"name": name, "from": old, "to": new, "calls": 1, "why": "so"})


class Models:
    """Models that have operators; a rewrite's name -> (from, to)."""

    def __init__(self, models: Mapping[str, str], rewrites: Mapping[str, tuple[str, str]]) -> None:
        self.models, self.rewrites = models, rewrites
        self.converted: list[tuple[str, frozenset[str]]] = []

    def again(self, model: str, left: Mapping[str, int]) -> Candidate:
        self.converted.append((model, frozenset(left)))
        before = frozenset(map(Op, self.models[model]))
        after, rows = set(before), []
        for name, (old, new) in self.rewrites.items():
            if name not in left and old in before:
                after = (after - {old}) | set(map(Op, new))
                rows.append(rewrite(name, old, *new))
        return Candidate(model, (before, frozenset(after)), tuple(rows), left)

    def chosen(self, others: str = "") -> tuple[Candidate, ...]:
        first = [self.again(model, {}) for model in self.models]
        self.converted.clear()
        return affordable(first, frozenset(map(Op, others)), size, self.again)


def size(roots: frozenset[str]) -> int:
    return sum(BYTES[one] for one in roots)


def test_what_pays_is_taken_and_converted_once() -> None:
    models = Models({"net": "bc"}, {"r": ("b", "a")})
    (made,) = models.chosen()
    assert (made.roots[1], made.left) == (frozenset("ac"), {})
    assert models.converted == []


def test_what_costs_is_left_out_with_its_bytes() -> None:
    models = Models({"net": "abc"}, {"costs": ("a", "d"), "pays": ("b", "c")})
    (made,) = models.chosen()
    assert (made.roots[1], made.left) == (frozenset("ac"), {"costs": 90})
    assert models.converted == [("net", frozenset({"costs"}))]


def test_what_another_model_has_anyway_costs_nothing() -> None:
    rewrites = {"r": ("a", "d")}
    one, other = Models({"one": "a", "other": "d"}, rewrites).chosen()
    assert (one.roots[1], one.left) == (frozenset("d"), {})
    assert other.left == {}
    assert Models({"one": "a"}, rewrites).chosen("d")[0].left == {}


def test_what_pays_for_all_models_alone_is_taken_of_all() -> None:
    """Each alone would leave it: the other one has the old operator still."""
    one, other = Models({"one": "b", "other": "b"}, {"r": ("b", "a")}).chosen()
    assert one.roots[1] == other.roots[1] == frozenset("a")


def test_those_that_bring_the_same_operator_are_left_out_together() -> None:
    """Without one of them it would still be there."""
    models = Models({"net": "xb"}, {"first": ("x", "d"), "second": ("b", "d")})
    (made,) = models.chosen()
    assert (made.roots[1], made.left) == (frozenset("xb"), {"first": 73, "second": 73})


def test_what_is_always_done_is_not_left_out() -> None:
    models = Models({"net": "a"}, {"lowering": ("a", "d")})
    assert models.chosen()[0].left == {}
    assert models.converted == []
