"""Arithmetic of sizes: Python's functions as programs call them, and TorchScript's."""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping
from typing import Any, Final

import torch

# A power of whole numbers, which TorchScript computes as one of floats.
Power: Final = "power"

ARITHMETIC: Final[Mapping[Any, str]] = {
    operator.add: "aten::add",
    operator.sub: "aten::sub",
    operator.mul: "aten::mul",
    operator.floordiv: "aten::floordiv",
    operator.mod: "aten::remainder",
    operator.truediv: "aten::div",
    operator.neg: "aten::neg",
    operator.pow: Power,
    operator.lt: "aten::lt",
    operator.le: "aten::le",
    operator.gt: "aten::gt",
    operator.ge: "aten::ge",
    operator.eq: "aten::eq",
    operator.ne: "aten::ne",
    operator.and_: "aten::__and__",
    operator.or_: "aten::__or__",
    math.floor: "aten::floor",
    math.ceil: "aten::ceil",
    math.trunc: "aten::Int",
    math.sqrt: "aten::sqrt",
    torch.sym_int: "aten::Int",
    torch.sym_float: "aten::Float",
    torch.sym_not: "aten::__not__",
    torch.sym_max: "prim::max",
    torch.sym_min: "prim::min",
    torch.sym_sum: "aten::add",
    torch._sym_sqrt: "aten::sqrt",
}


def type_of(value: Any) -> Any:
    """TorchScript's type of a number, symbolic or not."""
    if isinstance(value, bool | torch.SymBool):
        return torch._C.BoolType.get()
    if isinstance(value, int | torch.SymInt):
        return torch._C.IntType.get()
    return torch._C.FloatType.get()
