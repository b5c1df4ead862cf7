"""Ctrl-C where Python does not raise a plain `KeyboardInterrupt`."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def ends_the_process() -> Iterator[None]:
    """Inside, Ctrl-C ends the process as it ends a C program: imports would print a traceback."""
    handler = signal.getsignal(signal.SIGINT)
    # ignored where a shell started us with `&`: that stays
    if handler is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        yield
    finally:
        if handler is signal.default_int_handler:
            signal.signal(signal.SIGINT, handler)


@contextmanager
def noted_interrupts() -> Iterator[Callable[[], bool]]:
    """Inside, Ctrl-C raises as always; what it gives tells whether one has come.

    A library can turn the KeyboardInterrupt that is raised in the middle of it into something else:
    Python 3.11's `type.__new__` makes a RuntimeError of it, pydantic says that a text is not of the
    right pattern.
    """
    handler = signal.getsignal(signal.SIGINT)
    main = threading.current_thread() is threading.main_thread()
    # an ignored signal stays ignored, and a caller's own handler is its own matter
    if not main or handler is not signal.default_int_handler:
        yield lambda: False
        return
    came = threading.Event()

    def note(number: int, frame: FrameType | None) -> None:
        came.set()
        signal.default_int_handler(number, frame)

    signal.signal(signal.SIGINT, note)
    try:
        yield came.is_set
    finally:
        signal.signal(signal.SIGINT, handler)
