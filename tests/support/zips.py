"""Zip archives of bytes."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping


def zipped(members: Mapping[str, bytes]) -> bytes:
    """An archive of these, stored as they are."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as written:
        for name, data in members.items():
            written.writestr(name, data)
    return out.getvalue()
