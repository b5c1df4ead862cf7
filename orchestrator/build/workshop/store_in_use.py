"""Keeps the store below the size that WORKSPACE gives it, after commands that added to it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from orchestrator.build.workshop.invocation import Invocation
from orchestrator.cache.pruning import Removed, prune_texts, shrink
from orchestrator.report.table import human_bytes
from orchestrator.system.locks import LocksUnsupportedError
from orchestrator.system.workspace_lock import (
    CacheInUseError,
    WorkspaceLockedError,
    cache_alone,
    cache_in_use,
    workspace_lock,
)

# File systems stamp files with a clock that goes in steps.
_CLOCK_STEP: Final = 1.0


@contextmanager
def store_in_use(here: Invocation) -> Iterator[None]:
    """Keep `clean --cache` off the cache folder, see `cache_in_use`; at the end, if the invocation
    added to the store, remove its least recently used entries above `cache_size`.

    Of a workspace that another process uses by then, what it links stays. The caller does not hold
    the workspace's lock.
    """
    began = time.time() - _CLOCK_STEP
    with cache_in_use(here.context.cache, here.log):
        try:
            yield
        finally:
            for store in sorted(here.store.added):
                _shrink(here, store, began)
    _shrink_texts(here)


def _shrink(here: Invocation, store: Path, since: float) -> None:
    most, state = here.workspace.config.cache_size, here.context.state
    try:
        with workspace_lock(state, False, here.log):
            removed = shrink(store, most, since=since, state=state)
    except (WorkspaceLockedError, LocksUnsupportedError):
        removed = shrink(store, most, since=since, state=None)
    if removed.entries:
        here.log(_told(removed, most))


def _shrink_texts(here: Invocation) -> None:
    """Remove old texts from the cache if the invocation added to it and no other process uses it. A
    store of the workspace's own has no texts."""
    cache = here.context.cache
    if cache in here.store.added:
        with suppress(CacheInUseError, LocksUnsupportedError), cache_alone(cache):
            prune_texts(cache, here.workspace.config.cache_size)


def _told(removed: Removed, most: int) -> str:
    what = "entry" if removed.entries == 1 else f"{removed.entries:,} entries"
    return (
        f"the cache was above {human_bytes(most)} (`cache_size` in WORKSPACE): removed the least"
        f" recently used {what}, {human_bytes(removed.bytes)}"
    )
