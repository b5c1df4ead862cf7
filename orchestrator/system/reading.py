"""Opens files that anyone may have proposed, such as those of a repository.

A repository can hold a symbolic link to a device or a pipe, which is read without end, or waited
for.
"""

from __future__ import annotations

import errno
import hashlib
import json
import stat
from io import BufferedReader
from pathlib import Path
from typing import Any

# The largest JSON file that is read where nothing else is said: parsed, it takes at most 30 times
# as much memory (`[],` is a list of 64 bytes).
MOST_JSON = 2**24


def open_file(path: Path) -> BufferedReader:
    """Open a plain file, or what a link to one leads to, for reading.

    Raises OSError, also for a device or a pipe, which is not opened.
    """
    mode = path.stat().st_mode
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):  # open(2) refuses a folder
        raise OSError(errno.EINVAL, "Not a plain file", str(path))
    return path.open("rb")


def file_sha256(path: Path) -> str:
    """The digest of a file, which may be larger than memory. Raises what `open_file` raises."""
    with open_file(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


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
