"""Generated units, named by their content. They are values until a caller writes them to the
cache."""

from __future__ import annotations

from pathlib import Path

from orchestrator.codegen.registrations import GeneratedUnit
from orchestrator.values.fingerprint import text_digest


def unit_of(name: str, text: str, folder: Path) -> GeneratedUnit:
    """The unit of a text, whose place is in `folder`."""
    digest = text_digest(text)
    return GeneratedUnit(name, folder / f"{digest}.cpp", digest, text)
