"""Models of one operator, made without torch: its arguments are an input, weights and constants.

Weights and inputs are the same numbers each time, some weights 0; an input's are made by
`consumers/geometry.c`.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from tests import ptl

TYPES = ptl.tuple_of(ptl.text("List[int]"))


@dataclass(frozen=True)
class Weight:
    """A float tensor that belongs to the model."""

    sizes: tuple[int, ...]


@dataclass(frozen=True)
class Packed:
    """An object of a class `xnnpack.*`, with the state that it is made of."""

    name: str
    state: tuple[Argument, ...]


# "x" is the model's input, any other text one of the model's.
Argument = None | bool | int | float | str | tuple[int, ...] | Weight | Packed


def strides_of(sizes: Sequence[int]) -> tuple[int, ...]:
    return tuple(prod(sizes[dim + 1 :]) for dim in range(len(sizes)))


class _Data:
    """The model's tensors, each in a record of its own."""

    def __init__(self) -> None:
        self.records: dict[str, bytes] = {}

    def weight(self, of: Weight) -> bytes:
        key, elements = str(len(self.records)), prod(of.sizes)
        rng = random.Random(elements)
        self.records[f"data/{key}"] = struct.pack(
            f"<{elements}f",
            *(rng.uniform(-1, 1) * (rng.random() > 0.1) for _ in range(elements)),
        )
        held = ptl.storage(key, "Float", elements)
        made = ptl.tensor(held, ptl.numbers(*of.sizes), ptl.numbers(*strides_of(of.sizes)))
        return ptl.put(made, 1000 + len(self.records))

    def piece(self, value: Argument) -> bytes:
        match value:
            case None:
                return ptl.NONE
            case bool():
                return ptl.TRUE if value else ptl.FALSE
            case int():
                return ptl.number(value)
            case float():
                return ptl.real(value)
            case str():
                return ptl.text(value)
            case tuple():
                # a list of integers, by the pickler's own name for it
                return ptl.call(
                    "torch.jit._pickle", "build_intlist", ptl.list_of(*map(ptl.number, value))
                )
            case Weight():
                return self.weight(value)
            case Packed():
                made = ptl.named("__torch__.torch.classes.xnnpack", value.name)
                return made + b")\x81" + ptl.tuple_of(*map(self.piece, value.state)) + b"b"


def layer_model(operator: str, *arguments: Argument, method: str = "forward") -> bytes:
    """A model whose method gives what the operator, called so, gives."""
    name, _, overload = operator.partition(".")
    data = _Data()
    rows: list[tuple[str, int, int]] = [("STOREN", 1, 2)]
    constants: list[bytes] = []
    attributes: dict[str, bytes] = {}

    def constant(value: Argument) -> None:
        rows.append(("LOADC", len(constants), 0))
        constants.append(data.piece(value))

    for one in arguments:
        match one:
            case "x":
                rows.append(("LOAD", 2, 0))
            case Weight() | Packed():
                rows += [("LOAD", 1, 0), ("GET_ATTR", len(attributes), 0)]
                attributes[f"w{len(attributes)}"] = data.piece(one)
            case tuple():
                for number in one:
                    constant(number)
                rows.append(("LIST_CONSTRUCT", 0, len(one)))
            case _:
                constant(one)
    tables = ptl.code(
        ptl.tuple_of(*(ptl.instruction(*row) for row in [*rows, ("OP", 0, 0), ("RET", 0, 0)])),
        operators=ptl.tuple_of(ptl.operator(name, overload, len(arguments))),
        constants=ptl.tuple_of(*constants),
        types=TYPES,
    )
    taken = "Tensor" if "x" in arguments else "Any"
    given = ptl.argument("self", ptl.MODULE), ptl.argument("x", taken)
    signature = ptl.schema(ptl.tuple_of(*given))
    function = ptl.function(f"{ptl.MODULE}.{method}", tables, signature)
    return ptl.archive(
        {
            "data.pkl": ptl.module(**attributes),
            "bytecode.pkl": ptl.bytecode(function),
            "version": b"3\n",
            **data.records,
        }
    )
