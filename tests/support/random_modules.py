"""Random modules of PyTorch, as the text of a class, and calls of them: a grammar, and a shrinker.

Every size is a tuple: its number for each of the `SIZES` sets of inputs that a module is called
with. A module is what a list of whole numbers chooses, each between two limits; the least is
simplest, so a failure is made small by leaving numbers out and making them less. Not hypothesis:
its examples come in families that differ in little, and a campaign's tries have numbers.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeVar

SIZES: Final = 3
T = TypeVar("T")
Size = tuple[int, ...]
Shape = tuple[Size, ...]

FLOAT, DOUBLE, HALF, LONG, INT, SHORT, CHAR, BYTE, BOOL = (
    *("float32", "float64", "float16", "int64", "int32", "int16", "int8", "uint8", "bool"),
)
# What gives a view or a copy, as the tensor lies in memory.
_UNSURE: Final = ("reshape(", "flatten(", "contiguous(")
_FLOATS: Final = (FLOAT, DOUBLE, HALF)
_INTEGERS: Final = (BYTE, CHAR, SHORT, INT, LONG)
_ORDER: Final = (BOOL, *_INTEGERS, HALF, FLOAT, DOUBLE)
LAYOUTS: Final = ("contiguous", "sliced", "transposed", "expanded", "offset")


@dataclass(frozen=True)
class Given:
    """An input tensor: what it is made of.

    same     it shares the memory of that input
    earlier  it is what that call gave, where something of it has the dtype and the shape
    special  one of its numbers is NaN or an infinity, if it is floating-point
    """

    shape: tuple[int, ...]
    dtype: str
    layout: str
    seed: int
    same: int | None = None
    earlier: int | None = None
    special: bool = False


@dataclass(frozen=True)
class Call:
    """A call of a method."""

    method: str
    given: tuple[Given | int, ...]


@dataclass(frozen=True)
class Drawn:
    """A module and the calls of it, one after the other."""

    source: str
    calls: tuple[Call, ...]
    seed: int

    def __repr__(self) -> str:
        calls = "\n".join(f"  {call.method}{call.given}" for call in self.calls)
        return f"\n{self.source}\ncalls, weights of seed {self.seed}:\n{calls}\n"


@dataclass(frozen=True)
class _Value:
    """A tensor that a statement may use.

    is_whole  no two of its elements are one place in memory
    is_sure   whether it shares memory with another does not depend on how that lies in memory,
              which is for kernels to say
    """

    text: str
    dtype: str
    shape: Shape
    is_whole: bool = True
    is_sure: bool = True

    @property
    def is_float(self) -> bool:
        return self.dtype in _FLOATS


def _fixed(number: int) -> Size:
    return (number,) * SIZES


def _is_fixed(size: Size) -> bool:
    return len(set(size)) == 1


def _names(text: str, name: str) -> bool:
    return re.search(rf"\b{re.escape(name)}\b", text) is not None


def _count(shape: Shape) -> Size:
    total = _fixed(1)
    for size in shape:
        total = tuple(a * b for a, b in zip(total, size, strict=True))
    return total


def _broadcast(one: Shape, other: Shape) -> Shape | None:
    """The shape of a result of both; None where they do not go together."""
    length = max(len(one), len(other))
    ones = (_fixed(1),)
    pairs = zip(ones * (length - len(one)) + one, ones * (length - len(other)) + other, strict=True)
    shape = []
    for left, right in pairs:
        if left != right and _fixed(1) not in (left, right):
            return None
        shape.append(right if left == _fixed(1) else left)
    return tuple(shape)


def _promoted(one: _Value, other: _Value) -> str:
    """The dtype of a sum."""

    def category(dtype: str) -> int:
        return 0 if dtype == BOOL else 1 if dtype in _INTEGERS else 2

    if (not one.shape) != (not other.shape):
        scalar, full = (one, other) if not one.shape else (other, one)
        if category(scalar.dtype) <= category(full.dtype):
            return full.dtype
    if {one.dtype, other.dtype} == {BYTE, CHAR}:
        return SHORT
    return max(one.dtype, other.dtype, key=_ORDER.index)


@dataclass
class _Writer:
    """Writes one module."""

    choose: Callable[[int, int], int]
    made: list[str] = field(default_factory=list)  # lines of __init__
    lines: list[str] = field(default_factory=list)  # of the method that is being written
    values: list[_Value] = field(default_factory=list)
    state: list[_Value] = field(default_factory=list)
    layers: list[tuple[str, str, tuple[Any, ...]]] = field(default_factory=list)
    lists: list[tuple[str, list[_Value]]] = field(default_factory=list)
    depth: int = 2
    count: int = 0
    counts_calls: bool = False
    prefers_state: int = 15  # in a hundred

    # ---- Drawing ----

    def pick(self, options: Sequence[T]) -> T:
        return options[self.number(0, len(options) - 1)]

    def number(self, least: int, most: int) -> int:
        return self.choose(least, most)

    def chance(self, percent: int) -> bool:
        return self.number(0, 99) >= 100 - percent

    def name(self, start: str) -> str:
        self.count += 1
        return f"{start}{self.count}"

    def line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    def take(
        self, fits: Callable[[_Value], bool] = lambda _: True, state: bool = True
    ) -> _Value | None:
        """A value that fits; the newest first."""
        found = [one for one in reversed(self.values) if fits(one)]
        if state and (not found or self.chance(self.prefers_state)):
            found = [one for one in self.state if fits(one)] or found
        return self.pick(found) if found else None

    def put(self, text: str, dtype: str, shape: Shape, is_whole: bool = True) -> bool:
        """A new variable."""
        is_sure = not any(one in text for one in _UNSURE) and all(
            one.is_sure for one in self.values if not one.is_sure and _names(text, one.text)
        )
        if max(_count(shape)) > 4000:
            return False
        name = self.name("v")
        self.line(f"{name} = {text}")
        if not is_sure:
            # a write to what it may be a view of is a write to it, or none
            self.values = [
                replace(one, is_sure=one.is_sure and not _names(text, one.text))
                for one in self.values
            ]
        self.values.append(_Value(name, dtype, shape, is_whole, is_sure))
        return True

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """A block: what it defines ends with it."""
        values, lists, length = list(self.values), list(self.lists), len(self.lines)
        self.line(head)
        self.depth += 1
        yield
        if len(self.lines) == length + 1:
            self.line("pass")
        self.depth -= 1
        self.values, self.lists = values, lists

    # ---- Statements: each says whether it wrote something ----

    def statement(self) -> None:
        kinds = (
            *(self.unary,) * 5,
            *(self.binary,) * 5,
            *(self.layer,) * 8,
            *(self.view,) * 6,
            *(self.in_place,) * 7,
            *(self.alias,) * 4,
            *(self.functional,) * 5,
            *(self.reduction,) * 2,
            *(self.joined,) * 3,
            *(self.cast,) * 1,
            *(self.passing,) * 1,
            *(self.indexed,) * 2,
            *(self.assigned,) * 3,
            *(self.container,) * 3,
            *(self.control,) * 4,
        )
        for _ in range(4):
            if self.pick(kinds)():
                return

    def unary(self) -> bool:
        value = self.take()
        if value is None:
            return False
        x = value.text
        if value.is_float:
            dims = (
                f"dim={self.number(-len(value.shape), len(value.shape) - 1)}"
                if value.shape
                else "dim=0"
            )
            text = self.pick(
                (
                    *(f"F.relu({x})", f"torch.sigmoid({x})", f"torch.tanh({x})", f"{x} * 2"),
                    *(f"{x} + 1.5", f"1 - {x}", f"F.relu6({x})", f"torch.clamp({x}, -1.0, 2.0)"),
                    *(f"torch.clamp({x}, min=0.25)", f"F.hardtanh({x})", f"F.leaky_relu({x}, 0.1)"),
                    *(f"F.silu({x})", f"F.gelu({x})", f"F.hardswish({x})", f"F.elu({x})"),
                    *(f"F.softplus({x})", f"F.mish({x})", f"torch.abs({x})", f"-{x}"),
                    *(f"torch.sqrt(torch.abs({x}))", f"torch.sin({x})", f"torch.cos({x})"),
                    *(f"torch.exp(torch.clamp({x}, -4.0, 4.0))", f"torch.log(torch.abs({x}) + 1)"),
                    *(f"torch.rsqrt(torch.abs({x}) + 1)", f"torch.floor({x})", f"torch.round({x})"),
                    *(f"{x} / 4", f"{x} ** 2", f"torch.sign({x})", f"F.hardsigmoid({x})"),
                    *(f"torch.nan_to_num({x}, 0, 9, -9)", f"F.softsign({x})", f"torch.trunc({x})"),
                    *(f"torch.softmax({x}, {dims})", f"torch.log_softmax({x}, {dims})"),
                    *(f"F.normalize({x}, {dims})", f"torch.cumsum({x}, {dims})"),
                    *(f"{x} % 2", f"torch.expm1(torch.clamp({x}, -4.0, 4.0))", f"F.selu({x})"),
                    *(f"F.dropout({x}, 0.5, False)", f"torch.erf({x})", f"torch.square({x})"),
                )
            )
            return self.put(text, value.dtype, value.shape)
        if value.dtype == BOOL:
            return self.put(self.pick((f"~{x}", f"torch.logical_not({x})")), BOOL, value.shape)
        text = self.pick(
            (f"{x} + 1", f"{x} * 2", f"torch.clamp({x}, 0, 5)", f"{x} % 3", f"{x} // 2", f"-{x}")
        )
        return self.put(text, value.dtype, value.shape)

    def binary(self) -> bool:
        one = self.take()
        if one is None:
            return False
        other = self.take(lambda value: _broadcast(one.shape, value.shape) is not None)
        assert other is not None
        shape = _broadcast(one.shape, other.shape)
        assert shape is not None
        a, b, dtype = one.text, other.text, _promoted(one, other)
        kind = self.number(0, 9)
        if kind <= 2 or dtype == BOOL:
            text = self.pick((f"{a} + {b}", f"{a} * {b}", f"torch.add({a}, {b})"))
        elif kind <= 4:
            text = f"{a} - {b}" if BOOL not in (one.dtype, other.dtype) else f"{a} * {b}"
        elif kind == 5:
            text = self.pick((f"torch.maximum({a}, {b})", f"torch.minimum({a}, {b})"))
        elif kind == 6:
            return self.put(
                self.pick((f"{a} > {b}", f"{a} <= {b}", f"{a} == {b}", f"{a} != {b}")), BOOL, shape
            )
        elif kind == 7:
            text = f"torch.where({a} > 0, {a}, {b})"
        elif kind == 8:
            text = f"{a} / (torch.abs({b}) + 1)" if other.dtype != BOOL else f"{a} + {b}"
            if dtype not in _FLOATS and other.dtype != BOOL:
                dtype = FLOAT
        elif one.dtype == other.dtype and one.is_float:
            text = (
                f"torch.lerp({a}, {b}, 0.5)" if len(one.shape) == len(other.shape) else f"{a} + {b}"
            )
        else:
            text = f"{a} + {b}"
        return self.put(text, dtype, shape)

    def cast(self) -> bool:
        value = self.take()
        if value is None:
            return False
        dtype = self.pick((FLOAT, DOUBLE, LONG, INT, BYTE, BOOL, HALF, CHAR, SHORT))
        x = value.text
        if value.is_float and dtype in _INTEGERS:
            least = 0 if dtype == BYTE else -100
            x = f"torch.clamp(torch.nan_to_num({x}), {least}, 100)"
        whole = value.is_whole or dtype != value.dtype
        return self.put(f"{x}.to(torch.{dtype})", dtype, value.shape, whole)

    def passing(self) -> bool:
        """Through dtypes that no NumPy array has, or that no input has."""
        value = self.take(lambda v: v.dtype == FLOAT)
        if value is None:
            return False
        x = f"torch.round({value.text})"
        if self.chance(50):
            inner = self.pick(("{} + 1", "{} * 0.5", "torch.relu({})", "-{}", "torch.abs({})"))
            inner = inner.format(f"torch.clamp({x}, -64, 64).to(torch.bfloat16)")
            return self.put(f"({inner}).to(torch.float32)", FLOAT, value.shape)
        made = f"torch.complex({x}, {value.text})"
        if self.chance(30):
            return self.put(f"torch.view_as_real({made})", FLOAT, (*value.shape, _fixed(2)))
        text = self.pick(
            (
                f"torch.real({made} * {made})",
                f"torch.imag({made} + 2)",
                f"torch.real(torch.conj({made}) * 2)",
            )
        )
        return self.put(text, FLOAT, value.shape, False)

    # ---- Layers ----

    def weight(self, shape: tuple[int, ...]) -> str:
        """A tensor of the module's own, of float32."""
        name = self.name("w")
        self.made.append(f"self.register_buffer('{name}', weights({shape}))")
        value = _Value(f"self.{name}", FLOAT, tuple(map(_fixed, shape)))
        self.state.append(value)
        return value.text

    def made_layer(self, kind: str, key: tuple[Any, ...], text: str) -> str:
        """A layer of the module, a new one or one that is there."""
        same = [name for name, its_kind, its in self.layers if (its_kind, its) == (kind, key)]
        if same and self.chance(60):
            return self.pick(same)
        name = self.name("l")
        self.made.append(f"self.{name} = {text}")
        self.layers.append((name, kind, key))
        if kind in ("linear", "conv1d", "conv2d") and self.chance(30):
            shape = key[-1]
            self.state.append(_Value(f"self.{name}.weight", FLOAT, tuple(map(_fixed, shape))))
        return name

    def layer(self) -> bool:
        value = self.take(lambda v: v.dtype == FLOAT and len(v.shape) >= 1)
        if value is None:
            return False
        rank = len(value.shape)
        kinds: list[Callable[[_Value], bool]] = [self.linear]
        if rank in (3, 4) and _is_fixed(value.shape[1]) and value.shape[1][0] > 0:
            kinds += [self.convolution] * 3 + [self.transposed]
        if rank in (3, 4):
            kinds += [self.pool] * 2
        if rank == 3:
            kinds += [self.recurrent, self.attention]
        if rank == 4:
            kinds += [self.resized]
        kinds += [self.norm] * 2 + [self.embedding]
        return self.pick(kinds)(value)

    def linear(self, value: _Value) -> bool:
        last = value.shape[-1]
        if not _is_fixed(last) or last[0] == 0:
            return False
        outs, bias = self.pick((3, 1, 4, last[0], 16)), self.chance(70)
        name = self.made_layer(
            "linear", (bias, (outs, last[0])), f"nn.Linear({last[0]}, {outs}, bias={bias})"
        )
        return self.put(
            self.followed(f"self.{name}({value.text})"), FLOAT, (*value.shape[:-1], _fixed(outs))
        )

    def followed(self, text: str) -> str:
        """Something that may be one with a layer."""
        if self.chance(40):
            start = self.pick(
                ("F.relu({})", "F.relu6({})", "torch.clamp({}, -0.5, 0.5)", "F.hardtanh({})")
            )
            return start.format(text)
        return text

    def geometry(self, dims: int) -> tuple[tuple[int, ...], ...]:
        """Kernel, stride, padding, dilation."""

        def one(*values: int) -> tuple[int, ...]:
            if self.chance(60):
                return (self.pick(values),) * dims
            return tuple(self.pick(values) for _ in range(dims))

        return one(3, 1, 2, 5), one(1, 2, 3), one(0, 1, 2), one(1, 1, 2)

    def convolution(self, value: _Value) -> bool:
        dims, ins = len(value.shape) - 2, value.shape[1][0]
        kernel, stride, padding, dilation = self.geometry(dims)
        groups = self.pick((1, ins, 1)) if ins <= 8 else 1
        outs = groups * self.pick((1, 2, 3, 4)) if groups > 1 else self.pick((4, 1, 3, 8))
        bias, mode = self.chance(70), self.pick(("zeros",) * 8 + ("replicate", "circular"))
        key = (stride, padding, dilation, bias, mode, (outs, ins // groups, *kernel))
        text = (
            f"nn.Conv{dims}d({ins}, {outs}, {kernel}, {stride}, {padding}, {dilation}, {groups},"
            f" {bias}, '{mode}')"
        )
        shape = [value.shape[0], _fixed(outs)]
        for size, k, s, p, d in zip(
            value.shape[2:], kernel, stride, padding, dilation, strict=True
        ):
            shape.append(tuple(max((n + 2 * p - d * (k - 1) - 1) // s + 1, 0) for n in size))
        name = self.made_layer(f"conv{dims}d", key, text)
        text = f"self.{name}({value.text})"
        if self.chance(25):
            norm = self.made_layer("norm", (dims, outs), f"nn.BatchNorm{dims}d({outs})")
            text = f"self.{norm}({text})"
        return self.put(self.followed(text), FLOAT, tuple(shape))

    def transposed(self, value: _Value) -> bool:
        dims, ins = len(value.shape) - 2, value.shape[1][0]
        kernel, stride, padding, dilation = self.geometry(dims)
        groups = self.pick((1, ins)) if ins <= 8 else 1
        outs = groups * self.pick((1, 2, 3))
        more = tuple(self.pick((0, s - 1, 0)) for s in stride)
        text = (
            f"nn.ConvTranspose{dims}d({ins}, {outs}, {kernel}, {stride}, {padding}, {more},"
            f" {groups}, True, {dilation})"
        )
        shape = [value.shape[0], _fixed(outs)]
        sizes = zip(value.shape[2:], kernel, stride, padding, dilation, more, strict=True)
        for size, k, s, p, d, m in sizes:
            shape.append(tuple(max((n - 1) * s - 2 * p + d * (k - 1) + m + 1, 0) for n in size))
        name = self.made_layer("transposed", (text,), text)
        return self.put(self.followed(f"self.{name}({value.text})"), FLOAT, tuple(shape))

    def pool(self, value: _Value) -> bool:
        dims = len(value.shape) - 2
        kernel, stride, padding, dilation = self.geometry(dims)
        if self.chance(30):
            out = self.pick((1, 2, 3))
            kind = self.pick(("avg", "avg", "max"))
            smaller = (*value.shape[:2], *[_fixed(out)] * dims)
            return self.put(
                f"F.adaptive_{kind}_pool{dims}d({value.text}, {(out,) * dims})", FLOAT, smaller
            )
        is_max, up = self.chance(50), self.chance(25)
        padding = tuple(min(p, k // 2) for p, k in zip(padding, kernel, strict=True))
        if not is_max:
            dilation = (1,) * dims
        shape = list(value.shape[:2])
        for size, k, s, p, d in zip(
            value.shape[2:], kernel, stride, padding, dilation, strict=True
        ):
            sizes = []
            for n in size:
                span = n + 2 * p - d * (k - 1) - 1
                out = (-(-span // s) if up else span // s) + 1
                sizes.append(max(out - (up and (out - 1) * s >= n + p), 0))
            shape.append(tuple(sizes))
        if is_max:
            text = (
                f"F.max_pool{dims}d({value.text}, {kernel}, {stride}, {padding}, {dilation}, {up})"
            )
        else:
            count = self.pick((True, False))
            text = f"F.avg_pool{dims}d({value.text}, {kernel}, {stride}, {padding}, {up}, {count})"
        return self.put(text, FLOAT, tuple(shape))

    def norm(self, value: _Value) -> bool:
        rank, last = len(value.shape), value.shape[-1]
        if self.chance(40) and _is_fixed(last) and last[0] > 0:
            name = self.made_layer("layer_norm", last, f"nn.LayerNorm({last[0]})")
            return self.put(f"self.{name}({value.text})", FLOAT, value.shape)
        if rank < 3 or not _is_fixed(value.shape[1]) or value.shape[1][0] == 0:
            return False
        channels, dims = value.shape[1][0], rank - 2
        if dims > 2:
            return False
        kind = self.number(0, 3)
        if kind == 0:
            name = self.made_layer("norm", (dims, channels), f"nn.BatchNorm{dims}d({channels})")
        elif kind == 1:
            groups = self.pick((1, channels))
            name = self.made_layer(
                "group", (groups, channels), f"nn.GroupNorm({groups}, {channels})"
            )
        elif kind == 2:
            text = f"nn.InstanceNorm{dims}d({channels}, affine=True)"
            name = self.made_layer("instance", (dims, channels), text)
        else:
            mean, deviation = self.weight((channels,)), self.weight((channels,))
            training = self.chance(50)
            text = f"F.batch_norm({value.text}, {mean}, {deviation}, None, None, {training}, 0.5)"
            return self.put(text, FLOAT, value.shape)
        return self.put(f"self.{name}({value.text})", FLOAT, value.shape)

    def recurrent(self, value: _Value) -> bool:
        last = value.shape[2]
        if not _is_fixed(last) or last[0] == 0 or 0 in (*value.shape[0], *value.shape[1]):
            return False
        kind, hidden = self.pick(("LSTM", "GRU")), self.pick((3, 4, 1))
        first, both, layers = self.chance(50), self.chance(30), self.pick((1, 2))
        text = (
            f"nn.{kind}({last[0]}, {hidden}, {layers}, batch_first={first}, bidirectional={both})"
        )
        name = self.made_layer("recurrent", (text,), text)
        output, kept, cell = self.name("v"), self.name("v"), self.name("v")
        results = f"({kept}, {cell})" if kind == "LSTM" else kept
        self.line(f"{output}, {results} = self.{name}({value.text})")
        ways = 2 if both else 1
        self.values.append(_Value(output, FLOAT, (*value.shape[:2], _fixed(hidden * ways))))
        batch = value.shape[0 if first else 1]
        for one in (kept, cell) if kind == "LSTM" else (kept,):
            self.values.append(_Value(one, FLOAT, (_fixed(layers * ways), batch, _fixed(hidden))))
        return True

    def attention(self, value: _Value) -> bool:
        last = value.shape[2]
        x = value.text
        if self.chance(50) and _is_fixed(last) and last[0] in (2, 4, 8, 16):
            text = f"nn.MultiheadAttention({last[0]}, 2, batch_first={self.chance(50)})"
            name = self.made_layer("attention", (text,), text)
            weighs = self.chance(50)
            return self.put(
                f"self.{name}({x}, {x}, {x}, need_weights={weighs})[0]", FLOAT, value.shape
            )
        causal = self.chance(30)
        return self.put(
            f"F.scaled_dot_product_attention({x}, {x}, {x}, is_causal={causal})", FLOAT, value.shape
        )

    def resized(self, value: _Value) -> bool:
        if self.chance(50):
            mode = self.pick(("'nearest'", "'bilinear', align_corners=False"))
            shape = (*value.shape[:2], *(tuple(2 * n for n in size) for size in value.shape[2:]))
            return self.put(
                f"F.interpolate({value.text}, scale_factor=2.0, mode={mode})", FLOAT, shape
            )
        channels = value.shape[1]
        if not _is_fixed(channels) or channels[0] % 4:
            return False
        shape = (
            *(value.shape[0], _fixed(channels[0] // 4)),
            *(tuple(2 * n for n in size) for size in value.shape[2:]),
        )
        return self.put(f"F.pixel_shuffle({value.text}, 2)", FLOAT, shape)

    def embedding(self, _value: _Value) -> bool:
        value = self.take(lambda v: v.dtype in (LONG, INT) and len(v.shape) <= 2)
        if value is None:
            return False
        rows, width = self.pick((5, 1, 10)), self.pick((4, 1, 3))
        name = self.made_layer("embedding", (rows, width), f"nn.Embedding({rows}, {width})")
        return self.put(f"self.{name}({value.text} % {rows})", FLOAT, (*value.shape, _fixed(width)))

    def functional(self) -> bool:
        """A layer whose weight is a value: the module's own, a view of one, an input's."""
        value = self.take(lambda v: v.dtype == FLOAT and len(v.shape) >= 2, state=False)
        if value is None:
            return False
        last, rank = value.shape[-1], len(value.shape)
        if rank in (3, 4) and self.chance(50):
            channels, dims = value.shape[1], rank - 2
            if not _is_fixed(channels) or channels[0] == 0:
                return False

            def fits(v: _Value) -> bool:
                return (
                    v.dtype == FLOAT
                    and len(v.shape) == rank
                    and all(_is_fixed(n) and n[0] > 0 for n in v.shape)
                    and v.shape[1] == channels
                    and all(n[0] <= 5 for n in v.shape[2:])
                )

            weight = self.take(fits) if self.chance(60) else None
            if weight is None:
                sizes = (self.pick((2, 4, 3)), channels[0], *[self.pick((1, 3))] * dims)
                text, kernel = self.weight(sizes), sizes
            else:
                text, kernel = weight.text, tuple(n[0] for n in weight.shape)
            shape = [value.shape[0], _fixed(kernel[0])]
            for size, k in zip(value.shape[2:], kernel[2:], strict=True):
                shape.append(tuple(max(n + 2 - k + 1, 0) for n in size))
            text = self.followed(f"F.conv{dims}d({value.text}, {text}, padding=1)")
            return self.put(text, FLOAT, tuple(shape))
        if not _is_fixed(last) or last[0] == 0:
            return False

        def is_matrix(v: _Value) -> bool:
            return v.dtype == FLOAT and len(v.shape) == 2 and v.shape[1] == last

        weight = self.take(is_matrix) if self.chance(60) else None
        if weight is None:
            outs = self.pick((4, 2, 1))
            text, rows = self.weight((outs, last[0])), _fixed(outs)
        else:
            text, rows = weight.text, weight.shape[0]
        x = value.text
        way = self.pick(
            (
                f"F.linear({x}, {text})",
                f"torch.matmul({x}, {text}.t())",
                f"{x} @ {text}.transpose(0, 1)",
            )
        )
        return self.put(self.followed(way), FLOAT, (*value.shape[:-1], rows))

    # ---- Views ----

    def view(self) -> bool:
        value = self.take(lambda v: len(v.shape) >= 1)
        if value is None:
            return False
        text, shape, whole = self.viewed(value)
        return self.put(text, value.dtype, shape, whole)

    def viewed(self, value: _Value) -> tuple[str, Shape, bool]:
        x, shape, rank = value.text, value.shape, len(value.shape)
        dim = self.number(0, rank - 1)
        before, size, after = shape[:dim], shape[dim], shape[dim + 1 :]
        kind = self.number(0, 13)
        if kind == 0:
            at = self.number(0, 2)
            start = ", ".join([":"] * dim + [f"{at}:"])
            return (
                f"{x}[{start}]",
                (*before, tuple(max(n - at, 0) for n in size), *after),
                value.is_whole,
            )
        if kind == 1 and min(size) > 0:
            place = ", ".join([":"] * dim + [self.pick(("0", "-1"))])
            return f"{x}[{place}]", (*before, *after), value.is_whole
        if kind == 2 and rank >= 2:
            other = self.number(0, rank - 1)
            sizes = list(shape)
            sizes[dim], sizes[other] = sizes[other], sizes[dim]
            return f"{x}.transpose({dim}, {other})", tuple(sizes), value.is_whole
        if kind == 3:
            return f"{x}.unsqueeze({dim})", (*before, _fixed(1), size, *after), value.is_whole
        if kind == 4 and size == _fixed(1):
            return f"{x}.squeeze({dim})", (*before, *after), value.is_whole
        if kind == 5:
            total = _count(shape)
            method = self.pick(("reshape(-1)", "flatten()"))
            if 0 not in total:
                return f"{x}.{method}", (total,), value.is_whole
        if kind == 6:
            order = list(range(rank))
            for at in range(rank - 1):
                other = self.number(at, rank - 1)
                order[at], order[other] = order[other], order[at]
            return f"{x}.permute({order})", tuple(shape[at] for at in order), value.is_whole
        if kind == 7 and size == _fixed(1):
            times = self.pick((2, 3, 1))
            to = [-1] * dim + [times] + [-1] * (rank - dim - 1)
            return (
                f"{x}.expand({to})",
                (*before, _fixed(times), *after),
                times == 1 and value.is_whole,
            )
        if kind == 8:
            step = self.pick((2, 1))
            start = ", ".join([":"] * dim + [f"::{step}"])
            return (
                f"{x}[{start}]",
                (*before, tuple(-(-n // step) for n in size), *after),
                value.is_whole,
            )
        if kind == 9 and _is_fixed(size) and size[0] % 2 == 0 and size[0] > 0:
            at = self.pick((0, 1))
            half = _fixed(size[0] // 2)
            how = self.pick(
                (f"torch.chunk({x}, 2, {dim})", f"torch.split({x}, {size[0] // 2}, {dim})")
            )
            return f"{how}[{at}]", (*before, half, *after), value.is_whole
        if kind == 10 and min(size) > 0:
            return f"torch.unbind({x}, {dim})[0]", (*before, *after), value.is_whole
        if kind == 11 and _is_fixed(size) and size[0] in (4, 6, 8, 16):
            first = ", ".join([*(f"{x}.size({at})" for at in range(dim)), "2", str(size[0] // 2)])
            rest = "".join(f", {x}.size({at})" for at in range(dim + 1, rank))
            parts = (*before, _fixed(2), _fixed(size[0] // 2), *after)
            return f"{x}.reshape({first}{rest})", parts, value.is_whole
        if kind == 12:
            return f"torch.flip({x}, [{dim}])", shape, True
        return f"{x}.contiguous()", shape, value.is_whole

    def alias(self) -> bool:
        """The same memory by another name, or a copy that looks like it."""
        value = self.take()
        if value is None:
            return False
        x = value.text
        text = self.pick(
            (
                *(x, f"{x}.detach()", f"{x}.contiguous()", f"{x}.view_as({x})", f"{x}.clone()"),
                *(
                    f"{x}.to(torch.{value.dtype})",
                    f"{x}.expand_as({x})",
                    f"{x}.reshape({x}.size())",
                ),
                *(f"F.dropout({x}, 0.3, False)", f"{x}.type_as({x})", f"[{x}][0]"),
                *(f"torch.broadcast_tensors({x}, {x})[0]", f"({x}, 1)[0]", f"{{'a': {x}}}['a']"),
                *(f"torch.atleast_1d({x})" if value.shape else f"{x}.detach()",),
                *(f"torch.meshgrid([{x}], indexing='ij')[0]" if len(value.shape) == 1 else x,),
                *(f"{x} if {self.condition()} else {self.like(value)}",),
                f"{x}.data",
                *(f"{x}.squeeze()" if all(n != 1 for s in value.shape for n in s) else x,),
                *(f"{x}.as_strided({x}.size(), {x}.stride())",),
                *(
                    f"torch.real({x})" if value.is_float else x,
                    f"{x}.float()" if value.dtype == FLOAT else x,
                ),
            )
        )
        return self.put(text, value.dtype, value.shape, value.is_whole)

    def like(self, value: _Value) -> str:
        other = self.take(lambda v: (v.dtype, v.shape) == (value.dtype, value.shape))
        return value.text if other is None else other.text

    def condition(self) -> str:
        kind = self.number(0, 4)
        value = self.take(lambda v: len(v.shape) >= 1)
        if kind == 0 or value is None:
            return "n > 1"
        if kind == 1:
            dim, least = self.number(0, len(value.shape) - 1), self.pick((1, 2, 0))
            return f"{value.text}.size({dim}) > {least}"
        if kind == 2:
            return f"{value.text}.dim() > 2"
        if kind == 3 and value.dtype != BOOL:
            return f"bool(({value.text}.sum() > 0).item())"
        return f"{value.text}.numel() > 4"

    # ---- Writes ----

    def in_place(self) -> bool:
        value = self.take(lambda v: v.is_sure and (v.is_whole or self.number(0, 9) == 9))
        if value is None:
            return False
        self.write(value)
        return True

    def write(self, value: _Value) -> None:
        x, shape = value.text, value.shape
        to = x
        if shape and self.chance(40):
            text, sizes, _ = self.viewed(value)
            if not any(one in text for one in _UNSURE):
                to, shape = text, sizes
        if shape and self.chance(25):
            self.write_to_part(value)
            return

        def fits(v: _Value) -> bool:
            return (
                _broadcast(v.shape, shape) == shape
                and _ORDER.index(v.dtype) <= _ORDER.index(value.dtype)
                and v.dtype != BOOL
            )

        other = self.take(fits)
        number = self.pick(("1", "2")) if not value.is_float else self.pick(("0.5", "1", "-2"))
        term = other.text if other is not None and self.chance(60) else number
        if value.dtype == BOOL:
            self.line(self.pick((f"{to}.logical_not_()", f"{to}.fill_(True)", f"{to}.zero_()")))
            return
        mask = self.take(lambda v: v.dtype == BOOL and _broadcast(v.shape, shape) == shape)
        options = [
            *(f"{to}.add_({term})", f"{to}.mul_({term})", f"{to}.zero_()", f"{to}.fill_({number})"),
            *(f"{to}.sub_({term})", f"{to}.clamp_(-1, 1)", f"{to}.neg_()"),
        ]
        if other is not None:
            options += [f"{to}.copy_({other.text})"] * 3
        if mask is not None:
            options += [f"{to}.masked_fill_({mask.text}, {number})"] * 3
        if value.is_float:
            options += [
                *(
                    f"{to}.relu_()",
                    f"{to}.sigmoid_()",
                    f"{to}.tanh_()",
                    f"F.relu({to}, inplace=True)",
                ),
                *(
                    f"F.hardtanh({to}, inplace=True)",
                    f"{to}.div_(2)",
                    f"F.silu({to}, inplace=True)",
                ),
            ]
            if other is not None and other.shape == shape and other.dtype == value.dtype:
                options += [
                    f"{to}.addcmul_({other.text}, {other.text})",
                    f"{to}.lerp_({other.text}, 0.5)",
                ]
        self.line(self.pick(options))
        if "." not in x and self.chance(20):
            self.line(f"{x} += {number}")

    def write_to_part(self, value: _Value) -> None:
        x, shape = value.text, value.shape
        number = "True" if value.dtype == BOOL else self.pick(("1", "3"))
        options = [f"{x}[0] = {number}", f"{x}[-1:] = {number}", f"{x}[1:] = {number}"]
        if len(shape) >= 2:
            options += [
                f"{x}[:, 0] = {number}",
                f"{x}[:, 1:] = {number}",
                f"{x}[..., -1] = {number}",
            ]
        if value.dtype != BOOL:
            options += [f"{x}[{x} > 0] = {number}", f"{x}[0:1] *= 2", f"{x}[1:] -= 1"]
            row = self.take(lambda v: v.dtype == value.dtype and v.shape == shape[1:])
            if row is not None:
                options += [f"{x}[0] = {row.text}", f"{x}[-1].add_({row.text})"]
        options += [f"{x}[1:] = {x}[:-1].clone()"]
        if value.is_float:
            options += [
                f"{x}[torch.tensor([0])] = {number}",
                f"{x}.index_fill_(0, torch.tensor([0]), {number})",
            ]
        self.line(self.pick(options))

    # ---- Others ----

    def reduction(self) -> bool:
        value = self.take(lambda v: len(v.shape) >= 1)
        if value is None:
            return False
        x, rank = value.text, len(value.shape)
        dim, keep = self.number(0, rank - 1), self.chance(40)
        rest = value.shape[:dim] + ((_fixed(1),) if keep else ()) + value.shape[dim + 1 :]
        whole = LONG if value.dtype not in _FLOATS else value.dtype
        if self.chance(30):
            return self.put(f"{x}.sum()", whole, ())
        if not value.is_float:
            return self.put(f"torch.sum({x}, {dim}, keepdim={keep})", whole, rest)
        if self.chance(60) or 0 in value.shape[dim]:
            how = self.pick(("sum", "mean", "logsumexp"))
            return self.put(f"torch.{how}({x}, {dim}, keepdim={keep})", value.dtype, rest)
        if self.chance(30):
            return self.put(f"torch.argmax({x}, {dim}, keepdim={keep})", LONG, rest)
        how = self.pick(
            (
                *(
                    f"torch.max({x}, {dim}, keepdim={keep})[0]",
                    f"torch.amax({x}, {dim}, keepdim={keep})",
                ),
                *(
                    f"torch.min({x}, {dim}, keepdim={keep})[0]",
                    f"torch.prod({x}, {dim}, keepdim={keep})",
                ),
                *(f"torch.norm({x}, 2, {dim}, {keep})", f"torch.var({x}, {dim}, False, {keep})"),
            )
        )
        return self.put(how, value.dtype, rest)

    def joined(self) -> bool:
        value = self.take(lambda v: len(v.shape) >= 1)
        if value is None:
            return False
        x, rank = value.text, len(value.shape)
        dim = self.number(0, rank - 1)
        before, size, after = value.shape[:dim], value.shape[dim], value.shape[dim + 1 :]
        twice = tuple(2 * n for n in size)
        kind = self.number(0, 5)
        if kind <= 1:
            return self.put(
                f"torch.cat([{x}, {self.like(value)}], {dim})",
                value.dtype,
                (*before, twice, *after),
            )
        if kind == 2:
            other = self.like(value)
            return self.put(
                f"torch.stack([{x}, {other}], {dim})",
                value.dtype,
                (*before, _fixed(2), size, *after),
            )
        if kind == 3 and value.is_float:
            shape = (*value.shape[:-1], tuple(n + 3 for n in value.shape[-1]))
            return self.put(f"F.pad({x}, [1, 2])", value.dtype, shape)
        if kind == 4:
            times = ", ".join("2" if at == dim else "1" for at in range(rank))
            return self.put(f"{x}.repeat({times})", value.dtype, (*before, twice, *after))
        if min(size) > 0:
            return self.put(f"torch.roll({x}, 1, {dim})", value.dtype, value.shape)
        return False

    def indexed(self) -> bool:
        value = self.take(lambda v: len(v.shape) >= 1 and min(v.shape[0]) > 0)
        if value is None:
            return False
        x, rest = value.text, value.shape[1:]
        index = self.take(lambda v: v.dtype == LONG and len(v.shape) == 1)
        if index is not None:
            places = f"{index.text} % {x}.size(0)"
            how = self.pick((f"{x}[{places}]", f"torch.index_select({x}, 0, {places})"))
            return self.put(how, value.dtype, (*index.shape, *rest))
        how = self.pick((f"{x}[torch.tensor([0, 0])]", f"{x}[[0, -1]]"))
        return self.put(how, value.dtype, (_fixed(2), *rest))

    def assigned(self) -> bool:
        """State: an attribute or a buffer is another tensor from now on."""
        own = [one for one in self.state if one.text.count(".") == 1]
        if not own or self.chance(30):
            if self.chance(30):
                self.counts_calls = True
                self.line("self.calls += 1")
                return True
            return self.kept()
        target = self.pick(own)
        value = self.take(
            lambda v: v.is_sure and (v.dtype, v.shape) == (target.dtype, target.shape), state=False
        )
        if value is None:
            text = self.pick(
                (f"{target.text} * 2", f"torch.zeros_like({target.text})", f"{target.text}.clone()")
            )
        else:
            text = self.pick((value.text, f"{value.text}.clone()", f"{target.text} + {value.text}"))
        self.line(f"{target.text} = {text}")
        return True

    def kept(self) -> bool:
        """A new buffer of the shape of a value."""
        value = self.take(
            lambda v: v.is_sure and v.dtype != HALF and all(map(_is_fixed, v.shape)), state=False
        )
        if value is None:
            return False
        name, sizes = self.name("b"), tuple(size[0] for size in value.shape)
        text = f"torch.zeros({sizes}, dtype=torch.{value.dtype})"
        self.made.append(
            self.pick((f"self.register_buffer('{name}', {text})", f"self.{name} = {text}"))
        )
        self.state.append(_Value(f"self.{name}", value.dtype, value.shape))
        self.line(
            self.pick(
                (
                    *(f"self.{name} = {value.text}", f"self.{name}.copy_({value.text})"),
                    *(
                        f"self.{name} = self.{name} + {value.text}",
                        f"self.{name} = {value.text}.clone()",
                    ),
                )
            )
        )
        return True

    def container(self) -> bool:
        value = self.take()
        if value is None:
            return False
        if self.lists and self.chance(60):
            name, items = self.pick(self.lists)
            kind = self.number(0, 4)
            if kind == 4 and self.depth == 2:
                more = self.name("t")
                text, its = self.pick(
                    (
                        *((f"{name} + {name}", items + items), (f"list({name})", list(items))),
                        *((f"{name}[:1]", items[:1]), (f"{name}.copy()", list(items))),
                        (f"{name} * 2", items * 2),
                    )
                )
                self.line(f"{more} = {text}")
                self.lists.append((more, its))
                return True
            if kind == 0 and self.depth == 2:
                items.append(value)
                self.line(f"{name}.append({value.text})")
                return True
            at = self.number(0, len(items) - 1)
            item = items[at]
            if kind == 1:
                self.put(f"{name}[{at}]", item.dtype, item.shape, item.is_whole)
                self.values[-1] = replace(self.values[-1], is_sure=item.is_sure)
                return True
            if kind == 2 and item.dtype != BOOL and item.is_sure:
                self.line(f"{name}[{at}].mul_(2)")
                return True
            same = {(one.dtype, one.shape) for one in items}
            if len(same) == 1:
                return self.put(
                    f"torch.stack({name})", item.dtype, (_fixed(len(items)), *item.shape)
                )
            return False
        other, name = self.take() or value, self.name("t")
        kind = self.number(0, 2)
        if kind == 0:
            self.line(f"{name} = [{value.text}, {other.text}]")
            if self.depth == 2:
                self.lists.append((name, [value, other]))
            return True
        if kind == 1:
            self.line(f"{name} = {{'a': {value.text}, 'b': {other.text}}}")
            self.line(f"{name}['c'] = {name}['b']")
            self.put(f"{name}['c']", other.dtype, other.shape, other.is_whole)
            self.values[-1] = replace(self.values[-1], is_sure=other.is_sure)
            return True
        one, two = self.name("v"), self.name("v")
        self.line(f"{name} = ({value.text}, {other.text})")
        self.line(f"{two}, {one} = {name}")
        self.values.append(replace(value, text=two))
        self.values.append(replace(other, text=one))
        return True

    def control(self) -> bool:
        if self.depth > 3:
            return False
        kind = self.number(0, 3)
        if kind <= 1:
            with self.block(f"if {self.condition()}:"):
                self.body()
            if kind == 1:
                with self.block("else:"):
                    self.body()
            return True
        with self.block(f"for i{self.depth} in range({self.pick(('2', 'n', '3'))}):"):
            self.body()
        return True

    def body(self) -> None:
        outer = [one for one in self.values if "." not in one.text and "[" not in one.text]
        for _ in range(self.number(1, 3)):
            self.statement()
        pairs = [
            (one, other)
            for one in outer
            for other in self.values
            if (one.dtype, one.shape) == (other.dtype, other.shape)
            and other.is_sure
            and one != other
        ]
        if pairs and self.chance(60):
            one, other = self.pick(pairs)
            self.line(f"{one.text} = {other.text}")

    def returned(self) -> None:
        values = list(reversed(self.values))
        if not values:
            self.line("return 1")
            return
        first = values[0].text
        others = [self.pick(values).text for _ in range(self.number(0, 3))]
        state = [one.text for one in self.state if self.chance(30)]
        items = [first, *others, *state]
        if self.counts_calls and self.chance(50):
            items.append("self.calls")
        kind = self.number(0, 4)
        if kind == 0:
            self.line(f"return {first}")
        elif kind == 1 and "self.calls" not in items:
            self.line(f"return [{', '.join(items)}]")
        elif kind == 2 and "self.calls" not in items:
            entries = ", ".join(f"'{at}': {one}" for at, one in enumerate(items))
            self.line(f"return {{{entries}}}")
        elif kind == 3:
            self.line(f"return ({', '.join(items)},), {first}.size(), {first}.numel()")
        else:
            self.line(f"return ({', '.join(items)},)")


_DTYPES: Final = (FLOAT,) * 8 + (LONG, LONG, INT, DOUBLE, BOOL, BYTE, HALF, CHAR, SHORT)
_MORE: Final = (1, 2, 3, 4, 5, 8, 0)


def _input_shape(writer: _Writer) -> Shape:
    rank = writer.pick((2, 2, 3, 3, 4, 4, 4, 1, 0))
    shape = []
    for dim in range(rank):
        fixed = (
            writer.pick((4, 3, 2, 1, 6, 8, 16))
            if rank < 4 or dim < 2
            else writer.pick((5, 8, 4, 1, 7))
        )
        if dim == 0 or (dim >= 2 and rank >= 3 and writer.chance(50)):
            shape.append((2, *(writer.pick(_MORE) for _ in range(SIZES - 1))))
        else:
            shape.append(_fixed(fixed))
    return tuple(shape)


def random_choices(rng: random.Random) -> list[int]:
    """What a random module is made of."""
    chosen = list[int]()

    def choose(least: int, most: int) -> int:
        chosen.append(rng.randint(least, most) - least)
        return chosen[-1] + least

    _written(choose)
    return chosen


def module_of(choices: Sequence[int]) -> Drawn:
    """The module that numbers choose: those that are too large count as less, those that lack as
    none."""
    left = iter(choices)

    def choose(least: int, most: int) -> int:
        return least + next(left, 0) % (most - least + 1)

    return _written(choose)


def shrunk(choices: Sequence[int], fails: Callable[[Drawn], bool], tries: int = 400) -> Drawn:
    """A small module that fails as that of these choices does."""
    best, seen = list(choices), set[str]()

    def smaller(tried: list[int]) -> bool:
        nonlocal best, tries
        drawn = module_of(tried)
        if tries <= 0 or repr(drawn) in seen:
            return False
        seen.add(repr(drawn))
        tries -= 1
        if not fails(drawn):
            return False
        best = tried
        return True

    length = len(best)
    while length >= 1 and tries > 0:
        at = len(best) - length
        while at >= 0:
            smaller(best[:at] + best[at + length :])
            at -= length
        length //= 2
    for at in reversed(range(len(best))):
        if at < len(best) and best[at]:
            for number in (0, best[at] // 2, best[at] - 1):
                if smaller([*best[:at], number, *best[at + 1 :]]):
                    break
    return module_of(best)


def _written(choose: Callable[[int, int], int]) -> Drawn:
    writer = _Writer(choose)
    writer.prefers_state = writer.pick((15, 50))
    inputs: list[tuple[str, str, Shape]] = []
    for number in range(writer.pick((1, 2, 3))):
        same = [one[2] for one in inputs]
        shape = writer.pick(same) if same and writer.chance(50) else _input_shape(writer)
        inputs.append(
            (f"x{number}", writer.pick(_DTYPES) if number else writer.pick(_DTYPES[:11]), shape)
        )
    methods = ["forward", *(name for name in ("step", "reset") if writer.chance(25))]
    texts = [_method(writer, name, inputs) for name in methods]
    made = "".join(f"        {line}\n" for line in ["self.calls = 0", *writer.made])
    source = (
        "class Random(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        f"{made}\n" + "\n".join(texts)
    )
    return Drawn(source, tuple(_calls(writer, methods, inputs)), writer.number(0, 9))


def _method(writer: _Writer, name: str, inputs: Sequence[tuple[str, str, Shape]]) -> str:
    writer.lines, writer.lists = [], []
    writer.values = []
    arguments = ""
    if name != "reset":
        writer.values = [_Value(*one) for one in inputs]
        arguments = "".join(f", {one[0]}: Tensor" for one in inputs)
    for _ in range(writer.number(1, 12 if name == "forward" else 4)):
        writer.statement()
    writer.returned()
    exported = "" if name == "forward" else "    @torch.jit.export\n"
    body = "\n".join(writer.lines)
    return f"{exported}    def {name}(self{arguments}, n: int = 2):\n{body}\n"


def _calls(
    writer: _Writer, methods: Sequence[str], inputs: Sequence[tuple[str, str, Shape]]
) -> Iterator[Call]:
    for number in range(writer.number(1, 5)):
        method = writer.pick(methods) if number else "forward"
        at, n = writer.number(0, SIZES - 1) if number else 0, writer.pick((2, 0, 1, 3))
        if method == "reset":
            yield Call(method, (n,))
            continue
        given: list[Given | int] = []
        for place, (_, dtype, shape) in enumerate(inputs):
            sizes = tuple(size[at] for size in shape)
            layout = writer.pick(LAYOUTS) if writer.chance(40) else LAYOUTS[0]
            same = next(
                (
                    other
                    for other, (_, its, its_shape) in enumerate(inputs[:place])
                    if (its, its_shape) == (dtype, shape)
                ),
                None,
            )
            shared = same is not None and writer.chance(20)
            earlier = writer.number(0, number - 1) if number and writer.chance(25) else None
            seed = writer.number(0, 9)
            of = Given(sizes, dtype, layout, seed, same if shared else None, earlier)
            given.append(replace(of, special=writer.chance(6)))
        yield Call(method, (*given, n))
