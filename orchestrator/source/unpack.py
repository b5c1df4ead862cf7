"""Unpacks a source archive into a folder that it cannot leave.

The archive is not trusted. We only write plain files, into folders that we create: never over
another file or outside the folder, and without the archive's owners, modes or times. We never
create a symbolic link, so every path leads where it reads: an unwanted link is skipped (PyTorch's
own archive has four), a wanted one is refused, as in a source tree. A hard link becomes a copy of a
file that this archive has written before. Names of unwanted members are checked too. On an error,
files that were already written are removed.

(Python's own `data` filter cannot be relied on: 3.11.0 to 3.11.3 do not have it.)
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from orchestrator.errors import OrchestratorError
from orchestrator.source.members import (
    MAX_BYTES,
    Allowance,
    ArchiveBrokenError,
    allowance,
    archive_members,
)
from orchestrator.system.tar import Member

# A tree deeper than this ends in Python's limit of recursion when it is walked or removed.
MAX_DEPTH: Final = 100

_CHUNK: Final = 2**16
# What the kernel says of a name that it does not take.
_BAD_NAME: Final = (errno.ENAMETOOLONG, errno.EILSEQ, errno.EINVAL)


class ArchiveUnsafeError(OrchestratorError):
    """A member that a source archive never needs and that could do harm; it is not written."""


class ArchiveMismatchError(OrchestratorError):
    """An archive has the pinned name and another content."""


@dataclass
class _Unpacking:
    """One archive on its way into the folder `into`.

    top     the name of its one folder; None before the first member
    flat    whether it has no such folder
    files   what was written so far, paths below the top folder
    folders the folders around them
    """

    allowed: Allowance
    into: Path
    wanted: Callable[[str], bool]
    flat: bool = False
    top: str | None = None
    files: set[str] = field(default_factory=set)
    folders: set[str] = field(default_factory=set)


def unpack(
    archive: Path,
    into: Path,
    wanted: Callable[[str], bool] = lambda path: True,
    max_bytes: int = MAX_BYTES,
    *,
    flat: bool = False,
) -> None:
    """Write the files of `archive` that are `wanted` into the existing, empty folder `into`.

    The one folder at the archive's top is stripped; `wanted` is asked with the path below it. An
    archive that is `flat` has none.
    Raises `ArchiveBrokenError`, `ArchiveUnsafeError`, `ArchiveTooLargeError`, and the disk's
    `OSError`; the folder is empty again then.
    """
    work = _Unpacking(allowance(archive, max_bytes), into, wanted, flat)
    try:
        with closing(archive_members(archive, work.allowed)) as members:
            for member in members:
                _take(work, member)
        if work.top is None:
            raise ArchiveBrokenError("the archive is empty", place=work.allowed.place)
    except BaseException:
        _empty(into)
        raise


def _take(work: _Unpacking, member: Member) -> None:
    path = _stripped(work, member)
    if member.kind == "other":
        raise _unsafe(work, member, "a device, pipe or other special file")
    if not path or member.kind == "folder" or not work.wanted(path):
        return
    if member.kind == "symlink":
        raise _unsafe(work, member, "a symbolic link where a file should be")
    if member.kind == "sparse":
        raise _unsafe(work, member, "a sparse file")
    chunks = member.chunks() if member.kind == "file" else _twin(work, member)
    _write(work, member, path, chunks)


def _stripped(work: _Unpacking, member: Member) -> str:
    """The member's path below the top folder, `""` for that folder itself."""
    parts = _below(work, _parts(member.name))
    if parts is None:
        raise _unsafe(work, member, "a path that leaves the archive's folder")
    if not parts:
        return ""
    if len(parts) > MAX_DEPTH:
        raise _unsafe(work, member, f"a path of more than {MAX_DEPTH} folders")
    if work.top is None:
        work.top = parts[0]
    if parts[0] != work.top or (len(parts) == 1 and member.kind != "folder"):
        raise ArchiveBrokenError(
            "the archive has more than one top-level folder",
            place=work.allowed.place,
            expected=f"every member inside {_shown(work.top)}/",
            seen=_shown(member.name),
        )
    return "/".join(parts[1:])


def _below(work: _Unpacking, parts: list[str] | None) -> list[str] | None:
    """The names of a path with the top folder in front, also where the archive has none."""
    return [".", *parts] if work.flat and parts else parts


def _parts(name: str) -> list[str] | None:
    """The names that a path is made of; None where it is not simply one inside the archive."""
    name = name.removeprefix("./").rstrip("/")
    if name in ("", "."):
        return []
    parts = name.split("/")
    bad = "\0" in name or ".." in parts or "" in parts or "." in parts
    return None if bad else parts


def _twin(work: _Unpacking, member: Member) -> Iterator[bytes]:
    """The bytes of the file that a hard link names: one that this archive has written."""
    parts = _below(work, _parts(member.target))
    if not parts or parts[0] != work.top:
        raise _unsafe(work, member, f"a link to {member.target}, outside the archive's folder")
    twin = "/".join(parts[1:])
    if twin not in work.files:
        raise _unsafe(work, member, f"a hard link to {member.target}, which was not unpacked")
    with (work.into / twin).open("rb") as stream:
        while chunk := stream.read(_CHUNK):
            work.allowed.spend(len(chunk))
            yield chunk


def _write(work: _Unpacking, member: Member, path: str, chunks: Iterator[bytes]) -> None:
    with _name_faults(work, member):
        _make_folders(work, path)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        out = os.open(work.into / path, flags, 0o644)
    work.files.add(path)
    with os.fdopen(out, "wb") as stream:
        for chunk in chunks:
            stream.write(chunk)


def _make_folders(work: _Unpacking, path: str) -> None:
    """Make the folders above a path; one at a time, so that each is one that we made."""
    at = path.find("/")
    while at >= 0:
        folder = path[:at]
        if folder not in work.folders:
            (work.into / folder).mkdir()
            work.folders.add(folder)
        at = path.find("/", at + 1)


@contextmanager
def _name_faults(work: _Unpacking, member: Member) -> Iterator[None]:
    """Reports existing and unsupported names as faults of the archive."""
    try:
        yield
    except (FileExistsError, NotADirectoryError) as error:
        raise _unsafe(work, member, "a duplicate path") from error
    except OSError as error:
        if error.errno in _BAD_NAME:
            raise _unsafe(work, member, "a name that the file system does not support") from error
        raise


def _unsafe(work: _Unpacking, member: Member, seen: str) -> ArchiveUnsafeError:
    return ArchiveUnsafeError(
        "the archive contains a member that is not safe to unpack",
        place=work.allowed.place,
        expected="plain files in folders",
        seen=f"{_shown(member.name)}: {_shown(seen)}",
        hint="download the archive from its publisher again",
    )


def _shown(name: str) -> str:
    """A name for messages: at most a few terminal lines."""
    return name if len(name) <= 300 else f"{name[:200]}...{name[-80:]}"


def _empty(folder: Path) -> None:
    for entry in folder.iterdir():
        if entry.is_dir():
            shutil.rmtree(entry, ignore_errors=True)
        else:
            entry.unlink(missing_ok=True)
