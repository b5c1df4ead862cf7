"""Exchanges two names atomically, if the kernel and the file system can.

Between two renames there is a moment with neither folder in place; a process killed then leaves
none. renameat2(2) with RENAME_EXCHANGE, on Linux since 3.15, has no such moment.
"""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

# linux/fcntl.h and linux/fs.h
_AT_FDCWD = -100
_RENAME_EXCHANGE = 2


def exchange(one: Path, other: Path) -> bool:
    """Exchange the names of two entries of one file system; False if nothing was done.

    False only means that exchanging is not supported here: an old C library, a file system without
    exchanges (NFS), a sandbox. If renames fail too, they report the reason.
    """
    renameat2 = getattr(ctypes.CDLL(None), "renameat2", None)
    if renameat2 is None:
        return False
    names = (os.fsencode(one), os.fsencode(other))
    done: int = renameat2(_AT_FDCWD, names[0], _AT_FDCWD, names[1], _RENAME_EXCHANGE)
    return done == 0
