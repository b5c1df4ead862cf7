"""Python's collector of reference cycles."""

from __future__ import annotations

import atexit
import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collector_paused() -> Iterator[None]:
    """Leave cycles until the end, for code that makes many objects which stay and few cycles.

    Each pass of the collector looks at all that is there: a fifth of the time in which 1,000 apps
    are planned, and it frees nothing that counts. So neither the end of the pause nor that of the
    process has a pass over what was made meanwhile.
    """
    paused = gc.isenabled()
    gc.disable()
    atexit.register(_leave)
    try:
        yield
    finally:
        if paused:
            # moves all that there is to the oldest generation, as a pass would
            gc.freeze()
            gc.unfreeze()
            gc.enable()


def _leave() -> None:
    """At the end of the process. LIEF's bindings are for the collector to find: they print what it
    leaves as leaks."""
    if "lief" not in sys.modules:
        gc.freeze()
