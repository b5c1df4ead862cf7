"""Known vulnerabilities of PyTorch as `advisories.yaml` declares them, and what they mean for a
library."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Final, Literal, Self

from pydantic import AfterValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from orchestrator.values.config.forms import Declared, Expected
from orchestrator.values.labels import VariantLabel

# CycloneDX 1.5, `vulnerabilities.analysis.state` and `.justification`
State = Literal["not_affected", "exploitable", "resolved"]
Justification = Literal["code_not_present", "code_not_reachable"]


def _matching(pattern: str, words: str) -> AfterValidator:
    """A check of a text; words: what it expects."""
    compiled = re.compile(pattern, re.ASCII)

    def check(text: str) -> str:
        if compiled.fullmatch(text) is None:
            raise PydanticCustomError("text", "other characters", {"expected": words})
        return text

    return AfterValidator(check)


_LINE: Final = "a line of text"
_VERSION: Final = "a version of PyTorch, such as 2.6.0"
_OPERATOR: Final = "an operator, such as aten::lstm_cell"
_FUNCTION: Final = "a function, such as at::native::lstm_cell"
_ID: Final = "a name such as CVE-2025-3001"
_SOURCE: Final = "an https address"
Line = Annotated[
    str, Field(max_length=300), Expected(_LINE), _matching(r"[^\x00-\x1f\x7f-\x9f]+", _LINE)
]
Version = Annotated[str, _matching(r"\d{1,4}(\.\d{1,4}){2}", _VERSION)]
Operator = Annotated[str, _matching(r"[A-Za-z_]\w{0,99}::[A-Za-z_]\w{0,99}", _OPERATOR)]
Function = Annotated[
    str, Field(max_length=300), _matching(r"[A-Za-z_]\w*(::[A-Za-z_]\w*)+", _FUNCTION)
]
Identifier = Annotated[str, Expected(_ID), _matching(r"[A-Z]{1,20}(-\w{1,20}){1,5}", _ID)]
Source = Annotated[
    str, Field(max_length=300), Expected(_SOURCE), _matching(r"https://[!-~]+", _SOURCE)
]


class Mend(Declared):
    """A header of ours that stands before the unit with the fault."""

    header: Line
    how: Line


class Advisory(Declared):
    """One vulnerability; `advisories.yaml` describes the keys."""

    id: Identifier
    title: Line
    source: Source
    below: Version | None = None
    since: Annotated[Version | None, Field(alias="from")] = None
    operators: tuple[Operator, ...] = Field(default=(), strict=False)
    functions: tuple[Function, ...] = Field(default=(), strict=False)
    loads: bool = False
    elsewhere: Line | None = None
    mended: Mend | None = None

    @model_validator(mode="after")
    def _says_where(self) -> Self:
        code = bool(self.operators or self.functions)
        if code == (self.elsewhere is not None):
            raise PydanticCustomError(
                "where", "needs `operators` or `functions`, or `elsewhere` and neither of them"
            )
        return self

    def concerns(self, pytorch: str) -> bool:
        """True if a version of PyTorch, such as 2.6.0, has the fault."""
        its = _numbers(pytorch)
        fixed = self.below is not None and its >= _numbers(self.below)
        return not fixed and (self.since is None or its >= _numbers(self.since))


class Advisories(Declared):
    """A file of them."""

    format: Literal[1]
    advisories: Annotated[tuple[Advisory, ...], Expected("a list of advisories")] = Field(
        strict=False
    )


@dataclass(frozen=True)
class Verdict:
    """An advisory's meaning for one library.

    lines  what is known, for people: the reason, or the way to the code
    """

    advisory: Advisory
    state: State
    justification: Justification | None
    lines: tuple[str, ...]

    @property
    def word(self) -> str:
        """`not present`, `not reachable`, `mended` or `reachable`."""
        if self.justification is not None:
            return self.justification.removeprefix("code_").replace("_", " ")
        return "mended" if self.state == "resolved" else "reachable"


@dataclass(frozen=True)
class LibraryVerdicts:
    """The verdicts of one variant, and how many advisories are of other versions of PyTorch.

    package  the path of the package that its library is in; empty where its plan was judged
    """

    label: VariantLabel
    pytorch: str
    verdicts: tuple[Verdict, ...]
    others: int
    package: str = ""


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:3])
