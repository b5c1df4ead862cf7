"""A line on stderr when a command has printed nothing for half a minute, where no terminal is: CI
systems kill jobs that stay silent for minutes, and people think that they hang.

While ninja runs, `report/progress_view.py` says more, and earlier.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from threading import Event, Thread
from typing import Any, Final, TextIO, cast

# How long a command may print nothing.
BEAT_SECONDS: Final = 30.0
# A second more: the line of a progress view comes first, and this one is not needed.
_SILENCE_SECONDS: Final = BEAT_SECONDS + 1


@contextmanager
def heartbeat(quiet: bool, silence: float = _SILENCE_SECONDS) -> Iterator[None]:
    """Meanwhile a line follows each `silence` (seconds) of stderr, unless that is a terminal, or
    nothing but results is to be printed."""
    if quiet or sys.stderr.isatty():
        yield
        return
    heard, over = _Heard(sys.stderr), Event()
    started = heard.last

    def beats() -> None:
        while not over.wait(max(0.0, heard.last + silence - time.monotonic())):
            if time.monotonic() >= heard.last + silence:
                passed = round(time.monotonic() - started)
                print(f"still running after {passed} s", file=cast(TextIO, heard), flush=True)

    beating = Thread(target=beats, daemon=True)
    beating.start()
    try:
        with redirect_stderr(cast(TextIO, heard)):
            yield
    finally:
        over.set()
        beating.join()


class _Heard:
    """A stream, and when something was last written to it (`time.monotonic`)."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.last = time.monotonic()

    def write(self, text: str) -> int:
        self.last = time.monotonic()
        return self._stream.write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
