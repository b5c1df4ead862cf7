"""Rewrites that need to know sizes: a rule says what becomes of a node by what `shapes.py` found.

As those of `static.py`, a rewrite gives the same for whatever the model takes. A view stays a view
of the same memory.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch

from orchestrator.export.changes import Change, is_constant, is_list, known, plain
from orchestrator.export.graphs import Graph, Node, Value, nodes, operator_of
from orchestrator.export.shapes import Facts, Size, Symbol, is_whole, look, part_sizes, sized

# Gives what takes the place of a node's outputs.
Make = Callable[[Change], Sequence[Value]]
# (rewrite, from, to, why)
Note = Callable[[str, str, tuple[str, ...], str], None]


@dataclass(frozen=True)
class SizedRule:
    """A rewrite of calls of `operators`, made where it is known to give the same.

    becomes  the operators that take their place
    why      for people
    make     returns the rewrite of a node; None if it cannot be rewritten
    whole    only if no call of `operators` is left in the model, or it has `becomes` already
    pure     only if nothing is written to in place: a tensor becomes another that shares memory, or
             no longer does
    plain    not if a model has quantised tensors, which have kernels of their own
    loose    only if nothing asks how a tensor lies in memory, which may change
    """

    name: str
    operators: tuple[str, ...]
    becomes: tuple[str, ...]
    why: str
    make: Callable[[Node, Facts], Make | None]
    whole: bool = False
    pure: bool = False
    plain: bool = False
    loose: bool = False


def apply_sized(
    graphs: Sequence[Graph],
    without: frozenset[str],
    present: Mapping[str, int],
    quantised: bool,
    note: Note,
) -> bool:
    """Apply the rules once to what the graphs have; whether any did.

    without    names of rules that are not to be applied
    present    the operators that the graphs have
    quantised  whether there are quantised tensors
    """
    rules = [rule for rule in RULES if rule.name not in without and not (rule.plain and quantised)]
    wanted = {operator for rule in rules for operator in rule.operators}
    written = any(_writes(node) for graph in graphs for node in nodes(graph))
    strided = any(node.kind() in _STRIDED for graph in graphs for node in nodes(graph))
    rules = [rule for rule in rules if not ((rule.pure and written) or (rule.loose and strided))]
    found: list[tuple[SizedRule, Graph, Node, Make | None]] = []
    for graph in graphs:

        def visit(node: Node, facts: Facts, graph: Graph = graph) -> None:
            operator = replaced(node)
            if operator not in wanted or not any(output.uses() for output in node.outputs()):
                return
            for rule in rules:
                if operator not in rule.operators:
                    continue
                make = rule.make(node, facts)
                found.append((rule, graph, node, make))
                if make is not None:
                    return

        look(graph, visit)
    refused = {rule.operators for rule, _, _, make in found if rule.whole and make is None}
    changed = False
    for rule, graph, node, make in found:
        there = any(operator in present for operator in rule.becomes)
        if make is None or (rule.whole and rule.operators in refused and not there):
            continue
        made = make(Change(graph, node))
        for old, new in zip(node.outputs(), made, strict=True):
            old.replaceAllUsesWith(new)
        note(rule.name, replaced(node), rule.becomes, rule.why)
        changed = True
    return changed


def replaced(node: Node) -> str:
    """The operator that a node stands for: parts of a list stand for what made the list."""
    if node.kind() == "prim::ListUnpack" and len(node.inputsAt(0).uses()) == 1:
        return operator_of(node.inputsAt(0).node())
    # one that gives a list is replaced where the list is taken apart
    return "" if operator_of(node) in _LISTS else operator_of(node)


_SPLITS: Final = (
    "aten::split_with_sizes",
    "aten::split.sizes",
    "aten::split.Tensor",
    "aten::chunk",
)
_LISTS: Final = frozenset(("aten::unbind.int", *_SPLITS))
# What depends on how a tensor lies in memory.
_STRIDED: Final = frozenset(
    f"aten::{name}"
    for name in ("view", "as_strided", "stride", "is_contiguous", "storage_offset", "view_as")
)
_WRITES = re.compile(r"(aten|quantized)::\w*[^_]_")


def _writes(node: Node) -> bool:
    overload = operator_of(node).partition(".")[2]
    return bool(_WRITES.fullmatch(node.kind())) or overload.endswith("out")


def _given(node: Node) -> list[Value]:
    return list(node.inputs())


def _one(value: Callable[[Change], Value]) -> Make:
    return lambda at: [value(at)]


def _call(kind: str, *arguments: Any, like: Value | None = None) -> Make:
    return lambda at: [at.new(kind, *_made(at, arguments), like=like).output()]


def _made(at: Change, arguments: Sequence[Any]) -> list[Any]:
    """Arguments; those that are functions make theirs."""
    return [one(at) if callable(one) else one for one in arguments]


def _typed(at: Change, type_: Any, kind: str, inputs: Sequence[Any]) -> Value:
    node = at.new(kind, *inputs)
    node.output().setType(type_)
    return node.output()


def _whole_number(at: Change, kind: str, *inputs: Any) -> Value:
    return _typed(at, torch._C.IntType.get(), kind, inputs)


def _truth(at: Change, kind: str, *inputs: Any) -> Value:
    return _typed(at, torch._C.BoolType.get(), kind, inputs)


def _constant(value: Any) -> Make:
    return _one(lambda at: at.constant(value))


def _list_of(sizes: Sequence[Any]) -> Callable[[Change], Value]:
    """A list of numbers; those that are functions are made."""

    def make(at: Change) -> Value:
        values = [
            one if isinstance(one, torch._C.Value) else at.constant(one) for one in _made(at, sizes)
        ]
        node = at.graph.create("prim::ListConstruct", values)
        node.insertBefore(at.node)
        node.output().setType(torch._C.ListType.ofInts())
        return node.output()

    return make


def _size(tensor: Value, dim: int, size: Size) -> Any:
    """A size of a tensor, for `_list_of`: a number where it is known."""
    if isinstance(size, int):
        return size
    if isinstance(size, Symbol):
        return size.value
    return lambda at: _whole_number(at, "aten::size", tensor, dim)


# --- numbers and checks ---


def _rank(node: Node, facts: Facts) -> Make | None:
    """`len(x.size())`: the interpreter has `dim` in every library."""
    tensor = sized(node.inputsAt(0))
    return None if tensor is None else _one(lambda at: _whole_number(at, "aten::dim", tensor))


def _known_rank(node: Node, facts: Facts) -> Make | None:
    rank = facts.of(node.inputsAt(0)).rank
    return None if rank is None else _constant(rank)


def _known_size(node: Node, facts: Facts) -> Make | None:
    tensor, dim = node.inputs()
    size = facts.of(tensor).at(plain(dim)) if is_constant(dim) else None
    if isinstance(size, Symbol):
        value = size.value
        return None if size.unique == node.output().unique() else _one(lambda at: value)
    return None if size is None else _constant(size)


# Of two numbers: whether it holds for certain, and whether it does not.
_COMPARED: Final[Mapping[str, Callable[[int, int, int, int], bool | None]]] = {
    "eq": lambda a, b, c, d: True if a == b == c == d else (False if b < c or d < a else None),
    "ne": lambda a, b, c, d: False if a == b == c == d else (True if b < c or d < a else None),
    "lt": lambda a, b, c, d: True if b < c else (False if a >= d else None),
    "le": lambda a, b, c, d: True if b <= c else (False if a > d else None),
    "gt": lambda a, b, c, d: True if a > d else (False if b <= c else None),
    "ge": lambda a, b, c, d: True if a >= d else (False if b < c else None),
}


def _decided(node: Node, facts: Facts) -> Make | None:
    left, right = node.inputs()
    kind = node.kind().removeprefix("aten::")
    kind = {"__is__": "eq", "__isnot__": "ne"}.get(kind, kind)
    holds = _COMPARED[kind](*facts.range(left), *facts.range(right))
    return None if holds is None else _constant(holds)


def _identical(kind: str) -> Callable[[Node, Facts], Make | None]:
    """`a is b` of two whole numbers: the interpreter compares their values."""

    def make(node: Node, facts: Facts) -> Make:
        return _one(lambda at: _truth(at, kind, *_given(node)))

    return make


def _negated(kind: str, swap: bool) -> Callable[[Node, Facts], Make | None]:
    def make(node: Node, facts: Facts) -> Make:
        left, right = reversed(_given(node)) if swap else _given(node)
        return _one(lambda at: _truth(at, "aten::__not__", _truth(at, kind, left, right)))

    return make


def _contained(node: Node, facts: Facts) -> Make | None:
    """`x.dim() in (2, 3)`, by what else is known of it."""
    values, number = node.inputs()
    if not known(values):
        return None
    least, most = facts.range(number)
    left = sorted({one for one in plain(values) if least <= one <= most})
    if not left:
        return _constant(False)
    if len(left) == 1:
        return _one(lambda at: _truth(at, "aten::__is__", number, left[0]))
    return None


def _same_sizes(node: Node, facts: Facts) -> Make | None:
    """`x.size() != [...]`, of a tensor that was made with these very sizes."""
    sides = [_sizes_of(one, facts) for one in node.inputs()]
    if None in sides:
        return None
    left, right = sides
    assert left is not None
    assert right is not None
    if len(left) != len(right):
        equal = False
    elif any(one is None or one != other for one, other in zip(left, right, strict=True)):
        return None
    else:
        equal = True
    return _constant(equal == (node.kind() == "aten::eq"))


def _sizes_of(value: Value, facts: Facts) -> list[Size] | None:
    tensor = sized(value)
    if tensor is None:
        return facts.sizes(value)
    shape = facts.of(tensor)
    return None if shape.rank is None else list(shape.ends)


def _count(node: Node, facts: Facts) -> Make | None:
    tensor = node.inputsAt(0)
    if facts.of(tensor).rank != 1:
        return None
    return _one(lambda at: _whole_number(at, "aten::size", tensor, 0))


def _number(node: Node, facts: Facts) -> Make | None:
    """`int(...)` of a tensor that was made of numbers: the same of the numbers."""
    number = _counted(node.inputsAt(0), facts)
    if number is None or isinstance(number, int):
        return None if number is None else _constant(number)
    return _one(number)


def _counted(value: Value, facts: Facts) -> int | Callable[[Change], Value] | None:
    """The whole number that a tensor without dimensions holds."""
    node = value.node()
    if is_constant(value):
        tensor = value.toIValue()
        whole = isinstance(tensor, torch.Tensor) and tensor.dtype == torch.int64
        return int(tensor) if whole and tensor.dim() == 0 else None
    if node.kind() == "prim::NumToTensor":
        number = node.inputsAt(0)
        if number.type().kind() != "IntType":
            return None
        size = facts.size(number)
        return size if isinstance(size, int) else lambda at: number
    if operator_of(node) not in ("aten::mul.Tensor", "aten::div.Tensor_mode"):
        return None
    left, right = (_counted(one, facts) for one in _given(node)[:2])
    if left is None or right is None:
        return None
    if operator_of(node) == "aten::mul.Tensor":
        if isinstance(left, int) and isinstance(right, int):
            return left * right
        return lambda at: _whole_number(at, "aten::mul", *_made(at, (left, right)))
    # of two numbers that are not below 0, both roundings are the same
    if not isinstance(left, int) or not isinstance(right, int) or left < 0 or right <= 0:
        return None
    return left // right if _is(node.inputsAt(2), "trunc", "floor") else None


# --- views ---


def _flattened(node: Node, facts: Facts) -> Make | None:
    tensor, first, last = node.inputs()
    if not (is_constant(first) and is_constant(last)):
        return None
    shape, start, end = facts.of(tensor), plain(first), plain(last)
    if shape.rank is None:
        return _flattened_ones(tensor, start, end, facts)
    if shape.rank < 2:
        return None
    if shape.place(start) is None or shape.place(end) is None:
        return None
    start, end = start % shape.rank, end % shape.rank
    if start >= end:
        return None
    inner = shape.ends[start : end + 1]
    others = [dim for dim in range(start, end + 1) if not isinstance(shape.ends[dim], int)]
    numbers = math.prod(size for size in inner if isinstance(size, int))
    if len(others) > 1 or (others and numbers != 1):
        return None
    middle = _size(tensor, others[0], shape.ends[others[0]]) if others else numbers
    before = [_size(tensor, dim, shape.ends[dim]) for dim in range(start)]
    after = [_size(tensor, dim, shape.ends[dim]) for dim in range(end + 1, shape.rank)]
    return _call("aten::reshape", tensor, _list_of([*before, middle, *after]))


def _flattened_ones(tensor: Value, start: int, end: int, facts: Facts) -> Make | None:
    """All but the first dimension, of a tensor of 3 or 4 dimensions of which those after the second
    are 1."""
    shape = facts.of(tensor)
    ones = shape.most - 2
    if (start, end) != (1, -1) or shape.least < 2 or ones > len(shape.ends):
        return None
    if any(size != 1 for size in shape.ends[len(shape.ends) - ones :]):
        return None
    sizes = [_size(tensor, 0, None), _size(tensor, 1, None)]
    return _call("aten::reshape", tensor, _list_of(sizes))


def _unflattened(node: Node, facts: Facts) -> Make | None:
    tensor, dim, sizes = node.inputs()
    shape, parts = facts.of(tensor), facts.sizes(sizes)
    if shape.rank is None or parts is None or None in parts or not is_constant(dim):
        return None
    if shape.place(plain(dim)) is None:
        return None
    place = plain(dim) % shape.rank
    values = _given(sizes.node()) if is_list(sizes) else plain(sizes)
    before = [_size(tensor, one, shape.ends[one]) for one in range(place)]
    after = [_size(tensor, one, shape.ends[one]) for one in range(place + 1, shape.rank)]
    return _call("aten::reshape", tensor, _list_of([*before, *values, *after]))


def _permuted(node: Node, facts: Facts) -> Make | None:
    given = _given(node)
    rank = facts.of(given[0]).rank
    if rank is None or (len(given) == 1 and rank != 2):
        return None
    if not all(is_constant(dim) and -rank <= plain(dim) < rank for dim in given[1:3]):
        return None
    one, other = (plain(given[1]), plain(given[2])) if len(given) > 1 else (0, 1)
    order = list(range(rank))
    order[one], order[other] = order[other], order[one]
    return _call("aten::permute", given[0], order)


def _squeezed(node: Node, facts: Facts) -> Make | None:
    tensor, dim = node.inputs()
    if not is_constant(dim) or facts.of(tensor).at(plain(dim)) != 1:
        return None
    return _call("aten::select", tensor, dim, 0)


def _unsqueezed_before(node: Node, facts: Facts) -> Make | None:
    """The one element of a dimension that `unsqueeze` made, of a tensor that was permuted since:
    a permutation of what there was before."""
    tensor, dim, index = node.inputs()
    turned = tensor.node()
    if turned.kind() != "aten::permute" or turned.inputsAt(0).node().kind() != "aten::unsqueeze":
        return None
    new = turned.inputsAt(0).node()
    rank = facts.of(new.inputsAt(0)).rank
    facts_known = known(turned.inputsAt(1)) and is_constant(new.inputsAt(1))
    if rank is None or not facts_known or not (is_constant(dim) and _is(index, 0, -1)):
        return None
    order = [one % (rank + 1) for one in plain(turned.inputsAt(1))]
    inserted = plain(new.inputsAt(1)) % (rank + 1)
    if order.pop(plain(dim) % (rank + 1)) != inserted:
        return None
    return _call("aten::permute", new.inputsAt(0), [one - (one > inserted) for one in order])


def _is(value: Value, *numbers: Any) -> bool:
    return is_constant(value) and plain(value) in numbers


def _selected(node: Node, facts: Facts) -> Make | None:
    """Each part that `unbind` gives."""
    tensor, dim = node.inputsAt(0).node().inputs()
    count = node.outputsSize()
    if not is_constant(dim) or facts.of(tensor).at(plain(dim)) != count:
        return None
    return lambda at: [
        at.new("aten::select", tensor, dim, number).output() for number in range(count)
    ]


def _sliced(node: Node, facts: Facts) -> Make | None:
    """Each part that `split` gives, where it is known that they are all."""
    parts = node.inputsAt(0).node()
    tensor, _, dim = parts.inputs()
    sizes = part_sizes(parts, node.outputsSize(), facts)
    whole = facts.of(tensor).at(plain(dim)) if is_constant(dim) else None
    ints = [size for size in sizes if isinstance(size, int)]
    if len(ints) != len(sizes) or sum(ints) != whole:
        return None
    starts = [sum(ints[:number]) for number in range(len(ints))]
    return lambda at: [
        at.new("aten::slice", tensor, dim, start, start + size, 1).output()
        for start, size in zip(starts, ints, strict=True)
    ]


def _all_of_it(node: Node, facts: Facts) -> Make | None:
    given = _given(node)
    if not is_whole(given) or not is_constant(given[1]):
        return None
    dim = plain(given[1])
    if facts.of(given[0]).least < (dim + 1 if dim >= 0 else -dim):
        return None
    return _one(lambda at: given[0])


def _not_copied(node: Node, facts: Facts) -> Make | None:
    """Remove a `contiguous` before a reshape, which copies if it must."""
    tensor, layout = node.inputs()
    if not _is(layout, 0):
        return None
    users = [use.user for use in node.output().uses()]
    parts = [user for user in users if user.kind() == "aten::select"]
    whole = [user for user in users if user.kind() == "aten::reshape"]
    inner = [[use.user for use in part.output().uses()] for part in parts]
    # each part once, so that no more is copied than before
    if len(parts) + len(whole) != len(users) or (whole and len(users) > 1):
        return None
    if any([one.kind() for one in its] != ["aten::reshape"] for its in inner):
        return None
    if len({tuple(map(_text, _given(part)[1:])) for part in parts}) != len(parts):
        return None
    return _one(lambda at: tensor)


def _text(value: Value) -> str:
    return str(plain(value)) if is_constant(value) else str(value.unique())


def _mean_without(node: Node, facts: Facts) -> Make | None:
    """A reshape that takes away the dimensions of which a mean was taken."""
    tensor, sizes = node.inputs()
    mean = tensor.node()
    if operator_of(mean) != "aten::mean.dim" or len(tensor.uses()) != 1:
        return None
    given = _given(mean)
    shape, wanted = facts.of(given[0]), facts.sizes(sizes)
    if not shape.rank or wanted is None or not known(given[1]) or not _is(given[2], True):
        return None
    gone = {dim % shape.rank for dim in plain(given[1])}
    left = [shape.ends[dim] for dim in range(shape.rank) if dim not in gone]
    places = [dim for dim in range(shape.rank) if dim not in gone]
    asked = _given(sizes.node()) if is_list(sizes) else [None] * len(wanted)
    same = len(left) == len(wanted) and all(
        one == other or _asks(number, given[0], place)
        for one, other, number, place in zip(left, wanted, asked, places, strict=True)
        if one is None or one != other
    )
    if not gone or not same:
        return None
    return _call("aten::mean", given[0], given[1], False, given[3])


def _asks(number: Value | None, tensor: Value, place: int) -> bool:
    """True if a number is the `size` of a tensor at this dimension."""
    node = None if number is None else number.node()
    return (
        node is not None
        and operator_of(node) == "aten::size.int"
        and node.inputsAt(0).unique() == tensor.unique()
        and _is(node.inputsAt(1), place)
    )


# --- tensors ---


def _with_tensor(node: Node, facts: Facts) -> Make | None:
    """A whole number as a tensor without dimensions: beside one that has some, it decides no more
    about the result's dtype."""
    given = _given(node)
    if facts.of(given[0]).least < 1 or given[1].type().kind() != "IntType":
        return None
    if len(given) > 2 and not _is(given[2], 1):
        return None
    kind, rest = node.kind(), given[2:]

    def make(at: Change) -> Sequence[Value]:
        if is_constant(given[1]):
            other = at.constant(torch.tensor(plain(given[1])))
        else:
            other = at.new("prim::NumToTensor", given[1]).output()
        return [at.new(kind, given[0], other, *rest).output()]

    return make


# What gives tensors of bools.
_BOOLS = frozenset(
    "aten::" + name
    for name in (
        *("eq", "ne", "lt", "le", "gt", "ge", "logical_and", "logical_or", "logical_not"),
        *("logical_xor", "isnan", "isinf", "isfinite"),
    )
)
_OF_BOOLS = frozenset(("aten::mul", "aten::bitwise_and", "aten::bitwise_or", "aten::bitwise_xor"))


def _is_bool(value: Value) -> bool:
    node = value.node()
    if is_constant(value):
        tensor = value.toIValue()
        return isinstance(tensor, torch.Tensor) and tensor.dtype == torch.bool
    if value.type().kind() != "TensorType":
        return False
    if node.kind() in _OF_BOOLS:
        return all(map(_is_bool, node.inputs()))
    return node.kind() in _BOOLS


def _and(node: Node, facts: Facts) -> Make | None:
    if not all(map(_is_bool, node.inputs())):
        return None
    return _call("aten::mul", *_given(node))


def _filled_like(kind: str) -> Callable[[Node, Facts], Make | None]:
    def make(node: Node, facts: Facts) -> Make | None:
        tensor, dtype, layout, device, pinned, _ = node.inputs()
        shape = facts.of(tensor)
        if shape.rank is None or not _is(layout, None, 0):
            return None
        sizes = [_size(tensor, dim, size) for dim, size in enumerate(shape.ends)]

        def made(at: Change) -> Sequence[Value]:
            own = _whole_number(at, "prim::dtype", tensor) if _is(dtype, None) else dtype
            where = device
            if _is(device, None):
                where = _typed(at, torch._C.DeviceObjType.get(), "prim::device", [tensor])
            return [at.new(kind, _list_of(sizes)(at), own, layout, where, pinned).output()]

        return made

    return make


def _encoder_layer(activation: str) -> Callable[[Node, Facts], Make | None]:
    def make(node: Node, facts: Facts) -> Make | None:
        given = _given(node)
        source, width, heads = given[:3]
        gelu, norm_first, epsilon = given[7:10]
        if not is_constant(norm_first) or not _is(gelu, activation == "gelu"):
            return None
        norms, (first_weight, first_bias, second_weight, second_bias) = given[10:14], given[14:18]
        mask, mask_type = given[18:20]

        def made(at: Change) -> Sequence[Value]:
            sizes = _list_of([width])(at)

            def normed(value: Value, number: int) -> Value:
                weights = norms[2 * number : 2 * number + 2]
                return at.new(
                    "aten::native_layer_norm", value, sizes, *weights, epsilon, outputs=3
                ).outputsAt(0)

            def added(value: Value, old: Value) -> Value:
                return at.new("aten::add", value, old, 1).output()

            before = plain(norm_first)
            value = normed(source, 0) if before else source
            attention = [value, value, value, width, heads, *given[3:7], mask, False, True]
            value = at.new(
                "aten::_native_multi_head_attention", *attention, mask_type, outputs=2
            ).outputsAt(0)
            value = added(value, source)
            value = value if before else normed(value, 0)
            old, value = value, normed(value, 1) if before else value
            value = at.new("aten::linear", value, first_weight, first_bias).output()
            more = ["none"] if activation == "gelu" else []
            value = at.new(f"aten::{activation}", value, *more).output()
            value = at.new("aten::linear", value, second_weight, second_bias).output()
            value = added(value, old)
            return [value if before else normed(value, 1)]

        return made

    return make


_KNOWN = "what the model computes with tells it for all inputs"
_VIEW = "the sizes are known, so it is the same view"
_INTS = ("eq", "ne", "lt", "le", "gt", "ge")

RULES: Final[tuple[SizedRule, ...]] = (
    SizedRule("ranks", ("aten::len.t",), ("aten::dim",), "how many dimensions there are", _rank),
    SizedRule("ranks", ("aten::dim",), (), _KNOWN, _known_rank),
    SizedRule("ranks", ("aten::size.int",), (), _KNOWN, _known_size),
    SizedRule("ranks", tuple(f"aten::{kind}.int" for kind in _INTS), (), _KNOWN, _decided),
    SizedRule("ranks", ("aten::__is__", "aten::__isnot__"), (), _KNOWN, _decided),
    SizedRule("ranks", ("aten::__contains__.int_list",), ("aten::__is__",), _KNOWN, _contained),
    SizedRule("ranks", ("aten::eq.int_list", "aten::ne.int_list"), (), _KNOWN, _same_sizes),
    *(
        SizedRule(
            "comparisons",
            (f"aten::{old}.int",),
            (f"aten::{new}",),
            "of whole numbers it is the same, and every library has it",
            _identical(f"aten::{new}"),
        )
        for old, new in (("eq", "__is__"), ("ne", "__isnot__"))
    ),
    *(
        SizedRule(
            "comparisons",
            (f"aten::{old}.int",),
            ("aten::gt.int", "aten::__not__"),
            "not the opposite",
            _negated("aten::gt", swap),
        )
        for old, swap in (("ge", True), ("le", False))
    ),
    SizedRule(
        "sizes",
        ("aten::numel",),
        ("aten::size.int",),
        "it has one dimension",
        _count,
    ),
    SizedRule("numbers", ("aten::Int.Tensor",), ("aten::mul.int",), "made of numbers", _number),
    *(
        SizedRule(
            "numbers",
            (f"aten::{kind}.Scalar",),
            (f"aten::{kind}.Tensor",),
            "a number is a tensor without dimensions",
            _with_tensor,
            plain=True,
        )
        for kind in ("mul", "add")
    ),
    SizedRule(
        "bools",
        ("aten::bitwise_and.Tensor",),
        ("aten::mul.Tensor",),
        "a product of bools",
        _and,
        plain=True,
    ),
    *(
        SizedRule(
            "sizes",
            (f"aten::{name}_like",),
            (f"aten::{name}",),
            "the sizes are known",
            _filled_like(f"aten::{name}"),
            plain=True,
        )
        for name in ("zeros", "ones")
    ),
    SizedRule(
        "pooling",
        ("aten::reshape",),
        ("aten::mean.dim",),
        "the mean does not keep the dimensions that go away",
        _mean_without,
    ),
    SizedRule("views", ("aten::flatten.using_ints",), ("aten::reshape",), _VIEW, _flattened),
    SizedRule("views", ("aten::unflatten.int",), ("aten::reshape",), _VIEW, _unflattened),
    SizedRule(
        "permute",
        ("aten::transpose.int", "aten::t"),
        ("aten::permute",),
        "permute does it, and needs less code",
        _permuted,
        whole=True,
    ),
    SizedRule(
        "views", ("aten::select.int",), ("aten::permute",), _VIEW, _unsqueezed_before, pure=True
    ),
    SizedRule("views", ("aten::squeeze.dim",), ("aten::select.int",), _VIEW, _squeezed),
    SizedRule("parts", ("aten::unbind.int",), ("aten::select.int",), _VIEW, _selected),
    SizedRule(
        "parts",
        _SPLITS,
        ("aten::slice.Tensor",),
        _VIEW,
        _sliced,
    ),
    SizedRule("slices", ("aten::slice.Tensor",), (), "all of it", _all_of_it, pure=True),
    *(
        SizedRule(
            "encoders",
            ("aten::_transformer_encoder_layer_fwd",),
            (
                "aten::_native_multi_head_attention",
                "aten::add.Tensor",
                f"aten::{activation}",
                "aten::linear",
                "aten::native_layer_norm",
            ),
            "the operators that it calls",
            _encoder_layer(activation),
        )
        for activation in ("relu", "gelu")
    ),
    SizedRule(
        "copies",
        ("aten::contiguous",),
        (),
        "reshape copies what it must",
        _not_copied,
        pure=True,
        plain=True,
        loose=True,
    ),
)
