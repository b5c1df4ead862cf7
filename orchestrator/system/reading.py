"""Opens files that anyone may have proposed, such as those of a repository.

A repository can hold a symbolic link to a device or a pipe, which is read without end, or waited
for.
"""

from __future__ import annotations

import errno
import stat
from io import BufferedReader
from pathlib import Path


def open_file(path: Path) -> BufferedReader:
    """Open a plain file, or what a link to one leads to, for reading.

    Raises OSError, also for a device or a pipe, which is not opened.
    """
    mode = path.stat().st_mode
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):  # open(2) refuses a folder
        raise OSError(errno.EINVAL, "Not a plain file", str(path))
    return path.open("rb")


def read_text(path: Path, most: int) -> str:
    """The UTF-8 text of a file, bytes that are none replaced; of one that has more than `most`
    characters, enough to see that. Raises what `open_file` raises."""
    with open_file(path) as file:
        return file.read(4 * most + 4).decode("utf-8", "replace")
