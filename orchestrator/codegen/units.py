"""Generated units in the user's cache, named by their content."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from orchestrator.codegen.registrations import GeneratedUnit


def write_unit(name: str, text: str, folder: Path) -> GeneratedUnit:
    """Write a unit into `folder`, where it is not there already."""
    digest = hashlib.sha256(text.encode()).hexdigest()
    path = folder / f"{digest}.cpp"
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        staged = path.with_name(f".{digest}.{os.getpid()}")
        staged.write_text(text)
        staged.replace(path)
    return GeneratedUnit(name, path, digest)
