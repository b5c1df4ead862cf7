"""Calls that a model made itself in a trace: without those of the recorder's set-up. Pure.

A trace counts both together, since every app makes these calls. `native/tracer/setup.cpp` has them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from orchestrator.values.operators import OperatorName
from orchestrator.values.trace import Trace

# Operators that the calls run, with how often: the same in every trace. What is done for each
# output of a model is not among them.
OPERATORS: Final[Mapping[str, int]] = {
    "aten::_local_scalar_dense": 1,
    "aten::div.Scalar": 1,
    "aten::div.Tensor": 1,
    "aten::eq.Tensor": 1,
    "aten::fill_.Scalar": 6,
    "aten::item": 1,
    "aten::narrow": 1,
    "aten::new_empty_strided": 1,
    "aten::ones": 1,
    "aten::resize_": 1,
    "aten::zero_": 27,
    "aten::zeros": 27,
}
# Kernel tag -> dtypes, with how often, as far as `plan/development.py` has them as unusual.
KERNEL_TAGS: Final[Mapping[str, Mapping[str, int]]] = {
    "copy_": {"Byte": 3, "Char": 3, "Double": 3, "Short": 3},
}


def called_by_model(trace: Trace) -> frozenset[OperatorName]:
    """The operators that a model called itself."""
    return frozenset(
        name for name, calls in trace.called_operators.items() if calls > OPERATORS.get(name, 0)
    )


def dtypes_of_model(trace: Trace) -> dict[str, tuple[str, ...]]:
    """Kernel tag -> the dtypes that it ran in for a model itself."""
    return {
        tag: tuple(
            dtype
            for dtype, calls in dtypes.items()
            if calls > KERNEL_TAGS.get(tag, {}).get(dtype, 0)
        )
        for tag, dtypes in trace.kernel_tags.items()
    }
