"""What tests of our kernels share: a library of them, the processor's levels, rows of floats."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from pathlib import Path

import package_toy as toy
from zig_tool import zig

from orchestrator.system.processor import processor_instructions

_KERNELS = toy.ROOT / "orchestrator/native/kernels"
_MATHS = toy.ROOT / "tests/unit/native/native_maths"


def kernels_library(name: str, folder: Path, *more: str) -> ctypes.CDLL:
    """A library of kernels, compiled from `native_maths/<name>.cpp` into the folder."""
    out = folder / f"lib{name}{len(more) or ''}.so"
    flags = (*more, "-shared", "-fPIC", "-g0", "-O2", "-std=gnu++17", "-Wall", "-Wextra", "-Werror")
    zig("c++", *flags, f"-I{_MATHS}", f"-I{_KERNELS}", _MATHS / f"{name}.cpp", "-o", out)
    return ctypes.CDLL(str(out))


def has_wide_lanes() -> bool:
    """Whether this processor has the highest level of x86-64 that kernels are compiled for."""
    return {"avx2", "fma"} <= processor_instructions()


def floats(values: Sequence[float]) -> ctypes.Array[ctypes.c_float]:
    """The values in C's memory."""
    return (ctypes.c_float * len(values))(*values)
