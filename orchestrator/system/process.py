"""Runs the machine's own clients (git, apt): never interactive, never beyond their time limit."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path


class SourceUnavailableError(Exception):
    """A source is not available on this machine; the text says why, and the next one is tried."""


@dataclass(frozen=True)
class Finished:
    """How a process ended; `code` is None where it was stopped at its time limit."""

    code: int | None
    out: str
    err: str

    def reason(self) -> str:
        """One line that says why it failed: the first error that it wrote, else its last line."""
        lines = [line.strip() for line in (self.err or self.out).splitlines() if line.strip()]
        marked = [line for line in lines if line.startswith(("E:", "fatal:", "error:"))]
        said = marked[0] if marked else [*lines, "no output"][max(len(lines) - 1, 0)]
        return f"timed out ({said})" if self.code is None else said


def run(argv: Sequence[str], env: Mapping[str, str], cwd: Path, timeout: float) -> Finished:
    """Run `argv` for at most `timeout` seconds, with nothing to read from.

    It and all that it started are killed when the time is over, or on Ctrl-C. Raises
    `FileNotFoundError` where there is no such program.
    """
    # Between the start of a process and the first line that could kill it, a Ctrl-C would leave it
    # running: it is kept until then.
    with (
        kept_interrupts() as let_through,
        subprocess.Popen(
            argv,
            env=dict(env),
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,
        ) as process,
    ):
        try:
            let_through()
            out, err = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            out, err = process.communicate()
            return Finished(None, out, err)
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
        return Finished(process.returncode, out, err)


@contextmanager
def kept_interrupts() -> Iterator[Callable[[], None]]:
    """Holds SIGINT back until what it gives is called, or to the end; in the main thread alone."""
    handler = signal.getsignal(signal.SIGINT)
    main = threading.current_thread() is threading.main_thread()
    if not main or handler is None or handler == signal.SIG_IGN:
        yield lambda: None
        return
    arrived: list[int] = []
    signal.signal(signal.SIGINT, lambda number, frame: arrived.append(number))

    def let_through() -> None:
        signal.signal(signal.SIGINT, handler)
        if arrived:
            arrived.clear()
            signal.raise_signal(signal.SIGINT)

    try:
        yield let_through
    finally:
        let_through()
