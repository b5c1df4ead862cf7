"""Bytes of libraries: as delivered, stripped by binutils' `strip`, and that by gzip -9."""

from __future__ import annotations

import gzip
import os
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.processes import run


def sizes(paths: Sequence[Path]) -> dict[str, Any]:
    """The sums over the files. Raises CommandFailedError."""
    stripped = [_stripped(path) for path in paths]
    return {
        "files": [path.name for path in paths],
        "delivered": sum(path.stat().st_size for path in paths),
        "stripped": sum(map(len, stripped)),
        "gzip": sum(len(gzip.compress(data, 9, mtime=0)) for data in stripped),
    }


def _stripped(path: Path) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(shutil.copyfile(path, Path(folder) / path.name))
        run(["strip", str(copy)], env=os.environ).require(f"strip of {path.name}")
        return copy.read_bytes()
