"""The forms of names that files hold: operators, kernel tags, dtypes, classes, features.

Readers of such files trust nobody: names are restricted to what PyTorch can have before they reach
a plan, generated C++ or a terminal. Whether a runtime has what they name is checked separately.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache
from typing import Annotated, Final

from pydantic import AfterValidator
from pydantic_core import PydanticCustomError

from orchestrator.values.operators import MalformedOperatorNameError, OperatorName

# c10/core/ScalarType.h, AT_FORALL_SCALAR_TYPES_WITH_COMPLEX_AND_QINTS
DTYPES: Final = (
    *("Byte", "Char", "Short", "Int", "Long", "Half", "Float", "Double"),
    *("ComplexHalf", "ComplexFloat", "ComplexDouble", "Bool", "QInt8", "QUInt8", "QInt32"),
    *("BFloat16", "QUInt4x2", "QUInt2x4"),
)
LONGEST_OPERATOR: Final = 256
# Patterns, in which `\w` is meant in ASCII. Tags are such as `linalg.lu_solve_cpu` and
# `slow_conv_dilated<>`.
TAG: Final = r"[A-Za-z_][\w.<>]{0,199}"
CLASS: Final = r"[A-Za-z_]\w{0,99}(?:\.\w{1,100}){0,20}"
FEATURE: Final = r"\w{1,100}"


def held_to(expected: str, fits: Callable[[str], object]) -> AfterValidator:
    """Accepts texts that fit. The locks of many apps hold the same names: each is checked once."""
    does_fit = cache(fits)

    def check(text: str) -> str:
        if not does_fit(text):
            raise PydanticCustomError("form", "malformed", {"expected": expected})
        return text

    return AfterValidator(check)


def form(pattern: str) -> Callable[[str], object]:
    """Return a predicate: true for a text that matches `pattern` as a whole."""
    return re.compile(pattern, re.ASCII).fullmatch


def _is_operator(text: str) -> bool:
    try:
        OperatorName.parse(text)
    except MalformedOperatorNameError:
        return False
    return len(text) <= LONGEST_OPERATOR


def once(values: Sequence[str]) -> Sequence[str]:
    """Refuses a list with duplicate entries."""
    if len({*values}) != len(values):
        raise PydanticCustomError("form", "duplicate entry", {"expected": "unique entries"})
    return values


Operator = Annotated[str, held_to("an operator, such as aten::add.Tensor", _is_operator)]
Tag = Annotated[str, held_to("a kernel tag: letters, digits and `_.<>`", form(TAG))]
Dtype = Annotated[str, held_to("a dtype: " + ", ".join(DTYPES), {*DTYPES}.__contains__)]
Class = Annotated[str, held_to("a custom class, such as LinearPackedParamsBase", form(CLASS))]
Feature = Annotated[str, held_to("a build feature: letters, digits and `_`", form(FEATURE))]
