"""Unpacks a source archive into a folder that it cannot leave.

Reads tar (plain, gz, bz2, xz, zst) and zip; the first bytes tell which, not the name.

The archive is not trusted. Only plain files are written, by us, into folders made by us: nothing is
written through a link, over another file or outside the folder, and no owner, mode or time is taken
over. Links are made last, and only ones that point inside. Every member is judged, also those that
are not wanted. What was written before a fault stays: the caller unpacks into a staging folder.

(Python's own `data` filter cannot be relied on: 3.11.0 to 3.11.3 do not have it.)
"""

from __future__ import annotations

import lzma
import os
import posixpath
import shutil
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Final, Literal

import zstandard

from orchestrator.errors import OrchestratorError, Place

MAX_BYTES: Final = 4 * 1024**3
MAX_MEMBERS: Final = 500_000

_ZSTD_MAGIC: Final = b"\x28\xb5\x2f\xfd"
_ZIP_MAGIC: Final = b"PK\x03\x04"
# PATH_MAX on Linux: no link's text is longer
_MAX_TARGET: Final = 4096

Kind = Literal["file", "folder", "symlink", "hardlink", "other"]


class ArchiveBrokenError(OrchestratorError):
    """Not an archive that we can read, or one that ends too early or is damaged."""


class ArchiveUnsafeError(OrchestratorError):
    """A member that a source archive never needs and that could do harm; it is not written."""


class ArchiveTooLargeError(OrchestratorError):
    """More bytes or members than any source archive has."""


@dataclass(frozen=True)
class _Member:
    """One entry: `size` in bytes, `target` the text of a link, `open` gives a file's bytes."""

    name: str
    kind: Kind
    size: int
    target: str
    open: Callable[[], IO[bytes]]


@dataclass
class _Unpacking:
    """One archive on its way into the folder `into`; counts what it holds against the limits."""

    place: Place
    into: Path
    wanted: Callable[[str], bool]
    max_bytes: int
    top: str | None = None
    size: int = 0
    members: int = 0
    links: list[tuple[str, _Member]] = field(default_factory=list)


def unpack(
    archive: Path,
    into: Path,
    wanted: Callable[[str], bool] = lambda path: True,
    max_bytes: int = MAX_BYTES,
) -> None:
    """Write the files of `archive` that are `wanted` into the existing, empty folder `into`.

    The one folder at the archive's top is stripped; `wanted` is asked with the path below it.
    Raises `ArchiveBrokenError`, `ArchiveUnsafeError`, `ArchiveTooLargeError`, and the disk's
    `OSError`.
    """
    work = _Unpacking(Place(str(archive)), into, wanted, max_bytes)
    with _members(archive) as members:
        for member in members:
            _take(work, member)
    for path, member in work.links:
        with _fresh(work, member, into / path):
            (into / path).symlink_to(member.target)
    if work.top is None:
        raise ArchiveBrokenError("the archive is empty", place=work.place)


def _take(work: _Unpacking, member: _Member) -> None:
    work.members += 1
    work.size += member.size
    if work.members > MAX_MEMBERS or work.size > work.max_bytes:
        raise ArchiveTooLargeError(
            "the archive unpacks to too much",
            place=work.place,
            expected=f"at most {MAX_MEMBERS:,} members and {work.max_bytes:,} bytes",
        )
    path = _stripped(work, member)
    if member.kind == "other":
        raise _unsafe(work, member, "a device, pipe or other special file")
    if member.kind in ("symlink", "hardlink"):
        _check_target(work, member)
    if not path or member.kind == "folder" or not work.wanted(path):
        return
    if member.kind == "symlink":
        work.links.append((path, member))
        return
    with _source(work, member) as source:
        _write(work, member, work.into / path, source)


def _stripped(work: _Unpacking, member: _Member) -> str:
    """The member's path below the top folder, `""` for that folder itself."""
    name = member.name.removeprefix("./").rstrip("/")
    if name in ("", "."):
        return ""
    parts = name.split("/")
    if name.startswith("/") or "\0" in name or ".." in parts or "" in parts or "." in parts:
        raise _unsafe(work, member, "a path that leaves the archive's folder")
    if work.top is None:
        work.top = parts[0]
    if parts[0] != work.top or (len(parts) == 1 and member.kind != "folder"):
        raise ArchiveBrokenError(
            "the archive is not one folder",
            place=work.place,
            expected=f"every member inside {work.top}/",
            seen=member.name,
        )
    return "/".join(parts[1:])


def _check_target(work: _Unpacking, member: _Member) -> None:
    """A symlink's target counts from its own folder, a hard link's from the archive's top."""
    base = posixpath.dirname(member.name) if member.kind == "symlink" else ""
    end = posixpath.normpath(posixpath.join(base, member.target)).removeprefix("./")
    if end.split("/")[0] != work.top:
        raise _unsafe(work, member, f"a link to {member.target}, outside the archive's folder")


@contextmanager
def _source(work: _Unpacking, member: _Member) -> Iterator[IO[bytes]]:
    if member.kind == "file":
        with member.open() as stream:
            yield stream
        return
    twin = work.into / member.target.removeprefix("./").partition("/")[2]
    if not twin.is_file():
        raise _unsafe(work, member, f"a hard link to {member.target}, which was not unpacked")
    with twin.open("rb") as stream:
        yield stream


def _write(work: _Unpacking, member: _Member, path: Path, source: IO[bytes]) -> None:
    with _fresh(work, member, path):
        out = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644)
    with os.fdopen(out, "wb") as stream:
        shutil.copyfileobj(source, stream)


@contextmanager
def _fresh(work: _Unpacking, member: _Member, path: Path) -> Iterator[None]:
    """Makes the folders above `path`; what stands there already is a fault of the archive."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield
    except (FileExistsError, NotADirectoryError) as error:
        raise _unsafe(work, member, "a path that is there already") from error


def _unsafe(work: _Unpacking, member: _Member, seen: str) -> ArchiveUnsafeError:
    return ArchiveUnsafeError(
        "the archive holds a member that is not safe to unpack",
        place=work.place,
        expected="plain files, folders, and links that stay inside",
        seen=f"{member.name}: {seen}",
        hint="get the archive from its publisher again",
    )


@contextmanager
def _members(archive: Path) -> Iterator[Iterator[_Member]]:
    """The archive's members in their order; a fault of the format becomes `ArchiveBrokenError`."""
    with ExitStack() as stack:
        try:
            raw = stack.enter_context(archive.open("rb"))
            magic = raw.read(4)
            raw.seek(0)
            if magic == _ZIP_MAGIC:
                yield _zip_members(stack.enter_context(zipfile.ZipFile(raw)))
            elif magic == _ZSTD_MAGIC:
                plain = stack.enter_context(zstandard.ZstdDecompressor().stream_reader(raw))
                yield _tar_members(stack.enter_context(tarfile.open(fileobj=plain, mode="r|")))
            else:
                yield _tar_members(stack.enter_context(tarfile.open(fileobj=raw, mode="r|*")))
        except (
            tarfile.TarError,
            zipfile.BadZipFile,
            zstandard.ZstdError,
            lzma.LZMAError,
            zlib.error,
            EOFError,
            RuntimeError,  # zipfile: an encrypted member
            NotImplementedError,  # zipfile: a compression that it does not know
        ) as error:
            raise ArchiveBrokenError(
                "the archive cannot be read",
                place=Place(str(archive)),
                expected="a whole .tar, .tar.gz, .tar.bz2, .tar.xz, .tar.zst or .zip",
                seen=str(error) or type(error).__name__,
                hint="get it again",
            ) from error


def _tar_members(tar: tarfile.TarFile) -> Iterator[_Member]:
    for info in tar:
        opener = _tar_opener(tar, info)
        yield _Member(info.name, _tar_kind(info), info.size, info.linkname, opener)


def _tar_kind(info: tarfile.TarInfo) -> Kind:
    if info.isreg():
        return "file"
    if info.isdir():
        return "folder"
    if info.issym():
        return "symlink"
    return "hardlink" if info.islnk() else "other"


def _tar_opener(tar: tarfile.TarFile, info: tarfile.TarInfo) -> Callable[[], IO[bytes]]:
    def opener() -> IO[bytes]:
        stream = tar.extractfile(info)
        assert stream, "asked of a plain file only"
        return stream

    return opener


def _zip_members(archive: zipfile.ZipFile) -> Iterator[_Member]:
    for info in archive.infolist():
        # the upper half of external_attr is the Unix mode where a Unix tool wrote the archive
        mode = stat.S_IFMT(info.external_attr >> 16)
        target = ""
        kind: Kind = "folder" if info.is_dir() else "other"
        if mode in (0, stat.S_IFREG) and not info.is_dir():
            kind = "file"
        elif mode == stat.S_IFLNK and info.file_size <= _MAX_TARGET:
            kind, target = "symlink", archive.read(info).decode("utf-8", "surrogateescape")
        yield _Member(info.filename, kind, info.file_size, target, _zip_opener(archive, info))


def _zip_opener(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Callable[[], IO[bytes]]:
    return lambda: archive.open(info)
