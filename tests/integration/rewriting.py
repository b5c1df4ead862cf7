"""Crafted bytecode, and which of its layers the rewriter (native/kernels/rewrite.cpp) takes over.

Most come in pairs: in one the layer's weight is the model's own for certain, so that it must be
rewritten; in its twin somebody may write to the weight, or give another, so that it must not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

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
)

# A step of a method is an instruction, the name of an operator with the number of its arguments, or
# several of them.
Step = Instruction | tuple[str, int] | Sequence["Step"]

# registers: 1 the module, 2 the input, from 3 on the method's own
X: Instruction = ("LOAD", 2, 0)
NOTHING, NO, YES, ZERO, ONE, THREE, HALF = (("LOADC", at, 0) for at in range(7))
CONSTANTS = (NONE, b"\x89", b"\x88", number(0), number(1), number(3), number(0.5))
DROP: Instruction = ("DROP", 0, 0)
RETURN: Instruction = ("RET", 0, 0)
# What it makes is not followed.
UNKNOWN: Instruction = ("CREATE_OBJECT", 0, 0)


def own(slot: int) -> Step:
    """An attribute of the module."""
    return [("LOAD", 1, 0), ("GET_ATTR", slot, 0)]


# attributes: a weight and a bias; another weight; one over the memory of the first; statistics; an
# image's weight; whether it is trained
WEIGHT, BIAS, OTHER, SHARED, MEAN, VARIANCE, FILTER, TRAINED = map(own, range(8))
LINEAR: Step = ("aten::linear", 3)
FILL: Step = [HALF, ("aten::fill_.Scalar", 2), DROP]
ANSWER: Step = [X, WEIGHT, BIAS, LINEAR, RETURN]


def pair(value: Instruction) -> Step:
    return [value, value, ("LIST_CONSTRUCT", 0, 2)]


CONVOLVE: Step = [X, FILTER, NOTHING, pair(ONE), pair(ZERO), pair(ONE), ONE, ("aten::conv2d", 7)]
# of what is on the stack
CLAMP: Step = [ZERO, ONE, ("aten::hardtanh", 3)]


def normalise(training: Step) -> Step:
    statistics = [NOTHING, NOTHING, MEAN, VARIANCE]
    return [*statistics, training, HALF, HALF, YES, ("aten::batch_norm", 9)]


def stored(register: int) -> Instruction:
    return ("STORE", register, 0)


def loaded(register: int) -> Instruction:
    return ("LOAD", register, 0)


def loop(carried: Step, body: Step) -> Step:
    """Three rounds with one carried value: the body finds it in register 3, and leaves the next."""
    inside = [stored(3), DROP, YES, *flat(body)]
    back = ("JMP", -len(inside) - 1, 0)
    return [ZERO, THREE, YES, carried, ("LOOP", len(inside) + 2, 3), *inside, back]


def branch(condition: Step, then: Step, otherwise: Step) -> Step:
    one, other = flat(then), flat(otherwise)
    return [condition, ("JF", len(one) + 2, 0), *one, ("JMP", len(other) + 1, 0), *other]


def flat(step: Step) -> list[Instruction | tuple[str, int]]:
    """The instructions and operators of a step."""
    if isinstance(step, tuple) and isinstance(step[0], str):
        return [step]
    return [found for part in step for found in flat(part)]  # type: ignore[arg-type]


@dataclass(frozen=True)
class Case:
    """Methods of a module, and what of them is rewritten.

    told  the operators of `forward`, those that are rewritten with a star
    """

    name: str
    told: str
    forward: Step
    other: Step | None = None


CASES = (
    Case("layer", "linear*", ANSWER),
    Case("layer of an input", "linear", [X, X, BIAS, LINEAR, RETURN]),
    # writes in place
    Case("write", "fill_.Scalar linear", [WEIGHT, FILL, ANSWER]),
    Case(
        "write to a copy",
        "clone fill_.Scalar linear*",
        [WEIGHT, NOTHING, ("aten::clone", 2), FILL, ANSWER],
    ),
    Case("write to an input", "fill_.Scalar linear*", [X, FILL, ANSWER]),
    Case("write to a bias", "zero_ linear", [BIAS, ("aten::zero_", 1), DROP, ANSWER]),
    Case("write to the same memory", "fill_.Scalar linear", [SHARED, FILL, ANSWER]),
    # aliases
    Case("write to a view", "t fill_.Scalar linear", [WEIGHT, ("aten::t", 1), FILL, ANSWER]),
    Case("view", "t linear*", [WEIGHT, ("aten::t", 1), DROP, ANSWER]),
    Case(
        "write to a view of a view",
        "t detach fill_.Scalar linear",
        [WEIGHT, ("aten::t", 1), ("aten::detach", 1), FILL, ANSWER],
    ),
    Case(
        "write to an item of a list",
        "__getitem__.t fill_.Scalar linear",
        [WEIGHT, ("LIST_CONSTRUCT", 0, 1), ZERO, ("aten::__getitem__.t", 2), FILL, ANSWER],
    ),
    Case(
        "item of a list",
        "__getitem__.t linear*",
        [WEIGHT, ("LIST_CONSTRUCT", 0, 1), ZERO, ("aten::__getitem__.t", 2), DROP, ANSWER],
    ),
    # made of other operators: its schema alone says what it gives
    Case(
        "write to a part",
        "narrow fill_.Scalar linear",
        [WEIGHT, ZERO, ZERO, ONE, ("aten::narrow", 4), FILL, ANSWER],
    ),
    Case("part", "narrow linear*", [WEIGHT, ZERO, ZERO, ONE, ("aten::narrow", 4), DROP, ANSWER]),
    # statistics
    Case("training", "batch_norm linear", [X, normalise(YES), DROP, ANSWER]),
    Case("no training", "batch_norm linear*", [X, normalise(NO), DROP, ANSWER]),
    # loops
    Case("loop", "linear*", [loop(X, [loaded(3), WEIGHT, BIAS, LINEAR]), RETURN]),
    Case(
        "loop that carries a weight",
        "linear",
        [loop(WEIGHT, [X, loaded(3), BIAS, LINEAR, DROP, X]), RETURN],
    ),
    Case(
        "loop that writes to a weight in its last round",
        "linear fill_.Scalar",
        [loop(X, [X, WEIGHT, BIAS, LINEAR, DROP, loaded(3), FILL, WEIGHT]), RETURN],
    ),
    # shared weights
    Case(
        "two layers of one weight",
        "linear* linear*",
        [X, WEIGHT, BIAS, LINEAR, WEIGHT, BIAS, LINEAR, RETURN],
    ),
    Case(
        "two layers of one weight, between them a write",
        "linear fill_.Scalar linear",
        [X, WEIGHT, BIAS, LINEAR, WEIGHT, FILL, WEIGHT, BIAS, LINEAR, RETURN],
    ),
    # state
    Case("state", "linear", [("LOAD", 1, 0), X, ("SET_ATTR", 0, 0), ANSWER]),
    Case("state of another name", "linear*", [("LOAD", 1, 0), X, ("SET_ATTR", 2, 0), ANSWER]),
    Case(
        "state by another method",
        "linear",
        ANSWER,
        [("LOAD", 1, 0), X, ("SET_ATTR", 0, 0), X, RETURN],
    ),
    Case("write by another method", "linear", ANSWER, [WEIGHT, FILL, X, RETURN]),
    Case("another method", "linear*", ANSWER, [X, FILL, X, RETURN]),
    Case(
        "method that nobody understands", "linear*", ANSWER, [X, ("CREATE_OBJECT", 0, 0), X, RETURN]
    ),
    Case(
        "method that nobody understands, and that may write",
        "linear",
        ANSWER,
        [X, FILL, UNKNOWN, RETURN],
    ),
    # a caller may give back what a method gave it
    Case("input that may be a weight", "fill_.Scalar linear", [X, FILL, ANSWER], [WEIGHT, RETURN]),
    Case(
        "input that is none",
        "fill_.Scalar linear*",
        [X, FILL, ANSWER],
        [WEIGHT, NOTHING, ("aten::clone", 2), RETURN],
    ),
    # branches
    Case(
        "either weight",
        "eq.Tensor linear*",
        [X, branch([X, X, ("aten::eq.Tensor", 2)], WEIGHT, OTHER), BIAS, LINEAR, RETURN],
    ),
    Case(
        "a weight or an input",
        "eq.Tensor linear",
        [X, branch([X, X, ("aten::eq.Tensor", 2)], WEIGHT, X), BIAS, LINEAR, RETURN],
    ),
    Case(
        "branch that is never taken",
        "fill_.Scalar linear*",
        [branch(TRAINED, [WEIGHT, FILL], []), ANSWER],
    ),
    Case(
        "branch that another method opens",
        "fill_.Scalar linear",
        [branch(TRAINED, [WEIGHT, FILL], []), ANSWER],
        [("LOAD", 1, 0), YES, ("SET_ATTR", 7, 0), X, RETURN],
    ),
    # what follows a layer is part of it
    Case("layers in one", "conv2d*", [CONVOLVE, normalise(NO), CLAMP, RETURN]),
    Case(
        "normalisation in training",
        "conv2d batch_norm hardtanh",
        [CONVOLVE, normalise(YES), CLAMP, RETURN],
    ),
    Case(
        "result that is read before it is clamped",
        "conv2d* hardtanh",
        [CONVOLVE, stored(3), loaded(3), CLAMP, loaded(3), ("LIST_CONSTRUCT", 0, 2), RETURN],
    ),
)


def crafted(case: Case) -> bytes:
    """The archive of a case's model."""
    floats = b"ctorch\nFloatStorage\n"
    matrix = tensor([3, 3], [3, 1], numel=9, dtype=floats, record="0")
    other = tensor([3, 3], [3, 1], numel=9, dtype=floats, record="2")
    vector = [tensor([3], [1], numel=3, dtype=floats, record=str(at)) for at in (1, 3, 4)]
    image = tensor([3, 3, 1, 1], [3, 1, 1, 1], numel=9, dtype=floats, record="5")
    attributes = [matrix, vector[0], other, matrix, *vector[1:], image, b"\x89"]
    methods = {"forward": case.forward, **({} if case.other is None else {"other": case.other})}
    sizes = {0: 9, 1: 3, 2: 9, 3: 3, 4: 3, 5: 9}
    return archive(
        {
            "data.pkl": module(*attributes),
            **{f"data/{record}": bytes(4 * size) for record, size in sizes.items()},
            "version": b"3\n",
            "bytecode.pkl": bytecode(*(compiled(name, one) for name, one in methods.items())),
            "constants.pkl": pickled(b")"),
        }
    )


def compiled(name: str, step: Step) -> bytes:
    """A method's row: its operators are numbered as they come."""
    used, instructions = dict[tuple[str, int], int](), [("STOREN", 1, 2)]
    for one in flat(step):
        if len(one) == 2:
            one = ("OP", used.setdefault(one, len(used)), 0)
        instructions.append(one)
    rows = []
    for operator_name, count in used:
        plain, _, overload = operator_name.partition(".")
        rows.append(operator(plain, overload, count))
    return row(
        *function(
            name,
            instructions,
            arguments=[argument("x", "Tensor")],
            operators=rows,
            constants=CONSTANTS,
            registers=3,
        )
    )
