"""Tolerances for two results of a model, by dtype. Imports nothing: see the package."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_EXACT: Final = (0.0, 0.0)
# Sums of a few thousand products in another order differ by about sqrt(n) units in the last place.
_FLOAT16: Final = (1e-2, 1e-3)
_FLOAT32: Final = (1e-4, 1e-5)
_FLOAT64: Final = (1e-9, 1e-12)
_ONE_STEP: Final = (0.0, 1.0)
# The absolute tolerance is for rounding errors of numbers that are larger than the result. Where
# it is more than this part of the largest number of a tensor, it proves nothing: a difference that
# only the tolerance allows is told.
TELLING: Final = 0.01
# How much larger another order of the same sums may have its rounding error.
LUCK: Final = 50
# Below this part of the tolerance, no usual number's rounding error is as large: then it differs.
NO_ROUNDING: Final = 0.001

# dtype -> relative and absolute tolerance; PyTorch's names.
TOLERANCES: Final[Mapping[str, tuple[float, float]]] = {
    **dict.fromkeys(("uint8", "int8", "int16", "int32", "int64", "bool"), _EXACT),
    "float16": _FLOAT16,
    "bfloat16": (2e-2, 1e-2),
    "float32": _FLOAT32,
    "float64": _FLOAT64,
    "complex32": _FLOAT16,
    "complex64": _FLOAT32,
    "complex128": _FLOAT64,
    **dict.fromkeys(("qint8", "quint8", "qint32"), _ONE_STEP),
}
