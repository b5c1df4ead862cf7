"""Makes a model canonical with torch's own TorchScript passes, in a process of its own.

Called as `python -P torch_worker.py <request.json>` by a Python that has torch. It must not import
the orchestrator. The request:

model      the `.ptl`; it has its TorchScript (`code/`)
name       the new file's top folder
folder     where to write what comes out: `canonical.ptl`, `inputs.json`, `result.json`
declared   the calls to run it with, as the model runner's `--inputs` (native/driver/values.h); null
           for the inputs that are bundled in the file
without    names of rewrites that are not to be applied
tolerances dtype -> [relative, absolute]

`stage` in the folder says how far it got, for whoever finds it dead. `result.json` is
{"error": {"kind", "text"}} or what `_result` writes. What it says of a call's inputs is enough to
make them again.

A rewrite replaces a call by what PyTorch itself computes it by (aten/src/ATen/native of 1.13.1), so
that it gives the same values, whatever they are; `_RULES` has the exceptions beside each. All of
the rest is compared, not proven.
"""

from __future__ import annotations

import base64
import ctypes
import io
import json
import math
import re
import sys
import traceback
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch.jit.mobile import _load_for_lite_interpreter

# What torch/utils/bundled_inputs.py adds to a model; as in models/methods.py.
_BUNDLING = re.compile(
    r"_generate_bundled_inputs(_for_\w+)?|get_all_bundled_inputs(_for_\w+)?"
    r"|get_num_bundled_inputs|get_bundled_inputs_functions_and_info|_inflate_helper_\w+"
)
_GETTER = "get_all_bundled_inputs_for_"
# Calls of a method that further inputs are made of, and how many random ones of each.
_VARIED = 4
_RANDOM = 3
# As PyTorch's own writer places tensors (caffe2/serialize/inline_container.h, kFieldAlignment).
_ALIGNMENT = 64
_LOCAL_HEADER_BYTES = 30
_EPOCH = (1980, 1, 1, 0, 0, 0)
# Conversion ends when no rule applies; each makes the graph simpler, so this is never reached.
_MOST_ROUNDS = 100

Value = Any  # torch._C.Value
Node = Any  # torch._C.Node
Graph = Any  # torch._C.Graph


class Refused(Exception):
    """Why there is no canonical model."""

    def __init__(self, kind: str, text: str, **facts: Any) -> None:
        super().__init__(text)
        self.kind = kind
        self.facts = facts


# --- graphs ---


def _nodes(block: Any) -> Iterator[Node]:
    for node in list(block.nodes()):
        for inner in node.blocks():
            yield from _nodes(inner)
        yield node


def _operator(node: Node) -> str:
    """`aten::add.Tensor`; of a node without a schema, its kind."""
    schema: str = node.schema()
    return str(node.kind()) if schema == "(no schema)" else schema.partition("(")[0]


def _is_constant(value: Value) -> bool:
    return bool(value.node().kind() == "prim::Constant")


# What changes a list, as far as it is an operator.
_CHANGES_LISTS = re.compile(
    r"aten::(append|extend|insert|pop|remove|clear|reverse|sort|Delete|_set_item|add_)"
)


def _is_list(value: Value) -> bool:
    """Whether a value is a list of the inputs of its node, and stays so."""
    return value.node().kind() == "prim::ListConstruct" and all(
        use.user.kind().startswith("aten::") and not _CHANGES_LISTS.fullmatch(use.user.kind())
        for use in value.uses()
    )


def _known(value: Value) -> bool:
    """Whether `_plain` says what a value is."""
    if _is_list(value):
        return all(_is_constant(one) for one in value.node().inputs())
    return _is_constant(value)


def _plain(value: Value) -> Any:
    if value.node().kind() == "prim::ListConstruct":
        return [one.toIValue() for one in value.node().inputs()]
    return value.toIValue()


class _Change:
    """Puts nodes in place of one; `new` and `constant` stand before it."""

    def __init__(self, graph: Graph, node: Node) -> None:
        self.graph = graph
        self.node = node

    def constant(self, value: Any) -> Value:
        if isinstance(value, list):
            made = self.graph.create("prim::ListConstruct", [self.constant(v) for v in value])
            made.insertBefore(self.node)
            made.output().setType(torch._C.ListType.ofInts())
            return made.output()
        with self.graph.insert_point_guard(self.node):
            return self.graph.insertConstant(value)

    def new(self, kind: str, *inputs: Any, like: Value | None = None, outputs: int = 1) -> Node:
        """A call; plain values among the inputs become constants."""
        values = [one if isinstance(one, torch._C.Value) else self.constant(one) for one in inputs]
        node = self.graph.create(kind, values, outputs)
        node.insertBefore(self.node)
        node.copyMetadata(self.node)
        for output in node.outputs():
            output.setType(torch._C.TensorType.get() if like is None else like.type())
        return node

    def replace(self, value: Value) -> None:
        self.node.output().replaceAllUsesWith(value)
        self.node.destroy()


@dataclass(frozen=True)
class Rule:
    """What takes the place of calls of `operators`.

    becomes  the operators that do
    why      for people
    change   does it, or returns False where it cannot
    fits     whether it can: see `pays`
    pays     "always"; "whole": where no call of `operators` is left in the model; "shared": where
             the model has `becomes` by now
    plain    not where a model has quantised tensors, which have kernels of their own
    """

    name: str
    operators: tuple[str, ...]
    becomes: tuple[str, ...]
    why: str
    change: Callable[[_Change, list[Value]], bool]
    fits: Callable[[list[Value]], bool] = lambda inputs: True
    pays: str = "always"
    plain: bool = False


def _call(kind: str, *arguments: Any) -> Callable[[_Change, list[Value]], bool]:
    """A call in place of another; an argument that is a function gets the old ones."""

    def change(at: _Change, old: list[Value]) -> bool:
        given = [one(old) if callable(one) else one for one in arguments]
        at.replace(at.new(kind, *given, like=at.node.output()).output())
        return True

    return change


def _first_of(kind: str, outputs: int, *arguments: Any) -> Callable[[_Change, list[Value]], bool]:
    """The same of a call whose first result it is."""

    def change(at: _Change, old: list[Value]) -> bool:
        given = [one(old) if callable(one) else one for one in arguments]
        at.replace(at.new(kind, *given, outputs=outputs).outputsAt(0))
        return True

    return change


def _at(number: int) -> Callable[[list[Value]], Value]:
    return lambda inputs: inputs[number]


def _itself(at: _Change, old: list[Value]) -> bool:
    at.replace(old[0])
    return True


def _is(number: int, *values: Any) -> Callable[[list[Value]], bool]:
    """Whether an argument is known to be one of these, and of their type."""

    def fits(old: list[Value]) -> bool:
        if not _known(old[number]):
            return False
        value = _plain(old[number])
        return any(type(value) is type(one) and value == one for one in values)

    return fits


def _whole_limits(*numbers: int) -> Callable[[list[Value]], bool]:
    """Limits that are whole numbers: such a clamp gives a tensor of integers back as one."""

    def fits(old: list[Value]) -> bool:
        return all(
            _is_constant(old[n]) and (_plain(old[n]) is None or float(_plain(old[n])).is_integer())
            for n in numbers
        )

    return fits


def _limit(number: int) -> Callable[[list[Value]], Any]:
    """A whole limit as an integer."""

    def limit(old: list[Value]) -> Any:
        value = _plain(old[number])
        return None if value is None else int(value)

    return limit


def _size_of(number: int, kind: str) -> Callable[[_Change, list[Value]], bool]:
    def change(at: _Change, old: list[Value]) -> bool:
        size = at.new("aten::size", old[number])
        size.output().setType(torch._C.ListType.ofInts())
        more = [False] if kind == "aten::expand" else []
        at.replace(at.new(kind, old[0], size.output(), *more).output())
        return True

    return change


def _power(at: _Change, old: list[Value]) -> bool:
    base, exponent = old[0], _plain(old[1]) if len(old) > 1 else 2
    if exponent in (0.5, -0.5):
        kind = "aten::sqrt" if exponent > 0 else "aten::rsqrt"
        at.replace(at.new(kind, base).output())
        return True
    result = base
    for _ in range(exponent - 1):
        result = at.new("aten::mul", result, base).output()
    at.replace(result)
    return True


def _pad(at: _Change, old: list[Value]) -> bool:
    mode, pads = _plain(old[2]), _plain(old[1])
    if mode == "constant":
        value = _plain(old[3]) if _is_constant(old[3]) else old[3]
        new = at.new("aten::constant_pad_nd", old[0], old[1], 0 if value is None else value)
    else:
        kind = {"reflect": "reflection", "replicate": "replication"}[mode]
        new = at.new(f"aten::{kind}_pad{len(pads) // 2}d", old[0], old[1])
    at.replace(new.output())
    return True


def _pad_fits(old: list[Value]) -> bool:
    if not (_is_constant(old[2]) and old[3].type().kind() != "OptionalType"):
        return False
    if _plain(old[2]) == "constant":
        return True
    known = _known(old[1]) and len(_plain(old[1])) in (2, 4)
    return known and _plain(old[2]) in ("reflect", "replicate")


def _sized(scales: int) -> Callable[[list[Value]], bool]:
    """Whether a call is given a size, and no factors."""
    return lambda old: _is(scales, None)(old) and old[1].type().kind() == "ListType"


def _stack(at: _Change, old: list[Value]) -> bool:
    parts = [at.new("aten::unsqueeze", one, old[1]).output() for one in old[0].node().inputs()]
    items = at.new("prim::ListConstruct", *parts, like=old[0])
    at.replace(at.new("aten::cat", items.output(), old[1]).output())
    return True


def _stack_fits(old: list[Value]) -> bool:
    return _is_list(old[0]) and _is_constant(old[1])


def _correction(kind: str, everywhere: bool) -> Callable[[_Change, list[Value]], bool]:
    def change(at: _Change, old: list[Value]) -> bool:
        correction = int(_plain(old[1 if everywhere else 2]))
        rest = [None, correction, False] if everywhere else [old[1], correction, old[3]]
        at.replace(at.new(kind, old[0], *rest).output())
        return True

    return change


def _size_at(at: _Change, old: list[Value]) -> bool:
    size = at.new("aten::size", old[0].node().inputsAt(0), old[1], like=at.node.output())
    at.replace(size.output())
    return True


def _size_at_fits(old: list[Value]) -> bool:
    node = old[0].node()
    return bool(node.kind() == "aten::size" and node.inputsSize() == 1)


def _split(at: _Change, old: list[Value]) -> bool:
    size = -(-_rows_of(old[0]) // _plain(old[1]))
    at.replace(at.new("aten::split", old[0], size, old[2], like=at.node.output()).output())
    return True


def _split_fits(old: list[Value]) -> bool:
    return _is_constant(old[1]) and _is(2, -1)(old) and _rows_of(old[0]) > 0


def _rows_of(value: Value) -> int:
    """How long the last dimension of a linear layer's result is; 0: nobody knows."""
    node = value.node()
    if node.kind() != "aten::linear" or not _is_constant(node.inputsAt(1)):
        return 0
    return int(node.inputsAt(1).toIValue().shape[0])


def _minus_constant(at: _Change, old: list[Value]) -> bool:
    at.replace(at.new("aten::add", old[0], -_plain(old[1]), like=at.node.output()).output())
    return True


def _factor(at: _Change, old: list[Value]) -> bool:
    at.replace(at.new("aten::mul", old[0], 1.0 / _plain(old[1])).output())
    return True


def _power_of_two(old: list[Value]) -> bool:
    """Of which the inverse is exact."""
    if not _is_constant(old[1]) or type(_plain(old[1])) not in (int, float):
        return False
    number = float(_plain(old[1]))
    return (
        math.isfinite(number)
        and number != 0
        and abs(math.frexp(number)[0]) == 0.5
        and (2**-10 <= abs(number) <= 2**10)
    )


def _minus(at: _Change, old: list[Value]) -> bool:
    at.replace(at.new("aten::add", old[0], old[1], -_plain(old[2])).output())
    return True


def _swapped(kind: str) -> Callable[[_Change, list[Value]], bool]:
    return _call(kind, _at(1), _at(0))


def _permute(at: _Change, old: list[Value]) -> bool:
    rank = _rank(old[0])
    assert rank is not None
    one, other = (_plain(old[1]), _plain(old[2])) if len(old) > 1 else (0, 1)
    order = list(range(rank))
    order[one], order[other] = order[other], order[one]
    at.replace(at.new("aten::permute", old[0], order).output())
    return True


def _permute_fits(old: list[Value]) -> bool:
    rank = _rank(old[0])
    if rank is None or (len(old) == 1 and rank != 2):
        return False
    return all(_is_constant(dim) and -rank <= _plain(dim) < rank for dim in old[1:3])


# Results that have as many dimensions as the first argument.
_SAME_RANK = frozenset(
    "aten::" + name
    for name in (
        *("relu", "relu6", "clamp", "hardtanh", "gelu", "sigmoid", "tanh", "silu", "hardswish"),
        *("softmax", "_softmax", "log_softmax", "contiguous", "clone", "to", "dropout", "linear"),
        *("transpose", "slice", "layer_norm", "exp", "sqrt", "rsqrt", "neg", "abs", "cumsum"),
        *("batch_norm", "masked_fill", "leaky_relu", "elu", "hardsigmoid", "detach", "flip"),
    )
)
_BY_LIST = frozenset(f"aten::{name}" for name in ("view", "reshape", "expand", "permute"))


def _rank(value: Value, depth: int = 0) -> int | None:
    """How many dimensions a tensor has, where the graph says so."""
    node = value.node()
    kind = node.kind()
    if kind == "prim::Constant":
        tensor = value.toIValue()
        return tensor.dim() if isinstance(tensor, torch.Tensor) else None
    inputs = list(node.inputs())
    if depth > 40 or not inputs:
        return None
    if kind in _BY_LIST:
        sizes = inputs[1]
        if _is_list(sizes):
            return len(list(sizes.node().inputs()))
        return len(_plain(sizes)) if _known(sizes) and _plain(sizes) is not None else None
    if kind == "aten::bmm":
        return 3
    if kind in ("aten::add", "aten::sub", "aten::mul", "aten::div"):
        ranks = [
            _rank(one, depth + 1) if one.type().kind() == "TensorType" else 0 for one in inputs[:2]
        ]
        return None if None in ranks else max(rank for rank in ranks if rank is not None)
    first = _rank(inputs[0], depth + 1)
    if first is None:
        return None
    if kind in _SAME_RANK:
        return first
    if kind == "aten::matmul":
        second = _rank(inputs[1], depth + 1)
        return None if second is None or min(first, second) < 2 else max(first, second)
    return (
        first + {"aten::unsqueeze": 1, "aten::select": -1}.get(kind, -100)
        if kind
        in (
            "aten::unsqueeze",
            "aten::select",
        )
        else None
    )


_CLAMP = "clamp is what computes it"
_ALIAS = "another name for it"
_LEAF = "a function around it that adds nothing for a model"

_RULES: tuple[Rule, ...] = (
    # dropout, in a model that does not learn
    *(
        Rule(
            "dropout",
            (f"aten::{name}",),
            (),
            "does nothing outside of training",
            _itself,
            fits=_is(2, False),
        )
        for name in ("dropout", "feature_dropout", "alpha_dropout", "feature_alpha_dropout")
    ),
    Rule("detach", ("aten::detach",), (), "there are no gradients", _itself),
    # limits: a clamp with whole numbers, which keeps the dtype of integers
    Rule(
        "clamp",
        ("aten::relu6",),
        ("aten::clamp",),
        _CLAMP,
        _call("aten::clamp", _at(0), 0, 6),
        plain=True,
    ),
    Rule(
        "clamp",
        ("aten::hardtanh",),
        ("aten::clamp",),
        _CLAMP,
        _call("aten::clamp", _at(0), _limit(1), _limit(2)),
        fits=_whole_limits(1, 2),
        plain=True,
    ),
    Rule(
        "clamp",
        ("aten::relu",),
        ("aten::clamp",),
        _CLAMP,
        _call("aten::clamp", _at(0), 0, None),
        pays="shared",
        plain=True,
    ),
    Rule(
        "clamp",
        ("aten::clamp_min",),
        ("aten::clamp",),
        _CLAMP,
        _call("aten::clamp", _at(0), _at(1), None),
        pays="shared",
        plain=True,
    ),
    Rule(
        "clamp",
        ("aten::clamp_max",),
        ("aten::clamp",),
        _CLAMP,
        _call("aten::clamp", _at(0), None, _at(1)),
        pays="shared",
        plain=True,
    ),
    # composites to what they call
    Rule(
        "norms",
        ("aten::batch_norm",),
        ("aten::native_batch_norm",),
        _LEAF,
        _first_of("aten::native_batch_norm", 3, *map(_at, range(8))),
        # what follows a convolution is part of it where kernels of XNNPACK run
        fits=lambda old: _is(5, False)(old) and "conv" not in old[0].node().kind(),
    ),
    Rule(
        "norms",
        ("aten::layer_norm",),
        ("aten::native_layer_norm",),
        _LEAF,
        _first_of("aten::native_layer_norm", 3, *map(_at, range(5))),
    ),
    Rule(
        "softmax",
        ("aten::softmax.int",),
        ("aten::_softmax",),
        _LEAF,
        _call("aten::_softmax", _at(0), _at(1), False),
        fits=_is(2, None),
    ),
    Rule(
        "softmax",
        ("aten::log_softmax.int",),
        ("aten::_log_softmax",),
        _LEAF,
        _call("aten::_log_softmax", _at(0), _at(1), False),
        fits=_is(2, None),
    ),
    Rule(
        "pooling",
        ("aten::max_pool2d",),
        ("aten::max_pool2d_with_indices",),
        _LEAF,
        _first_of("aten::max_pool2d_with_indices", 2, *map(_at, range(6))),
        plain=True,
    ),
    Rule(
        "pooling",
        ("aten::max_pool1d",),
        ("aten::max_pool1d_with_indices",),
        _LEAF,
        _first_of("aten::max_pool1d_with_indices", 2, *map(_at, range(6))),
        pays="shared",
    ),
    Rule(
        "pooling",
        ("aten::adaptive_avg_pool2d",),
        ("aten::mean.dim",),
        "to one value it is a mean",
        _call("aten::mean", _at(0), [-1, -2], True, None),
        fits=_is(1, [1, 1]),
        plain=True,
    ),
    Rule(
        "padding",
        ("aten::pad",),
        ("aten::constant_pad_nd",),
        "the mode is known, so the others need not be there",
        _pad,
        fits=_pad_fits,
    ),
    Rule(
        "convolution",
        ("aten::_convolution", "aten::_convolution.deprecated"),
        ("aten::convolution",),
        _LEAF,
        _call("aten::convolution", *map(_at, range(9))),
        fits=_is(6, False),
    ),
    *(
        Rule(
            "resize",
            (f"aten::upsample_{kind}.vec",),
            (f"aten::upsample_{kind}",),
            _LEAF,
            _call(f"aten::upsample_{kind}", *map(_at, range(scales)), *[None] * dims),
            fits=_sized(scales),
        )
        for kind, scales, dims in (
            ("nearest1d", 2, 1),
            ("nearest2d", 2, 2),
            ("nearest3d", 2, 3),
            ("linear1d", 3, 1),
            ("bilinear2d", 3, 2),
            ("bicubic2d", 3, 2),
            ("trilinear3d", 3, 3),
        )
    ),
    Rule(
        "stack",
        ("aten::stack",),
        ("aten::unsqueeze", "aten::cat"),
        "cat of parts with one more dimension",
        _stack,
        fits=_stack_fits,
    ),
    # of a tensor of bools a power is one of integers, and a product is not
    Rule("powers", ("aten::square",), ("aten::mul.Tensor",), "a product", _power),
    Rule(
        "powers",
        ("aten::pow.Tensor_Scalar",),
        ("aten::mul.Tensor", "aten::sqrt", "aten::rsqrt"),
        "a product, or a root",
        _power,
        fits=_is(1, 2, 3, 0.5, -0.5),
    ),
    Rule(
        "variance",
        ("aten::var",),
        ("aten::var.correction",),
        _LEAF,
        _correction("aten::var", True),
        fits=_is(1, False, True),
    ),
    Rule(
        "variance",
        ("aten::var.dim",),
        ("aten::var.correction",),
        _LEAF,
        _correction("aten::var", False),
        fits=_is(2, False, True),
    ),
    Rule(
        "variance",
        ("aten::std",),
        ("aten::std.correction",),
        _LEAF,
        _correction("aten::std", True),
        fits=_is(1, False, True),
    ),
    Rule(
        "variance",
        ("aten::std.dim",),
        ("aten::std.correction",),
        _LEAF,
        _correction("aten::std", False),
        fits=_is(2, False, True),
    ),
    Rule(
        "reductions",
        ("aten::mean",),
        ("aten::mean.dim",),
        _LEAF,
        _call("aten::mean", _at(0), [], False, _at(1)),
    ),
    Rule(
        "reductions",
        ("aten::sum",),
        ("aten::sum.dim_IntList",),
        _LEAF,
        _call("aten::sum", _at(0), [], False, _at(1)),
    ),
    # names
    Rule(
        "names",
        ("aten::max.other",),
        ("aten::maximum",),
        _ALIAS,
        _call("aten::maximum", _at(0), _at(1)),
    ),
    Rule(
        "names",
        ("aten::min.other",),
        ("aten::minimum",),
        _ALIAS,
        _call("aten::minimum", _at(0), _at(1)),
    ),
    *(
        Rule("names", (f"aten::{old}",), (f"aten::{new}",), _ALIAS, _call(kind, _at(0), _at(1)))
        for old, new, kind in (
            ("__and__.Tensor", "bitwise_and.Tensor", "aten::bitwise_and"),
            ("__or__.Tensor", "bitwise_or.Tensor", "aten::bitwise_or"),
            ("__xor__.Tensor", "bitwise_xor.Tensor", "aten::bitwise_xor"),
            ("greater.Tensor", "gt.Tensor", "aten::gt"),
            ("concat", "cat", "aten::cat"),
            ("concatenate", "cat", "aten::cat"),
            ("true_divide.Tensor", "div.Tensor", "aten::div"),
            ("multiply.Tensor", "mul.Tensor", "aten::mul"),
            ("divide.Tensor", "div.Tensor", "aten::div"),
        )
    ),
    *(
        Rule(
            "names",
            (f"aten::{name}",),
            ("aten::transpose.int",),
            _ALIAS,
            _call("aten::transpose", _at(0), _at(1), _at(2)),
        )
        for name in ("swapaxes", "swapdims")
    ),
    Rule(
        "sizes", ("aten::view_as",), ("aten::view", "aten::size"), _LEAF, _size_of(1, "aten::view")
    ),
    Rule(
        "sizes",
        ("aten::reshape_as",),
        ("aten::reshape", "aten::size"),
        _LEAF,
        _size_of(1, "aten::reshape"),
    ),
    Rule(
        "sizes",
        ("aten::expand_as",),
        ("aten::expand", "aten::size"),
        _LEAF,
        _size_of(1, "aten::expand"),
    ),
    # a view that is there is what reshape gives
    Rule(
        "sizes",
        ("aten::view",),
        ("aten::reshape",),
        "reshape gives a view where there is one",
        _call("aten::reshape", _at(0), _at(1)),
        pays="shared",
    ),
    *(
        Rule(
            "differences",
            (f"aten::sub.{kind}",),
            (f"aten::add.{kind}",),
            "a sum with a negative factor",
            _minus,
            fits=lambda old: _is_constant(old[2]),
            plain=True,
        )
        for kind in ("Tensor", "Scalar")
    ),
    Rule(
        "differences",
        ("aten::sub.int",),
        ("aten::add.int",),
        "a sum with its negative",
        _minus_constant,
        fits=lambda old: _is_constant(old[1]),
    ),
    Rule(
        "factors",
        ("aten::neg",),
        ("aten::mul.Scalar",),
        "a product with -1",
        _call("aten::mul", _at(0), -1),
        plain=True,
    ),
    Rule(
        "factors",
        ("aten::div.Scalar",),
        ("aten::mul.Scalar",),
        "a product with the inverse of a power of two, which is exact",
        _factor,
        fits=_power_of_two,
        plain=True,
    ),
    Rule(
        "parts",
        ("aten::chunk",),
        ("aten::split.Tensor",),
        "the layer before says how long the parts are",
        _split,
        fits=_split_fits,
        pays="whole",
    ),
    Rule(
        "sizes",
        ("aten::__getitem__.t",),
        ("aten::size.int",),
        "one size of a tensor",
        _size_at,
        fits=_size_at_fits,
    ),
    *(
        Rule(
            "comparisons",
            (f"aten::{less}.{kind}",),
            (f"aten::{more}.{kind}",),
            "the same, from the other side",
            _swapped(f"aten::{more}"),
        )
        for less, more in (("lt", "gt"), ("le", "ge"))
        for kind in ("Tensor", "int", "float")
    ),
    Rule(
        "fills",
        ("aten::zeros_like",),
        ("aten::full_like",),
        "a fill with 0",
        _call("aten::full_like", _at(0), 0, *map(_at, range(1, 6))),
    ),
    Rule(
        "fills",
        ("aten::ones_like",),
        ("aten::full_like",),
        "a fill with 1",
        _call("aten::full_like", _at(0), 1, *map(_at, range(1, 6))),
        pays="shared",
    ),
    Rule(
        "fills",
        ("aten::arange.start",),
        ("aten::arange",),
        "it begins at 0",
        _call("aten::arange", *map(_at, range(1, 6))),
        fits=_is(0, 0),
    ),
    Rule(
        "permute",
        ("aten::transpose.int", "aten::t"),
        ("aten::permute",),
        "permute does it, and needs less code",
        _permute,
        fits=_permute_fits,
        pays="whole",
    ),
)


# --- the conversion ---

# In-place operators whose other form 1.13.1 does not have, or that draw random numbers, or whose
# tensor is there to be written to.
_KEPT_IN_PLACE = re.compile(
    r"aten::(copy|set|resize|resize_as|uniform|normal|random|bernoulli|exponential|geometric"
    r"|log_normal|cauchy|fill|zero|rrelu|dropout|feature_dropout|alpha_dropout|requires_grad)_"
)


@dataclass
class Applied:
    """The rewrites that were applied: (name, from, to, why) -> calls."""

    calls: dict[tuple[str, str, tuple[str, ...], str], int] = field(default_factory=dict)

    def note(self, name: str, old: str, new: tuple[str, ...], why: str, calls: int = 1) -> None:
        key = (name, old, new, why)
        self.calls[key] = self.calls.get(key, 0) + calls

    def rows(self) -> list[dict[str, Any]]:
        return [
            {"name": name, "from": old, "to": list(new), "calls": calls, "why": why}
            for (name, old, new, why), calls in sorted(self.calls.items())
        ]


def _convert(model: str, without: frozenset[str], fold: bool, applied: Applied) -> Any:
    """The frozen module, rewritten."""
    module = torch.jit.load(model).eval()
    methods = [m for m in module._c._method_names() if not _BUNDLING.fullmatch(m)]
    if not methods:
        raise Refused("nothing", "the model has no method of its own")
    kept = [method for method in methods if method != "forward"]
    before = _calls(_inlined(module, methods))
    frozen = torch.jit.freeze(module, preserved_attrs=kept, optimize_numerics=fold)
    graphs = _inlined(frozen, methods)
    left = _calls(graphs)
    for operator, calls in before.items():
        if calls > left.get(operator, 0):
            why = "folded into constants, or not reached in a model that does not learn"
            applied.note("freeze", operator, (), why, calls - left.get(operator, 0))
    if "mutation" not in without:
        for graph in graphs:
            _remove_mutation(graph, applied)
    _rewrite(graphs, without, applied)
    for graph in graphs:
        _tidy(graph)
        torch._C._jit_pass_lint(graph)
    return frozen


def _inlined(module: Any, methods: Sequence[str]) -> list[Graph]:
    graphs = [module._c._get_method(method).graph for method in methods]
    for graph in graphs:
        torch._C._jit_pass_inline(graph)
    return graphs


def _calls(graphs: Sequence[Graph]) -> dict[str, int]:
    """Operator -> calls."""
    found: dict[str, int] = {}
    for graph in graphs:
        for node in _nodes(graph):
            if node.kind().startswith("aten::"):
                found[_operator(node)] = found.get(_operator(node), 0) + 1
    return found


def _tidy(graph: Graph) -> None:
    torch._C._jit_pass_peephole(graph)
    torch._C._jit_pass_peephole_list_idioms(graph)
    torch._C._jit_pass_constant_propagation_immutable_types(graph)
    torch._C._jit_pass_cse(graph)
    torch._C._jit_pass_dce(graph)
    torch._C._jit_pass_constant_pooling(graph)


def _remove_mutation(graph: Graph, applied: Applied) -> None:
    """Not by torch's pass: it gives way to more operators than it removes where tensors are filled,
    and takes all for a tensor of the same dtype."""
    while True:
        found = _unseen_write(graph)
        if found is None:
            return
        old, new = found
        applied.note("mutation", old, (new,), "nothing else sees the tensor that it writes to")


def _in_place(operator: str) -> bool:
    name = operator.partition(".")[0]
    return name.endswith("_") and not name.endswith("__")


def _unseen_write(graph: Graph) -> tuple[str, str] | None:
    """Replaces one call in place that nothing else sees: what it was, and is."""
    blocks = _Blocks(graph)
    aliases = graph.alias_db()
    for node in _nodes(graph):
        kind = node.kind()
        if not _in_place(kind) or _KEPT_IN_PLACE.fullmatch(kind) or node.outputsSize() != 1:
            continue
        if not blocks.is_private(node, aliases):
            continue
        new = graph.create(kind[:-1], list(node.inputs()), 1)
        new.insertBefore(node)
        new.copyMetadata(node)
        new.output().setType(node.inputsAt(0).type())
        if new.schema() == "(no schema)":
            new.destroy()
            continue
        old = _operator(node)
        node.output().replaceAllUsesWith(new.output())
        node.inputsAt(0).replaceAllUsesAfterNodeWith(node, new.output())
        node.destroy()
        return old, _operator(new)
    return None


class _Blocks:
    """The values of a graph, and the way of blocks that leads to each."""

    def __init__(self, graph: Graph) -> None:
        self.values: list[Value] = []
        self.ways: dict[int, tuple[int, ...]] = {}
        self.inputs = {value.unique() for value in graph.inputs()}
        self._count = 0
        self._add(graph, (0,))

    def _add(self, block: Any, way: tuple[int, ...]) -> None:
        self._note(block.inputs(), way)
        for node in block.nodes():
            self._note(node.outputs(), way)
            for inner in node.blocks():
                self._count += 1
                self._add(inner, (*way, self._count))

    def _note(self, found: Any, way: tuple[int, ...]) -> None:
        for value in found:
            self.ways[value.unique()] = way
            self.values.append(value)

    def is_private(self, node: Node, aliases: Any) -> bool:
        """Whether no other value that may be the written one, or hold it, is looked at afterwards.

        What a round of a loop wrote is looked at in the next one by the block's own inputs, which
        get the new value; whatever is from outside of the block is taken for looked at.
        """
        written, result = node.inputsAt(0), node.output()
        way = self.ways[written.unique()]
        if self.ways[result.unique()] != way or self._is_outside(written):
            return False
        own = (written.unique(), result.unique())
        return not any(
            self._is_seen(value, node, way)
            for value in self.values
            if value.unique() not in own and aliases.may_contain_alias(written, value)
        )

    def _is_outside(self, value: Value) -> bool:
        kind = value.node().kind()
        return kind in ("prim::Param", "prim::Constant", "prim::GetAttr")

    def _is_seen(self, value: Value, node: Node, way: tuple[int, ...]) -> bool:
        kind = value.node().kind()
        if value.unique() in self.inputs or kind in ("prim::Constant", "prim::GetAttr"):
            return True
        if self._encloses(value.node(), way):
            return False
        if self.ways[value.unique()][: len(way)] != way:
            return True
        later = kind != "prim::Param" and value.node().isAfter(node)
        return not later and any(use.user.isAfter(node) for use in value.uses())

    def _encloses(self, node: Node, way: tuple[int, ...]) -> bool:
        """Whether a block on the way is one of a node's own: its results come after all of it."""
        if node.kind() not in ("prim::If", "prim::Loop"):
            return False
        return any(
            self.ways[value.unique()][-1] in way
            for block in node.blocks()
            for value in (*block.inputs(), *(o for n in block.nodes() for o in n.outputs()))
        )


def _rewrite(graphs: Sequence[Graph], without: frozenset[str], applied: Applied) -> None:
    rules = [rule for rule in _RULES if rule.name not in without]
    for _ in range(_MOST_ROUNDS):
        for graph in graphs:
            _tidy(graph)
        present = _calls(graphs)
        quantised = any("quant" in _kind_text(node) for g in graphs for node in _nodes(g))
        changed = False
        for rule in rules:
            if rule.plain and quantised:
                continue
            changed |= _apply(rule, graphs, present, applied)
        if not changed:
            return
    raise AssertionError("the rules have no end")


def _kind_text(node: Node) -> str:
    classes = [one.type().str() for one in node.inputs()]
    return " ".join((node.kind(), *(one for one in classes if "classes" in one)))


def _apply(
    rule: Rule, graphs: Sequence[Graph], present: Mapping[str, int], applied: Applied
) -> bool:
    calls = [
        (graph, node)
        for graph in graphs
        for node in _nodes(graph)
        if node.kind().startswith("aten::") and _operator(node) in rule.operators
    ]
    fitting = [(graph, node) for graph, node in calls if rule.fits(list(node.inputs()))]
    there = any(operator in present for operator in rule.becomes)
    if rule.pays == "whole" and len(fitting) < len(calls) and not there:
        return False
    if rule.pays == "shared" and not there:
        return False
    for graph, node in fitting:
        old = _operator(node)
        rule.change(_Change(graph, node), list(node.inputs()))
        applied.note(rule.name, old, rule.becomes, rule.why)
    return bool(fitting)


# --- files ---


def _saved(module: Any, name: str) -> bytes:
    """The `.ptl`, without what the lite interpreter does not read, and the same bytes each time."""
    data = module._save_to_buffer_for_lite_interpreter()
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(out, "w") as new:
        for entry in old.infolist():
            path = entry.filename.partition("/")[2]
            if path.startswith("code/") or path == ".data/serialization_id":
                continue
            record = zipfile.ZipInfo(f"{name}/{path}", _EPOCH)
            record.compress_type = entry.compress_type
            # a field that readers skip moves the record's first byte to the alignment
            start = out.tell() + _LOCAL_HEADER_BYTES + len(record.filename.encode()) + 4
            padding = -start % _ALIGNMENT
            record.extra = b"FB" + padding.to_bytes(2, "little") + b"Z" * padding
            new.writestr(record, old.read(entry))
    return out.getvalue()


# --- values ---

_DTYPES = {
    name: getattr(torch, name)
    for name in (
        *("float32", "float64", "float16", "bfloat16", "int64", "int32", "int16", "int8"),
        *("uint8", "bool", "qint8", "quint8", "qint32", "complex64", "complex128"),
    )
}
_NAMES = {dtype: name for name, dtype in _DTYPES.items()}


def _from_json(value: Mapping[str, Any]) -> Any:
    """A value of the model runner's `--inputs`."""
    kind, content = next(iter(value.items()))
    if kind == "none":
        return None
    if kind == "double":
        return float(content)
    if kind in ("list", "tuple"):
        items = [_from_json(one) for one in content]
        return items if kind == "list" else tuple(items)
    if kind == "tensor":
        data = bytearray(base64.b64decode(content["data"]))
        dtype, shape = _DTYPES[content["dtype"]], content["shape"]
        if not data:
            return torch.empty(shape, dtype=dtype)
        return torch.frombuffer(data, dtype=dtype).reshape(shape).clone()
    return content


def _to_json(value: Any) -> dict[str, Any]:
    """The other way round. Raises Refused."""
    match value:
        case None:
            return {"none": True}
        case bool():
            return {"bool": value}
        case int():
            return {"int": value}
        case float():
            return {"double": value if math.isfinite(value) else str(value)}
        case str():
            return {"string": value}
        case list():
            return {"list": [_to_json(one) for one in value]} | ({} if value else _empty())
        case tuple():
            return {"tuple": [_to_json(one) for one in value]}
        case dict():
            return {"dict": [[_to_json(k), _to_json(v)] for k, v in value.items()]}
        case torch.Tensor() if value.layout == torch.strided and value.dtype in _NAMES:
            return {"tensor": _tensor_json(value)}
    raise Refused("inputs", f"an input of type {type(value).__name__}")


def _empty() -> dict[str, Any]:
    return {"element": "tensor"}


def _tensor_json(tensor: torch.Tensor) -> dict[str, Any]:
    more: dict[str, Any] = {}
    if tensor.is_quantized:
        if tensor.qscheme() != torch.per_tensor_affine:
            raise Refused("inputs", "an input that is quantised per channel")
        more = {"scale": tensor.q_scale(), "zero_point": tensor.q_zero_point()}
    plain = (tensor.int_repr() if tensor.is_quantized else tensor.detach()).contiguous()
    size = plain.numel() * plain.element_size()
    data = ctypes.string_at(plain.data_ptr(), size) if size else b""
    return {
        "dtype": _NAMES[tensor.dtype],
        "shape": list(tensor.shape),
        "data": base64.b64encode(data).decode(),
        **more,
    }


def _copied(value: Any) -> Any:
    match value:
        case torch.Tensor():
            return value.clone()
        case list():
            return [_copied(one) for one in value]
        case tuple():
            return tuple(_copied(one) for one in value)
        case dict():
            return {key: _copied(one) for key, one in value.items()}
    return value


# --- runs ---


@dataclass(frozen=True)
class Call:
    """A call of a method; `kind` says where its inputs come from."""

    method: str
    index: int
    kind: str
    args: tuple[Any, ...]

    @property
    def name(self) -> str:
        more = "" if self.kind == "own" else f", {self.kind}"
        return f"{self.method}[{self.index}]{more}"


def _own_calls(module: Any, declared: list[dict[str, Any]] | None) -> list[Call]:
    if declared is not None:
        return [
            Call(one["method"], number, "own", tuple(map(_from_json, one["args"])))
            for number, one in enumerate(declared)
        ]
    names = module._c._method_names()
    getters = [(name.removeprefix(_GETTER), name) for name in names if name.startswith(_GETTER)]
    if not getters and "get_all_bundled_inputs" in names:
        getters = [("forward", "get_all_bundled_inputs")]
    return [
        Call(method, number, "own", tuple(args))
        for method, getter in getters
        for number, args in enumerate(getattr(module, getter)())
    ]


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    match value:
        case torch.Tensor():
            yield value
        case list() | tuple():
            for one in value:
                yield from _tensors(one)
        case dict():
            for one in value.values():
                yield from _tensors(one)


def _changed(value: Any, change: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    match value:
        case torch.Tensor():
            return change(value)
        case list():
            return [_changed(one, change) for one in value]
        case tuple():
            return tuple(_changed(one, change) for one in value)
        case dict():
            return {key: _changed(one, change) for key, one in value.items()}
    return value


def _along(dim: int, longer: bool, size: int) -> Callable[[torch.Tensor], torch.Tensor]:
    """Other sizes of tensors that have `size` there."""

    def change(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.dim() <= (dim if dim >= 0 else -dim - 1) or tensor.shape[dim] != size:
            return tensor
        step = max(1, size // 4)
        if longer:
            return torch.cat([tensor, tensor.narrow(dim, 0, min(step, size))], dim)
        return tensor.narrow(dim, 0, size - step).contiguous() if size > 1 else tensor

    return change


def _random(generator: torch.Generator, wide: bool) -> Callable[[torch.Tensor], torch.Tensor]:
    """Other values, in the range of those that are there, or of any size."""

    def change(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.is_quantized or not tensor.numel() or tensor.is_complex():
            return tensor
        if tensor.dtype == torch.bool:
            return torch.rand(tensor.shape, generator=generator) < 0.5
        if tensor.is_floating_point():
            if wide:
                made = torch.randn(tensor.shape, generator=generator)
                return (made * tensor.float().std(correction=0).nan_to_num(1.0)).to(tensor.dtype)
            made = torch.rand(tensor.shape, generator=generator)
            least, most = tensor.float().min(), tensor.float().max()
            return (made * (most - least) + least).to(tensor.dtype)
        least, most = int(tensor.min()), int(tensor.max())
        made = torch.randint(least, most + 1, tensor.shape, generator=generator)
        return made.to(tensor.dtype)

    return change


def _further(calls: Sequence[Call]) -> Iterator[Call]:
    """Calls with other batches, other sizes and other values."""
    seen = dict[str, int]()
    for call in calls:
        seen[call.method] = seen.get(call.method, 0) + 1
        if seen[call.method] > _VARIED:
            continue
        tensors = [one for one in _tensors(list(call.args)) if one.dim() and not one.is_quantized]
        if not tensors:
            continue

        def made(
            kind: str, change: Callable[[torch.Tensor], torch.Tensor], call: Call = call
        ) -> Call:
            args = tuple(_changed(one, change) for one in call.args)
            return Call(call.method, call.index, kind, args)

        first, last = tensors[0].shape[0], tensors[0].shape[-1]
        yield made("larger batch", _along(0, True, first))
        if first > 1:
            yield made("smaller batch", _along(0, False, first))
        if any(one.dim() > 1 for one in tensors):
            yield made("longer", _along(-1, True, last))
            if last > 1:
                yield made("shorter", _along(-1, False, last))
        if tensors[0].dim() > 2:
            rows = tensors[0].shape[-2]
            yield made("more rows", _along(-2, True, rows))
            if rows > 1:
                yield made("fewer rows", _along(-2, False, rows))
        for number in range(_RANDOM):
            generator = torch.Generator().manual_seed(1000 * call.index + number)
            yield made(f"random {number}", _random(generator, number == 0))


@dataclass(frozen=True)
class Outcome:
    """What a call gave; its arguments afterwards count too. `error` is set where it raised."""

    value: Any = None
    error: str = ""


def _run(module: Any, call: Call) -> Outcome:
    args = _copied(call.args)
    torch.manual_seed(7)
    try:
        with torch.no_grad():
            value = module.run_method(call.method, *args)
    except Exception as error:
        return Outcome(error=str(error) or type(error).__name__)
    # a copy: the model may write to it at its next call
    return Outcome(_copied([value, list(args)]))


@dataclass
class Difference:
    """The largest difference, and the worst place that is not tolerated."""

    largest: float = 0.0
    bad: str = ""

    def note(self, path: str, what: str) -> None:
        self.bad = self.bad or f"{path}: {what}"


class _Comparison:
    """Two values, by the tolerances of their dtypes.

    An element may differ by the absolute tolerance and the relative one of the largest number in
    its tensor: in sums of positive and negative numbers an error is as large as they are.
    """

    def __init__(self, tolerances: Mapping[str, Sequence[float]]) -> None:
        self.tolerances = tolerances

    def compare(self, expected: Any, seen: Any) -> Difference:
        found = Difference()
        self._value(expected[0], seen[0], "output", found)
        self._value(expected[1], seen[1], "arguments afterwards", found)
        return found

    def _value(self, left: Any, right: Any, path: str, found: Difference) -> None:
        if type(left) is not type(right):
            found.note(path, f"{type(left).__name__}, and now {type(right).__name__}")
        elif isinstance(left, torch.Tensor):
            self._tensor(left, right, path, found)
        elif isinstance(left, list | tuple):
            if len(left) != len(right):
                found.note(path, f"{len(left)} items, and now {len(right)}")
            for number, (one, other) in enumerate(zip(left, right, strict=False)):
                self._value(one, other, f"{path}[{number}]", found)
        elif isinstance(left, dict):
            if list(left) != list(right):
                found.note(path, "other keys")
            else:
                for key in left:
                    self._value(left[key], right[key], f"{path}[{key!r}]", found)
        elif isinstance(left, float):
            self._tensor(torch.tensor(left), torch.tensor(right), path, found)
        elif left != right:
            found.note(path, f"{left!r}, and now {right!r}")

    def _tensor(
        self, left: torch.Tensor, right: torch.Tensor, path: str, found: Difference
    ) -> None:
        if left.dtype != right.dtype or left.shape != right.shape:
            shapes = [
                f"{_NAMES.get(one.dtype, one.dtype)}{list(one.shape)}" for one in (left, right)
            ]
            found.note(path, f"{shapes[0]}, and now {shapes[1]}")
            return
        name = _NAMES.get(left.dtype, "")
        relative, absolute = self.tolerances.get(name, (0.0, 0.0))
        if left.is_quantized:
            left, right = left.int_repr(), right.int_repr()
        if left.is_complex():
            left, right = torch.view_as_real(left), torch.view_as_real(right)
        one, other = left.double(), right.double()
        steady = (one == other) | (one.isnan() & other.isnan())
        if bool(steady.all()):
            return
        apart = (one - other).abs()
        finite = one[one.isfinite()]
        scale = float(finite.abs().max()) if finite.numel() else 0.0
        wrong = ~steady & ~(apart <= absolute + relative * scale)
        measured = apart[~steady & apart.isfinite()]
        if measured.numel():
            found.largest = max(found.largest, float(measured.max()))
        if bool(wrong.any()):
            where = tuple(int(n) for n in wrong.nonzero()[0])
            index = f"[{', '.join(map(str, where))}]" if where else ""
            found.note(f"{path}{index}", f"{float(one[where])!r}, and now {float(other[where])!r}")


def _compared(
    original: bytes, made: bytes, calls: Sequence[Call], comparison: _Comparison
) -> tuple[list[dict[str, Any]], dict[str, Any] | None]:
    """What each call gave in both, and the first one that is wrong."""
    modules = [_load_for_lite_interpreter(io.BytesIO(data)) for data in (original, original, made)]
    rows, wrong = [], None
    for call in calls:
        expected, again, seen = (_run(module, call) for module in modules)
        row: dict[str, Any] = {"call": call.name, "inputs": _shapes(call.args)}
        if expected.error:
            # the model does not take these inputs; what happens then is nobody's business
            if call.kind == "own":
                raise Refused("original", expected.error, call=call.name)
            rows.append(row | {"result": "not taken"})
            continue
        if seen.error:
            bad, largest = f"it fails: {seen.error.strip().splitlines()[-1]}", 0.0
        elif comparison.compare(expected.value, again.value).bad:
            rows.append(row | {"result": "differs by itself"})
            continue
        else:
            difference = comparison.compare(expected.value, seen.value)
            bad, largest = difference.bad, difference.largest
        if bad and wrong is None:
            wrong = {"call": call.name, "inputs": row["inputs"], "difference": bad}
        rows.append(row | {"result": "wrong" if bad else "same", "largest": largest})
    return rows, wrong


def _shapes(args: Sequence[Any]) -> list[str]:
    def text(value: Any) -> str:
        match value:
            case torch.Tensor():
                return f"{_NAMES.get(value.dtype, value.dtype)}{list(value.shape)}"
            case list() | tuple():
                return f"({', '.join(map(text, value))})"
            case dict():
                return f"a dictionary of {len(value)}"
        return repr(value)[:60]

    return [text(value) for value in args]


# --- the program ---


class _Stage:
    """Says how far it got."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __call__(self, text: str) -> None:
        self.file.write_text(text, encoding="utf-8")


def _canonical(request: Mapping[str, Any], stage: _Stage) -> dict[str, Any]:
    folder, original = Path(request["folder"]), Path(request["model"]).read_bytes()
    stage("loading the model")
    try:
        module = torch.jit.load(request["model"])
    except RuntimeError as error:
        raise Refused("load", str(error)) from error
    stage("making its inputs")
    own = _own_calls(module, request["declared"])
    if not own:
        raise Refused("no inputs", "")
    inputs = [{"method": one.method, "args": [_to_json(arg) for arg in one.args]} for one in own]
    calls = [*own, *_further(own)]
    comparison = _Comparison(request["tolerances"])
    asked = frozenset(request["without"])

    def attempt(without: frozenset[str], fold: bool) -> tuple[Any, ...]:
        applied = Applied()
        stage("converting")
        try:
            made = _saved(_convert(request["model"], without, fold, applied), request["name"])
        except RuntimeError as error:
            raise Refused("convert", str(error)) from error
        stage("comparing")
        return made, applied, *_compared(original, made, calls, comparison)

    made, applied, rows, wrong = attempt(asked, True)
    folded = True
    if wrong is not None:
        # without what is not exact: batch norms and factors in the weights of convolutions
        again = attempt(asked, False)
        folded = again[3] is not None
        if not folded:
            made, applied, rows, wrong = again
    if wrong is not None:
        names = sorted({row["name"] for row in applied.rows()} - {"freeze"})
        guilty = [name for name in names if attempt(asked | {name}, True)[3] is None]
        raise Refused("differs", wrong["difference"], **wrong, rewrites=guilty)
    stage("writing")
    (folder / "inputs.json").write_text(json.dumps(inputs, separators=(",", ":")))
    (folder / "canonical.ptl").write_bytes(made)
    return {
        "torch": torch.__version__,
        "folded": folded,
        "rewrites": applied.rows(),
        "comparison": rows,
    }


def _result(request: Mapping[str, Any], stage: _Stage) -> dict[str, Any]:
    """{"torch", "folded", "rewrites": [...], "comparison": [...]}, or {"error": ...}."""
    try:
        return _canonical(request, stage)
    except Refused as error:
        return {"error": {"kind": error.kind, "text": str(error), **error.facts}}
    except MemoryError:
        return {"error": {"kind": "memory", "text": ""}}
    except RuntimeError as error:
        # how torch says that there is no memory left
        kind = "memory" if "alloc" in str(error) else "bug"
        return {"error": {"kind": kind, "text": traceback.format_exc()}}
    except Exception:
        return {"error": {"kind": "bug", "text": traceback.format_exc()}}


def main(arguments: list[str]) -> int:
    request = json.loads(Path(arguments[0]).read_text(encoding="utf-8"))
    folder = Path(request["folder"])
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True, warn_only=True)
    result = _result(request, _Stage(folder / "stage"))
    (folder / "result.json").write_text(json.dumps(result), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
