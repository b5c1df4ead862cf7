"""The operators that are lowered: since when PyTorch has them, and what they become. Imports
nothing: see the package.

An operator is lowered for a runtime that lacks it. What it becomes is a function in
`decompositions.py` with the operator's arguments, in operators of the oldest supported PyTorch.
A model that was lowered is compared with its original, as after any rewrite.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Lowering:
    """Lowering of an operator.

    becomes  the function's name
    since    the first release of PyTorch that is known to have the operator
    why      for people
    """

    becomes: str
    since: tuple[int, int]
    why: str


LOWERINGS: Final[Mapping[str, Lowering]] = {
    "aten::scaled_dot_product_attention": Lowering(
        "scaled_dot_product_attention",
        (2, 0),
        "the fused attention of PyTorch 2: two products around a softmax",
    ),
    "aten::rms_norm": Lowering(
        "rms_norm", (2, 4), "a product with the inverse root of the mean of squares"
    ),
    "aten::_upsample_lanczos2d_aa.vec": Lowering(
        "upsample_lanczos2d_aa",
        (2, 13),
        "F.interpolate names it in every mode: two products with weights of the kernel",
    ),
    "aten::squeeze.dims": Lowering("squeeze_dims", (2, 0), "one dimension after the other"),
    "aten::any.dims": Lowering("any_dims", (2, 2), "one dimension after the other"),
    "aten::all.dims": Lowering("all_dims", (2, 2), "one dimension after the other"),
    "aten::_safe_softmax": Lowering(
        "safe_softmax", (2, 5), "a softmax that gives 0 where nothing is left"
    ),
    "aten::_native_batch_norm_legit_no_training": Lowering(
        "batch_norm_no_training", (2, 1), "another name for native_batch_norm"
    ),
    "aten::_native_batch_norm_legit": Lowering(
        "batch_norm_legit", (2, 0), "another name for native_batch_norm"
    ),
    "aten::_native_batch_norm_legit.no_stats": Lowering(
        "batch_norm_no_stats", (2, 0), "native_batch_norm without statistics"
    ),
    "aten::_prelu_kernel": Lowering("prelu_kernel", (2, 0), "a choice between two products"),
    "aten::_is_all_true": Lowering("is_all_true", (2, 0), "another name for all"),
    "aten::_is_any_true": Lowering("is_any_true", (2, 0), "another name for any"),
}


def lowered_for(version: str) -> frozenset[str]:
    """The operators that are lowered for a runtime of this PyTorch version."""
    release = tuple(map(int, version.split(".")[:2]))
    return frozenset(name for name, one in LOWERINGS.items() if release < one.since)
