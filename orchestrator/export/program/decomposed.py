"""Operators of `quantized_decomposed` in PyTorch's arithmetic, as torch itself defines them
(torch/ao/quantization/fx/_decomposed.py), for what has no kernel."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any, Final

import torch

_ATEN: Final = torch.ops.aten


class _Nodes:
    """Writes nodes of a graph, in the place of one of them."""

    def __init__(self, graph: Any, node: Any) -> None:
        self.graph, self.node = graph, node

    def call(self, target: Any, *args: Any, **named: Any) -> Any:
        made = self.graph.call_function(target, args, named)
        stack = self.node.meta.get("stack_trace")
        if stack is not None:
            made.meta["stack_trace"] = stack
        return made

    def number(self, value: Any, kind: type) -> Any:
        """A number, of a tensor that holds one."""
        if not isinstance(value, torch.fx.Node):
            return value
        made = self.call(_ATEN.item.default, value)
        made.meta["val"] = kind()
        return made

    def inverse(self, number: Any) -> Any:
        if isinstance(number, float):
            return 1.0 / number
        made = self.call(operator.truediv, 1.0, number)
        made.meta["val"] = 1.0
        return made

    def along(self, values: Any, axis: int, x: Any) -> Any:
        """Values for each place of a dimension of x."""
        rank = x.meta["val"].dim()
        sizes = [-1 if dim == axis % rank else 1 for dim in range(rank)]
        return self.call(_ATEN.view.default, values, sizes)

    def integers(self, x: Any, factor: Any, zero: Any, limits: tuple[Any, Any], dtype: Any) -> Any:
        scaled = self.call(_ATEN.mul.Tensor, x, factor)
        moved = self.call(_ATEN.add.Tensor, self.call(_ATEN.round.default, scaled), zero)
        inside = self.call(_ATEN.clamp.default, moved, *limits)
        return self.call(_ATEN._to_copy.default, inside, dtype=dtype)

    def numbers(self, x: Any, scale: Any, zero: Any) -> Any:
        made = self.call(_ATEN._to_copy.default, x, dtype=torch.float32)
        moved = made if zero is None else self.call(_ATEN.sub.Tensor, made, zero)
        return self.call(_ATEN.mul.Tensor, moved, scale)


def _quantise(to: _Nodes, x: Any, scale: Any, zero: Any, *its: Any) -> Any:
    least, most, dtype = its
    limits = (to.number(least, int), to.number(most, int))
    factor = to.inverse(to.number(scale, float))
    return to.integers(x, factor, to.number(zero, int), limits, dtype)


def _dequantise(to: _Nodes, x: Any, scale: Any, zero: Any, *its: Any) -> Any:
    return to.numbers(x, to.number(scale, float), to.number(zero, int))


def _quantise_channels(to: _Nodes, x: Any, scales: Any, zeros: Any, axis: int, *its: Any) -> Any:
    factor = to.call(_ATEN.reciprocal.default, to.along(scales, axis, x))
    return to.integers(x, factor, to.along(zeros, axis, x), its[:2], its[2])


def _dequantise_channels(to: _Nodes, x: Any, scales: Any, zeros: Any, axis: int, *its: Any) -> Any:
    zero = None if zeros is None else to.along(zeros, axis, x)
    return to.numbers(x, to.along(scales, axis, x), zero)


def _range(to: _Nodes, x: Any) -> tuple[Any, Any]:
    """The least and the most of a tensor, with 0 between them."""
    least = to.call(_ATEN.clamp.default, to.call(_ATEN.amin.default, x), None, 0.0)
    most = to.call(_ATEN.clamp.default, to.call(_ATEN.amax.default, x), 0.0)
    return least, most


def _choose(to: _Nodes, x: Any, least: int, most: int, eps: float, dtype: Any) -> tuple[Any, Any]:
    low, high = _range(to, x)
    span = to.call(_ATEN.div.Tensor, to.call(_ATEN.sub.Tensor, high, low), float(most - least))
    scale = to.call(_ATEN.clamp.default, span, eps)
    steps = to.call(_ATEN.round.default, to.call(_ATEN.div.Tensor, low, scale))
    zero = to.call(_ATEN.rsub.Scalar, steps, least)
    inside = to.call(_ATEN.clamp.default, zero, least, most)
    return scale, to.call(_ATEN._to_copy.default, inside, dtype=torch.int64)


def _choose_symmetric(
    to: _Nodes, x: Any, least: int, most: int, eps: float, dtype: Any
) -> tuple[Any, Any]:
    low, high = _range(to, x)
    span = to.call(_ATEN.maximum.default, to.call(_ATEN.neg.default, low), high)
    half = to.call(_ATEN.div.Tensor, span, float(most - least) / 2)
    scale = to.call(_ATEN.clamp.default, half, eps)
    zero = 128 if dtype == torch.uint8 else 0
    full = to.call(_ATEN.full_like.default, scale, float(zero))
    return scale, to.call(_ATEN._to_copy.default, full, dtype=torch.int64)


# By name: torch has the operators only where somebody imported what defines them.
_RULES: Final[Mapping[str, Callable[..., Any]]] = {
    "quantize_per_tensor.default": _quantise,
    "quantize_per_tensor.tensor": _quantise,
    "quantize_per_tensor.tensor2": _quantise,
    "dequantize_per_tensor.default": _dequantise,
    "dequantize_per_tensor.tensor": _dequantise,
    "dequantize_per_tensor.tensor2": _dequantise,
    "quantize_per_channel.default": _quantise_channels,
    "dequantize_per_channel.default": _dequantise_channels,
    "choose_qparams.tensor": _choose,
    "choose_qparams_symmetric.tensor": _choose_symmetric,
}


def decompose(graph: Any, node: Any) -> bool:
    """Write a node as arithmetic, in its place; whether there is a rule for it."""
    rule = _RULES.get(str(node.target).removeprefix("quantized_decomposed."))
    if rule is None or node.kwargs.get("out_dtype") not in (None, torch.float32):
        return False
    with graph.inserting_before(node):
        made = rule(_Nodes(graph, node), *node.args)
    if isinstance(made, tuple):
        for user in list(node.users):
            user.replace_all_uses_with(made[user.args[1]])
            graph.erase_node(user)
    else:
        made.meta.setdefault("val", node.meta.get("val"))
        node.replace_all_uses_with(made)
    graph.erase_node(node)
    return True
