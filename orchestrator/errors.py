"""Errors as a designed interface: one class per failure; place, expected, seen, and what to do
next.

Every failure that a user can cause or fix is an `OrchestratorError`. Nothing below the CLI exits
the process or prints: it raises. A Python exception of any other kind is a bug of ours (exit 3).

The texts in an error may come from anywhere: a model's names, a string in a lock. `visible` escapes
them, so that they cannot control the terminal.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final

# What a terminal acts upon, or shows elsewhere than it stands (C0 but tab, DEL, C1, line and
# paragraph separators, bidirectional controls), and what cannot be written as UTF-8 (surrogates).
_CONTROL: Final = re.compile(
    "[\x00-\x08\x0a-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)


_WORD: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


class ExitCode(IntEnum):
    """The exit codes of the `orchestrator` command.

    UNDECIDED: a question has no answer (`fits`)."""

    OK = 0
    USER_ERROR = 1
    UNDECIDED = 2
    BUG = 3
    INTERRUPTED = 130


def visible(text: str) -> str:
    """A text with its control characters written as Python escapes them: one line, for a
    terminal."""
    return _CONTROL.sub(lambda match: ascii(match[0])[1:-1], text)


@dataclass(frozen=True, order=True)
class Place:
    """A place in a text file; `line` and `column` count from 1, 0 means the file as a whole."""

    file: str
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        if not self.line:
            return self.file
        return f"{self.file}:{self.line}:{self.column}"


class OrchestratorError(Exception):
    """A failure reported to the user: place, what is wrong, expected, seen, what to do next.

    Subclasses name the failure; they add no behaviour. `what` is one sentence without a full stop.
    `facts` has the numbers in the text, and everything else that a program would have to parse.
    """

    def __init__(
        self,
        what: str,
        *,
        place: Place | None = None,
        expected: str | None = None,
        seen: str | None = None,
        hint: str | None = None,
        details: str | None = None,
        facts: Mapping[str, str | int] | None = None,
    ) -> None:
        super().__init__(what)
        self.what = what
        self.place = place
        self.expected = expected
        self.seen = seen
        self.hint = hint
        self.details = details
        self.facts = dict(facts or {})

    @property
    def code(self) -> str:
        """The failure's name for machines: `OVER_BUDGET` of `OverBudgetError`."""
        return self.code_of(type(self).__name__)

    @staticmethod
    def code_of(name: str) -> str:
        """The code of the class with this name."""
        return _WORD.sub("_", name.removesuffix("Error")).upper()

    def to_json(self) -> dict[str, Any]:
        """{"code": s, "message": s, "place": {"file": s, "line": n|null, "column": n|null}|null,
        "expected": s|null, "seen": s|null, "hint": s|null, "details": s|null, "facts": {s: s|n},
        "errors": [...]}

        `errors` has those that one failure tells together, in the same form.
        """
        place = self.place
        return {
            "code": self.code,
            "message": self.what,
            "place": place
            and {"file": place.file, "line": place.line or None, "column": place.column or None},
            "expected": self.expected,
            "seen": self.seen,
            "hint": self.hint,
            "details": self.details,
            "facts": self.facts,
            "errors": [error.to_json() for error in self.parts],
        }

    @property
    def parts(self) -> tuple[OrchestratorError, ...]:
        """The failures that this one tells together; of most there are none."""
        return ()

    def render(self) -> str:
        """The text for a terminal: several lines, no trailing newline, no colour, and no control
        character but newline and tab, whatever it tells of."""
        head = f"{self.place}: error: {self.what}" if self.place else f"error: {self.what}"
        lines = [visible(head)]
        for label, text in (
            ("expected", self.expected),
            ("seen", self.seen),
            ("do", self.hint),
        ):
            if text:
                lines.append(f"  {label + ':':<10}{visible(text)}")
        if self.details:
            lines.extend("  | " + visible(line) for line in self.details.rstrip().splitlines())
        return "\n".join(lines)
