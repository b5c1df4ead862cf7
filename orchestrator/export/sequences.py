"""Calls of a model in sequences: what one keeps, and what the next one finds.

A model remembers in its attributes, and in tensors that it shares by mistake. So methods are called
one after the other, again, and in random orders, on one instance and on two; and whoever called
writes to what came out, as far as that changes nothing in the model that is right.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from orchestrator.export.calls import Call, Comparison, Invoke, Make, run
from orchestrator.export.freezing import inlined
from orchestrator.export.graphs import nodes
from orchestrator.export.values import shapes

# Calls of a method in sequences, at most; random orders, and the calls in each.
_OF_A_METHOD = 2
_ORDERS = 4
_LENGTH = 10
_ROUNDS = 3


@dataclass(frozen=True)
class Step:
    """A call of one of two instances."""

    call: Call
    instance: int = 0

    @property
    def name(self) -> str:
        return f"{self.call.name}{' of another instance' if self.instance else ''}"


def remembers(module: Any, methods: Sequence[str]) -> bool:
    """True if a TorchScript module sets an attribute, or writes to one."""
    for graph in inlined(module, methods):
        aliases = graph.alias_db()
        for node in nodes(graph):
            if node.kind() == "prim::SetAttr":
                return True
            if node.kind() == "prim::GetAttr" and aliases.has_writers(node.output()):
                return True
    return False


def without_arguments(module: Any, methods: Sequence[str], calls: Sequence[Call]) -> list[Call]:
    """Calls of the methods that need no arguments, and that none of these calls."""
    called = {call.method for call in calls}
    found = []
    for method in methods:
        arguments = module._c._get_method(method).schema.arguments[1:]
        if method not in called and all(one.has_default_value() for one in arguments):
            args = tuple(one.default_value for one in arguments)
            found.append(Call(method, 0, "own", args))
    return found


def compared_in_sequences(
    right: Make, made: Make, calls: Sequence[Call], remembers: bool, comparison: Comparison
) -> tuple[list[dict[str, Any]], dict[str, Any] | None]:
    """Compare sequences of calls. Returns rows and the first wrong call, as `calls.compared` does.

    remembers  True if the order of calls matters; otherwise each is made twice, without rows
    """
    used = [call for call in calls if call.index < _OF_A_METHOD]
    if not remembers:
        wrong = _Sequence(right, made, [Step(call) for call in (*used, *used)], comparison).wrong
        return [], wrong
    rows = []
    for number, steps in enumerate(_orders(used)):
        done = _Sequence(right, made, steps, comparison)
        if done.result:
            name = f"sequence {number} of {len(done.steps)} calls"
            row = {"call": name, "inputs": [], "result": done.result}
            rows.append(row | ({} if done.by_itself else {"largest": done.largest}))
        if done.wrong:
            return rows, done.wrong
    return rows, None


def _orders(calls: Sequence[Call]) -> Iterator[list[Step]]:
    """Each call between all others, in rounds; and random ones, of two instances."""
    yield [Step(one) for one in calls for _ in range(2)]
    first = calls[0]
    yield [Step(one) for _ in range(_ROUNDS) for call in calls for one in (first, call)]
    chance = random.Random(7)
    for number in range(_ORDERS):
        yield [
            Step(chance.choice(calls), chance.randrange(2) if number % 2 else 0)
            for _ in range(_LENGTH)
        ]


def _instances(make: Make, steps: Sequence[Step]) -> list[Invoke]:
    """The models that steps call: each has weights of its own."""
    return [make() for _ in range(1 + max(step.instance for step in steps))]


class _Sequence:
    """Calls in an order: those that the right model takes there."""

    def __init__(
        self, right: Make, made: Make, steps: Sequence[Step], comparison: Comparison
    ) -> None:
        self.right, self.made, self.comparison = right, made, comparison
        self.steps = self._taken(steps)
        self.largest = 0.0
        self.wrong: dict[str, Any] | None = None
        self.by_itself = False
        self.result = ""
        if not self.steps:
            return
        self._compare(spoil=True)
        if self.by_itself:
            self.wrong, self.by_itself = None, False
            self._compare(spoil=False)
        self.result = "wrong" if self.wrong else "same"
        self.result = "differs by itself" if self.by_itself else self.result

    def _taken(self, steps: Sequence[Step]) -> list[Step]:
        """A call that fails may have done half of its work: what is left is begun anew."""
        left = list(steps)
        while left:
            models = _instances(self.right, left)
            failing = next(
                (n for n, step in enumerate(left) if run(models[step.instance], step.call).error),
                None,
            )
            if failing is None:
                return left
            del left[failing]
        return left

    def _compare(self, spoil: bool) -> None:
        expecting, repeating, seeing = (
            _instances(make, self.steps) for make in (self.right, self.right, self.made)
        )
        done: list[str] = []
        for step in self.steps:
            at, call = step.instance, step.call
            expected = run(expecting[at], call)
            again, seen = (run(its[at], call, spoil) for its in (repeating, seeing))
            if again.error or self.comparison.compare(expected.value, again.value).bad:
                self.by_itself = True
                return
            if seen.error:
                bad = f"it fails: {seen.error.strip().splitlines()[0]}"
            else:
                found = self.comparison.compare(expected.value, seen.value)
                bad, self.largest = found.bad, max(self.largest, found.largest)
            if bad:
                name = f"{step.name} after {', '.join(done)}" if done else step.name
                inputs = shapes(step.call.args)
                self.wrong = {"call": name, "inputs": inputs, "difference": bad}
                return
            done.append(step.name)
