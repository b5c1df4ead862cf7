"""Folders that we may delete: each contains a marker file, written before anything else in it.

`clean` removes a folder only where the marker is, so a mistyped cache path never costs a user's
files. The idea is that of CACHEDIR.TAG (https://bford.info/cachedir/); the name is our own because
`dist` holds deliverables, which a backup should not leave out.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
import tempfile
from collections.abc import Collection
from pathlib import Path
from typing import Final, Literal

from orchestrator.errors import OrchestratorError
from orchestrator.system.staging import write_text

Kind = Literal["state", "dist", "cache", "export"]

MARKER: Final = ".made-by-orchestrator"
# What the kernel says of a path whose parents are files, loops, or not of a disk (/proc).
_NO_PLACE: Final = (
    *(errno.ENOENT, errno.ENOTDIR, errno.EEXIST, errno.ELOOP, errno.ENAMETOOLONG, errno.EINVAL),
)
# What a ninja that outlives its killed build still writes into a state folder while somebody
# removes it, and the mark of a build's start: folders with nothing else are taken over again.
_STATE_REMAINS: Final = frozenset(
    (".ninja_deps", ".ninja_log", "started", "objects", "pch", "variants", "zig", "development")
)
_WORDS: Final = "A folder of libtorch-orchestrator ({kind}). `orchestrator clean` may remove it.\n"


class FolderNotOursError(OrchestratorError):
    """A folder that is not empty and does not contain our marker."""


class FolderUnusableError(OrchestratorError):
    """A path at which no folder can be made."""


class FolderIsLinkError(OrchestratorError):
    """A symbolic link where a folder of ours would be removed."""


def ensure_folder(path: Path, kind: Kind) -> Path:
    """Make a folder with our marker, with its parents; returns the path.

    An empty folder is taken over, as is a state folder that was removed below a running ninja, and
    a symbolic link to a folder is followed. A folder with other contents raises
    `FolderNotOursError`, a path that cannot become one `FolderUnusableError`. The folder never
    appears without its marker.
    """
    try:
        if is_ours(path):
            return path
        if not path.exists():
            _create(path, kind)
        if not is_ours(path):
            _take_over(path, kind)
    except OSError as error:
        if error.errno not in _NO_PLACE:
            raise
        raise FolderUnusableError(
            f"the folder {path} cannot be made",
            seen=f"{error.strerror}: {error.filename or path}",
            hint="set ORCHESTRATOR_CACHE to a folder of yours"
            if kind == "cache"
            else "move away what is in its place",
        ) from error
    return path


def is_ours(path: Path) -> bool:
    """True if a folder carries our marker."""
    return (path / MARKER).is_file()


def remove_folder(path: Path, *, keep: Collection[Path] = ()) -> int:
    """Remove a folder that contains our marker; returns the bytes freed.

    Symbolic links inside are removed, never followed. The marker goes last, so that an interrupted
    removal can be done again. What is to be kept inside stays, with the folders around it and the
    marker. Raises `FolderIsLinkError`, `FolderNotOursError`.
    """
    refuse_foreign(path)
    freed = sum(_remove(entry, keep) for entry in path.iterdir() if entry.name != MARKER)
    if not keep:
        freed += (path / MARKER).stat().st_size
        (path / MARKER).unlink()
        try:
            path.rmdir()
        except OSError as error:
            # Another process has found the folder empty and taken it over.
            if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
                raise
    return freed


def folder_size(path: Path, *, keep: Collection[Path] = ()) -> int:
    """The bytes that `remove_folder` would free."""
    status = path.lstat()
    if path in keep:
        return 0
    if not stat.S_ISDIR(status.st_mode):
        return status.st_size if status.st_nlink == 1 else 0
    return sum(
        folder_size(inner, keep=keep)
        for inner in path.iterdir()
        if not keep or inner.name != MARKER
    )


def refuse_foreign(path: Path, hint: str = "remove it by hand, if nothing in it is wanted") -> None:
    """Raise `FolderIsLinkError` or `FolderNotOursError` where `remove_folder` would.

    hint: what to do with a folder that is not ours.
    """
    if path.is_symlink():
        raise FolderIsLinkError(
            f"{path} is a symbolic link, and links are not followed",
            seen=f"a link to {path.readlink()}",
            hint="remove the link by hand",
        )
    if not is_ours(path):
        raise FolderNotOursError(
            f"{path} does not carry our marker, so it is not removed",
            expected=f"a file {MARKER} in it",
            hint=hint,
        )


def _create(path: Path, kind: Kind) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    stage = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
    try:
        stage.chmod(0o777 & ~_umask())
        _mark(stage, kind)
        stage.rename(path)
    except OSError as error:
        shutil.rmtree(stage)
        # Another process made it meanwhile.
        if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
            raise


def _take_over(path: Path, kind: Kind) -> None:
    names = (entry.name for entry in path.iterdir())
    remains = _STATE_REMAINS if kind == "state" else frozenset()
    others = sorted(name for name in names if MARKER not in name and name not in remains)
    if others:
        raise FolderNotOursError(
            f"{path} holds files and does not carry our marker",
            expected="a folder of ours, or an empty one",
            seen=", ".join(others[:3]) + (", ..." if len(others) > 3 else ""),
            hint="set ORCHESTRATOR_CACHE to another folder, a new or an empty one"
            if kind == "cache"
            else "choose another folder, or move these files away",
        )
    _mark(path, kind)


def _mark(folder: Path, kind: Kind) -> None:
    write_text(folder / MARKER, _WORDS.format(kind=kind))


def _umask() -> int:
    # The only way to read it is to set it.
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _remove(path: Path, keep: Collection[Path]) -> int:
    if path in keep:
        return 0
    status = path.lstat()
    if not stat.S_ISDIR(status.st_mode):
        path.unlink()
        # A file with another name elsewhere frees nothing.
        return status.st_size if status.st_nlink == 1 else 0
    if not status.st_mode & stat.S_IWUSR:
        # Unpacked sources are read-only.
        path.chmod(status.st_mode | stat.S_IRWXU)
    freed = sum(_remove(inner, keep) for inner in path.iterdir())
    if not any(kept.is_relative_to(path) for kept in keep):
        path.rmdir()
    return freed
