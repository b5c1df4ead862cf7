"""Formats of tensors' elements in memory, by dtype; PyTorch's names (c10/core/ScalarType.h)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

# dtype -> (what `struct` reads one number as, numbers an element)
FORMATS: Final[Mapping[str, tuple[str, int]]] = {
    "uint8": ("B", 1),
    "int8": ("b", 1),
    "int16": ("h", 1),
    "int32": ("i", 1),
    "int64": ("q", 1),
    "bool": ("?", 1),
    "float16": ("e", 1),
    "float32": ("f", 1),
    "float64": ("d", 1),
    "bfloat16": ("H", 1),
    "complex32": ("e", 2),
    "complex64": ("f", 2),
    "complex128": ("d", 2),
    "qint8": ("b", 1),
    "quint8": ("B", 1),
    "qint32": ("i", 1),
}
