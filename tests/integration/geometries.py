"""Layers of all geometries that models may have, possible or not: drawn at random, from nothing up.

A case is a model of one operator, and the shapes that it is called with one after the other.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from layer_models import Argument, Packed, Weight, layer_model

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Case:
    """An operator, its arguments and the shapes of its inputs."""

    operator: str
    arguments: tuple[Argument, ...]
    shapes: tuple[Shape, ...]

    def model(self) -> bytes:
        return layer_model(self.operator, *self.arguments)

    def __str__(self) -> str:
        return f"{self.operator}{self.arguments} of {self.shapes}"


class _Draw:
    """Numbers of layers: most small, some at their limits."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)

    def one(self, *values: int) -> int:
        return self.rng.choice(values)

    def kernel(self, dims: int) -> Shape:
        if self.rng.random() < 0.5:
            return (self.one(1, 2, 3, 3, 5, 7),) * dims
        return tuple(self.one(1, 1, 2, 3, 4, 5, 6, 9) for _ in range(dims))

    def stride(self, dims: int) -> Shape:
        if self.rng.random() < 0.7:
            return (self.one(1, 1, 2, 3),) * dims
        return tuple(self.one(1, 2, 3, 4, 7, 20) for _ in range(dims))

    def padding(self, dims: int, kernel: Shape) -> Shape:
        return tuple(self.one(0, 0, 1, 2, kernel[i] // 2, kernel[i], 6) for i in range(dims))

    def dilation(self, dims: int) -> Shape:
        if self.rng.random() < 0.7:
            return (1,) * dims
        return tuple(self.one(1, 2, 3, 9) for _ in range(dims))

    def images(self, channels: int, dims: int) -> Shape:
        """One in thirty has other channels; one in ten is an image without a batch; and some have
        no image, or none of its pixels."""
        if self.rng.random() < 1 / 30:
            channels += self.one(-1, 1)
        batch = self.one(1, 1, 1, 2, 3, 0) if self.rng.random() < 0.3 else 1
        sizes = [self.one(1, 2, 3, 4, 5, 6, 7, 8, 9, 13, 16, 17, 31, 40) for _ in range(dims)]
        if self.rng.random() < 1 / 20:
            sizes[self.rng.randrange(dims)] = 0
        return (*([] if self.rng.random() < 1 / 10 else [batch]), channels, *sizes)


def _convolution(draw: _Draw, dims: int, transposed: bool) -> tuple[list[Argument], int]:
    """Weight, bias, stride, padding, output padding, groups, dilation, as it has them; channels."""
    groups = draw.one(1, 1, 1, 2, 3)
    ins, outs = draw.one(1, 2, 3, 4, 5, 8, 17), draw.one(1, 2, 3, 4, 7, 8, 16, 19)
    if draw.rng.random() < 0.3:  # depthwise
        groups, ins, outs = draw.one(2, 3, 8, 16, 17, 33), 1, draw.one(1, 1, 1, 2)
    kernel = draw.kernel(dims)
    first, second = (ins * groups, outs) if transposed else (outs * groups, ins)
    weight = Weight((first, second, *kernel))
    bias = Weight((outs * groups,)) if draw.rng.random() < 0.7 else None
    stride, padding = draw.stride(dims), draw.padding(dims, kernel)
    dilation = draw.dilation(dims)
    if not transposed:
        return [weight, bias, stride, padding, dilation, groups], ins * groups
    more = tuple(draw.one(0, 0, 0, 1, 2) for _ in range(dims))
    return [weight, bias, stride, padding, more, groups, dilation], ins * groups


def _plain(dims: int) -> Callable[[_Draw], Case]:
    def case(draw: _Draw) -> Case:
        arguments, channels = _convolution(draw, dims, transposed=False)
        shapes = tuple(draw.images(channels, dims) for _ in range(4))
        return Case(f"aten::conv{dims}d", ("x", *arguments), shapes)

    return case


def _transposed(dims: int) -> Callable[[_Draw], Case]:
    name = "aten::conv_transpose1d" if dims == 1 else "aten::conv_transpose2d.input"

    def case(draw: _Draw) -> Case:
        arguments, channels = _convolution(draw, dims, transposed=True)
        shapes = tuple(draw.images(channels, dims) for _ in range(4))
        return Case(name, ("x", *arguments), shapes)

    return case


def _general(draw: _Draw) -> Case:
    """`convolution`, of either kind."""
    transposed = draw.rng.random() < 0.5
    parts, channels = _convolution(draw, 2, transposed)
    if transposed:
        weight, bias, stride, padding, more, groups, dilation = parts
    else:
        (weight, bias, stride, padding, dilation, groups), more = parts, (0, 0)
    arguments = ("x", weight, bias, stride, padding, dilation, transposed, more, groups)
    shapes = tuple(draw.images(channels, 2) for _ in range(4))
    return Case("aten::convolution", arguments, shapes)


def _limits(draw: _Draw) -> tuple[Argument, Argument]:
    return (None, None) if draw.rng.random() < 0.5 else (0.0, draw.rng.choice([None, 6.0]))


def _packed(draw: _Draw) -> Case:
    transposed = draw.rng.random() < 0.5
    parts, channels = _convolution(draw, 2, transposed)
    if transposed:
        weight, bias, stride, padding, more, groups, dilation = parts
        parts = [weight, bias, stride, padding, more, dilation, groups]
    name = "TransposeConv2dOpContext" if transposed else "Conv2dOpContext"
    layer = Packed(name, (*parts, *_limits(draw)))
    called = "conv2d_transpose_clamp_run" if transposed else "conv2d_clamp_run"
    shapes = tuple(draw.images(channels, 2) for _ in range(4))
    return Case(f"prepacked::{called}", ("x", layer), shapes)


def _largest(draw: _Draw) -> Case:
    kernel = draw.kernel(2)
    padding, dilation = draw.padding(2, kernel), draw.dilation(2)
    arguments = ("x", kernel, draw.stride(2), padding, dilation, draw.rng.random() < 0.5)
    shapes = tuple(draw.images(draw.one(1, 3, 8, 17), 2) for _ in range(4))
    return Case("aten::max_pool2d", arguments, shapes)


def _means(draw: _Draw) -> Case:
    kernel = draw.kernel(2)
    divisor = draw.rng.choice([None, None, 1, 3])
    flags = draw.rng.random() < 0.5, draw.rng.random() < 0.5
    arguments = ("x", kernel, draw.stride(2), draw.padding(2, kernel), *flags, divisor)
    shapes = tuple(draw.images(draw.one(1, 3, 8, 17), 2) for _ in range(4))
    return Case("aten::avg_pool2d", arguments, shapes)


def _rows(draw: _Draw, wide: int) -> tuple[Shape, ...]:
    """Shapes of one to four dimensions, some of another width."""
    shapes = []
    for _ in range(4):
        width = wide + (draw.one(-1, 1) if draw.rng.random() < 1 / 15 else 0)
        before = [draw.one(0, 1, 1, 2, 3, 5, 8) for _ in range(draw.one(0, 1, 1, 2, 3))]
        shapes.append((*before, width))
    return tuple(shapes)


def _linear(draw: _Draw) -> Case:
    wide, high = draw.one(1, 2, 3, 4, 7, 16, 33), draw.one(1, 2, 3, 5, 8, 17, 32)
    if draw.rng.random() < 0.2:
        layer = Packed("LinearOpContext", (Weight((high, wide)), Weight((high,)), *_limits(draw)))
        return Case("prepacked::linear_clamp_run", ("x", layer), _rows(draw, wide))
    bias = Weight((high,)) if draw.rng.random() < 0.7 else None
    return Case("aten::linear", ("x", Weight((high, wide)), bias), _rows(draw, wide))


def _product(draw: _Draw) -> Case:
    wide, high, batch = (
        draw.one(1, 2, 3, 4, 7, 16, 33),
        draw.one(1, 2, 3, 5, 8, 17),
        draw.one(1, 2, 3),
    )
    shapes = _rows(draw, wide)
    match draw.one(0, 1, 2, 3):
        case 0:
            batches = (batch,) if draw.rng.random() < 0.4 else ()
            return Case("aten::matmul", ("x", Weight((*batches, wide, high))), shapes)
        case 1:
            return Case("aten::mm", ("x", Weight((wide, high))), shapes)
        case 2:
            batched = tuple(
                (draw.one(batch, batch, batch + 1), draw.one(0, 1, 2, 5), wide) for _ in range(4)
            )
            return Case("aten::bmm", ("x", Weight((batch, wide, high))), batched)
        case _:
            return Case("aten::addmm", (Weight((high,)), "x", Weight((wide, high)), 1, 1), shapes)


KINDS: Mapping[str, Callable[[_Draw], Case]] = {
    "conv1d": _plain(1),
    "conv2d": _plain(2),
    "transposed1d": _transposed(1),
    "transposed2d": _transposed(2),
    "convolution": _general,
    "packed": _packed,
    "largest": _largest,
    "means": _means,
    "linear": _linear,
    "product": _product,
}


def cases(seed: int, count: int) -> Iterator[Case]:
    """So many, of each kind as many."""
    kinds = list(KINDS.values())
    for i in range(count):
        yield kinds[i % len(kinds)](_Draw(seed * 1_000_003 + i))


def samples() -> Mapping[str, Case]:
    """A possible layer of each operator, for an app to be traced with."""
    plain, turned = Weight((4, 2, 3, 3)), Weight((4, 3, 3, 3))
    pair, none, image = (1, 1), (0, 0), ((2, 4, 8, 8),)
    layer = Packed("Conv2dOpContext", (plain, None, pair, pair, pair, 2, 0.0, 6.0))
    up = Packed("TransposeConv2dOpContext", (turned, None, pair, none, none, pair, 1, 0.0, None))
    flat = Packed("LinearOpContext", (Weight((5, 4)), Weight((5,)), None, 1.0))
    line = ((2, 4, 8),)
    wide = Weight((4, 5))
    return {
        "conv1d": Case("aten::conv1d", ("x", Weight((4, 2, 3)), None, (1,), (1,), (1,), 2), line),
        "conv2d": Case("aten::conv2d", ("x", plain, Weight((4,)), pair, pair, pair, 2), image),
        "transposed1d": Case(
            "aten::conv_transpose1d",
            ("x", Weight((4, 3, 3)), None, (2,), (1,), (0,), 1, (1,)),
            line,
        ),
        "transposed2d": Case(
            "aten::conv_transpose2d.input", ("x", turned, None, (2, 2), pair, none, 1, pair), image
        ),
        "convolution": Case(
            "aten::convolution", ("x", plain, None, pair, pair, pair, False, none, 2), image
        ),
        "packed": Case("prepacked::conv2d_clamp_run", ("x", layer), image),
        "packed_up": Case("prepacked::conv2d_transpose_clamp_run", ("x", up), image),
        "packed_rows": Case("prepacked::linear_clamp_run", ("x", flat), ((3, 4),)),
        "largest": Case("aten::max_pool2d", ("x", (2, 2), (2, 2), none, pair, False), image),
        "means": Case("aten::avg_pool2d", ("x", (2, 2), (2, 2), none, False, True, None), image),
        "linear": Case("aten::linear", ("x", Weight((5, 4)), Weight((5,))), ((3, 4),)),
        "matmul": Case("aten::matmul", ("x", wide), ((2, 3, 4),)),
        "mm": Case("aten::mm", ("x", wide), ((3, 4),)),
        "bmm": Case("aten::bmm", ("x", Weight((2, 4, 5))), ((2, 3, 4),)),
        "addmm": Case("aten::addmm", (Weight((5,)), "x", wide, 1, 1), ((3, 4),)),
    }
