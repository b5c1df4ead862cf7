"""The format of a lock file: the names and numbers that it may hold.

Anyone who can propose a change can write a lock, and nobody reads it: its names are restricted
to what the tracer can record (native/tracer/recorder.cpp) before they reach a plan or
generated C++. All scalars are texts, as the file has them. Whether the runtime has what they name
is another question: see `Vocabulary`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic_core import PydanticCustomError

from orchestrator.values.config import IDENTIFIER, NAME, SHA256
from orchestrator.values.operators import MalformedOperatorNameError, OperatorName

# c10/core/ScalarType.h, AT_FORALL_SCALAR_TYPES_WITH_COMPLEX_AND_QINTS
DTYPES: Final = (
    *("Byte", "Char", "Short", "Int", "Long", "Half", "Float", "Double"),
    *("ComplexHalf", "ComplexFloat", "ComplexDouble", "Bool", "QInt8", "QUInt8", "QInt32"),
    *("BFloat16", "QUInt4x2", "QUInt2x4"),
)
_LONGEST_OPERATOR: Final = 256


@dataclass(frozen=True)
class Vocabulary:
    """The operators and kernel tags of a runtime, which a trace may name."""

    pytorch: str
    operators: frozenset[str]
    tags: frozenset[str]


def _held_to(expected: str, fits: Callable[[str], object]) -> AfterValidator:
    """Accepts texts that fit. The locks of many apps hold the same names: each is checked once."""
    does_fit = cache(fits)

    def check(text: str) -> str:
        if not does_fit(text):
            raise PydanticCustomError("form", "malformed", {"expected": expected})
        return text

    return AfterValidator(check)


def _form(pattern: str) -> Callable[[str], object]:
    return re.compile(pattern, re.ASCII).fullmatch


def _is_operator(text: str) -> bool:
    try:
        OperatorName.parse(text)
    except MalformedOperatorNameError:
        return False
    return len(text) <= _LONGEST_OPERATOR


def _once(values: Sequence[str]) -> Sequence[str]:
    if len({*values}) != len(values):
        raise PydanticCustomError("form", "duplicate entry", {"expected": "unique entries"})
    return values


Operator = Annotated[str, _held_to("an operator, such as aten::add.Tensor", _is_operator)]
# such as `linalg.lu_solve_cpu` and `slow_conv_dilated<>`
Tag = Annotated[
    str, _held_to("a kernel tag: letters, digits and `_.<>`", _form(r"[A-Za-z_][\w.<>]{0,199}"))
]
Dtype = Annotated[str, _held_to("a dtype: " + ", ".join(DTYPES), {*DTYPES}.__contains__)]
Class = Annotated[
    str,
    _held_to(
        "a custom class, such as LinearPackedParamsBase",
        _form(r"[A-Za-z_]\w{0,99}(?:\.\w{1,100}){0,20}"),
    ),
]
Feature = Annotated[str, _held_to("a build feature: letters, digits and `_`", _form(r"\w{1,100}"))]
Backend = Annotated[str, _held_to("a dispatch key, such as CPU", _form(IDENTIFIER))]
Name = Annotated[str, _held_to("a name", _form(NAME))]
Digest = Annotated[str, _held_to("a sha256 digest", _form(SHA256))]
InputsDigest = Annotated[str, _held_to("`bundled`, or a sha256 digest", _form(f"bundled|{SHA256}"))]
TracerDigest = Annotated[str, _held_to("16 hexadecimal digits", _form("[0-9a-f]{16}"))]
Count = Annotated[str, _held_to("a call count: a whole number", _form("0|[1-9][0-9]{0,17}"))]


class _Part(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True, extra="forbid")


class IdentityPart(_Part):
    """See `values.trace.TraceIdentity`."""

    model: Digest
    runtime: Digest
    inputs: InputsDigest
    backends: Annotated[list[Backend], AfterValidator(_once)]
    tracer: TracerDigest


class OperatorPart(_Part):
    """What PyTorch's SelectiveBuilder reads of an operator."""

    is_root_operator: Literal["true", "false"]
    is_used_for_training: Literal["false"]
    include_all_overloads: Literal["false"]


class SelectedPart(_Part):
    """What PyTorch's SelectiveBuilder reads."""

    include_all_non_op_selectives: Literal["false"]
    build_features: Annotated[list[Feature], AfterValidator(_once)]
    custom_classes: Annotated[list[Class], AfterValidator(_once)]
    kernel_metadata: dict[Tag, list[Dtype]]
    operators: dict[Operator, OperatorPart]


class Lock(_Part):
    """A lock file."""

    format: Literal["1"] = Field(description="a lock file of format 1")
    app: Name
    model: Name
    identity: IdentityPart
    outputs: Digest
    hot_tags: Annotated[list[Tag], AfterValidator(_once)]
    unrun_operators: list[Operator]
    calls: dict[Operator, Count]
    kernel_calls: dict[Tag, dict[Dtype, Count]]
    selected_operators: SelectedPart
