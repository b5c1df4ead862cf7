"""Models whose methods are chains of operators, drawn at random, and how they are compared: see
chain_program.py."""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from chain_program import LAST, METHODS
from crafted import (
    NONE,
    Instruction,
    archive,
    argument,
    bytecode,
    function,
    module,
    number,
    operator,
    pickled,
    row,
    tensor,
    text,
)
from shortcut_models import compared, root_operators

from orchestrator.values.operators import OperatorName

_SAME = ("aten::gelu", "aten::silu", "aten::softmax.int", "aten::log_softmax.int")
_STATE = 2

# What a value's dimensions are called. Two of the same name have the same size, but for what an
# attribute holds from an earlier call.
Shape = tuple[str, ...]


@dataclass
class Chain:
    """One method while it is drawn: `steps` are functions from registers to instructions."""

    rng: random.Random
    operators: Collection[str]
    values: list[Shape] = field(default_factory=lambda: [("a", "b", "c", "d")] * 2)
    steps: list[tuple[list[int], str, list[object], int]] = field(default_factory=list)

    def step(self) -> None:
        """Another operator of those that take what there is."""
        at = self.rng.randrange(len(self.values))
        shape = self.values[at]
        rng, last = self.rng, len(shape) - 1
        same = [index for index, other in enumerate(self.values) if other == shape]
        inner = [
            index
            for index, other in enumerate(self.values)
            if last >= 2 and other[:-2] == shape[:-2] and other[-2:-1] == shape[-1:]
        ]
        order = rng.sample(range(len(shape)), len(shape))
        one, other = (rng.randrange(-last - 1, last + 1) for _ in range(2)) if shape else (0, 0)
        turned = list(shape)
        if shape:
            turned[one], turned[other] = turned[other], turned[one]
        ones = [index for index, name in enumerate(shape) if name == "1"]
        second = rng.choice(same)
        drawn: list[tuple[str, list[int], list[object], Shape]] = [
            ("aten::add.Tensor", [at, second], [1], shape),
            ("aten::mul.Tensor", [at, second], [], shape),
            ("aten::add_.Tensor", [at, second], [1], shape),
            ("aten::mul_.Tensor", [at, second], [], shape),
            ("aten::copy_", [at, second], [False], shape),
            ("aten::relu_", [at], [], shape),
            ("aten::permute", [at], [order], tuple(shape[dim] for dim in order)),
            ("set", [at], [rng.randrange(_STATE)], ()),
            ("get", [], [rng.randrange(_STATE)], shape),
        ]
        for each in _SAME:
            drawn.append((each, [at], [-1, None] if "softmax" in each else [], shape))
        if shape:
            drawn.append(("aten::transpose.int", [at], [one, other], tuple(turned)))
            drawn.append(("aten::select.int", [at], [one, -1], _without(shape, one)))
        if len(shape) != 1:
            flat = ("*".join(sorted(shape)),)
            drawn += [(name, [at], [[-1]], flat) for name in ("aten::reshape", "aten::view")]
        if len(shape) < 6:
            place = rng.randrange(len(shape) + 1)
            drawn.append(("aten::unsqueeze", [at], [place], (*shape[:place], "1", *shape[place:])))
        if shape[-1:] == ("d",):
            drawn.append(("aten::layer_norm", [at], [[LAST]], shape))
        if ones:
            drawn.append(("aten::unbind.int", [at], [ones[0]], _without(shape, ones[0])))
        for index in inner[:2]:
            made = (*shape[:-1], self.values[index][-1])
            drawn.append(("aten::matmul", [at, index], [], made))
        name, taken, more, made = rng.choice(
            [one for one in drawn if one[0] in self.operators or "::" not in one[0]]
        )
        self.steps.append((taken, name, more, 0 if name == "set" else 1))
        if name != "set":
            self.values.append(made)

    def function(self, name: str) -> bytes:
        """The method: a value's last use moves it, as an exporter's code does."""
        given = [index for index in range(len(self.values)) if self.rng.random() < 0.3]
        last = {index: len(self.steps) for index in given}
        for number_of, (taken, *_) in enumerate(self.steps):
            last.update({index: max(last.get(index, -1), number_of) for index in taken})
        code = _Code([("STOREN", 1, 3)])
        made = 2
        for number_of, (taken, called, more, gives) in enumerate(self.steps):
            if called in ("get", "set"):
                code.instructions.append(("LOAD", 1, 0))
            for place, index in enumerate(taken):
                moves = last[index] == number_of and index not in taken[place + 1 :]
                code.instructions.append(("MOVE" if moves else "LOAD", 2 + index, 0))
            code.call(called, len(taken), more)
            if gives:
                code.instructions.append(("STORE", 2 + made, 0) if made in last else ("DROP", 0, 0))
                made += 1
        code.instructions += [("MOVE", 2 + index, 0) for index in given]
        code.instructions += [("TUPLE_CONSTRUCT", len(given), 0), ("RET", 0, 0)]
        return row(
            *function(
                name,
                code.instructions,
                arguments=[argument("x", "Tensor"), argument("y", "Tensor")],
                operators=code.operators,
                constants=code.constants,
                types=[text("List[int]")],
                registers=2 + len(self.values),
            )
        )


def _without(shape: Shape, dim: int) -> Shape:
    dim %= len(shape)
    return (*shape[:dim], *shape[dim + 1 :])


@dataclass
class _Code:
    instructions: list[Instruction]
    operators: list[bytes] = field(default_factory=list)
    constants: list[bytes] = field(default_factory=list)

    def constant(self, value: object) -> None:
        match value:
            case bool():
                pickle = b"\x88" if value else b"\x89"
            case int():
                pickle = number(value)
            case _:
                pickle = NONE
        self.instructions.append(("LOADC", len(self.constants), 0))
        self.constants.append(pickle)

    def call(self, name: str, taken: int, more: Sequence[object]) -> None:
        if name == "get":
            self.instructions.append(("GET_ATTR", _slot(more), 0))
            return
        if name == "set":
            self.instructions.append(("SET_ATTR", _slot(more), 0))
            return
        for value in more:
            if isinstance(value, list):
                for item in value:
                    self.constant(item)
                self.instructions.append(("LIST_CONSTRUCT", 0, len(value)))
            else:
                self.constant(value)
        parsed = OperatorName.parse(name)
        self.instructions.append(("OP", len(self.operators), 0))
        self.operators.append(
            operator(f"{parsed.namespace}::{parsed.name}", parsed.overload, taken + len(more))
        )
        if name == "aten::unbind.int":
            self.instructions.append(("LIST_UNPACK", 1, 0))


def _slot(more: Sequence[object]) -> int:
    (slot,) = more
    assert isinstance(slot, int)
    return slot


def chains(operators: Collection[str], seed: int) -> bytes:
    """A model with METHODS methods `m0`, `m1` and so on, each from two tensors to a tuple."""
    rng = random.Random(seed)
    functions = []
    for index in range(METHODS):
        chain = Chain(rng, operators)
        for _ in range(rng.randrange(2, 14)):
            chain.step()
        functions.append(chain.function(f"m{index}"))
    return archive(
        {
            "data.pkl": module(*(tensor([1], [1]) for _ in range(_STATE))),
            "data/0": b"\0" * 8,
            "version": b"10\n",
            "bytecode.pkl": bytecode(*functions),
            "constants.pkl": pickled(b")"),
        }
    )


def chains_both_ways(
    built: Path, folder: Path, *, calls: int, seeds: Collection[int] = (0,)
) -> dict[str, Any]:
    """Calls chains of what a library for linux-x86_64 has, with shortcuts and without."""
    models = []
    for seed in seeds:
        models.append(folder / f"chains{seed}.ptl")
        models[-1].write_bytes(chains(root_operators(built), seed))
    return dict(compared(built, "chain_program.py", calls, *models))
