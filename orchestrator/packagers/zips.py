"""zip for packages (AAR, jar): the same files give the same bytes.

Contract: entries are sorted unless a file must come first, carry `EPOCH`'s date, plain modes and no
other attributes, and are deflated at one level. Unlike zstd's, the output depends on the machine's
zlib: packages of two machines are equal if both use the same family (zlib itself has given the same
bytes since 1.2.5; zlib-ng gives others).
"""

from __future__ import annotations

import time
import zipfile
from collections.abc import Iterable
from typing import IO, Final

from orchestrator.deliver.files import EPOCH, File, in_order

_DATE: Final = time.gmtime(EPOCH)[:6]
# 9 takes three times as long for 1 per cent.
_LEVEL: Final = 6
_UNIX: Final = 3
_REGULAR: Final = 0o100000


def write_zip(
    target: IO[bytes], files: Iterable[File], first: str | None = None, last: str | None = None
) -> None:
    """Writes the files, sorted by path; `first` is the path of one that goes before all others,
    `last` is how those begin that go behind them.

    Raises `DuplicateFileError`, and `OSError` where a file to copy cannot be read.
    """
    ordered = sorted(
        in_order(files),
        key=lambda file: (
            file.path != first,
            last is not None and file.path.startswith(last),
        ),
    )
    with zipfile.ZipFile(target, "w") as archive:
        for file in ordered:
            entry = zipfile.ZipInfo(file.path, _DATE)
            entry.create_system = _UNIX
            entry.external_attr = (_REGULAR | (0o755 if file.executable else 0o644)) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            content = file.content if isinstance(file.content, bytes) else file.content.read_bytes()
            archive.writestr(entry, content, zipfile.ZIP_DEFLATED, _LEVEL)
