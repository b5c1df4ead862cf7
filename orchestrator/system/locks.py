"""Locks between processes: flock(2) on a file, dropped by the kernel when its process ends.

One helper, three policies of waiting: the caller's `busy` decides what to do while another process
holds the lock. `is_held` asks, and never waits. Descriptors are close-on-exec, so compilers and
emulators never keep a lock.

The package `filelock` is not suitable: its FileLock truncates the file when it opens it, so that
the file cannot name the holder; it polls, and has no shared mode. Its ReadWriteLock is a SQLite
database, which a read-only cache cannot hold.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from orchestrator.errors import OrchestratorError

# What flock(2) says where a file system has none: NFS without its lock service, FUSE, Lustre.
_UNSUPPORTED: Final = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP)
_CANNOT_WRITE: Final = (errno.EROFS, errno.EACCES, errno.EPERM)
# A file that is removed again and again between its making and its opening.
_MISSES: Final = 100


class LocksUnsupportedError(OrchestratorError):
    """A file system that has no file locks."""


@contextmanager
def file_lock(
    file: Path,
    busy: Callable[[int], object],
    *,
    before: Callable[[], object],
    shared: bool = False,
    create: bool = True,
) -> Iterator[int]:
    """Hold the lock of the file at a path, exclusive or `shared`; yields its descriptor.

    busy    called once where another process holds it, with a descriptor of the file, which it may
            read; it raises, or returns to wait
    before  makes the file's folder, or the file itself where `create` is False; called again where
            the file was removed meanwhile: its lock guards nothing then

    A read-only file can be locked too. Raises `LocksUnsupportedError`, what `busy` and `before`
    raise, and the disk's `OSError`.
    """
    mode = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    reported, misses = False, 0
    while True:
        before()
        try:
            descriptor = _open(file, create)
        except FileNotFoundError:
            misses += 1
            if misses == _MISSES:
                raise
            continue
        try:
            if not _flock(descriptor, mode | fcntl.LOCK_NB, file):
                if not reported:
                    busy(descriptor)
                reported = True
                _flock(descriptor, mode, file)
            if _is_same(descriptor, file):
                yield descriptor
                return
        finally:
            os.close(descriptor)


def is_held(file: Path) -> bool:
    """True if another process holds the exclusive lock of a file at this moment.

    False if that cannot be known: the file is gone or unreadable, or its file system has no locks.
    """
    try:
        descriptor = os.open(file, os.O_RDONLY)
    except OSError:
        return False
    try:
        return not _flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB, file)
    except (OSError, LocksUnsupportedError):
        return False
    finally:
        os.close(descriptor)


def holders(descriptor: int) -> list[str]:
    """The other processes that hold a lock of the file, if the system reports them (proc(5)).

    Only Linux does, for processes in this container, on most file systems.
    """
    status = os.fstat(descriptor)
    device = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}"
    with suppress(OSError):
        table = Path("/proc/locks").read_text(encoding="ascii", errors="replace")
        # `1: FLOCK  ADVISORY  READ  1234 fe:01:5678 0 EOF`; a `->` behind the number: it waits
        rows = (line.split() for line in table.splitlines() if "->" not in line)
        pids = {
            int(row[4])
            for row in rows
            if row[1:2] == ["FLOCK"] and row[5:6] == [f"{device}:{status.st_ino}"]
        }
        return [_named(pid) for pid in sorted(pids - {os.getpid()}) if pid > 0]
    return []


def _named(pid: int) -> str:
    """`process 12: orchestrator build //...`."""
    with suppress(OSError):
        words = os.fsdecode(Path(f"/proc/{pid}/cmdline").read_bytes()).split("\0")[:-1]
        return f"process {pid}: {' '.join(shlex.join(words).split())[:200]}"
    return f"process {pid}"


def _open(file: Path, create: bool) -> int:
    try:
        # NFS locks a file alone only where it could write it
        return os.open(file, os.O_RDWR | (os.O_CREAT if create else 0), 0o666)
    except OSError as error:
        if error.errno in _CANNOT_WRITE:
            with suppress(OSError):
                return os.open(file, os.O_RDONLY)
        raise


def _flock(descriptor: int, mode: int, file: Path) -> bool:
    """Lock the file. Returns True once the lock is held; False only if `mode` is non-blocking and
    another process holds it. Raises LocksUnsupportedError."""
    try:
        fcntl.flock(descriptor, mode)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in _UNSUPPORTED:
            raise
        raise LocksUnsupportedError(
            f"the file system of {file.parent} has no file locks",
            expected="flock(2), as local disks have, and NFS with its lock service",
            seen=error.strerror,
            hint="keep the workspace and the cache folder (ORCHESTRATOR_CACHE) on a local disk",
        ) from error
    return True


def _is_same(descriptor: int, file: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), file.stat())
    except FileNotFoundError:
        return False
