"""Checks the user's cache, except source trees: each file's name contains its digest.

Objects, precompiled headers, shards of `run` and registrations are checked at every use as well;
generated headers, 6,000 of them, only here.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from orchestrator.cache.store import ENTRY
from orchestrator.system.reading import file_sha256
from orchestrator.system.sums import is_whole


def remove_damaged(cache: Path) -> tuple[str, ...]:
    """Remove damaged files; returns their paths, relative to the cache, sorted.

    The next command that needs a removed file creates it again. Raises OSError where the cache
    cannot be written.
    """
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        files = list(_objects(cache))
        right = pool.map(_is_right, files)
        damaged = [file for file, fine in zip(files, right, strict=True) if not fine]
    for file in damaged:
        file.unlink(missing_ok=True)
    folders = [folder for folder in _folders(cache) if not is_whole(folder)]
    for folder in folders:
        with suppress(FileNotFoundError):
            shutil.rmtree(folder)
    return tuple(sorted(path.relative_to(cache).as_posix() for path in (*damaged, *folders)))


def _objects(cache: Path) -> Iterator[Path]:
    for kind in ("objects", "links", "pch", "shards"):
        for path in sorted((cache / kind).glob("*/*")):
            if ENTRY.fullmatch(path.name):
                yield path


def _is_right(path: Path) -> bool:
    match = ENTRY.fullmatch(path.name)
    try:
        return match is not None and file_sha256(path) == match["sha256"]
    except OSError:
        return False


def _folders(cache: Path) -> Iterator[Path]:
    yield from sorted((cache / "registrations").glob("??/*"))
    for folder in sorted((cache / "generated").glob("*")):
        # the configured headers beside it are compared with their text at every use
        if folder.is_dir() and not folder.name.endswith("-configured"):
            yield folder
