"""Operators that stay one while torch.export watches, since torch's own way would fix a size.

torch computes the sizes of a recurrent layer's results by running it step by step, and those of
max_pool1d and affine_grid in C++ that knows numbers alone. Here the sizes are told. `linspace`
takes a number of steps that is one, so where it is a size, it is computed; so is `istft`, which
takes all its sizes for numbers, and `div` of a size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch._decomp import decomposition_table
from torch._meta_registrations import pooling_output_shape
from torch.fx.experimental.symbolic_shapes import statically_known_true
from torch.overrides import TorchFunctionMode

_KEY = torch._C.DispatchKey.CompositeImplicitAutograd
_ATEN = torch.ops.aten
# Ways of torch.div to round what is not negative down.
_DOWN = ("floor", "trunc")


def _output(input: Any, state: Any, bidirectional: bool, batch_first: bool) -> Any:
    """Lies in memory as aten/src/ATen/native/RNN.cpp leaves it: steps first."""
    width = state.shape[-1] * (2 if bidirectional else 1)
    if not batch_first:
        return input.new_empty([*input.shape[:-1], width])
    batch, steps = input.shape[:2]
    return input.new_empty([steps, batch, width]).transpose(0, 1)


def _lstm(
    input: Any,
    hx: Sequence[Any],
    params: Sequence[Any],
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> Any:
    made = _output(input, hx[0], bidirectional, batch_first)
    return (made, *(one.new_empty(one.shape) for one in hx))


def _other(
    input: Any,
    hx: Any,
    params: Sequence[Any],
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> Any:
    return _output(input, hx, bidirectional, batch_first), hx.new_empty(hx.shape)


def _max_pool1d(
    input: Any,
    kernel_size: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    dilation: Sequence[int] = (1,),
    ceil_mode: bool = False,
) -> Any:
    its = [one if isinstance(one, int) else one[0] for one in (kernel_size, padding, dilation)]
    kernel, around, apart = its
    step = kernel if not stride else stride if isinstance(stride, int) else stride[0]
    size = pooling_output_shape(input.shape[-1], kernel, around, step, apart, ceil_mode)
    return input.new_empty([*input.shape[:-1], size])


def _affine_grid(theta: Any, size: Sequence[Any], align_corners: bool) -> Any:
    return theta.new_empty([size[0], *size[2:], len(size) - 2])


_LAYERS: tuple[tuple[Any, Callable[..., Any]], ...] = (
    (_ATEN.lstm.input, _lstm),
    (_ATEN.gru.input, _other),
    (_ATEN.rnn_tanh.input, _other),
    (_ATEN.rnn_relu.input, _other),
    (_ATEN.max_pool1d.default, _max_pool1d),
    (_ATEN.affine_grid_generator.default, _affine_grid),
)


class Steps(TorchFunctionMode):  # type: ignore[misc]
    """Computes `linspace` of a size as aten/src/ATen/native/cpu/RangeFactoriesKernel.cpp does,
    `istft` as aten/src/ATen/native/SpectralOps.cpp, and `div` of sizes as a size: as a tensor it
    would be a value, on which no size may depend."""

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        named = dict(kwargs or {})
        if func is torch.linspace:
            given = dict(zip(("start", "end", "steps"), args, strict=False)) | named
            if isinstance(given.get("steps"), torch.SymInt) and "out" not in given:
                return _linspace(**given)
        if func in (torch.istft, torch.Tensor.istft):
            return _istft(*args, **named)
        rounded = named.keys() == {"rounding_mode"} and named["rounding_mode"] in _DOWN
        if func is torch.div and rounded and len(args) == 2 and _are_sizes(*args):
            return args[0] // args[1]
        return func(*args, **named)


def _are_sizes(one: Any, other: Any) -> bool:
    """True for a size, which is never negative, and a positive number."""
    return (
        isinstance(one, torch.SymInt)
        and statically_known_true(one >= 0)
        and isinstance(other, int)
        and other > 0
    )


def _linspace(
    start: Any, end: Any, steps: Any, *, dtype: Any = None, device: Any = None, **_: Any
) -> Any:
    its = dtype or torch.get_default_dtype()
    at = torch.arange(steps, dtype=its, device=device)
    apart = (end - start) / torch.sym_max(steps - 1, 1)
    return torch.where(
        at < torch.sym_max(steps // 2, 1), start + apart * at, end - apart * (steps - 1 - at)
    ).to(its)


def _istft(
    input: Any,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Any = None,
    center: bool = True,
    normalized: bool = False,
    onesided: bool | None = None,
    length: Any = None,
    return_complex: bool = False,
) -> Any:
    hop, width = hop_length or n_fft // 4, win_length or n_fft
    *batch, sides, frames = input.shape
    weights = torch.ones(width, dtype=input.real.dtype) if window is None else window
    if width != n_fft:
        left = (n_fft - width) // 2
        weights = torch.nn.functional.pad(weights, (left, n_fft - width - left))
    pieces = (input if batch else input[None]).transpose(1, 2)
    norm = "ortho" if normalized else "backward"
    if return_complex:
        pieces = torch.fft.ifft(pieces, n_fft, norm=norm)
    else:
        whole = not (sides != n_fft if onesided is None else onesided)
        pieces = pieces[..., : n_fft // 2 + 1] if whole else pieces
        pieces = torch.fft.irfft(pieces, n_fft, norm=norm)
    whole_length = n_fft + hop * (frames - 1)
    start = n_fft // 2 if center else 0
    end = whole_length - start if length is None else start + length

    def joined(values: Any) -> Any:
        sizes = [values.shape[0], whole_length]
        return torch.ops.aten.unfold_backward(values, sizes, 1, n_fft, hop)[:, start:end]

    envelope = joined(weights.pow(2).expand(1, frames, n_fft))
    made = joined(pieces * weights) / envelope
    if end > whole_length:
        made = torch.nn.functional.pad(made, (0, end - whole_length))
    return made if batch else made[0]


@contextmanager
def whole_layers() -> Iterator[None]:
    """Meanwhile their sizes are told, in both places where fake tensors look for them
    (torch/_subclasses/fake_tensor.py, `_dispatch_impl`)."""
    tables: list[tuple[dict[Any, Any], Any]] = [
        pair
        for layer, _ in _LAYERS
        for pair in ((layer.py_kernels, _KEY), (decomposition_table, layer))
    ]
    before = [table.get(key) for table, key in tables]
    try:
        for layer, sizes in _LAYERS:
            layer.py_kernels[_KEY] = decomposition_table[layer] = sizes
            layer._dispatch_cache.clear()
        yield
    finally:
        for (table, key), old in zip(tables, before, strict=True):
            table.pop(key, None)
            if old is not None:
                table[key] = old
        for layer, _ in _LAYERS:
            layer._dispatch_cache.clear()
