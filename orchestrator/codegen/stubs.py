"""Writes an app's stubs: functions of cut units, replaced by ones that raise an error."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable
from pathlib import Path

from orchestrator.codegen.registrations import GeneratedUnit
from orchestrator.codegen.render import render


def generate_stubs(symbols: Iterable[str], cache: Path) -> tuple[GeneratedUnit, ...]:
    """The unit that defines a stub for every symbol, in the cache by content; none for none."""
    ordered = sorted({variant for symbol in symbols for variant in _variants(symbol)})
    if not ordered:
        return ()
    text = render("stubs.cpp.j2", symbols=ordered)
    digest = hashlib.sha256(text.encode()).hexdigest()
    path = cache / "stubs" / f"{digest}.cpp"
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        staged = path.with_name(f".{digest}.{os.getpid()}")
        staged.write_text(text)
        staged.replace(path)
    return (GeneratedUnit("stubs", path, digest),)


# A constructor or destructor has up to three names for one body (Itanium C++ ABI, 5.1.4.3), of
# which the index keeps one.
_STRUCTOR = re.compile(r"([CD])([012])(?=E)")


def _variants(symbol: str) -> list[str]:
    match = _STRUCTOR.search(symbol)
    if match is None:
        return [symbol]
    kinds = "12" if match[1] == "C" else "012"
    return [symbol[: match.start(2)] + kind + symbol[match.end(2) :] for kind in kinds]
