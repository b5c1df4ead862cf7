"""Opens files that anyone may have proposed, such as those of a repository.

A repository can hold a symbolic link to a device or a pipe, which is read without end, or waited
for.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import stat
from io import BufferedReader
from pathlib import Path
from typing import Any

# The largest JSON file that is read where nothing else is said: parsed, it takes at most 30 times
# as much memory (`[],` is a list of 64 bytes).
MOST_JSON = 2**24
# Nearly all of the thousands of files of a source tree or a delivery.
_SMALL = 2**20


def plain_status(path: Path) -> os.stat_result:
    """The state of a plain file, or of what a link to one leads to; of a folder too, which is
    refused when it is read. Raises OSError, also for a device or a pipe, which is not opened."""
    status = path.stat()
    if not stat.S_ISREG(status.st_mode) and not stat.S_ISDIR(status.st_mode):
        raise OSError(errno.EINVAL, "Not a plain file", str(path))
    return status


def open_file(path: Path) -> BufferedReader:
    """Open a plain file, or what a link to one leads to, for reading.

    Raises OSError, also for a device or a pipe, which is not opened.
    """
    plain_status(path)
    return path.open("rb")


def file_sha256(path: Path) -> str:
    """The digest of a file, which may be larger than memory. Raises what `open_file` raises."""
    size = plain_status(path).st_size
    data = _read_at_once(path, size) if size <= _SMALL else None
    if data is not None:
        return hashlib.sha256(data).hexdigest()
    with open_file(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _read_at_once(path: Path, size: int) -> bytes | None:
    """The content of a plain file that has so many bytes, in half the time that `open` takes; None
    where it has more or fewer."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        data = os.read(descriptor, size + 1)
    finally:
        os.close(descriptor)
    return data if len(data) == size else None


def readable_sha256(path: Path) -> str:
    """The digest of a file; "" where there is none, or none that can be read."""
    try:
        return file_sha256(path)
    except OSError:
        return ""


def read_text(path: Path, most: int) -> str:
    """The UTF-8 text of a file, bytes that are none replaced; of one that has more than `most`
    characters, enough to see that. Raises what `open_file` raises."""
    with open_file(path) as file:
        return file.read(4 * most + 4).decode("utf-8", "replace")


def parse_json(text: str | bytes) -> Any:
    """A JSON text's value. Raises ValueError, also where it is nested too deeply to be parsed."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def read_json(path: Path, most: int = MOST_JSON) -> Any:
    """The value in a JSON file.

    Raises what `open_file` and `parse_json` raise, and ValueError where the file has more than
    `most` bytes.
    """
    with open_file(path) as file:
        text = file.read(most + 1)
    if len(text) > most:
        raise ValueError(f"more than {most:,} bytes")
    return parse_json(text)
