"""tar and zstd for all packages: the same files give the same bytes on every machine.

Contract: entries are sorted, belong to uid and gid 0, and have the time `EPOCH` and plain modes.
zstd is the pinned `zstandard` wheel's, in one thread, at one level: unlike the machine's zlib or
liblzma, its output does not change with the machine.

The headers are written here: a delivery has thousands of files, and for each the standard library
takes longer than zstd. Their form is GNU's, as tar(5) and GNU tar's manual, "Basic Tar Format",
describe it.
"""

from __future__ import annotations

import errno
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO, Final

import zstandard

from orchestrator.deliver.files import EPOCH, File, in_order
from orchestrator.system.reading import open_file

# Past 9 the time doubles for a few per cent.
_LEVEL: Final = 9
_BLOCK: Final = 512
# tar writes whole records.
_RECORD: Final = 20 * _BLOCK
_CHUNK: Final = 1 << 20
# name, mode, uid, gid, size, time, checksum, type, link, magic and version, user, group, the rest
_HEADER: Final = struct.Struct("100s8s8s8s12s12s8sc100s8s32s32s183x")
_MAGIC: Final = b"ustar  "
_FILE, _FOLDER, _LONG_NAME = b"0", b"5", b"L"
_LONGEST: Final = 100
# As many as eleven octal digits tell.
_LARGEST: Final = 8**11 - 1


def write_tar_zst(target: BinaryIO, files: Iterable[File], prefix: str) -> None:
    """Writes a compressed tar: the files below `prefix` (`name/` or `./`), and their folders."""
    # a checksum: what unpacks it notices damage, in the manifest too, which nothing else tells of
    compressor = zstandard.ZstdCompressor(level=_LEVEL, threads=0, write_checksum=True)
    with compressor.stream_writer(target, closefd=False) as stream:
        write_tar(stream, files, prefix)


def write_tar(target: BinaryIO, files: Iterable[File], prefix: str) -> None:
    """Writes a tar (GNU's format, for long names) with the files and their folders.

    Raises `DuplicateFileError`, and `OSError` where a file to copy cannot be read.
    """
    ordered = in_order(files)
    entries: dict[str, File | None] = {"": None}
    for file in ordered:
        folder = file.path.rpartition("/")[0]
        while folder not in entries:
            entries[folder] = None
            folder = folder.rpartition("/")[0]
    entries |= {file.path: file for file in ordered}
    end = 2 * _BLOCK
    size = sum(_add(target, prefix + path, entries[path]) for path in sorted(entries))
    target.write(bytes(end + -(size + end) % _RECORD))


def _add(target: BinaryIO, name: str, file: File | None) -> int:
    """Writes an entry; returns its size."""
    if file is None:
        header = _entry(f"{name.rstrip('/')}/", 0o755, 0, _FOLDER)
        target.write(header)
        return len(header)
    size = file.size()
    header, padding = _entry(name, file.mode, size, _FILE), bytes(-size % _BLOCK)
    if isinstance(file.content, bytes):
        target.write(b"".join((header, file.content, padding)))
    else:
        target.write(header)
        _copy(target, file.content, size)
        target.write(padding)
    return len(header) + size + len(padding)


def _copy(target: BinaryIO, source: Path, size: int) -> None:
    with open_file(source) as content:
        left = size
        while left:
            chunk = content.read(min(left, _CHUNK))
            if not chunk:
                raise OSError(errno.EIO, "It became shorter while it was packed", str(source))
            target.write(chunk)
            left -= len(chunk)


def _entry(name: str, mode: int, size: int, kind: bytes) -> bytes:
    """The header of an entry, behind one for its name if that is long."""
    assert size <= _LARGEST
    encoded = name.encode("utf-8", "surrogateescape")
    header = _header(encoded[:_LONGEST], mode, size, EPOCH, kind, b"root")
    if len(encoded) <= _LONGEST:
        return header
    long = encoded + b"\0"
    head = _header(b"././@LongLink", 0, len(long), 0, _LONG_NAME, b"")
    return b"".join((head, long, bytes(-len(long) % _BLOCK), header))


def _header(name: bytes, mode: int, size: int, time: int, kind: bytes, owner: bytes) -> bytes:
    fields = (b"%07o" % mode, b"%07o" % 0, b"%07o" % 0, b"%011o" % size, b"%011o" % time)
    rest = (kind, b"", _MAGIC, owner, owner)
    # its own checksum counts as blanks
    total = sum(_HEADER.pack(name, *fields, 8 * b" ", *rest))
    return _HEADER.pack(name, *fields, b"%06o\0 " % total, *rest)
