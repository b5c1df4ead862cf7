"""The name of an operator: `aten::add.Tensor` is namespace, name and overload.

The grammar is the one of PyTorch's schema parser
(`torch/csrc/jit/frontend/function_schema_parser.cpp`, `parseName`), with the namespace required:
`namespace::name` or `namespace::name.overload`, each part a C identifier.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import Final

from orchestrator.errors import OrchestratorError

# Its groups are namespace, name and overload; `\w` is meant in ASCII.
OPERATOR_NAME: Final = r"([A-Za-z_]\w*)::([A-Za-z_]\w*)(?:\.([A-Za-z_]\w*))?"
_GRAMMAR = re.compile(OPERATOR_NAME, re.ASCII)


class MalformedOperatorNameError(OrchestratorError):
    """A text that should name an operator does not follow the grammar."""


class OperatorName(str):
    """An operator's name. It is its own text, so that it is written, compared, hashed and sorted as
    that, and an index of thousands holds nothing else; nobody but this class takes it apart.

    `parse` checks a text that comes from outside; the constructor trusts it.
    """

    __slots__ = ()

    @classmethod
    def parse(cls, text: str) -> OperatorName:
        """`aten::add.Tensor` as a value; raises `MalformedOperatorNameError`."""
        if _GRAMMAR.fullmatch(text) is None:
            raise MalformedOperatorNameError(
                "this is not the name of an operator",
                expected="namespace::name or namespace::name.overload, such as aten::add.Tensor",
                # Clipped and escaped: the text may come from a damaged model.
                seen=repr(text[:120]),
            )
        return cls(text)

    @classmethod
    def of(cls, qualified: str, overload: str) -> OperatorName:
        """The pair that bytecode and the dispatcher keep: (`aten::add`, `Tensor`)."""
        return cls.parse(f"{qualified}.{overload}" if overload else qualified)

    @classmethod
    def known(cls, text: str) -> OperatorName:
        """The one value of a text that was checked: the many traces of a workspace share it."""
        return _known(text)

    @property
    def namespace(self) -> str:
        """`aten`."""
        return self.partition("::")[0]

    @property
    def name(self) -> str:
        """The name alone: `add`."""
        return self.qualified.partition("::")[2]

    @property
    def qualified(self) -> str:
        """The name without its overload: `aten::add`."""
        return self.partition(".")[0]

    @property
    def overload(self) -> str:
        """`Tensor`; empty for an operator without one (`aten::relu`)."""
        return self.partition(".")[2]


_known = cache(OperatorName)


@dataclass(frozen=True)
class Arguments:
    """Number of arguments that an operator takes: `least` without defaults, `most` with all."""

    least: int
    most: int
