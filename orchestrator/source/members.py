"""Opens a source archive: yields its members in order, whatever its format.

Reads tar (plain, gz, bz2, xz, zst) and zip; the first bytes decide the format, not the name.

Contract: whatever the bytes are, it yields the members or raises one of the errors here; an
`OSError` of the disk passes through. Every unpacked byte counts towards the limit as it is read,
including headers and unwanted members, and at most a few hundred megabytes are in memory at once.
For that reason zip members packed with bzip2 or LZMA are not supported: `zipfile` unpacks them in
one piece.
"""

from __future__ import annotations

import bz2
import errno
import gzip
import io
import lzma
import os
import stat
import struct
import zipfile
import zlib
from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Final, Protocol

import zstandard

from orchestrator.errors import OrchestratorError, Place
from orchestrator.system.tar import Kind, Member, TarDamagedError, tar_members

MAX_BYTES: Final = 4 * 1024**3
MAX_MEMBERS: Final = 500_000
# Sources pack to a fifth or a tenth. What packs better than this by far is made to do harm.
MAX_RATIO: Final = 100
# ... but a small archive costs little.
LEAST_BYTES: Final = 16 * 2**20

_ZSTD_MAGIC: Final = b"\x28\xb5\x2f\xfd"
_ZIP_MAGIC: Final = b"PK\x03\x04"
_XZ_MAGIC: Final = b"\xfd7zXZ\0"
_GZIP_MAGIC: Final = b"\x1f\x8b"
_BZIP2_MAGIC: Final = b"BZh"
_CHUNK: Final = 2**16
# `xz -9` wants 65 MB; an archive may claim 4 GB.
_XZ_MEMORY: Final = 256 * 2**20
# zipfile reads the table of contents in one piece: 100,000 members and more.
_MAX_ZIP_READ: Final = 16 * 2**20
# What the readers of the formats raise for damaged bytes is mostly not documented; these were seen
# or are in their source.
_FAULTS: Final = (
    TarDamagedError,
    zipfile.BadZipFile,
    zipfile.LargeZipFile,
    zstandard.ZstdError,
    lzma.LZMAError,
    zlib.error,
    struct.error,
    ArithmeticError,
    EOFError,
    LookupError,
    NotImplementedError,
    RuntimeError,
    ValueError,
)


class ArchiveBrokenError(OrchestratorError):
    """Not an archive that we can read, or one that ends too early or is damaged."""


class ArchiveTooLargeError(OrchestratorError):
    """More bytes or members than any source archive has, or than one of its size can have."""


@dataclass
class Allowance:
    """Bytes and members that an archive may still unpack to."""

    place: Place
    bytes: int
    members: int = MAX_MEMBERS
    _limit: str = field(init=False)

    def __post_init__(self) -> None:
        self._limit = f"at most {self.members:,} members and {self.bytes:,} bytes"

    def spend(self, size: int, members: int = 0) -> None:
        """Take bytes and members off. Raises `ArchiveTooLargeError` where there are none left."""
        self.bytes -= size
        self.members -= members
        if self.bytes < 0 or self.members < 0:
            raise ArchiveTooLargeError(
                "the archive is too large when unpacked", place=self.place, expected=self._limit
            )


def allowance(archive: Path, max_bytes: int = MAX_BYTES) -> Allowance:
    """Return the size to which an archive may unpack, by its packed size. Raises the disk's
    `OSError`."""
    most = max(LEAST_BYTES, MAX_RATIO * archive.stat().st_size)
    return Allowance(Place(str(archive)), min(max_bytes, most), MAX_MEMBERS)


def archive_members(archive: Path, allowed: Allowance) -> Generator[Member]:
    """The members of an archive; each must be done with before the next is asked for.

    Raises `ArchiveBrokenError`, `ArchiveTooLargeError`, and the disk's `OSError`; so do the chunks
    of the members.
    """
    with ExitStack() as stack:
        with _format_faults(allowed.place):
            # no buffer of Python's: it would read whatever size it is asked for
            raw = stack.enter_context(_Sparing(archive))
            magic = raw.read(6)
            raw.seek(0)
            if magic.startswith(_ZIP_MAGIC):
                members = _zip_members(stack.enter_context(zipfile.ZipFile(raw)), allowed)
            else:
                plain = _Counted(_plain(raw, magic), allowed)
                members = tar_members(plain.read)
        while True:
            with _format_faults(allowed.place):
                member = next(members, None)
            if member is None:
                return
            allowed.spend(0, members=1)
            yield replace(member, chunks=partial(_chunks, member, allowed.place))


class _Reader(Protocol):
    def read(self, size: int, /) -> bytes: ...


class _Sparing(io.FileIO):
    """A file that refuses to be read in pieces as large as no reader of ours needs."""

    def read(self, size: int | None = -1, /) -> bytes:
        if size is None or size < 0:
            size = max(os.fstat(self.fileno()).st_size - self.tell(), 0)
        if size > _MAX_ZIP_READ:
            raise zipfile.BadZipFile("a central directory larger than any archive needs")
        return super().read(size) or b""


class _Counted:
    """Unpacked bytes, in pieces of the size that is asked for; counted."""

    def __init__(self, chunks: Iterator[bytes], allowed: Allowance) -> None:
        self._chunks = chunks
        self._allowed = allowed
        self._held = b""
        self._at = 0

    def read(self, size: int) -> bytes:
        """The next bytes; fewer at the end."""
        end = self._at + size
        if end > len(self._held):
            pieces = [self._held[self._at :]]
            missing = end - len(self._held)
            while missing > 0 and (chunk := next(self._chunks, b"")):
                pieces.append(chunk)
                missing -= len(chunk)
            self._held, self._at, end = b"".join(pieces), 0, size
        data = self._held[self._at : end]
        self._at = end
        self._allowed.spend(len(data))
        return data


def _plain(raw: io.FileIO, magic: bytes) -> Iterator[bytes]:
    """The unpacked bytes of a file, in pieces of bounded size."""
    reader: _Reader = raw
    if magic.startswith(_XZ_MAGIC):
        return _unxz(raw)
    if magic.startswith(_ZSTD_MAGIC):
        # a window of more than 128 MB is refused
        reader = zstandard.ZstdDecompressor().stream_reader(raw, read_across_frames=True)
    elif magic.startswith(_GZIP_MAGIC):
        reader = gzip.GzipFile(fileobj=raw)
    elif magic.startswith(_BZIP2_MAGIC):
        reader = bz2.BZ2File(raw)
    return iter(lambda: reader.read(_CHUNK), b"")


def _unxz(raw: io.FileIO) -> Iterator[bytes]:
    """Like `lzma.open`, which takes no limit of memory. A file may be several streams."""
    packed = raw.read(_CHUNK)
    while packed:
        stream = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_XZ_MEMORY)
        while not stream.eof:
            if chunk := stream.decompress(packed, _CHUNK):
                yield chunk
            packed = b""
            if stream.needs_input and not stream.eof and not (packed := raw.read(_CHUNK)):
                raise EOFError("the compressed data ends too early")
        # zeros may stand between and behind streams
        packed = stream.unused_data.lstrip(b"\0")
        while not packed and (piece := raw.read(_CHUNK)):
            packed = piece.lstrip(b"\0")


def _zip_members(archive: zipfile.ZipFile, allowed: Allowance) -> Iterator[Member]:
    for info in archive.infolist():
        # zipfile gives no more than this, whatever a member really unpacks to
        allowed.spend(info.file_size)
        yield Member(info.filename, _zip_kind(info), "", partial(_zip_chunks, archive, info))


def _zip_kind(info: zipfile.ZipInfo) -> Kind:
    # the upper half of external_attr is the Unix mode where a Unix tool wrote the archive
    mode = stat.S_IFMT(info.external_attr >> 16)
    if info.is_dir():
        return "folder"
    if mode == stat.S_IFLNK:
        return "symlink"
    return "file" if mode in (0, stat.S_IFREG) else "other"


def _zip_chunks(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Iterator[bytes]:
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise NotImplementedError(f"a member is packed by method {info.compress_type}")
    with archive.open(info) as stream:
        while chunk := stream.read(_CHUNK):
            yield chunk


def _chunks(member: Member, place: Place) -> Iterator[bytes]:
    """A file's bytes; faults of the format become `ArchiveBrokenError`."""
    with _format_faults(place):
        yield from member.chunks()


@contextmanager
def _format_faults(place: Place) -> Iterator[None]:
    """Turns what a reader raises inside this block into `ArchiveBrokenError`."""
    try:
        yield
    except (*_FAULTS, OSError) as error:
        # Readers raise OSError too, without a number, or with what seek(2) says of a bad offset.
        if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):
            raise
        raise ArchiveBrokenError(
            "the archive cannot be read",
            place=place,
            expected="a complete .tar, .tar.gz, .tar.bz2, .tar.xz, .tar.zst or .zip",
            seen=str(error)[:200] or type(error).__name__,
            hint="download it again",
        ) from error
