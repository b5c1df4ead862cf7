"""The name of an operator, parsed once: `aten::add.Tensor` is namespace, name and overload.

Contract: `OperatorName.parse(text)` and `str(name)` are inverse for every name that parses, so no
code splits such a string a second time. Names are ordered and hashable; a sorted tuple of them is
canonical. The grammar is the one of PyTorch's schema parser
(`torch/csrc/jit/frontend/function_schema_parser.cpp`, `parseName`), with the namespace required:
`namespace::name` or `namespace::name.overload`, each part a C identifier.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from orchestrator.errors import OrchestratorError

# Its groups are namespace, name and overload; `\w` is meant in ASCII.
OPERATOR_NAME: Final = r"([A-Za-z_]\w*)::([A-Za-z_]\w*)(?:\.([A-Za-z_]\w*))?"
_GRAMMAR = re.compile(OPERATOR_NAME, re.ASCII)


class MalformedOperatorNameError(OrchestratorError):
    """A text that should name an operator does not follow the grammar."""


@dataclass(frozen=True, order=True, slots=True)
class OperatorName:
    """An operator's name; `overload` is empty for an operator without one (`aten::relu`).

    Make it with `parse` or `of`: the constructor trusts its parts.
    """

    namespace: str
    name: str
    overload: str = ""

    @classmethod
    def parse(cls, text: str) -> OperatorName:
        """`aten::add.Tensor` as a value; raises `MalformedOperatorNameError`."""
        match = _GRAMMAR.fullmatch(text)
        if match is None:
            raise MalformedOperatorNameError(
                "this is not the name of an operator",
                expected="namespace::name or namespace::name.overload, such as aten::add.Tensor",
                # Clipped and escaped: the text may come from a damaged model.
                seen=repr(text[:120]),
            )
        return cls(match[1], match[2], match[3] or "")

    @classmethod
    def of(cls, qualified: str, overload: str) -> OperatorName:
        """The pair that bytecode and the dispatcher keep: (`aten::add`, `Tensor`)."""
        return cls.parse(f"{qualified}.{overload}" if overload else qualified)

    @property
    def qualified(self) -> str:
        """The name without its overload: `aten::add`."""
        return f"{self.namespace}::{self.name}"

    def __str__(self) -> str:
        return f"{self.qualified}.{self.overload}" if self.overload else self.qualified


@dataclass(frozen=True)
class Arguments:
    """How many arguments an operator takes: `least` without its defaults, `most` with all."""

    least: int
    most: int
