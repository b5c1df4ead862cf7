"""A machine that refuses every effect: what is planned inside starts no process, writes nothing."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, NoReturn

from orchestrator.system.process import Command

# Events of Python's own functions that change a disk, start a process or reach a network:
# docs.python.org/3/library/audit_events.html. `open` is judged by how it opens.
_EFFECTS: Final = frozenset(
    {
        *("subprocess.Popen", "os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn"),
        *("os.system", "os.startfile", "pty.spawn", "socket.connect", "socket.getaddrinfo"),
        *("os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.link", "os.symlink", "os.chmod"),
        *("os.chown", "os.truncate", "os.utime", "os.setxattr", "os.removexattr", "os.lockf"),
        *("fcntl.flock", "fcntl.lockf", "shutil.rmtree", "tempfile.mkstemp", "tempfile.mkdtemp"),
    }
)
_WRITING: Final = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_refusing = False
_hooked = False


class EffectRefusedError(Exception):
    """Something was done that changes more than this process."""


class RefusingRunner:
    """Starts nothing."""

    def run(self, command: Command) -> NoReturn:
        raise EffectRefusedError(f"run {command.argv}")

    def stream(self, command: Command, feed: object) -> NoReturn:
        raise EffectRefusedError(f"stream {command.argv}")


@contextmanager
def effects_refused() -> Iterator[None]:
    """Inside, whatever would change something outside of this process raises.

    Audit hooks see all that Python does, below whatever module asks for it.
    """
    global _refusing, _hooked
    if not _hooked:
        sys.addaudithook(_hook)  # it cannot be taken away again
        _hooked = True
    _refusing = True
    try:
        yield
    finally:
        _refusing = False


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    if not _refusing:
        return
    if event == "open":
        path, _, flags = arguments
        # the compiled form of a module that is imported late: Python's own business
        if not flags & _WRITING or "__pycache__" in str(path):
            return
    elif event not in _EFFECTS:
        return
    if event == "os.mkdir" and str(arguments[0]).endswith("__pycache__"):
        return
    if event == "os.rename" and "__pycache__" in str(arguments[0]):
        return
    raise EffectRefusedError(f"{event} {arguments}")
