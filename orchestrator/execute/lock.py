"""One build at a time in a workspace: a lock that the kernel drops when its process ends.

`<state>/lock` is locked with flock(2) and holds, as JSON, who has it. The file stays after the
lock; only the lock counts. Python opens it close-on-exec, so ninja and compilers never inherit it.
"""

from __future__ import annotations

import fcntl
import json
import os
import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

from orchestrator.errors import OrchestratorError
from orchestrator.execute.folders import ensure_folder


class WorkspaceLockedError(OrchestratorError):
    """Another process works in this workspace, and we were told not to wait."""


@contextmanager
def workspace_lock(
    state: Path, wait: bool, on_wait: Callable[[str], None], command: str | None = None
) -> Iterator[None]:
    """Hold the workspace whose state folder is `state`, which is made where it is missing.

    While another process has it, `on_wait` is told once who and since when; with `wait` False,
    `WorkspaceLockedError` is raised instead. `command` is what others are told; by default this
    process's command line.
    """
    descriptor = _locked(ensure_folder(state, "state") / "lock", wait, on_wait)
    try:
        holder = {
            "pid": os.getpid(),
            "since": datetime.now().astimezone().isoformat(" ", "seconds"),
            "command": command or shlex.join(sys.argv),
        }
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, json.dumps(holder).encode(), 0)
        yield
    finally:
        os.close(descriptor)


def _locked(file: Path, wait: bool, on_wait: Callable[[str], None]) -> int:
    """A locked descriptor of the file that the path names."""
    told = False
    while True:
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            if not _try_lock(descriptor):
                holder = _holder(descriptor)
                if not wait:
                    raise WorkspaceLockedError(
                        "another process works in this workspace",
                        seen=holder,
                        hint="wait for it to end, or stop it",
                    )
                if not told:
                    on_wait(f"waiting for {holder}")
                told = True
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            # `clean` may have removed the file while we waited; its lock then guards nothing.
            if _is_same(descriptor, file):
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)
        ensure_folder(file.parent, "state")


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_same(descriptor: int, file: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), file.stat())
    except FileNotFoundError:
        return False


def _holder(descriptor: int) -> str:
    """Who wrote the lock file; a process may hold the lock and not have written it yet."""
    try:
        holder = json.loads(os.pread(descriptor, 65536, 0))
        return f"process {holder['pid']}, since {holder['since']}: {holder['command']}"
    except (ValueError, KeyError, TypeError):
        return "a process that has just begun"
