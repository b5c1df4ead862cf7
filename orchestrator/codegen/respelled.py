"""Mangled names as libstdc++ has them, of names that libc++ has.

libc++ keeps its classes in an inline namespace (`std::__1`), and libstdc++ most of its own in `std`
itself. A namespace is also what a later part of a name may refer back to, so that a name without it
numbers its parts otherwise: a name is read into parts and written again. Itanium C++ ABI, 5.1.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cache

# The inline namespace of libc++.
LIBCXX = "3__1"
# Classes of `std` that libstdc++ names otherwise: in a namespace of their own since C++11, or with
# an abbreviation (5.1.10).
_OTHERWISE = frozenset(
    {"12basic_string", "4list", "9allocator", "13basic_istream", "13basic_ostream"}
)
_BUILTIN = frozenset("vwbcahstijlmxynofdegz")
_COMPOUND = frozenset("PROKV")
_DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
# A number or bool as an argument of a template; of an enumeration's type it would hold a name.
_LITERAL = re.compile(r"L[a-z]n?[0-9]+E")
# Behind a name, so that nothing is read past its end.
_END = "$"


@dataclass(frozen=True)
class _Part:
    """A part of a name: `code` says which, `inner` are the parts that it is made of.

    name      text, in the scope `inner[0]` if there is one
    template  `inner[0]` with the arguments `inner[1:]`
    compound  a pointer to, reference to or const of `inner[0]`; text: its letter
    as it is  text
    """

    code: str
    text: str = ""
    inner: tuple[_Part, ...] = ()


_STD = _Part("as it is", "St")


class _NotReadError(Exception):
    """A name with something in it that is not read here."""


@cache
def libstdcxx_spelled(symbol: str) -> str | None:
    """The name in libstdc++ of what is `symbol` in libc++; None where that is the same, or where
    the name holds what is not read here (templates of functions, function types, packs).
    """
    if LIBCXX not in symbol:
        return None
    try:
        reader = _Reader(f"{symbol}{_END}")
        name, arguments = reader.encoding()
        return _Writer().encoding(reader.qualifiers, name, arguments)
    except _NotReadError:
        return None


@dataclass
class _Reader:
    text: str
    at: int = 2
    parts: list[_Part] = field(default_factory=list)
    qualifiers: str = ""

    def encoding(self) -> tuple[_Part, tuple[_Part, ...]]:
        """The function's name, and the types of its arguments."""
        if not self.text.startswith("_Z"):
            raise _NotReadError
        name = self._name(of_function=True)
        if name.code == "template":
            raise _NotReadError
        arguments = []
        while self._peek() != _END:
            arguments.append(self._type())
        return name, tuple(arguments)

    def _peek(self) -> str:
        return self.text[self.at]

    def _take(self, size: int = 1) -> str:
        if self.at + size >= len(self.text):
            raise _NotReadError
        self.at += size
        return self.text[self.at - size : self.at]

    def _known(self, part: _Part) -> _Part:
        self.parts.append(part)
        return part

    def _type(self) -> _Part:
        letter = self._peek()
        if letter in _BUILTIN:
            return _Part("as it is", self._take())
        if letter in _COMPOUND:
            self._take()
            return self._known(_Part("compound", letter, (self._type(),)))
        return self._name()

    def _name(self, of_function: bool = False) -> _Part:
        if self._peek() != "N":
            return self._unscoped(of_function)
        self._take()
        if self._peek() == "K":
            if not of_function:
                raise _NotReadError
            self.qualifiers = self._take()
        scope: _Part | None = None
        while self._peek() != "E":
            scope = self._within(scope, of_function)
        self._take()
        if scope is None:
            raise _NotReadError
        return scope

    def _unscoped(self, of_function: bool) -> _Part:
        part = self._within(None, of_function)
        if part == _STD:
            part = self._within(part, of_function)
        while self._peek() == "I":
            part = self._within(part, of_function)
        return part

    def _within(self, scope: _Part | None, of_function: bool) -> _Part:
        """Read the next part of a name in the scope of the parts before it."""
        letter = self._peek()
        if letter == "S":
            return self._reference()
        if letter == "I" and scope is not None:
            self._take()
            arguments = [scope]
            while self._peek() != "E":
                arguments.append(self._argument())
            self._take()
            return self._known(_Part("template", "", tuple(arguments)))
        text = self._source_name()
        if scope is not None and _is_std(scope) and text in _OTHERWISE:
            raise _NotReadError
        part = _Part("name", text, () if scope is None else (scope,))
        # the function itself is nothing that its arguments could refer to
        return part if of_function and self._peek() == "E" else self._known(part)

    def _source_name(self) -> str:
        start = self.at
        while self._peek().isdigit():
            self._take()
        if start == self.at:
            if self._peek() in "CD" and self.text[self.at + 1].isdigit():
                return self._take(2)  # a constructor or destructor
            raise _NotReadError
        self._take(int(self.text[start : self.at]))
        return self.text[start : self.at]

    def _argument(self) -> _Part:
        if self._peek() != "L":
            return self._type()
        literal = _LITERAL.match(self.text, self.at)
        if literal is None:
            raise _NotReadError
        return _Part("as it is", self._take(len(literal[0])))

    def _reference(self) -> _Part:
        self._take()
        if self._peek() == "t":
            self._take()
            return _STD
        number = ""
        while self._peek() != "_":
            if self._peek() not in _DIGITS:
                raise _NotReadError
            number += self._take()
        self._take()
        at = int(number, 36) + 1 if number else 0
        if at >= len(self.parts):
            raise _NotReadError
        return self.parts[at]


@dataclass
class _Writer:
    """Writes parts as libstdc++ has them; `parts` are those that later ones may refer to."""

    parts: list[_Part] = field(default_factory=list)

    def encoding(self, qualifiers: str, name: _Part, arguments: tuple[_Part, ...]) -> str:
        scope = self._prefix(name.inner[0]) if name.inner else ""
        function = f"N{qualifiers}{scope}{name.text}E" if scope else name.text
        return f"_Z{function}" + "".join(map(self._type, arguments))

    def _type(self, part: _Part) -> str:
        if part.code == "as it is":
            return part.text
        if part in self.parts:
            return self._back(part)
        if part.code == "compound":
            return self._known(part, f"{part.text}{self._type(part.inner[0])}")
        text = self._prefix(part)
        return text if self._is_unscoped(part) else f"N{text}E"

    def _is_unscoped(self, part: _Part) -> bool:
        """True if a name is in the global namespace or directly in `std`, or is a template with
        such a name."""
        if part.code == "template":
            return self._is_unscoped(part.inner[0])
        return not part.inner or _is_std(part.inner[0])

    def _prefix(self, part: _Part) -> str:
        """A name without the letters around it."""
        if part.code == "as it is":
            return part.text
        if _is_std(part):
            return "St"
        if part in self.parts:
            return self._back(part)
        if part.code == "template":
            name, *arguments = part.inner
            text = self._prefix(name) + "I" + "".join(map(self._type, arguments)) + "E"
        else:
            text = "".join(map(self._prefix, part.inner)) + part.text
        return self._known(part, text)

    def _known(self, part: _Part, text: str) -> str:
        self.parts.append(part)
        return text

    def _back(self, part: _Part) -> str:
        number = self.parts.index(part)
        if number == 0:
            return "S_"
        digits = ""
        number -= 1
        while number or not digits:
            number, digit = divmod(number, 36)
            digits = _DIGITS[digit] + digits
        return f"S{digits}_"


def _is_std(part: _Part) -> bool:
    """`std`, and libc++'s inline namespace in it."""
    return part in (_STD, _Part("name", LIBCXX, (_STD,)))
