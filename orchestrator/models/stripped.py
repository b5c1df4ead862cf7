"""A `.ptl` as it is delivered: without the records that only debuggers read (source lines, and maps
from instructions to them), and without the inputs that it was traced with.

Contract: the records that stay have the same bytes and order, each at a multiple of 64 bytes as
PyTorch writes them (`padding` in `caffe2/serialize/inline_container.cc`); equal files give equal
results. The lite interpreter looks for these records and works without them
(`torch/csrc/jit/mobile/import.cpp`, `BytecodeDeserializer::deserialize`). What holds bundled inputs
is cut off two of its pickles (`unbundled.py`), and their tensors go.
"""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import BinaryIO, Final

from orchestrator.errors import Place
from orchestrator.models.archive import Archive, open_archive
from orchestrator.models.unbundled import code_without_inputs, data_without_inputs

_DEBUG_SUFFIX: Final = ".debug_pkl"
_DEBUG: Final = frozenset({"callstack_debug_map.pkl", "mobile_debug_handles.pkl"})
# APPNOTE.TXT, 4.3.7, 4.3.12 and 4.3.16
_LOCAL: Final = struct.Struct("<4s5H3L2H")
_CENTRAL: Final = struct.Struct("<4s6H3L5H2L")
_END: Final = struct.Struct("<4s4H2LH")
_VERSION: Final = 20
_UTF8: Final = 0x800
# The first day that a zip can tell.
_DATE: Final = 0x21
_ALIGNED: Final = 64
# Above these, the format is another one.
_MOST_BYTES: Final = 2**32 - 2**20
_MOST_RECORDS: Final = 2**16 - 1
_EXTRA: Final = struct.Struct("<2sH")


def stripped(path: Path) -> bytes | None:
    """The file's bytes without its debug records and bundled inputs; None where it has neither, or
    is too large for a plain zip. Raises what `open_archive` raises, and OSError."""
    with path.open("rb") as file:
        with open_archive(file, Place(str(path))) as archive:
            gone = {name for name in archive.names if _is_debug(name)}
            changed, inputs = _without_inputs(archive)
        gone |= inputs
        if not (gone or changed) or file.seek(0, io.SEEK_END) > _MOST_BYTES:
            return None
        with zipfile.ZipFile(file) as entries:
            kept = [
                entry
                for entry in entries.infolist()
                if entry.filename.partition("/")[2] not in gone
            ]
        return None if len(kept) > _MOST_RECORDS else _written(file, kept, changed)


def _without_inputs(archive: Archive) -> tuple[Mapping[str, bytes], set[str]]:
    """Records -> their other contents, and those of the inputs' tensors; none where there are no
    inputs, or they cannot be told from the rest."""
    if not {"bytecode.pkl", "data.pkl"} <= archive.sizes.keys():
        return {}, set()
    code = code_without_inputs(archive.read("bytecode.pkl"))
    data = data_without_inputs(archive.read("data.pkl"))
    if code is None or data is None:
        return {}, set()
    changed = {"bytecode.pkl": code.data, "data.pkl": data.data}
    # code has constants, which may be a module's own tensors
    gone = data.gone - code.kept
    return changed, {f"data/{key}" for key in gone}.intersection(archive.names)


def _is_debug(name: str) -> bool:
    return name in _DEBUG or name.endswith(_DEBUG_SUFFIX)


def _written(
    file: BinaryIO, entries: Iterable[zipfile.ZipInfo], changed: Mapping[str, bytes]
) -> bytes:
    """An archive of these records of `file`, whose content is copied as it is packed, but for those
    that are changed."""
    out, directory, count = bytearray(), bytearray(), 0
    for entry in entries:
        name = entry.filename.encode()
        new = changed.get(entry.filename.partition("/")[2])
        method, sizes = entry.compress_type, (entry.CRC, entry.compress_size, entry.file_size)
        if new is not None:
            method, sizes = zipfile.ZIP_STORED, (zlib.crc32(new), len(new), len(new))
        facts = (
            *(_VERSION, entry.flag_bits & _UTF8, method, 0, _DATE),
            *(*sizes, len(name)),
        )
        offset = len(out)
        extra = _padding(offset + _LOCAL.size + len(name))
        out += _LOCAL.pack(b"PK\x03\x04", *facts, len(extra)) + name + extra
        out += _packed(file, entry) if new is None else new
        directory += _CENTRAL.pack(b"PK\x01\x02", _VERSION, *facts, 0, 0, 0, 0, 0, offset) + name
        count += 1
    end = _END.pack(b"PK\x05\x06", 0, 0, count, count, len(directory), len(out), 0)
    return bytes(out + directory + end)


def _padding(at: int) -> bytes:
    """The extra field behind a record's name that aligns what follows, as PyTorch fills it."""
    count = -(at + _EXTRA.size) % _ALIGNED
    return _EXTRA.pack(b"FB", count) + b"Z" * count


def _packed(file: BinaryIO, entry: zipfile.ZipInfo) -> bytes:
    file.seek(entry.header_offset)
    *_, name, extra = _LOCAL.unpack(file.read(_LOCAL.size))
    file.seek(name + extra, io.SEEK_CUR)
    return file.read(entry.compress_size)
