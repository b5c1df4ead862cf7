"""Shards and bases in a workspace: linked to from there while they are used, and let go later.

Who holds the workspace's lock chooses and makes a shard; a model's process opens it without that
lock, since models may run for long. What is held meanwhile no other process lets go that makes
shards of its own. The kernel drops the lock when the process ends, however it ends.
"""

from __future__ import annotations

import shutil
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final

from orchestrator.plan.development import NAME
from orchestrator.system.locks import file_lock

# How many shards a workspace links, those that were used last.
_MOST: Final = 16
# And how many bases: each runtime has one, and another with each toolchain and release of ours.
_MOST_BASES: Final = 4


class _InUse(Exception):
    """Another process holds the shard or the base."""


def in_use(shard: Path) -> AbstractContextManager[int]:
    """Keep a shard, or a base, where it is. Begun by who holds the workspace's lock, and may
    outlast that."""
    return file_lock(shard, lambda _: None, before=lambda: None, shared=True, create=False)


def forget_old(folder: Path) -> None:
    """Remove a workspace's shards but for those that were used last or are in use: the cache has
    them still, and prunes none that a workspace links. The caller holds the workspace's lock."""
    used = sorted(folder.glob(f"lib{NAME}_*.so"), key=lambda path: path.stat().st_mtime)
    for path in used[:-_MOST]:
        try:
            with file_lock(path, _raise, before=lambda: None, create=False):
                path.unlink(missing_ok=True)
        except (_InUse, FileNotFoundError):
            continue


def forget_old_bases(folder: Path) -> None:
    """The same of bases: `<build id>/` in a workspace's folder, each with a library and a
    program."""
    found = [path for path in folder.glob(f"*/lib{NAME}_torch.so") if path.is_file()]
    for library in sorted(found, key=lambda path: path.stat().st_mtime)[:-_MOST_BASES]:
        try:
            with file_lock(library, _raise, before=lambda: None, create=False):
                shutil.rmtree(library.parent, ignore_errors=True)
        except (_InUse, FileNotFoundError):
            continue


def _raise(_descriptor: int) -> None:
    raise _InUse
