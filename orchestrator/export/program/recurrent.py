"""Recurrent layers stay one operator while torch.export watches.

torch computes the sizes of their results by running them step by step, which fixes the number of
steps. Here the sizes are told.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch._decomp import decomposition_table

_KEY = torch._C.DispatchKey.CompositeImplicitAutograd
_ATEN = torch.ops.aten


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


_LAYERS: tuple[tuple[Any, Callable[..., Any]], ...] = (
    (_ATEN.lstm.input, _lstm),
    (_ATEN.gru.input, _other),
    (_ATEN.rnn_tanh.input, _other),
    (_ATEN.rnn_relu.input, _other),
)


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
