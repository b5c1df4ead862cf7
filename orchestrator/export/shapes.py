"""Sizes of a graph's tensors that hold for all inputs.

Forward through the graph, branch by branch: a weight's sizes are known, an operator's result has
sizes that follow from its arguments', and an operator that takes only some ranks shows the rank of
its argument. After a check that raises, its condition holds. Nothing is known of an input.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any, Final

import torch

from orchestrator.export.changes import is_constant, is_list, known, plain, stays
from orchestrator.export.graphs import Graph, Node, Value, nodes, operator_of

# More dimensions than any tensor has.
MANY: Final = 2**31
# A loop's tensors are looked at again until nothing new comes out, this often; then nothing is
# known of those that still change.
_MOST_ROUNDS: Final = 4
# What gives a tensor that exists other sizes. Where a graph has it, nothing is known.
_CHANGES_SIZES = re.compile(
    r"aten::(resize|resize_as|set|squeeze|unsqueeze|t|transpose|swapaxes|swapdims|swapaxes"
    r"|as_strided|set_data|detach|sparse_resize\w*|rename|_resize\w*)_?"
)


@dataclass(frozen=True)
class Symbol:
    """A size that is some number in the graph."""

    unique: int
    value: Value = field(compare=False, repr=False)


Size = int | Symbol | None


@dataclass(frozen=True)
class Shape:
    """Sizes of a tensor: between `least` and `most` dimensions, of which the last have the sizes
    `ends`. None: not known. All dimensions are in `ends` where their number is known."""

    least: int = 0
    most: int = MANY
    ends: tuple[Size, ...] = ()

    @property
    def rank(self) -> int | None:
        """Number of dimensions; None if it is not known."""
        return self.least if self.least == self.most else None

    def place(self, dim: int) -> int | None:
        """A dimension counted from the end, as a negative number; None where it is not known, or
        there is none."""
        if self.rank is None:
            return dim if dim < 0 else None
        place = dim if dim < 0 else dim - self.rank
        return place if -self.rank <= place < 0 else None

    def at(self, dim: int) -> Size:
        """The size of a dimension."""
        place = self.place(dim)
        return None if place is None or -place > len(self.ends) else self.ends[place]


UNKNOWN: Final = Shape()


def _shape(least: int, most: int, ends: Sequence[Size] = ()) -> Shape:
    if least > most:
        return UNKNOWN
    if least == most:
        # all of them
        missing = least - len(ends)
        ends = [None] * missing + list(ends) if missing > 0 else list(ends)[-missing:]
        return Shape(least, most, tuple(ends))
    return Shape(max(least, len(ends)), most, tuple(ends))


def _all(sizes: Sequence[Size]) -> Shape:
    return Shape(len(sizes), len(sizes), tuple(sizes))


def _joined(one: Shape, other: Shape) -> Shape:
    """Return the facts that hold for both shapes: of a tensor that is one or the other."""
    ends = list[Size]()
    for left, right in zip(reversed(one.ends), reversed(other.ends), strict=False):
        ends.insert(0, left if left == right else None)
    return _shape(min(one.least, other.least), max(one.most, other.most), ends)


def _with_size(shape: Shape, dim: int, size: Size) -> Shape:
    """With another size of a dimension."""
    place = shape.place(dim)
    if place is None:
        return Shape(shape.least, shape.most)
    if -place > len(shape.ends):
        return shape
    ends = list(shape.ends)
    ends[place] = size
    return Shape(shape.least, shape.most, tuple(ends))


def _without(shape: Shape, dim: int) -> Shape:
    """Without a dimension."""
    if shape.least == 0:
        return UNKNOWN
    place = shape.place(dim)
    ends = list(shape.ends)
    if place is None:
        ends = []
    elif -place <= len(ends):
        del ends[place]
    return _shape(shape.least - 1, _less(shape.most), ends)


def _less(most: int) -> int:
    return most if most == MANY else most - 1


def _more(most: int) -> int:
    return most if most == MANY else most + 1


def _inserted(shape: Shape, dim: int) -> Shape:
    """With a new dimension of one."""
    ends, rank = list(shape.ends), shape.rank
    if rank is not None:
        ends.insert(dim if dim >= 0 else rank + 1 + dim, 1)
    elif dim < 0:
        after = -dim - 1
        ends = (
            [*ends[: len(ends) - after], 1, *ends[len(ends) - after :]]
            if (after <= len(ends))
            else ends
        )
    else:
        ends = []
    return _shape(shape.least + 1, _more(shape.most), ends)


def _broadcast(one: Shape, other: Shape) -> Shape:
    ends: list[Size] = []
    for left, right in zip_longest(reversed(one.ends), reversed(other.ends), fillvalue=_NONE):
        # a dimension that a tensor does not have is as one of 1
        left = left if left != _NONE else (1 if one.rank is not None else None)
        right = right if right != _NONE else (1 if other.rank is not None else None)
        ends.insert(0, _wider(left, right))
    return _shape(max(one.least, other.least), max(one.most, other.most), ends)


_NONE: Final[Any] = "none"


def _wider(one: Size, other: Size) -> Size:
    if one == other or other == 1:
        return one
    if one == 1:
        return other
    # whatever is broadcast to a number above 1 becomes it
    return next((size for size in (one, other) if isinstance(size, int) and size > 1), None)


# Of whole numbers, `is` compares their values.
_EQUAL = ("aten::eq.int", "aten::__is__")
_UNEQUAL = ("aten::ne.int", "aten::__isnot__")


class Facts:
    """Facts that hold at a node: shapes of the tensors that were made before."""

    def __init__(self, shapes: dict[int, Shape] | None = None) -> None:
        self.shapes: dict[int, Shape] = {} if shapes is None else shapes

    def inner(self) -> Facts:
        """For a block: what it finds out does not hold outside."""
        return Facts(dict(self.shapes))

    def of(self, value: Value) -> Shape:
        """Return the known shape of a tensor."""
        if is_constant(value):
            tensor = value.toIValue()
            return _all(tuple(tensor.shape)) if isinstance(tensor, torch.Tensor) else UNKNOWN
        return self.shapes.get(value.unique(), UNKNOWN)

    def note(self, value: Value, shape: Shape) -> None:
        self.shapes[value.unique()] = shape

    def narrow(self, value: Value, least: int, most: int = MANY) -> None:
        """A tensor has between so many dimensions."""
        shape = self.of(value)
        if is_constant(value) or max(shape.least, least) > min(shape.most, most):
            return
        self.note(value, _shape(max(shape.least, least), min(shape.most, most), shape.ends))

    def size(self, value: Value) -> Size:
        """A number, as a size: an int if it is known."""
        if is_constant(value):
            number = value.toIValue()
            return number if type(number) is int and number >= 0 else None
        least, most = self.range(value)
        if least == most:
            return least
        node = value.node()
        if operator_of(node) == "aten::size.int":
            found = self._asked(node)
            return Symbol(value.unique(), value) if found is None else found
        return None

    def _asked(self, node: Node) -> Size:
        """Return the size that a call of `size` with a dimension gives, if known."""
        tensor, dim = node.inputs()
        return self.of(tensor).at(plain(dim)) if is_constant(dim) else None

    def range(self, value: Value) -> tuple[int, int]:
        """Between what two numbers a number is."""
        node = value.node()
        if is_constant(value):
            number = value.toIValue()
            return (number, number) if type(number) is int else (-MANY, MANY)
        operator = operator_of(node)
        tensor = _ranked(node)
        if tensor is not None:
            shape = self.of(tensor)
            return shape.least, shape.most
        if operator == "aten::size.int":
            size = self._asked(node)
            return (size, size) if isinstance(size, int) else (0, MANY)
        return -MANY, MANY

    def sizes(self, value: Value) -> list[Size] | None:
        """A list of numbers as sizes; None where it may change, or its length is not known."""
        if is_list(value):
            return [self.size(one) for one in value.node().inputs()]
        if known(value) and isinstance(plain(value), list):
            return [one if type(one) is int and one >= 0 else None for one in plain(value)]
        return None

    def assume(self, condition: Value, holds: bool) -> None:
        """A condition holds, or does not."""
        node = condition.node()
        operator = operator_of(node)
        if operator == "aten::__not__":
            self.assume(node.inputsAt(0), not holds)
        elif operator == "aten::__contains__.int_list" and holds:
            values, number = node.inputs()
            if known(values) and plain(values):
                self._assume_range(number, min(plain(values)), max(plain(values)))
        elif (operator in _EQUAL and holds) or (operator in _UNEQUAL and not holds):
            left, right = node.inputs()
            for one, other in ((left, right), (right, left)):
                self._assume_range(one, *self.range(other))
        elif operator in ("aten::gt.int", "aten::lt.int", "aten::ge.int", "aten::le.int"):
            self._assume_order(node, operator, holds)

    def _assume_order(self, node: Node, operator: str, holds: bool) -> None:
        less, more = node.inputs()
        if operator.startswith("aten::g"):
            less, more = more, less
        strict = operator in ("aten::gt.int", "aten::lt.int")
        if not holds:
            less, more, strict = more, less, not strict
        self._assume_range(more, self.range(less)[0] + strict, MANY)
        self._assume_range(less, -MANY, self.range(more)[1] - strict)

    def _assume_range(self, number: Value, least: int, most: int) -> None:
        tensor = _ranked(number.node())
        if tensor is not None:
            self.narrow(tensor, max(least, 0), min(most, MANY))


def sized(value: Value) -> Value | None:
    """The tensor whose sizes a list has, and keeps."""
    node = value.node()
    sizes = operator_of(node) == "aten::size" and node.inputsSize() == 1 and stays(value)
    return node.inputsAt(0) if sizes else None


def _ranked(node: Node) -> Value | None:
    """The tensor of which a number is how many dimensions it has."""
    if operator_of(node) == "aten::len.t":
        return sized(node.inputsAt(0))
    return node.inputsAt(0) if operator_of(node) == "aten::dim" else None


Visit = Callable[[Node, Facts], None]


def look(graph: Graph, visit: Visit) -> None:
    """Visit each node of a graph, with what is known where it stands.

    Nothing is visited where a graph changes the sizes of a tensor that is there.
    """
    for node in nodes(graph):
        operator = operator_of(node)
        if node.kind().endswith("_") and _CHANGES_SIZES.fullmatch(node.kind()):
            return
        if operator.partition(".")[2].endswith("out") or operator == "aten::set_data":
            return
    _Walk(visit).block(graph, Facts())


@dataclass
class _Walk:
    visit: Visit

    def block(self, block: Any, facts: Facts, quiet: bool = False) -> bool:
        """All of a block; whether it ends, and does not raise."""
        ends = True
        for node in block.nodes():
            if not quiet:
                self.visit(node, facts)
            if node.kind() == "prim::If":
                ends = self._if(node, facts, quiet) and ends
            elif node.kind() == "prim::Loop":
                self._loop(node, facts, quiet)
            elif node.kind() == "prim::RaiseException":
                ends = False
            else:
                _step(node, facts)
        return ends

    def _if(self, node: Node, facts: Facts, quiet: bool) -> bool:
        ways = []
        for block, holds in zip(node.blocks(), (True, False), strict=True):
            inner = facts.inner()
            inner.assume(node.inputsAt(0), holds)
            if self.block(block, inner, quiet):
                ways.append((inner, [_seen_from(block, inner.of(one)) for one in block.outputs()]))
        if not ways:
            return False
        for unique in list(facts.shapes):
            facts.shapes[unique] = _joint([way.shapes[unique] for way, _ in ways])
        for number, output in enumerate(node.outputs()):
            if output.type().kind() == "TensorType":
                facts.note(output, _joint([outputs[number] for _, outputs in ways]))
        return True

    def _loop(self, node: Node, facts: Facts, quiet: bool) -> None:
        (body,) = node.blocks()
        held = [facts.of(value) for value in list(node.inputs())[2:]]
        for number in range(_MOST_ROUNDS):
            inner = self._round(body, facts, held, True)
            after = [inner.of(value) for value in list(body.outputs())[1:]]
            joint = [_joined(one, other) for one, other in zip(held, after, strict=True)]
            if joint == held:
                break
            last = number == _MOST_ROUNDS - 2
            pairs = zip(held, joint, strict=True)
            held = [new if not last or new == old else UNKNOWN for old, new in pairs]
        else:
            held = [UNKNOWN] * len(held)
        if not quiet:
            self._round(body, facts, held, False)
        for output, shape in zip(node.outputs(), held, strict=True):
            if output.type().kind() == "TensorType":
                facts.note(output, shape)

    def _round(self, body: Any, facts: Facts, held: Sequence[Shape], quiet: bool) -> Facts:
        inner = facts.inner()
        for value, shape in zip(list(body.inputs())[1:], held, strict=True):
            if value.type().kind() == "TensorType":
                inner.note(value, shape)
        self.block(body, inner, quiet)
        return inner


def _seen_from(block: Any, shape: Shape) -> Shape:
    """A shape outside of a block, where the block's numbers are not to be had."""
    if not any(isinstance(size, Symbol) for size in shape.ends):
        return shape
    own = {value.unique() for node in nodes(block) for value in node.outputs()}
    ends = [
        None if isinstance(size, Symbol) and size.unique in own else size for size in shape.ends
    ]
    return Shape(shape.least, shape.most, tuple(ends))


def _joint(shapes: Sequence[Shape]) -> Shape:
    first, *others = shapes
    for other in others:
        first = _joined(first, other)
    return first


# --- what operators tell ---

_SAME = frozenset(
    "aten::" + name
    for name in (
        *(
            "relu",
            "relu6",
            "clamp",
            "clamp_min",
            "clamp_max",
            "hardtanh",
            "gelu",
            "sigmoid",
            "tanh",
            "silu",
            "hardswish",
            "hardsigmoid",
            "elu",
        ),
        *(
            "leaky_relu",
            "softmax",
            "_softmax",
            "log_softmax",
            "_log_softmax",
            "contiguous",
            "clone",
        ),
        *("dropout", "exp", "log", "sqrt", "rsqrt", "neg", "abs", "cumsum", "detach", "flip"),
        *("batch_norm", "triu", "tril", "dequantize", "quantize_per_tensor", "zeros_like"),
        *("ones_like", "full_like", "empty_like", "sin", "cos", "erf", "floor", "ceil", "round"),
        *("logical_not", "bitwise_not", "sign", "reciprocal", "square", "isnan", "to", "softplus"),
    )
)
_ELEMENTWISE = frozenset(
    "aten::" + name
    for name in (
        *("add", "sub", "mul", "div", "eq", "ne", "gt", "ge", "lt", "le", "bitwise_and"),
        *("bitwise_or", "bitwise_xor", "__and__", "__or__", "__xor__", "maximum", "minimum"),
        *("logical_and", "logical_or", "masked_fill", "pow", "floor_divide", "remainder"),
    )
)
_FILLS = frozenset(("aten::zeros", "aten::ones", "aten::full", "aten::empty"))


def _step(node: Node, facts: Facts) -> None:
    outputs = [value for value in node.outputs() if value.type().kind() == "TensorType"]
    kind = node.kind()
    if not kind.startswith(("aten::", "quantized::", "prim::ListUnpack", "prim::NumToTensor")):
        return
    given = list(node.inputs())
    for value, least, most in _asks(kind, given, facts):
        facts.narrow(value, least, most)
    for output, shape in zip(outputs, _gives(node, kind, given, facts), strict=False):
        facts.note(output, shape)


def _asks(kind: str, given: Sequence[Value], facts: Facts) -> Iterator[tuple[Value, int, int]]:
    """Yield arguments with the least and largest number of dimensions that the operator takes."""
    match kind.removeprefix("aten::"):
        case "size" | "select" | "slice" if _has_dimension(given):
            dim = plain(given[1])
            yield given[0], dim + 1 if dim >= 0 else -dim, MANY
        case "conv2d":
            yield given[0], 3, 4
        case "convolution" | "_convolution":
            rank = facts.of(given[1]).rank
            if rank is not None:
                yield given[0], rank, rank
        case "linear":
            yield given[0], 1, MANY
        case "adaptive_avg_pool2d" | "max_pool2d" | "max_pool2d_with_indices":
            yield given[0], 3, 4
        case "_native_multi_head_attention" | "_transformer_encoder_layer_fwd":
            yield given[0], 3, 3


def _has_dimension(given: Sequence[Value]) -> bool:
    """True if it is a call on a tensor with a constant dimension; lists have slices too."""
    tensor = bool(given) and given[0].type().kind() == "TensorType"
    return tensor and len(given) > 1 and is_constant(given[1]) and type(plain(given[1])) is int


def _gives(node: Node, kind: str, given: Sequence[Value], facts: Facts) -> list[Shape]:
    """Return the known shapes of the results; fewer if nothing is known of the others."""
    if kind == "prim::ListUnpack":
        return _unpacked(node, facts)
    if kind == "prim::NumToTensor":
        return [_all([])]
    if not given:
        return []
    name = kind.removeprefix("aten::")
    tensor = given[0].type().kind() == "TensorType"
    first = facts.of(given[0]) if tensor else UNKNOWN
    if tensor and (kind in _SAME or (kind.endswith("_") and not kind.endswith("__"))):
        return [first]
    if kind in _ELEMENTWISE and tensor:
        other = given[1]
        return [
            _broadcast(first, facts.of(other)) if other.type().kind() == "TensorType" else first
        ]
    if kind in _FILLS:
        sizes = facts.sizes(given[0])
        return [] if sizes is None else [_all(sizes)]
    rule = _RULES.get(name)
    return [] if rule is None else rule(node, given, first, facts)


def _unpacked(node: Node, facts: Facts) -> list[Shape]:
    parts = node.inputsAt(0).node()
    count = node.outputsSize()
    operator, given = operator_of(parts), list(parts.inputs())
    if parts.kind() == "prim::ListConstruct":
        return [facts.of(one) for one in given] if is_list(node.inputsAt(0)) else []
    if operator not in _PARTS or not is_constant(given[-1]):
        return []
    shape, dim = facts.of(given[0]), plain(given[-1])
    if operator == "aten::unbind.int":
        return [_without(shape, dim)] * count
    return [_with_size(shape, dim, size) for size in part_sizes(parts, count, facts)]


_BY_SIZES = ("aten::split_with_sizes", "aten::split.sizes")
_PARTS = ("aten::unbind.int", "aten::split.Tensor", "aten::chunk", *_BY_SIZES)


def part_sizes(node: Node, count: int, facts: Facts) -> list[Size]:
    """Return the lengths of the `count` parts that a `split`, `split_with_sizes` or `chunk` gives;
    None for an unknown one."""
    tensor, how, dim = node.inputs()
    whole = facts.of(tensor).at(plain(dim)) if is_constant(dim) else None
    nothing: list[Size] = [None] * count
    if operator_of(node) in _BY_SIZES:
        sizes = facts.sizes(how)
        return nothing if sizes is None or len(sizes) != count else sizes
    number = facts.size(how)
    if not isinstance(whole, int) or not isinstance(number, int) or number < 1 or whole < 1:
        return nothing
    length = number if operator_of(node) == "aten::split.Tensor" else -(-whole // number)
    if -(-whole // length) != count:
        return nothing
    return [min(length, whole - place * length) for place in range(count)]


def _conv(node: Node, given: Sequence[Value], first: Shape, facts: Facts) -> list[Shape]:
    weight = facts.of(given[1])
    if weight.rank is None:
        return []
    channels = None if node.kind().endswith("convolution") and _transposed(given) else weight.at(0)
    ends: list[Size] = [channels, *[None] * (weight.rank - 2)]
    least = weight.rank if node.kind().endswith("convolution") else weight.rank - 1
    most = weight.rank
    if first.rank is not None:
        least = most = first.rank
    return [_shape(least, most, ends)]


def _transposed(given: Sequence[Value]) -> bool:
    return not is_constant(given[6]) or plain(given[6]) is not False


def _first(node: Node, given: Sequence[Value], first: Shape, facts: Facts) -> list[Shape]:
    return [first]


def _linear(node: Node, given: Sequence[Value], first: Shape, facts: Facts) -> list[Shape]:
    weight = facts.of(given[1])
    if weight.rank != 2:
        return []
    return [_shape(max(first.least, 1), first.most, [*first.ends[:-1], weight.at(0)])]


def _embedding(node: Node, given: Sequence[Value], first: Shape, facts: Facts) -> list[Shape]:
    index = facts.of(given[1])
    if first.rank != 2:
        return []
    return [_shape(index.least + 1, _more(index.most), [*index.ends, first.at(1)])]


def _norm(node: Node, given: Sequence[Value], first: Shape, facts: Facts) -> list[Shape]:
    sizes = facts.sizes(given[1])
    if sizes is None:
        return [first]
    ends = [*first.ends[: max(0, len(first.ends) - len(sizes))], *sizes]
    return [_shape(max(first.least, len(sizes)), first.most, ends)]


def _mean(node: Node, given: Sequence[Value], first: Shape, facts: Facts) -> list[Shape]:
    if operator_of(node) not in ("aten::mean.dim", "aten::sum.dim_IntList"):
        return [_all([])] if len(given) == 2 else []
    if not (known(given[1]) and plain(given[1]) and is_constant(given[2])):
        return []
    dims, keep = plain(given[1]), plain(given[2])
    places = [first.place(dim) for dim in dims]
    if any(place is None or first.least < -place for place in places):
        return [Shape(first.least, first.most)] if keep else []
    if keep:
        deepest = max(-place for place in places if place is not None)
        ends = [None] * max(0, deepest - len(first.ends)) + list(first.ends)
        result = Shape(first.least, first.most, tuple(ends))
        for place in places:
            assert place is not None
            result = _with_size(result, place, 1)
        return [result]
    result = first
    for place in sorted(place for place in places if place is not None):
        result = _without(result, place)
    return [result]


def _pooled(node: Node, given: Sequence[Value], first: Shape, facts: Facts) -> list[Shape]:
    if first.least < 3:
        return []
    last: list[Size] = [None, None]
    if node.kind() == "aten::adaptive_avg_pool2d":
        last = facts.sizes(given[1]) or last
    return [_shape(first.least, first.most, [first.at(-3), *last])]


def _view(node: Node, given: Sequence[Value], first: Shape, facts: Facts) -> list[Shape]:
    sizes = facts.sizes(given[1])
    if sizes is None:
        return []
    return [_all(sizes)]


def _permuted(node: Node, given: Sequence[Value], first: Shape, facts: Facts) -> list[Shape]:
    if not known(given[1]):
        return []
    order = plain(given[1])
    if first.rank != len(order):
        return [_all([None] * len(order))]
    return [_all([first.at(dim) for dim in order])]


def _transpose(node: Node, given: Sequence[Value], first: Shape, facts: Facts) -> list[Shape]:
    if not all(is_constant(dim) for dim in given[1:3]):
        return [Shape(first.least, first.most)]
    one, other = (plain(given[1]), plain(given[2])) if len(given) > 1 else (0, 1)
    if len(given) == 1 and first.rank != 2:
        return [Shape(first.least, first.most)]
    result = _with_size(_with_size(first, one, first.at(other)), other, first.at(one))
    return [result if first.rank is not None else Shape(first.least, first.most)]


def _unsqueeze(node: Node, given: Sequence[Value], first: Shape, facts: Facts) -> list[Shape]:
    if not is_constant(given[1]):
        return [Shape(first.least + 1, _more(first.most))]
    return [_inserted(first, plain(given[1]))]


def _squeeze(node: Node, given: Sequence[Value], first: Shape, facts: Facts) -> list[Shape]:
    if operator_of(node) == "aten::squeeze.dim" and is_constant(given[1]):
        size = first.at(plain(given[1]))
        if isinstance(size, int):
            return [_without(first, plain(given[1])) if size == 1 else first]
        return [_shape(max(0, first.least - 1), first.most)]
    return [_shape(0, first.most)]


def _select(node: Node, given: Sequence[Value], first: Shape, facts: Facts) -> list[Shape]:
    if operator_of(node) != "aten::select.int":
        return []
    dim = plain(given[1]) if is_constant(given[1]) else None
    if dim is None:
        return [Shape(max(0, first.least - 1), _less(first.most))]
    return [_without(first, dim)]


def _slice(node: Node, given: Sequence[Value], first: Shape, facts: Facts) -> list[Shape]:
    if operator_of(node) != "aten::slice.Tensor":
        return []
    if not is_constant(given[1]):
        return [Shape(first.least, first.most)]
    return [first if is_whole(given) else _with_size(first, plain(given[1]), None)]


def is_whole(given: Sequence[Value]) -> bool:
    """True if the arguments of a slice ask for all of a dimension."""
    _, _, start, end, step = given
    return (
        all(is_constant(one) for one in (start, end, step))
        and plain(start) in (None, 0)
        and plain(end) in (None, 2**63 - 1)
        and plain(step) == 1
    )


def _cat(node: Node, given: Sequence[Value], first: Shape, facts: Facts) -> list[Shape]:
    if not is_list(given[0]) or not is_constant(given[1]):
        return []
    shapes = [facts.of(one) for one in given[0].node().inputs()]
    ranks = {shape.rank for shape in shapes}
    if None in ranks or len(ranks) != 1:
        return []
    result = shapes[0]
    for shape in shapes[1:]:
        pairs = zip(result.ends, shape.ends, strict=True)
        result = _all([one if isinstance(one, int) else other for one, other in pairs])
    return [_with_size(result, plain(given[1]), None)]


def _nonzero(node: Node, given: Sequence[Value], first: Shape, facts: Facts) -> list[Shape]:
    return [_all([None, first.rank])]


def _index_select(node: Node, given: Sequence[Value], first: Shape, facts: Facts) -> list[Shape]:
    if not is_constant(given[1]):
        return [Shape(first.least, first.most)]
    return [_with_size(first, plain(given[1]), None)]


def _ordered(node: Node, given: Sequence[Value], first: Shape, facts: Facts) -> list[Shape]:
    result = Shape(first.least, first.most)
    return [result, result]


def _matmul(node: Node, given: Sequence[Value], first: Shape, facts: Facts) -> list[Shape]:
    other = facts.of(given[1])
    if first.rank is None or other.rank is None or min(first.rank, other.rank) < 2:
        return []
    rank = max(first.rank, other.rank)
    return [_shape(rank, rank, [first.at(-2), other.at(-1)])]


def _recurrent(node: Node, given: Sequence[Value], first: Shape, facts: Facts) -> list[Shape]:
    return [_all([None] * 3)] if first.rank == 3 else []


def _attention(node: Node, given: Sequence[Value], first: Shape, facts: Facts) -> list[Shape]:
    return [_all([first.at(dim) for dim in (0, 1, 2)] if first.rank == 3 else [None] * 3)]


def _fused_attention(node: Node, given: Sequence[Value], first: Shape, facts: Facts) -> list[Shape]:
    ranks = {facts.of(one).rank for one in given[:3]}
    return [] if first.rank is None or len(ranks) != 1 else [_all([None] * first.rank)]


def _unflattened(node: Node, given: Sequence[Value], first: Shape, facts: Facts) -> list[Shape]:
    sizes = facts.sizes(given[2])
    if sizes is None or not first.rank or not is_constant(given[1]):
        return []
    place = plain(given[1]) % first.rank
    return [_all([*first.ends[:place], *sizes, *first.ends[place + 1 :]])]


def _arange(node: Node, given: Sequence[Value], first: Shape, facts: Facts) -> list[Shape]:
    return [_all([None])]


def _quantised_conv(node: Node, given: Sequence[Value], first: Shape, facts: Facts) -> list[Shape]:
    return [_all([None] * 4)]


_Rule = Callable[[Node, Sequence[Value], Shape, Facts], list[Shape]]
_RULES: Final[dict[str, _Rule]] = {
    "conv2d": _conv,
    "convolution": _conv,
    "_convolution": _conv,
    "linear": _linear,
    "embedding": _embedding,
    "layer_norm": _norm,
    "native_layer_norm": _norm,
    "native_batch_norm": _first,
    "mean": _mean,
    "sum": _mean,
    "adaptive_avg_pool2d": _pooled,
    "max_pool2d": _pooled,
    "max_pool2d_with_indices": _pooled,
    "view": _view,
    "reshape": _view,
    "expand": _view,
    "permute": _permuted,
    "transpose": _transpose,
    "t": _transpose,
    "unsqueeze": _unsqueeze,
    "squeeze": _squeeze,
    "select": _select,
    "slice": _slice,
    "cat": _cat,
    "nonzero": _nonzero,
    "masked_select": _arange,
    "index_select": _index_select,
    "sort": _ordered,
    "topk": _ordered,
    "matmul": _matmul,
    "gru": _recurrent,
    "lstm": _recurrent,
    "_transformer_encoder_layer_fwd": _attention,
    "_native_multi_head_attention": _attention,
    "scaled_dot_product_attention": _fused_attention,
    "unflatten": _unflattened,
    "arange": _arange,
    "quantized::conv2d": _quantised_conv,
    "quantized::conv2d_relu": _quantised_conv,
}
