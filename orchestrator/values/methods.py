"""The callable methods of a model, and an example call, for manifests and READMEs.

Contract: whatever the file says, the names and types here are plain ASCII that fits on a line of
text, tensors are no larger than declared ones may be, and values nest at most `DEEPEST` deep.
"""

from __future__ import annotations

import math
from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, Strict

METHOD: Final = r"^[A-Za-z_][A-Za-z0-9_]{0,99}$"
# As TorchScript writes types; custom classes are `__torch__.torch.classes.x.Y`.
TYPE: Final = r"^[A-Za-z_][A-Za-z0-9_.,\[\] ]{0,199}$"
# One that C and C++ take between quotes: no quote, backslash or trigraph.
PLAIN: Final = r"^[ !#->@-\[\]-~]{0,99}$"
DEEPEST: Final = 8
MOST_INPUTS: Final = 64

# dtype of the C API -> the C type of an element
ELEMENTS: Final = {
    "uint8": "uint8_t",
    "int8": "int8_t",
    "int16": "int16_t",
    "int32": "int32_t",
    "int64": "int64_t",
    "float16": "uint16_t",
    "float32": "float",
    "float64": "double",
    "bool": "unsigned char",
    "bfloat16": "uint16_t",
}

_Items = Annotated[tuple["Input", ...], Strict(False)]


class _Value(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True, extra="forbid")


class Parameter(_Value):
    """Parameter of a method, other than `self`: its name and type."""

    name: str = Field(pattern=METHOD)
    type: str = Field(pattern=TYPE)


class Method(_Value):
    """A method of a model; `parameters` is None where an old file does not say."""

    name: str = Field(pattern=METHOD)
    parameters: Annotated[tuple[Parameter, ...], Strict(False)] | None
    returns: Annotated[tuple[Annotated[str, Field(pattern=TYPE)], ...], Strict(False)] = ()

    def text(self) -> str:
        """`forward(Tensor images) -> Tensor`"""
        if self.parameters is None:
            return f"{self.name}(...)"
        taken = ", ".join(f"{one.type} {one.name}" for one in self.parameters)
        given = ", ".join(self.returns) or "None"
        return f"{self.name}({taken}) -> {given}"


class Input(_Value):
    """A value that a model takes. A tensor has dtype and shape, a list or tuple items."""

    kind: Literal["none", "bool", "int", "double", "string", "tensor", "list", "tuple"]
    dtype: str | None = None
    shape: Annotated[tuple[int, ...], Strict(False)] | None = None
    value: bool | int | float | str | None = None
    items: _Items = ()

    @property
    def elements(self) -> int:
        """Number of elements; for tensors only."""
        return math.prod(self.shape or ())


class Call(_Value):
    """A call that a model was traced with: its first."""

    method: str = Field(pattern=METHOD)
    arguments: _Items
