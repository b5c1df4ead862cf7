"""The text of an app's stubs: functions that replace those of excluded units, and raise an
error."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path

from orchestrator.codegen.registrations import GeneratedUnit
from orchestrator.codegen.render import render
from orchestrator.codegen.respelled import libstdcxx_spelled
from orchestrator.codegen.units import unit_of
from orchestrator.index.model import aliases


# many apps of a workspace have the same: the plan of a thousand holds each text once
@lru_cache(maxsize=256)
def generate_stubs(symbols: frozenset[str], cache: Path) -> tuple[GeneratedUnit, ...]:
    """The unit that defines a stub for every symbol, named by content; none for none."""
    ordered = sorted({variant for symbol in symbols for variant in aliases(symbol)})
    return (unit_of("stubs", _text(ordered), cache / "stubs"),) if ordered else ()


def _text(ordered: Sequence[str]) -> str:
    elsewhere = sorted({other for symbol in ordered for other in elsewhere_spelled(symbol)})
    return render(
        "stubs.cpp.j2",
        symbols=_numbered(ordered, 1),
        elsewhere=_numbered(elsewhere, len(ordered) + 1),
    )


def _numbered(symbols: Iterable[str], first: int) -> list[tuple[int, str, str | None]]:
    """Each symbol with its number, and its name with libstdc++ where that differs."""
    return [(at, one, libstdcxx_spelled(one)) for at, one in enumerate(symbols, first)]


def elsewhere_spelled(symbol: str) -> tuple[str, ...]:
    """Spellings of a 64-bit Linux symbol by 32-bit compilers and Apple's, if they differ.

    There `int64_t` is `long long` (x in place of l), `uint64_t` is `unsigned long long` (y), and on
    32 bits `size_t` is `unsigned int` (j): Itanium C++ ABI, 5.1.5. An `m` may be either of the two.
    """
    parts = tuple(_parts(symbol))
    spelled = {
        "".join(
            text.replace("l", "x").replace("m", unsigned) if types else text
            for text, types in parts
        )
        for unsigned in "myj"
    }
    return tuple(sorted(spelled - {symbol}))


# References back (`S1_`), names of the standard library, constructors; lengths; literals; types
_PART = re.compile(r"([ST][0-9A-Z]*_|S[tabsiod]|[CD][0-9])|([0-9]+)|L[a-z]n?[0-9]+E|.")


def _parts(symbol: str) -> Iterator[tuple[str, bool]]:
    """The pieces of a mangled name; False for those that hold no letter of a type."""
    at = 0
    while at < len(symbol):
        match = _PART.match(symbol, at)
        assert match, f"{symbol!r} at {at}"
        end = match.end() + int(match[2] or 0)
        yield symbol[at:end], not (match[1] or match[2])
        at = end
