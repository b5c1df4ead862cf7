"""A `.ptl` archive with the same bytes each time, without what the lite loader does not read."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import IO

# As PyTorch's own writer places tensors (caffe2/serialize/inline_container.h, kFieldAlignment).
_ALIGNMENT = 64
_LOCAL_HEADER_BYTES = 30
_EPOCH = (1980, 1, 1, 0, 0, 0)


def reproducible(data: bytes, root: str) -> bytes:
    """The archive that `_save_for_lite_interpreter` wrote, with `root` as its top folder.

    `code/` is TorchScript text for the full interpreter: its debug records hold absolute paths, and
    the order of a class's constants follows Python's hash seed; the archive's identity hashes both.
    """
    out = io.BytesIO()
    _copy(io.BytesIO(data), out, root)
    return out.getvalue()


def make_reproducible(file: Path, root: str) -> None:
    """The same of a file, record by record: none is in memory twice."""
    staged = file.with_name(f".{file.name}.new")
    with file.open("rb") as old, staged.open("wb") as new:
        _copy(old, new, root)
    staged.replace(file)


def _copy(archive: IO[bytes], out: IO[bytes], root: str) -> None:
    with zipfile.ZipFile(archive) as old, zipfile.ZipFile(out, "w") as new:
        for entry in old.infolist():
            path = entry.filename.partition("/")[2]
            if path.startswith("code/") or path == ".data/serialization_id":
                continue
            record = zipfile.ZipInfo(f"{root}/{path}", _EPOCH)
            record.compress_type = entry.compress_type
            # a field that readers skip moves the record's first byte to the alignment
            start = out.tell() + _LOCAL_HEADER_BYTES + len(record.filename.encode()) + 4
            padding = -start % _ALIGNMENT
            record.extra = b"FB" + padding.to_bytes(2, "little") + b"Z" * padding
            new.writestr(record, old.read(entry))
