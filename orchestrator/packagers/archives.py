"""tar and zstd for all packages: the same files give the same bytes on every machine.

Contract: entries are sorted, belong to uid and gid 0, and have the time `EPOCH` and plain modes.
zstd is the pinned `zstandard` wheel's, in one thread, at one level: unlike the machine's zlib or
liblzma, its output does not change with the machine.
"""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterable
from pathlib import PurePosixPath
from typing import BinaryIO, Final

import zstandard

from orchestrator.deliver.files import EPOCH, File, in_order

# Past 9 the time doubles for a few per cent.
_LEVEL: Final = 9


def write_tar_zst(target: BinaryIO, files: Iterable[File], prefix: str) -> None:
    """Writes a compressed tar: the files below `prefix` (`name/` or `./`), and their folders."""
    # a checksum: what unpacks it notices damage, in the manifest too, which nothing else tells of
    compressor = zstandard.ZstdCompressor(level=_LEVEL, threads=0, write_checksum=True)
    with compressor.stream_writer(target, closefd=False) as stream:
        write_tar(stream, files, prefix)


def write_tar(target: BinaryIO, files: Iterable[File], prefix: str) -> None:
    """Writes a tar (GNU's format, for long names) with the files and their folders."""
    ordered = in_order(files)
    folders = {str(parent) for file in ordered for parent in PurePosixPath(file.path).parents} - {
        "."
    }
    entries: list[tuple[str, File | None]] = [("", None)]
    entries += [(folder, None) for folder in folders]
    entries += [(file.path, file) for file in ordered]
    with tarfile.open(fileobj=target, mode="w|", format=tarfile.GNU_FORMAT) as tar:
        for path, file in sorted(entries, key=lambda entry: entry[0]):
            _add(tar, prefix + path, file)


def _add(tar: tarfile.TarFile, name: str, file: File | None) -> None:
    entry = tarfile.TarInfo(name)
    entry.mtime = EPOCH
    entry.uname = entry.gname = "root"
    if file is None:
        entry.type = tarfile.DIRTYPE
        entry.mode = 0o755
        tar.addfile(entry)
        return
    entry.size = file.size()
    entry.mode = 0o755 if file.executable else 0o644
    if isinstance(file.content, bytes):
        tar.addfile(entry, io.BytesIO(file.content))
    else:
        with file.content.open("rb") as content:
            tar.addfile(entry, content)
