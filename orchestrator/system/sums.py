"""Folders of generated files that list their contents: `SHA256SUMS`, as sha256sum writes it.

The file is written last, so it also marks the folder as complete. Paths are relative to the folder,
sorted, one per line: `<sha256>  <path>` (coreutils, "sha2 utilities").
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from orchestrator.system.reading import file_sha256
from orchestrator.system.staging import part_of, sync_folder, sync_tree, write_text

SUMS = "SHA256SUMS"


def is_whole(folder: Path) -> bool:
    """True if every file in the folder matches its checksum, and there is no other file."""
    try:
        return (folder / SUMS).read_text(encoding="utf-8") == sums_text(folder)
    except (OSError, UnicodeDecodeError):
        return False


def sums_text(folder: Path) -> str:
    """Return the text that a folder's `SUMS` must have. Raises OSError."""
    paths = sorted(_files(folder))
    with ThreadPoolExecutor() as pool:
        digests = list(pool.map(lambda path: file_sha256(folder / path), paths))
    return "".join(f"{digest}  {path}\n" for digest, path in zip(digests, paths, strict=True))


def publish(staged: Path, folder: Path) -> None:
    """Move a filled folder into place, with its checksums.

    A complete one of another process stays; an incomplete one is removed. Raises OSError.
    """
    write_text(staged / SUMS, sums_text(staged))
    sync_tree(staged)
    folder.parent.mkdir(parents=True, exist_ok=True)
    try:
        staged.rename(folder)
    except OSError:
        if is_whole(folder):
            return
        # One step, so that nobody sees half of what is taken away.
        damaged = part_of(folder)
        folder.rename(damaged)
        staged.rename(folder)
        shutil.rmtree(damaged, ignore_errors=True)
    sync_folder(folder.parent)


def _files(folder: Path) -> Iterator[str]:
    for path in folder.rglob("*"):
        if path.is_file() and path != folder / SUMS:
            yield path.relative_to(folder).as_posix()
