"""What reading an input may take: CPU seconds, memory, and writes only where the test says.

Everything is held while it runs, in this process: a signal ends what takes too long, memory above
the limit is refused by the system, and Python's audit events tell of writes before they happen.
"""

from __future__ import annotations

import os
import resource
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Final

SECONDS: Final = 2.0
MEGABYTES: Final = 500
_WRITES: Final = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
# event -> how many of its first arguments are paths (sys.audit, "Audit events table")
_CHANGES: Final = {
    **dict.fromkeys(
        ("os.mkdir", "os.remove", "os.rmdir", "os.truncate", "os.chmod", "os.utime"), 1
    ),
    **dict.fromkeys(("os.rename", "os.link", "os.symlink"), 2),
}
_PROCESSES: Final = frozenset(("subprocess.Popen", "os.exec", "os.posix_spawn", "os.system"))

_allowed: Path | None = None


class BrokenBoundError(BaseException):
    """An input took too long, or more than reading: nothing that tests may catch by the way."""


@contextmanager
def bounded(folder: Path) -> Iterator[None]:
    """Hold what runs in here to the bounds; files may change below `folder` alone."""
    global _allowed
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    before = signal.signal(signal.SIGPROF, _too_long)
    resource.setrlimit(resource.RLIMIT_AS, (used + MEGABYTES * 2**20, hard))
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    _allowed = folder
    try:
        yield
    finally:
        _allowed = None
        signal.setitimer(signal.ITIMER_PROF, 0)
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
        signal.signal(signal.SIGPROF, before)


def _too_long(_number: int, _frame: FrameType | None) -> None:
    raise BrokenBoundError(f"more than {SECONDS} CPU seconds")


def _watch(event: str, arguments: tuple[object, ...]) -> None:
    if _allowed is None:
        return
    if event in _PROCESSES:
        raise BrokenBoundError(f"a process: {arguments}")
    if event == "open":
        path, _, flags = arguments
        changes = [path] if isinstance(flags, int) and flags & _WRITES else []
    else:
        changes = [*arguments[: _CHANGES.get(event, 0)]]
    for path in changes:
        if isinstance(path, str | bytes | os.PathLike):
            whole = Path(os.fsdecode(path)).resolve()
            if not whole.is_relative_to(_allowed):
                raise BrokenBoundError(f"{event} of {whole}")


sys.addaudithook(_watch)
