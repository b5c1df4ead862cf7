"""PyTorch's int8 kernels, by the operator of float that they stand for."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import torch
from torch import Tensor

from orchestrator.export.program.emission import all_arguments

_ATEN, _INT8 = torch.ops.aten, torch.ops.quantized
_DECOMPOSED = "quantized_decomposed"
FULL: Final = 255
# The same for integers as for the numbers that they stand for: they choose and move.
EXACT: Final = frozenset(
    {
        *(_ATEN.view.default, _ATEN.reshape.default, _ATEN._unsafe_view.default),
        *(_ATEN.flatten.using_ints, _ATEN.permute.default, _ATEN.transpose.int, _ATEN.t.default),
        *(_ATEN.squeeze.dim, _ATEN.squeeze.dims, _ATEN.unsqueeze.default, _ATEN.slice.Tensor),
        *(_ATEN.select.int, _ATEN.max_pool2d.default, _ATEN.clone.default),
        _ATEN.contiguous.default,
    }
)
WITH_RELU: Final[Mapping[Any, Any]] = {
    _INT8.conv1d.default: _INT8.conv1d_relu.default,
    _INT8.conv2d.new: _INT8.conv2d_relu.new,
    _INT8.linear.default: _INT8.linear_relu.default,
    _INT8.add.default: _INT8.add_relu.default,
}
# What is added to integers so that they are of 0 to 255.
SHIFTS: Final[Mapping[Any, int]] = {torch.int8: 128, torch.uint8: 0}
EVERYTHING: Final = (-math.inf, math.inf)


@dataclass(frozen=True)
class Int8:
    """Quantisation of a quint8 tensor; no integer is outside of `least` and `most`."""

    scale: float
    zero: int
    least: int = 0
    most: int = FULL

    def moved(self, by: int) -> Int8:
        """The same numbers in integers that are larger by so much."""
        least, most = max(self.least + by, 0), min(self.most + by, FULL)
        return replace(self, zero=self.zero + by, least=least, most=most)

    def clamped(self, bounds: tuple[float, float]) -> Int8:
        """With the bounds of numbers, too."""
        least, most = (
            limit if math.isinf(one) else min(max(round(one / self.scale) + self.zero, 0), FULL)
            for one, limit in zip(bounds, (self.least, self.most), strict=True)
        )
        return replace(self, least=max(least, self.least), most=min(most, self.most))

    def number(self, integer: int) -> float:
        return (integer - self.zero) * self.scale

    def integers(self, numbers: Tensor) -> Tensor:
        """Quantise numbers as a program does."""
        made = torch.round(numbers * (1.0 / self.scale)) + self.zero
        return made.clamp(0, FULL).to(torch.int16)


@dataclass(frozen=True)
class Call:
    """A call of a kernel; objects among the arguments are the model's state. its: how its result
    is read."""

    target: Any
    args: Sequence[Any]
    its: Int8


@dataclass(frozen=True)
class Site:
    """An operator of float, whose result is quantised.

    its     how
    int8    node -> that of the quantised tensor that it is read from, or None; `int8` in its
            `meta` is how it is read
    weight  node -> a constant quantised tensor, or None
    value   node -> a constant float tensor, or None
    """

    node: Any
    its: Int8
    int8: Callable[[Any], Any]
    weight: Callable[[Any], Tensor | None]
    value: Callable[[Any], Tensor | None]

    @property
    def given(self) -> list[Any]:
        return all_arguments(self.node.target, self.node.args, self.node.kwargs)

    def call(self, kernel: Any, *args: Any) -> Call:
        """Return a call of a kernel that takes the scale and zero point of its result."""
        its = replace(self.its, least=0, most=FULL)
        return Call(kernel, (*args, its.scale, its.zero), its)


# A call, or why there is none.
Rule = Callable[[Site], Call | str]
_NO_INT8 = "its input is not quantised"


def _layer(site: Site) -> tuple[Any, Tensor, Tensor | None] | str:
    """Input, weight and bias of a layer."""
    x, weight, bias = site.given[:3]
    held = site.weight(weight)
    if held is None or held.dtype != torch.qint8:
        return "its weights are no int8 constants"
    numbers = None if bias is None else site.value(bias)
    if bias is not None and numbers is None:
        return "its bias is no constant"
    quantised = site.int8(x)
    return _NO_INT8 if quantised is None else (quantised, held, numbers)


def _convolution(dims: int) -> Rule:
    prepack = {1: _INT8.conv1d_prepack, 2: _INT8.conv2d_prepack}[dims]
    kernel = {1: _INT8.conv1d.default, 2: _INT8.conv2d.new}[dims]

    def rule(site: Site) -> Call | str:
        if site.node.meta["val"].dim() != dims + 2:
            return "it takes no batch"
        found = _layer(site)
        if isinstance(found, str):
            return found
        x, weight, bias = found
        if _axis(weight) != 0:
            return "its weights' scales are not those of its outputs"
        stride, padding, dilation = (
            [*one] * (dims if len(one) == 1 else 1) for one in site.given[3:6]
        )
        packed = prepack(weight, bias, stride, padding, dilation, site.given[6])
        return site.call(kernel, x, packed)

    return rule


def _axis(weight: Tensor) -> int:
    per_tensor = weight.qscheme() == torch.per_tensor_affine
    return 0 if per_tensor else weight.q_per_channel_axis()


def _linear(site: Site) -> Call | str:
    found = _layer(site)
    if isinstance(found, str):
        return found
    x, weight, bias = found
    if _axis(weight) != 0:
        return "its weights' scales are not those of its outputs"
    return site.call(_INT8.linear.default, x, _INT8.linear_prepack(weight, bias))


def _binary(kernel: Any) -> Rule:
    def rule(site: Site) -> Call | str:
        left, right = site.given[:2]
        if len(site.given) > 2 and site.given[2] != 1:
            return "with a factor"
        found = [site.int8(one) for one in (left, right)]
        if None in found:
            return "one of its operands is not quantised"
        return site.call(kernel, *found)

    return rule


def _cat(site: Site) -> Call | str:
    tensors, dim = site.given
    found = [site.int8(one) for one in tensors]
    if None in found:
        return "one of its tensors is not quantised"
    return site.call(_INT8.cat.default, found, dim)


def _averaged(site: Site) -> Call | str:
    """A kernel whose result is read as its input is."""
    x = site.int8(site.given[0])
    if x is None:
        return _NO_INT8
    if site.node.target is _ATEN.mean.dim and site.given[3] is not None:
        return "it changes the dtype"
    its = x.meta["int8"]
    if its.scale != site.its.scale:
        return "its result has another scale than its input"
    return Call(site.node.target, (x, *site.given[1:]), its)


def _sigmoid(site: Site) -> Call | str:
    x = site.int8(site.given[0])
    if x is None:
        return _NO_INT8
    if (site.its.scale, site.its.zero) != (1 / 256, 0):
        return "its kernel gives numbers in steps of 1/256 alone"
    return site.call(_INT8.sigmoid.default, x)


def _leaky(site: Site) -> Call | str:
    x = site.int8(site.given[0])
    if x is None:
        return _NO_INT8
    return site.call(_INT8.leaky_relu.default, x, site.given[1], False)


# No hardswish: QNNPACK's divides by the number of rows, which may be 0.
RULES: Final[Mapping[Any, Rule]] = {
    _ATEN.conv1d.default: _convolution(1),
    _ATEN.conv2d.default: _convolution(2),
    _ATEN.linear.default: _linear,
    _ATEN.add.Tensor: _binary(_INT8.add.default),
    _ATEN.mul.Tensor: _binary(_INT8.mul.default),
    _ATEN.cat.default: _cat,
    _ATEN.mean.dim: _averaged,
    _ATEN.avg_pool2d.default: _averaged,
    _ATEN.adaptive_avg_pool2d.default: _averaged,
    _ATEN.sigmoid.default: _sigmoid,
    _ATEN.leaky_relu.default: _leaky,
}


def reason(node: Any) -> str:
    """Why an operator that nothing was tried for stays as it is."""
    if node.target in RULES:
        return "its result is not quantised, or is read in float too"
    return "PyTorch has no int8 kernel for it that takes its place"


# --- what is around an operator ---


def clamp_of(node: Any) -> tuple[float, float] | None:
    """The bounds of what clamps."""
    target = getattr(node, "target", None)
    if target is _ATEN.relu.default:
        return 0.0, math.inf
    if target is _ATEN.relu6.default:
        return 0.0, 6.0
    if target not in (_ATEN.hardtanh.default, _ATEN.clamp.default, _ATEN.clamp_min.default):
        return None
    given = [*all_arguments(target, node.args, node.kwargs)[1:], None][:2]
    if not all(one is None or isinstance(one, int | float) for one in given):
        return None
    least, most = given
    return -math.inf if least is None else least, math.inf if most is None else most


def before(node: Any) -> tuple[Any, list[Any], tuple[float, float] | None]:
    """Follow a tensor backwards. Returns the node that computes it; the views between, the last
    first; and the bounds of the clamps between (None: no number is within)."""
    views, (least, most) = [], EVERYTHING
    while isinstance(node, torch.fx.Node) and len(node.users) == 1:
        bounds = clamp_of(node)
        if bounds is not None:
            least, most = max(least, bounds[0]), min(most, bounds[1])
        elif node.target in EXACT:
            views.append(node)
        else:
            break
        node = node.args[0]
    return node, views, (least, most) if least <= most else None


def leads_to(node: Any, end: Any) -> bool:
    """True if only clamps and dequantisation follow a tensor, up to `end` or to a value that
    nothing uses."""
    while len(node.users) == 1:
        node = next(iter(node.users))
        if node is end:
            return True
        if node.target is not _ATEN.dequantize.self and not clamp_of(node):
            return False
    return not node.users


def read(node: Any) -> Int8 | None:
    """Return the quantisation of a `quantize_per_tensor`'s result; None if kernels cannot take
    it."""
    return _reading(node, "quantize_per_tensor") if len(node.args) == 6 else None


def _reading(node: Any, name: str) -> Int8 | None:
    if node.target is not getattr(torch.ops.quantized_decomposed, name).default:
        return None
    _, scale, zero, least, most, dtype = node.args
    shift = SHIFTS.get(dtype)
    if shift is None or not all(isinstance(one, int | float) for one in (scale, zero)):
        return None
    its = Int8(float(scale), int(zero) + shift, int(least) + shift, int(most) + shift)
    inside = 0 <= its.least <= its.most <= FULL and 0 <= its.zero <= FULL
    return its if inside else None


def reads(user: Any, node: Any) -> bool:
    """True if a node dequantises another's result with the same parameters."""
    return (
        user.target is torch.ops.quantized_decomposed.dequantize_per_tensor.default
        and user.args[1:6] == node.args[1:6]
        and user.kwargs.get("out_dtype") in (None, torch.float32)
    )


def constant_of(node: Any, constants: Mapping[Any, Tensor]) -> Tensor | None:
    """The quantised tensor of integers of the model's state that a node makes numbers of."""
    names = torch.ops.quantized_decomposed
    per_tensor = node.target is names.dequantize_per_tensor.default
    if not per_tensor and node.target is not names.dequantize_per_channel.default:
        return None
    integers = constants.get(node.args[0])
    if integers is None or node.kwargs.get("out_dtype") not in (None, torch.float32):
        return None
    shift = 128 if integers.dtype == torch.uint8 else 0
    if integers.dtype not in (torch.int8, torch.uint8, torch.int32):
        return None
    kept = (integers.to(torch.int16) - 128).to(torch.int8) if shift else integers
    if per_tensor:
        scale, zero = node.args[1:3]
        return torch._make_per_tensor_quantized_tensor(kept, scale, zero - shift)
    scales, zeros = (constants.get(one) for one in node.args[1:3])
    if scales is None or (zeros is None and node.args[2] is not None):
        return None
    zeros = torch.zeros_like(scales) if zeros is None else zeros
    if bool((zeros != zeros.round()).any()):
        return None
    return torch._make_per_channel_quantized_tensor(
        kept, scales.double(), zeros.long() - shift, node.args[3]
    )


def dynamic_input(node: Any) -> tuple[Any, bool]:
    """Return the tensor that a node dequantises after dynamic quantisation, or None; and True if
    that is to 7 bits."""
    names = torch.ops.quantized_decomposed
    if getattr(node, "target", None) is not names.dequantize_per_tensor.tensor:
        return None, False
    quantised, *reading = node.args
    if quantised.target is not names.quantize_per_tensor.tensor:
        return None, False
    x, *its = quantised.args
    scale, zero, least, most, dtype = its
    chosen: Any = getattr(scale, "args", (None,))[0]
    shift = SHIFTS.get(dtype)
    if (
        its != reading
        or shift is None
        or getattr(chosen, "target", None) is not names.choose_qparams.tensor
        or (scale.args, zero.args) != ((chosen, 0), (chosen, 1))
        or (chosen.args[:3], chosen.args[4]) != ((x, least, most), dtype)
    ):
        return None, False
    limits = (least + shift, most + shift)
    whole = limits == (0, FULL)
    return (x, not whole) if whole or (limits == (0, FULL // 2) and not shift) else (None, False)
