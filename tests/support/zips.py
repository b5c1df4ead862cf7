"""Zip archives of bytes."""

from __future__ import annotations

import io
import struct
import zipfile
from collections.abc import Mapping


def before_the_begin(archive: bytes, by: int = 1000) -> bytes:
    """An archive whose table of contents says that it stands `by` bytes later: so all files begin
    that much earlier, the first before the archive does (APPNOTE.TXT, 4.3.16)."""
    at = archive.rindex(b"PK\x05\x06") + 16
    (offset,) = struct.unpack_from("<I", archive, at)
    return archive[:at] + struct.pack("<I", offset + by) + archive[at + 4 :]


def zipped(members: Mapping[str, bytes]) -> bytes:
    """An archive of these, stored as they are."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as written:
        for name, data in members.items():
            written.writestr(name, data)
    return out.getvalue()
