"""Ctrl-C where Python does not raise a plain `KeyboardInterrupt`."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager


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


def is_interrupt(error: BaseException | None) -> bool:
    """Whether it comes from Ctrl-C.

    Python 3.11's `type.__new__` makes a RuntimeError of whatever `__set_name__` raises (gone in
    3.12): an import in the middle of a command can end so.
    """
    while error is not None:
        if isinstance(error, KeyboardInterrupt):
            return True
        error = error.__cause__
    return False
