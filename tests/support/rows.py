"""What tests of our kernels share: the processor's levels, and rows of floats."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from pathlib import Path


def has_wide_lanes() -> bool:
    """Whether this processor has the highest level of x86-64 that kernels are compiled for."""
    return {"avx2", "fma"} <= set(Path("/proc/cpuinfo").read_text().split())


def floats(values: Sequence[float]) -> ctypes.Array[ctypes.c_float]:
    """The values in C's memory."""
    return (ctypes.c_float * len(values))(*values)
