"""Generated units in the user's cache, named by their content."""

from __future__ import annotations

import hashlib
from pathlib import Path

from orchestrator.codegen.registrations import GeneratedUnit
from orchestrator.system.staging import write_if_changed


def write_unit(name: str, text: str, folder: Path) -> GeneratedUnit:
    """Write a unit into `folder`, where it does not hold just that already."""
    digest = hashlib.sha256(text.encode()).hexdigest()
    path = folder / f"{digest}.cpp"
    write_if_changed(path, text)
    return GeneratedUnit(name, path, digest)
