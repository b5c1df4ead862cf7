"""A limit of processor time for what may take hours: sizes that grow into pages of arithmetic."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from orchestrator.export.refusal import Refused


class _OutOfTime(BaseException):
    """No Exception: torch catches those."""


@contextmanager
def patience(seconds: int, what: str) -> Iterator[None]:
    """Raises Refused of the kind `export` where the block takes more processor time."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, frame: FrameType | None) -> None:
        raise _OutOfTime

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    except _OutOfTime:
        raise Refused("export", f"{what} takes over {seconds} s of processor time") from None
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
