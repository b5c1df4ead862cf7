"""Decompositions of operators: functions for TorchScript, in operators of PyTorch 1.13.1.

Each takes its operator's arguments, with their types; `lowering_table.py` maps operators to them.
Branches on arguments that are constants in a model's call are gone after the conversion.
"""

from __future__ import annotations

import torch


def scaled_dot_product_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None,
    dropout_p: float,
    is_causal: bool,
    scale: float | None,
    enable_gqa: bool,
) -> torch.Tensor:
    """As its documentation writes it; a row whose mask leaves nothing gives 0, as
    `_scaled_dot_product_attention_math` does (aten/src/ATen/native/transformers/attention.cpp)."""
    if enable_gqa:
        heads = query.size(-3)
        key = key.repeat_interleave(heads // key.size(-3), -3)
        value = value.repeat_interleave(heads // value.size(-3), -3)
    factor = float(query.size(-1)) ** -0.5 if scale is None else scale
    scores = torch.matmul(query, key.transpose(-2, -1)) * factor
    if is_causal:
        ahead = torch.ones([query.size(-2), key.size(-2)], dtype=torch.bool).tril().logical_not()
        scores = scores.masked_fill(ahead, float("-inf"))
    if attn_mask is None:
        weights = torch.softmax(scores, -1)
    else:
        if attn_mask.dtype == torch.bool:
            scores = scores.masked_fill(attn_mask.logical_not(), float("-inf"))
        else:
            scores = scores + attn_mask
        nothing = (scores == float("-inf")).all(-1, keepdim=True)
        weights = torch.softmax(scores, -1).masked_fill(nothing, 0.0)
    if dropout_p > 0.0:
        weights = torch.dropout(weights, dropout_p, True)
    return torch.matmul(weights, value)


def rms_norm(
    input: torch.Tensor, normalized_shape: list[int], weight: torch.Tensor | None, eps: float | None
) -> torch.Tensor:
    """aten/src/ATen/native/layer_norm.cpp, `rms_norm_symint`: in float32 at least, with that
    dtype's epsilon where none is given."""
    x = input
    if input.dtype == torch.float16 or input.dtype == torch.bfloat16:
        x = input.to(torch.float32)
    least = 1.1920928955078125e-07
    if input.dtype == torch.float64:
        least = 2.220446049250313e-16
    if eps is not None:
        least = eps
    if len(normalized_shape) == 1:
        mean = (x * x).mean([-1], keepdim=True)
    else:
        dims = [-1]
        for dim in range(1, len(normalized_shape)):
            dims.append(-1 - dim)
        mean = (x * x).mean(dims, keepdim=True)
    x = x * torch.rsqrt(mean + least)
    if weight is not None:
        x = x * weight
    return x.to(input.dtype)


def _lanczos_weights(
    inputs: int, outputs: int, align_corners: bool, factor: float | None
) -> torch.Tensor:
    """[outputs, inputs]: aten/src/ATen/native/cpu/UpSampleKernel.cpp,
    `HelperInterpBase::_compute_indices_min_size_weights_aa`, with the kernel of three lobes."""
    if align_corners:
        scale = float(inputs - 1) / float(outputs - 1) if outputs > 1 else 0.0
    elif factor is not None and factor > 0.0:
        scale = 1.0 / factor
    else:
        scale = float(inputs) / float(outputs)
    inverse = 1.0 / scale if scale >= 1.0 else 1.0
    support = 3.0 * scale if scale >= 1.0 else 3.0
    center = (torch.arange(outputs, dtype=torch.float32).unsqueeze(1) + 0.5) * scale
    first = (center - support + 0.5).trunc().clamp(0.0, float(inputs))
    end = (center + support + 0.5).trunc().clamp(0.0, float(inputs))
    place = torch.arange(inputs, dtype=torch.float32).unsqueeze(0)
    at = (place - center + 0.5) * inverse
    weights = torch.sinc(at) * torch.sinc(at * (1.0 / 3.0))
    outside = (at.abs() >= 3.0).logical_or(place < first).logical_or(place >= end)
    weights = weights.masked_fill(outside, 0.0)
    return weights / weights.sum([1], keepdim=True)


def upsample_lanczos2d_aa(
    input: torch.Tensor,
    output_size: list[int] | None,
    align_corners: bool,
    scale_factors: list[float] | None,
) -> torch.Tensor:
    """The rows, then the columns, each a product with the weights of every output."""
    rows, columns = input.size(-2), input.size(-1)
    of_rows: float | None = None
    of_columns: float | None = None
    if scale_factors is not None:
        of_rows, of_columns = scale_factors[0], scale_factors[1]
        size = [int(float(rows) * scale_factors[0]), int(float(columns) * scale_factors[1])]
    elif output_size is not None:
        size = output_size
    else:
        raise ValueError("neither a size nor factors")
    down = _lanczos_weights(rows, size[0], align_corners, of_rows).to(input.dtype)
    across = _lanczos_weights(columns, size[1], align_corners, of_columns).to(input.dtype)
    return torch.matmul(torch.matmul(down, input), across.t())


def squeeze_dims(input: torch.Tensor, dims: list[int]) -> torch.Tensor:
    """From the last dimension on, so that the others keep their numbers."""
    rank = input.dim()
    for back in range(rank):
        dim = rank - 1 - back
        if dim in dims or dim - rank in dims:
            input = input.squeeze(dim)
    return input


def any_dims(input: torch.Tensor, dims: list[int] | None, keepdim: bool) -> torch.Tensor:
    """None stands for all; of bytes it gives bytes."""
    if dims is not None and len(dims) == 0:
        return (input != 0).to(torch.uint8 if input.dtype == torch.uint8 else torch.bool)
    rank = input.dim()
    x = input.any() if rank == 0 else input
    for back in range(rank):
        dim = rank - 1 - back
        if dims is None or dim in dims or dim - rank in dims:
            x = x.any(dim, keepdim)
    return x


def all_dims(input: torch.Tensor, dims: list[int] | None, keepdim: bool) -> torch.Tensor:
    """None stands for all; of bytes it gives bytes."""
    if dims is not None and len(dims) == 0:
        return (input != 0).to(torch.uint8 if input.dtype == torch.uint8 else torch.bool)
    rank = input.dim()
    x = input.all() if rank == 0 else input
    for back in range(rank):
        dim = rank - 1 - back
        if dims is None or dim in dims or dim - rank in dims:
            x = x.all(dim, keepdim)
    return x


def safe_softmax(input: torch.Tensor, dim: int, dtype: int | None) -> torch.Tensor:
    """aten/src/ATen/native/transformers/attention.cpp, `_safe_softmax`."""
    nothing = (input == float("-inf")).all(dim, keepdim=True)
    return torch.softmax(input, dim, dtype=dtype).masked_fill(nothing, 0.0)


def batch_norm_no_training(
    input: torch.Tensor,
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    running_mean: torch.Tensor,
    running_var: torch.Tensor,
    momentum: float,
    eps: float,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """With the statistics that were learned."""
    made: tuple[torch.Tensor, torch.Tensor, torch.Tensor] = torch.native_batch_norm(
        input, weight, bias, running_mean, running_var, False, momentum, eps
    )
    return made


def batch_norm_legit(
    input: torch.Tensor,
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    running_mean: torch.Tensor,
    running_var: torch.Tensor,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Statistics are required, which is all that is new."""
    made: tuple[torch.Tensor, torch.Tensor, torch.Tensor] = torch.native_batch_norm(
        input, weight, bias, running_mean, running_var, training, momentum, eps
    )
    return made


def batch_norm_no_stats(
    input: torch.Tensor,
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """With the statistics of the input."""
    made: tuple[torch.Tensor, torch.Tensor, torch.Tensor] = torch.native_batch_norm(
        input, weight, bias, None, None, training, momentum, eps
    )
    return made


def prelu_kernel(input: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """The weight is broadcast by whoever calls it."""
    return torch.where(input > 0, input, input * weight)


def is_all_true(input: torch.Tensor) -> torch.Tensor:
    """Return `all` of a tensor of bools."""
    return input.all()


def is_any_true(input: torch.Tensor) -> torch.Tensor:
    """Return `any` of a tensor of bools."""
    return input.any()
