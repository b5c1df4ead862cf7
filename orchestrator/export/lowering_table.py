"""The operators that are lowered: which PyTorch is without them, and what they become. Imports
nothing: see the package.

An operator is lowered for a runtime that lacks it. What it becomes is a function in
`decompositions.py` with the operator's arguments, in operators that PyTorch 1.13.1 has. A model
that was lowered is compared with its original, as after any rewrite.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

_OLD: Final = ("1.13.1",)
_ALL: Final = ("1.13.1", "2.6.0")


@dataclass(frozen=True)
class Lowering:
    """Lowering of an operator.

    becomes  the function's name
    lacking  the supported PyTorch versions that do not have the operator
    why      for people
    """

    becomes: str
    lacking: tuple[str, ...]
    why: str


LOWERINGS: Final[Mapping[str, Lowering]] = {
    "aten::scaled_dot_product_attention": Lowering(
        "scaled_dot_product_attention",
        _OLD,
        "the fused attention of PyTorch 2: two products around a softmax",
    ),
    "aten::rms_norm": Lowering(
        "rms_norm", _OLD, "a product with the inverse root of the mean of squares"
    ),
    "aten::_upsample_lanczos2d_aa.vec": Lowering(
        "upsample_lanczos2d_aa",
        _ALL,
        "F.interpolate names it in every mode: two products with weights of the kernel",
    ),
    "aten::squeeze.dims": Lowering("squeeze_dims", _OLD, "one dimension after the other"),
    "aten::any.dims": Lowering("any_dims", _OLD, "one dimension after the other"),
    "aten::all.dims": Lowering("all_dims", _OLD, "one dimension after the other"),
    "aten::_safe_softmax": Lowering(
        "safe_softmax", _OLD, "a softmax that gives 0 where nothing is left"
    ),
    "aten::_native_batch_norm_legit_no_training": Lowering(
        "batch_norm_no_training", _OLD, "another name for native_batch_norm"
    ),
    "aten::_native_batch_norm_legit": Lowering(
        "batch_norm_legit", _OLD, "another name for native_batch_norm"
    ),
    "aten::_native_batch_norm_legit.no_stats": Lowering(
        "batch_norm_no_stats", _OLD, "native_batch_norm without statistics"
    ),
    "aten::_prelu_kernel": Lowering("prelu_kernel", _OLD, "a choice between two products"),
    "aten::_is_all_true": Lowering("is_all_true", _OLD, "another name for all"),
    "aten::_is_any_true": Lowering("is_any_true", _OLD, "another name for any"),
}


def lowered_for(version: str) -> frozenset[str]:
    """The operators that are lowered for a runtime of this PyTorch version."""
    return frozenset(name for name, one in LOWERINGS.items() if version in one.lacking)
