"""Files and folders that appear whole or not at all.

Everything is written under a random name next to its destination, synced to the disk, and renamed.
A process id is not unique enough: two containers that share a folder may have the same one. The
sync comes before the rename, so that after a power loss a name never refers to an empty file
(rename(2) does not guarantee that; see also ext4's `auto_da_alloc`).
"""

from __future__ import annotations

import os
import secrets
import shutil
import stat
import sys
import time
from contextlib import suppress
from pathlib import Path

from orchestrator.system.reading import open_file

# Random names begin with a dot and end so: what a killed process left is known by it.
SUFFIX = ".part"
# Nothing of ours works at one file or folder for so long without a change to it.
STALE_SECONDS = 24 * 3600
# From so many files on, the disk is told of all that it has at once.
MANY = 100


def part_of(path: Path) -> Path:
    """A fresh name in the same folder to write `path` under.

    A long name is cut, so that a name of 255 bytes has a part too.
    """
    name = os.fsencode(path.name)[:200].decode(errors="ignore")
    return path.with_name(f".{name}.{secrets.token_hex(8)}{SUFFIX}")


def write_bytes(path: Path, data: bytes, mode: int | None = None) -> None:
    """Write a file, all or nothing; its folder is made. mode: its permissions. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = part_of(path)
    try:
        with part.open("xb") as file:
            file.write(data)
            file.flush()
            if mode is not None:
                part.chmod(mode)
            os.fsync(file.fileno())
        part.replace(path)
    except BaseException:
        with suppress(OSError):
            part.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def write_text(path: Path, text: str) -> None:
    """Write a UTF-8 text file unchanged and atomically; makes its folder. Raises OSError."""
    write_bytes(path, text.encode())


def write_if_changed(path: Path, text: str) -> bool:
    """Write a text file unless it already has that content; returns whether it was written.

    So a damaged file is repaired, and a correct one keeps its timestamp. Raises OSError.
    """
    data = text.encode()
    try:
        with open_file(path) as file:
            if file.read(len(data) + 1) == data:
                return False
    except OSError:
        pass
    write_bytes(path, data)
    return True


def remove(path: Path) -> None:
    """Remove what is there: a file, a link, or a folder with all that is in it. Raises OSError."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def remove_no_file(path: Path) -> None:
    """Remove a folder, link or pipe where a plain file should be. Raises OSError."""
    with suppress(FileNotFoundError):
        if not stat.S_ISREG(path.lstat().st_mode):
            remove(path)


def remove_leftovers(folder: Path, staging: Path) -> None:
    """Remove what killed processes left a day ago or earlier; what cannot be removed stays.

    These are parts (`part_of`) anywhere below a folder, and everything in `staging`, which only has
    unfinished files. Running processes are not disturbed: see `STALE_SECONDS`.
    """
    before = time.time() - STALE_SECONDS
    with suppress(OSError):
        for entry in list(staging.iterdir()):
            _remove_older(entry, before)
    for place, folders, files in os.walk(folder):
        parts = [n for n in (*folders, *files) if n.startswith(".") and n.endswith(SUFFIX)]
        for name in parts:
            _remove_older(Path(place, name), before)
        folders[:] = [name for name in folders if name not in parts]


def _remove_older(path: Path, before: float) -> None:
    with suppress(OSError):
        if path.lstat().st_mtime > before:
            return
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink()


def sync_tree(folder: Path) -> None:
    """Sync every file and folder below `folder` to the disk. A link is an entry of its folder."""
    paths = [Path(place, name) for place, _, files in os.walk(folder) for name in (*files, "")]
    if len(paths) > MANY and sys.platform == "linux":
        # sync(2) waits there. Of 6,600 generated files a call for each takes 15 s, this 0.3 s.
        os.sync()
        return
    for path in paths:
        if not path.is_symlink():
            _sync(path)


def sync_folder(folder: Path) -> None:
    """Sync a folder's entries to the disk, if its file system can."""
    with suppress(OSError):
        _sync(folder)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
