"""Templates that trust no caller: each value is checked for the context that it is written to.

Contract: a value passes through one of `FILTERS`, which names the context. A value without a filter
must be a plain word, which has no special meaning in any language here. A filter refuses text that
could end its context or start another (UnfitTextError). Only the filters for shells and for CMake's
bracket arguments quote, because paths and flags are written there. So text in a lock file, a
manifest or a declaration cannot become code, even if nobody checked it before.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final

import jinja2

from orchestrator.errors import OrchestratorError

_SHOWN: Final = 80


class UnfitTextError(OrchestratorError):
    """A text contains characters that its context in a generated file does not allow."""


class Fit(str):
    """A text that a filter found fit for its place, or that a template was rendered to."""

    __slots__ = ()


@dataclass(frozen=True)
class _Place:
    """A place in a generated file: what it is called, and the form of all texts that may stand
    there."""

    name: str
    expected: str
    form: re.Pattern[str]

    def one(self, value: object) -> Fit:
        """The value unchanged; raises UnfitTextError."""
        text = str(value)
        able = isinstance(value, str | int) and not isinstance(value, bool)
        if not able or not self.form.fullmatch(text):
            raise UnfitTextError(
                f"a text cannot be written as {self.name}", expected=self.expected, seen=shown(text)
            )
        return Fit(text)

    def joined(self, separator: str) -> Callable[[Iterable[object]], Fit]:
        """A filter for lists, of which each entry must fit."""
        return lambda values: Fit(separator.join(self.one(value) for value in values))


def shown(text: str) -> str:
    """A text that may hold anything, for a message: clipped and escaped."""
    return ascii(text if len(text) <= _SHOWN else text[:_SHOWN] + "...")


def _place(name: str, expected: str, form: str) -> _Place:
    return _Place(name, expected, re.compile(form, re.ASCII))


# What is the same in every language here: no quote, blank, or sign that means something.
_WORD = _place(
    "a word",
    "letters, digits, `.`, `_`, `+`, `~` and `-`, that do not begin with a sign",
    r"\w[\w.+~-]*",
)
_PATH = _place(
    "a relative path",
    "words, or `..`, with `/` between",
    r"(?:\.\.|\w[\w.+~-]*)(?:/\w[\w.+~-]*|/\.\.)*",
)
_LINE = _place(
    "a line of text",
    "no control character but a tab, and no `\\` at its end",
    r"[^\x00-\x08\x0a-\x1f\x7f-\x9f\u2028\u2029]*[^\x00-\x08\x0a-\x1f\x7f-\x9f\u2028\u2029\\]",
)
_TEXT = _place(
    "a text", "no control character but a tab", r"[^\x00-\x08\x0a-\x1f\x7f-\x9f\u2028\u2029]*"
)
_DEFINITION = _place(
    "a macro's definition",
    "`NAME` or `NAME=value`, the value of letters, digits and `._+,:/=-`",
    r"[A-Za-z_]\w*(?:=[\w.+,:/=-]*)?",
)
_NUMBER = _place("a number", "digits", r"[0-9]+")
_CPP_NAME = _place("a name in C++", "a C identifier", r"[A-Za-z_]\w*")
# Printable ASCII. `?` may begin a trigraph.
_CPP_TEXT = _place(
    "the text of a C++ string literal",
    'printable ASCII characters without `"`, `\\` and `?`',
    r"""[ !#->@-\[\]-~]+""",
)
_CPP_ENTRY = _place(
    "an entry of a list of names",
    "names with `::` or `.` between",
    r"[A-Za-z_]\w*(?:(?:::|\.)\w+)*",
)
_JAVA_NAME = _place(
    "a name in Java", "identifiers with `.` between", r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*"
)
_TYPE = r"\w[\w.,\[\] ]*"
_SIGNATURE = _place(
    "a method's signature",
    "`name(Type name, ...) -> Type`",
    rf"\w+\((?:\.\.\.|{_TYPE}|)\)(?: -> {_TYPE})?",
)
_SHELL_PATTERN = _place("a shell's pattern", "letters, digits and `,=*-`", r"[\w,=*-]+")


def _thousands(value: int) -> Fit:
    return Fit(f"{value:,}")


def _shell(words: Iterable[str]) -> Fit:
    """Words of a command line; quoted, where they need it."""
    return Fit(shlex.join(_TEXT.one(word) for word in words))


def _shell_quoted(text: str) -> Fit:
    """A part of a text in double quotes (POSIX.1-2017, XCU 2.2.3)."""
    return Fit(re.sub(r'(["$`\\])', r"\\\1", _TEXT.one(text)))


def _cmake_bracket(text: str) -> Fit:
    """A whole argument of CMake, in which it looks for nothing (cmake-language(7))."""
    if "]=]" in f"{text}]=":
        raise UnfitTextError(
            "a text cannot be written as a bracket argument of CMake",
            expected="no `]=]`, and no `]=` at its end",
            seen=shown(text),
        )
    return Fit(f"[=[{_TEXT.one(text)}]=]")


# By name: the place that a value stands in.
FILTERS: Final[Mapping[str, Callable[..., Fit]]] = {
    "word": _WORD.one,
    "path": _PATH.one,
    "line": _LINE.one,
    "lines": _LINE.joined(", "),
    "definition": _DEFINITION.one,
    "definitions": _DEFINITION.joined(";"),
    "number": _NUMBER.one,
    "thousands": _thousands,
    "cpp_name": _CPP_NAME.one,
    "cpp_text": _CPP_TEXT.one,
    "cpp_list": _CPP_ENTRY.joined(";"),
    "java_name": _JAVA_NAME.one,
    "signature": _SIGNATURE.one,
    "shell": _shell,
    "shell_quoted": _shell_quoted,
    "shell_patterns": _SHELL_PATTERN.joined(" | "),
    "cmake_bracket": _cmake_bracket,
}


@cache
def environment(
    package: str, folder: str = "templates", *, blocks: bool = False
) -> jinja2.Environment:
    """The templates in a package's folder. blocks: lines that only hold a `{% %}` leave nothing."""
    made = jinja2.Environment(
        loader=jinja2.PackageLoader(package, folder),
        undefined=jinja2.StrictUndefined,
        trim_blocks=blocks,
        lstrip_blocks=blocks,
        keep_trailing_newline=True,
        autoescape=False,  # the filters do more than escape
        auto_reload=False,  # a template does not change while a command runs
        finalize=_written,
    )
    made.filters.update(FILTERS)
    return made


def _written(value: object) -> Fit:
    """Filter a value before a template writes it. Raises UnfitTextError; jinja2.UndefinedError if a
    template uses a name without a value."""
    return value if isinstance(value, Fit) else _WORD.one(value)
