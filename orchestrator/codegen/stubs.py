"""Writes an app's stubs: functions of cut units, replaced by ones that raise an error."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from orchestrator.codegen.registrations import GeneratedUnit
from orchestrator.codegen.render import render
from orchestrator.codegen.units import write_unit
from orchestrator.runtime.index import aliases


def generate_stubs(symbols: Iterable[str], cache: Path) -> tuple[GeneratedUnit, ...]:
    """The unit that defines a stub for every symbol, in the cache by content; none for none."""
    ordered = sorted({variant for symbol in symbols for variant in aliases(symbol)})
    if not ordered:
        return ()
    text = render("stubs.cpp.j2", symbols=ordered)
    return (write_unit("stubs", text, cache / "stubs"),)
