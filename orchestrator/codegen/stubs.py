"""Writes an app's stubs: functions of cut units, replaced by ones that raise an error."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path

from orchestrator.codegen.registrations import GeneratedUnit
from orchestrator.codegen.render import render
from orchestrator.runtime.index import aliases


def generate_stubs(symbols: Iterable[str], cache: Path) -> tuple[GeneratedUnit, ...]:
    """The unit that defines a stub for every symbol, in the cache by content; none for none."""
    ordered = sorted({variant for symbol in symbols for variant in aliases(symbol)})
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
