"""Operators and what they are lowered to, on the same arguments; scripted, as a model has it.

Run by a Python that has torch, with the repository's root in PYTHONPATH. It prints a line of JSON
for each comparison: {"operator", "case", "same"}.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from orchestrator.export import decompositions
from orchestrator.export.lowering_table import LOWERINGS

Case = tuple[Any, ...]


def attention() -> Iterator[Case]:
    query, key, value = torch.randn(2, 4, 5, 8), torch.randn(2, 4, 7, 8), torch.randn(2, 4, 7, 6)
    nothing = torch.zeros(5, 7, dtype=torch.bool)
    for mask in (None, torch.rand(5, 7) > 0.5, torch.randn(2, 1, 5, 7), nothing):
        yield query, key, value, mask, 0.0, False, None, False
    yield query, key, value, None, 0.0, True, 0.3, False
    yield query, key[:, :2], value[:, :2], None, 0.0, False, None, True


def rms() -> Iterator[Case]:
    for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16):
        for shape in ([8], [5, 8]):
            x, weight = (torch.randn(2, 5, 8) * 1e-3).to(dtype), torch.randn(shape).to(dtype)
            for eps in (None, 1e-5):
                yield x, shape, weight, eps
            yield x, shape, None, None


def lanczos() -> Iterator[Case]:
    x = torch.randn(1, 3, 9, 13)
    yield x, [5, 20], False, None
    yield x, [20, 7], False, None
    yield x, [5, 20], True, None
    yield x, None, False, [2.0, 0.5]
    yield x, None, False, [0.4, 1.7]


def squeezed() -> Iterator[Case]:
    for dims in ([0], [0, 2], [-1, 2], [1], [], [0, -1, 2]):
        yield torch.randn(1, 3, 1, 4, 1), dims


def reduced() -> Iterator[Case]:
    bools = torch.rand(2, 3, 4) > 0.6
    for dims in ([0], [0, 2], [-1], [], None):
        for keepdim in (True, False):
            for x in (bools, (bools * 3).to(torch.uint8), bools.float()):
                yield x, dims, keepdim
    yield torch.tensor(True), None, False


def softmax() -> Iterator[Case]:
    x = torch.randn(3, 4)
    x[1] = float("-inf")
    yield x, -1, None
    yield x, 0, None


def norm(*between: Any) -> Iterator[Case]:
    x, weight = torch.randn(2, 3, 4), torch.randn(3)
    yield x, weight, torch.randn(3), *between, 0.1, 1e-5
    yield x, None, None, *between, 0.1, 1e-5


ATTENTION = ("scaled_dot_product_attention",)
STATISTICS = (torch.randn(3), torch.rand(3) + 0.5)
CASES = {
    "aten::scaled_dot_product_attention": attention(),
    "aten::rms_norm": rms(),
    "aten::_upsample_lanczos2d_aa.vec": lanczos(),
    "aten::squeeze.dims": squeezed(),
    "aten::any.dims": reduced(),
    "aten::all.dims": reduced(),
    "aten::_safe_softmax": softmax(),
    "aten::_native_batch_norm_legit_no_training": norm(*STATISTICS),
    "aten::_native_batch_norm_legit": norm(*STATISTICS, False),
    "aten::_native_batch_norm_legit.no_stats": norm(True),
    "aten::_prelu_kernel": iter([(torch.randn(3, 4), torch.tensor(0.3))]),
    "aten::_is_all_true": iter([(torch.rand(4) > 0.9,), (torch.ones(2, dtype=torch.bool),)]),
    "aten::_is_any_true": iter([(torch.rand(4) > 0.9,), (torch.ones(2, dtype=torch.bool),)]),
}


def same(one: Any, other: Any) -> bool:
    if isinstance(one, tuple):
        # what a norm saves for training is of no use here
        return same(one[0], other[0])
    assert isinstance(one, Tensor)
    if one.dtype != other.dtype or one.shape != other.shape:
        return False
    if not one.is_floating_point():
        return torch.equal(one, other)
    least = {torch.float16: 1e-2, torch.bfloat16: 2e-2}.get(one.dtype, 1e-5)
    return torch.allclose(one, other, atol=least, rtol=least, equal_nan=True)


def main() -> None:
    torch.manual_seed(1131)
    for operator in LOWERINGS:
        name, _, overload = operator.removeprefix("aten::").partition(".")
        call = getattr(getattr(torch.ops.aten, name), overload or "default")
        lowered = torch.jit.script(getattr(decompositions, LOWERINGS[operator].becomes))
        for number, case in enumerate(CASES[operator]):
            # the last two arguments of attention go by name alone
            last = ("scale", "enable_gqa") if call.overloadpacket.__name__ in ATTENTION else ()
            kept = len(case) - len(last)
            expected = call(*case[:kept], **dict(zip(last, case[kept:], strict=True)))
            told = {"operator": operator, "case": number, "same": same(expected, lowered(*case))}
            print(json.dumps(told))


if __name__ == "__main__":
    main()
