"""Locks of workspaces and the cache: one build at a time per workspace, no `clean` of a used cache.

The workspace: one process holds `<state>/lock`, and the file names it, as JSON. The file remains
after the lock is released; only the lock counts. `run` holds `<state>/run/lock` instead, and writes
there alone but for small files that are replaced as a whole: see `Context.in_part`.

The cache: each user holds a shared lock on the cache's marker file; `clean` holds an exclusive one.
The marker exists as long as the folder is ours, so a read-only cache has it too. On a file system
without locks, the cache is used without one; `clean` cannot remove it then, because it requires the
lock.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Final

from orchestrator.errors import OrchestratorError
from orchestrator.system.folders import MARKER, Kind, ensure_folder, refuse_foreign
from orchestrator.system.locks import LocksUnsupportedError, file_lock, holders
from orchestrator.system.reading import parse_json

# The part of the state that `run` writes, with a lock of its own.
RUNS: Final = "run"
# So much of a command line tells which it is.
_COMMAND = 200


class WorkspaceLockedError(OrchestratorError):
    """Another process uses this workspace, and the command must not wait."""


class CacheInUseError(OrchestratorError):
    """The cache folder is to be removed, and another process uses it."""


@contextmanager
def workspace_lock(
    state: Path, wait: bool, on_wait: Callable[[str], None], command: str | None = None
) -> Iterator[None]:
    """Hold the workspace whose state folder is `state`; makes the folder if it is missing.

    While another process has it, `on_wait` is told once who and since when; with `wait` False,
    `WorkspaceLockedError` is raised instead. `command` is what others are told; by default this
    process's command line. Raises `LocksUnsupportedError`.
    """

    def busy(descriptor: int) -> None:
        holder = _holder(descriptor)
        if not wait:
            raise WorkspaceLockedError(
                "another process is using this workspace",
                seen=holder,
                hint="wait for it to end, or stop it",
            )
        on_wait(f"waiting for {holder}")

    before = _made(state, "state")
    with file_lock(state / "lock", busy, before=before) as descriptor:
        holder = {
            "pid": os.getpid(),
            "since": datetime.now().astimezone().isoformat(" ", "seconds"),
            "command": command or shlex.join(sys.argv)[:_COMMAND],
        }
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, json.dumps(holder).encode(), 0)
        yield


@contextmanager
def cache_in_use(cache: Path, on_wait: Callable[[str], None]) -> Iterator[None]:
    """Keep `clean --cache` off the cache folder; makes the folder if it is missing.

    Any number of processes may do so. While one removes the folder, `on_wait` is called once with
    its description. Raises what `ensure_folder` raises.
    """

    def busy(descriptor: int) -> None:
        on_wait(f"waiting for {'; '.join(holders(descriptor)) or 'the cache folder'}")

    with ExitStack() as stack:
        # a cache can be read where nothing can be locked, such as on some network's disks
        with suppress(LocksUnsupportedError):
            before = _made(cache, "cache")
            lock = file_lock(cache / MARKER, busy, before=before, shared=True, create=False)
            stack.enter_context(lock)
        yield


def cache_alone(cache: Path) -> AbstractContextManager[int]:
    """Hold a cache folder of ours that no other process uses.

    Raises `CacheInUseError`, `LocksUnsupportedError`, and what `refuse_foreign` raises.
    """

    def busy(descriptor: int) -> None:
        raise CacheInUseError(
            f"other processes use the cache folder {cache}",
            seen="; ".join(holders(descriptor)) or None,
            hint="wait for them to end, or stop them",
        )

    return file_lock(cache / MARKER, busy, before=lambda: refuse_foreign(cache), create=False)


def _made(folder: Path, kind: Kind) -> Callable[[], object]:
    return lambda: ensure_folder(folder, kind)


def _holder(descriptor: int) -> str:
    """Describe the process that wrote the lock file; a process may hold the lock and not have
    written it yet."""
    try:
        holder = parse_json(os.pread(descriptor, 65536, 0))
        return f"process {holder['pid']}, since {holder['since']}: {holder['command']}"
    except (ValueError, KeyError, TypeError):
        return "a process that has just begun"
