"""Bytes of libraries: as delivered, stripped by binutils' `strip`, and that by gzip -9."""

from __future__ import annotations

import gzip
import os
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks.processes import run


def sizes(paths: Sequence[Path]) -> dict[str, Any]:
    """The sums over the files. Raises CommandFailedError."""
    each = [_bytes(path) for path in paths]
    return {
        "files": [path.name for path in paths],
        "delivered": sum(one.delivered for one in each),
        "stripped": sum(one.stripped for one in each),
        "gzip": sum(one.gzip for one in each),
    }


@dataclass(frozen=True)
class _Bytes:
    delivered: int
    stripped: int
    gzip: int


@cache  # two runtimes have libtorch_cpu.so, which takes a minute
def _bytes(path: Path) -> _Bytes:
    stripped = _stripped(path)
    packed = gzip.compress(stripped, 9, mtime=0)
    return _Bytes(path.stat().st_size, len(stripped), len(packed))


def _stripped(path: Path) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(shutil.copyfile(path, Path(folder) / path.name))
        run(["strip", str(copy)], env=os.environ).require(f"strip of {path.name}")
        return copy.read_bytes()
