"""The zip archive that a `.ptl` is: opened, checked completely, its small records read.

Contract: `open_archive(file, name)` yields an `Archive` or raises one of the errors here, whatever
the bytes are; memory stays bounded by the limits below, not by what the file claims. The layout is
PyTorch's (`caffe2/serialize/inline_container.cc`): every record is in one top folder, tensors are
stored as they are, and only text is compressed.
"""

from __future__ import annotations

import re
import struct
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import BinaryIO, cast

from orchestrator.errors import OrchestratorError, Place

# Far above what PyTorch writes, and small enough for any machine that builds.
MAX_RECORDS = 50_000
MAX_TABLE_BYTES = 16 * 2**20
MAX_INFLATED_BYTES = 256 * 2**20
MAX_PICKLE_BYTES = 16 * 2**20

_ZIP_MAGIC = b"PK\x03\x04"
_END_MAGIC, _LOCATOR_MAGIC, _END64_MAGIC = b"PK\x05\x06", b"PK\x06\x07", b"PK\x06\x06"
# flatbuffers puts a schema's identifier after the root offset; this one is PyTorch's
# (torch/csrc/jit/mobile/file_format.h).
_FLATBUFFER_MAGIC = b"PTMF"
# ExecuTorch's (schema/program.fbs: `file_identifier "ET12"`); the number is the format's.
_EXECUTORCH_MAGIC = b"ET"
# The end of the table of contents, and its larger form with what points to it
# (APPNOTE.TXT, 4.3.14 to 4.3.16).
_END = struct.Struct("<4s6xHLLH")
_END64_LOCATOR = struct.Struct("<4s4xQ4x")
_END64 = struct.Struct("<4s20x8xQQQ")
_LONGEST_COMMENT = 2**16
_CHUNK = 2**20
# What miniz, and so the runtime, can unpack.
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
# What zipfile raises for damaged bytes is not documented; these were all seen or are in its source.
_ZIP_ERRORS = (
    zipfile.BadZipFile,
    zipfile.LargeZipFile,
    zlib.error,
    struct.error,
    EOFError,
    IndexError,
    NotImplementedError,
    OSError,
    RuntimeError,
    ValueError,
)
_WRITE = "module._save_for_lite_interpreter(path)"
_EXPORT_HINT = f"export it again with {_WRITE}"
_FROM_PYTORCH = f"write the model from PyTorch, with {_WRITE}"
# Files that are mistaken for models: how they begin, what they are, what to do.
_OTHERS = (
    (re.compile(rb"version "), "a Git LFS pointer", "fetch it with git lfs pull"),
    (
        re.compile(rb"<(?i:!doctype|html|\?xml)"),
        "a web page",
        "fetch the file again: the address gave a page in its place",
    ),
    (re.compile(rb"\x1f\x8b|\x28\xb5\x2f\xfd|\xfd7zXZ|BZh"), "a compressed file", "unpack it"),
    (re.compile(rb".{4}TFL3", re.DOTALL), "a model of TensorFlow Lite", _FROM_PYTORCH),
    (re.compile(rb"\x89HDF"), "an HDF5 file", _FROM_PYTORCH),
    # onnx.proto: field 1, the format's version, then field 2, the producer's name
    (re.compile(rb"\x08[\x01-\x20]\x12"), "a model of ONNX", _FROM_PYTORCH),
    (
        re.compile(rb"\x80[\x02-\x05]|.{6}\0\0\{", re.DOTALL),
        "weights without a model",
        "load them into the nn.Module, torch.jit.script or trace it, and write it with " + _WRITE,
    ),
)


class NotAModelError(OrchestratorError):
    """The file is not a zip archive, so it cannot be a `.ptl`."""


class FlatbufferModelError(OrchestratorError):
    """The file is a lite model in the flatbuffer format, which the pinned runtime does not read."""


class DamagedModelError(OrchestratorError):
    """The file began as a model but is truncated or damaged."""


class OversizedModelError(OrchestratorError):
    """The archive exceeds the limits for a model: a zip bomb, or not a model."""


class OddRecordPathError(OrchestratorError):
    """A record's path leaves the archive's own folder, or appears twice."""


@dataclass(frozen=True)
class Archive:
    """An open archive whose records were all read once and match their checksums.

    `sizes` has the records, by their paths below the archive's top folder, and their bytes.
    """

    place: Place
    sizes: Mapping[str, int]
    _zip: zipfile.ZipFile
    _root: str

    @property
    def names(self) -> tuple[str, ...]:
        """The records' paths, sorted."""
        return tuple(sorted(self.sizes))

    def read(self, name: str, most: int | None = None) -> bytes:
        """A record's bytes; raises `OversizedModelError` above `most`, or `MAX_PICKLE_BYTES`."""
        size, most = self.sizes[name], most or MAX_PICKLE_BYTES
        if size > most:
            raise _oversized(self.place, f"{name} with {size} bytes", f"{most} bytes")
        return self._zip.read(self._root + name)

    @contextmanager
    def open(self, name: str) -> Iterator[BinaryIO]:
        """A record as a seekable file, such as an archive inside of this one."""
        with self._zip.open(self._root + name) as record:
            yield cast(BinaryIO, record)


@contextmanager
def open_archive(file: BinaryIO, place: Place, *, rooted: bool = True) -> Iterator[Archive]:
    """The archive in an open, seekable file; see the module for what is raised.

    rooted: whether all records must lie in one top folder; else they may lie at the top.
    """
    _check_magic(file, place)
    count = _check_end(file, place)
    try:
        archive = zipfile.ZipFile(file)
    except _ZIP_ERRORS as error:
        raise damaged(place, "no zip central directory at the end of the file") from error
    with archive:
        entries = archive.infolist()
        if len(entries) != count:
            raise damaged(place, f"{len(entries)} records in a central directory of {count}")
        _check_sizes(entries, file.seek(0, 2), place)
        root, sizes = _check_paths(entries, place, rooted)
        for entry in entries:
            _check_contents(archive, entry, place)
        yield Archive(place, sizes, archive, root)


def _check_magic(file: BinaryIO, place: Place) -> None:
    head = file.read(16)
    file.seek(0)
    if head.startswith(_ZIP_MAGIC):
        return
    if head[4:8] == _FLATBUFFER_MAGIC:
        raise FlatbufferModelError(
            "this model is in the flatbuffer format",
            place=place,
            expected="a .ptl in the zip format",
            seen="the flatbuffer identifier PTMF",
            hint=f"{_EXPORT_HINT}, without _use_flatbuffer=True",
        )
    if head[4:6] == _EXECUTORCH_MAGIC:
        raise NotAModelError(
            "this is a program for ExecuTorch, which the lite interpreter does not run",
            place=place,
            expected="a .ptl in the zip format",
            seen=f"the identifier {head[4:8].decode('ascii', 'replace')} of a .pte",
            hint="torch.jit.script or trace the nn.Module that was exported, and write it with"
            " module._save_for_lite_interpreter(path)",
        )
    raise NotAModelError(
        "this is not a .ptl model",
        place=place,
        expected="a zip archive, as torch.jit writes it",
        seen=_first_bytes(head),
        hint=next((hint for magic, _, hint in _OTHERS if magic.match(head)), _EXPORT_HINT),
    )


def _first_bytes(head: bytes) -> str:
    known = next((name for magic, name, _ in _OTHERS if magic.match(head)), None)
    if known:
        return known
    return f"a file that begins with {head[:4].hex(' ')}" if head else "an empty file"


def _check_end(file: BinaryIO, place: Place) -> int:
    """The number of records that the archive claims, before zipfile creates an entry for each.

    The central directory must end at its end record, as PyTorch writes it: zipfile looks for it
    there, the runtime at the stated offset.
    """
    size = file.seek(0, 2)
    start = max(0, size - _END64.size - _END64_LOCATOR.size - _END.size - _LONGEST_COMMENT)
    file.seek(start)
    tail = file.read()
    # As zipfile looks for it: first where it is without a comment behind it.
    at = len(tail) - _END.size
    if tail[at : at + 4] != _END_MAGIC or tail[-2:] != b"\0\0":
        at = tail.rfind(_END_MAGIC)
    try:
        _, count, length, offset, _ = _END.unpack_from(tail, at)
        end = start + at
    except struct.error as error:
        raise damaged(place, "no zip central directory at the end of the file") from error
    where = at - _END64_LOCATOR.size
    if where >= _END64.size and tail[where : where + 4] == _LOCATOR_MAGIC:
        _, end = _END64_LOCATOR.unpack_from(tail, where)
        _, count, length, offset = _END64.unpack_from(tail, where - _END64.size)
        if end != start + where - _END64.size or tail[where - _END64.size :][:4] != _END64_MAGIC:
            raise damaged(place, "two conflicting central directories")
    if count > MAX_RECORDS:
        raise _oversized(place, f"{count} records", f"{MAX_RECORDS} records")
    if length > MAX_TABLE_BYTES:
        raise _oversized(
            place, f"a central directory of {length} bytes", f"{MAX_TABLE_BYTES} bytes"
        )
    if offset + length != end:
        raise damaged(place, "a central directory with a wrong offset or size")
    return int(count)


def _check_sizes(entries: list[zipfile.ZipInfo], file_size: int, place: Place) -> None:
    for entry in entries:
        if entry.compress_type not in _METHODS:
            raise damaged(place, f"compression method {entry.compress_type}")
    packed = sum(entry.compress_size for entry in entries)
    if packed > file_size:
        # Overlapping records let a small file unpack to a huge one.
        raise _oversized(place, f"{packed} packed bytes", f"{file_size} bytes, the file's size")
    inflated = sum(e.file_size for e in entries if e.compress_type != zipfile.ZIP_STORED)
    if inflated > MAX_INFLATED_BYTES:
        raise _oversized(
            place, f"{inflated} bytes of compressed text", f"{MAX_INFLATED_BYTES} bytes"
        )


def _check_paths(
    entries: list[zipfile.ZipInfo], place: Place, rooted: bool
) -> tuple[str, Mapping[str, int]]:
    """The top folder, with its `/`, and the records' bytes."""
    flat = not rooted and any("/" not in entry.filename for entry in entries)
    roots: set[str] = set()
    sizes: dict[str, int] = {}
    # The runtime looks records up whatever their case (mz_zip_reader_locate_file, flags 0).
    names: set[str] = set()
    for entry in entries:
        path = entry.filename
        root, _, name = ("", "", path) if flat else path.partition("/")
        # orig_filename still has what zipfile cut off at a NUL or changed in a separator.
        plain = path == entry.orig_filename and "\\" not in path and path.isprintable()
        if not plain or not name or PurePosixPath(path).is_absolute() or _has_dots(path):
            raise _odd_path(place, repr(entry.orig_filename[:120]), "a path inside one top folder")
        roots.add(root)
        if len(roots) > 1:
            raise _odd_path(place, f"the folders {', '.join(sorted(roots))}", "one top folder")
        if name.lower() in names:
            raise _odd_path(place, f"two records named {name}", "unique record names")
        names.add(name.lower())
        sizes[name] = entry.file_size
    if not names:
        raise damaged(place, "an archive without records")
    root = roots.pop()
    return f"{root}/" if root else "", sizes


def _has_dots(path: str) -> bool:
    return any(part in ("", ".", "..") for part in path.split("/"))


def _check_contents(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, place: Place) -> None:
    """Reads a record in chunks, which verifies its length and checksum."""
    length = 0
    try:
        with archive.open(entry) as record:
            while piece := record.read(_CHUNK):
                length += len(piece)
    except _ZIP_ERRORS as error:
        raise damaged(place, f"record {entry.filename} does not match its checksum") from error
    if length != entry.file_size:
        raise damaged(place, f"record {entry.filename}: {length} of {entry.file_size} bytes")


def damaged(
    place: Place, seen: str, complete: str = "a complete .ptl archive"
) -> DamagedModelError:
    """The error of a file that is less than it was. complete: what it should be."""
    return DamagedModelError(
        "this model is truncated or damaged",
        place=place,
        expected=complete,
        seen=seen,
        hint="copy the file again, or export it again",
    )


def _oversized(place: Place, seen: str, limit: str) -> OversizedModelError:
    return OversizedModelError(
        "this archive exceeds the limits for a model",
        place=place,
        expected=f"at most {limit}",
        seen=seen,
        hint=_EXPORT_HINT,
    )


def _odd_path(place: Place, seen: str, expected: str) -> OddRecordPathError:
    return OddRecordPathError(
        "this archive has a record at an unexpected path",
        place=place,
        expected=expected,
        seen=seen,
        hint=_EXPORT_HINT,
    )
