"""The only module that starts processes: never interactive, never longer than their time limit.

Code that needs a program takes a `CommandRunner` and passes it a `Command`; `LOCAL` runs them on
this machine.  No other module starts a process (`tests/unit/repository/test_processes.py`).
"""

from __future__ import annotations

import errno
import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Protocol

# Seconds that the pipes of a killed process are read.
_GRACE = 1.0


class SourceUnavailableError(Exception):
    """A source is not available on this machine; the text says why, and the next one is tried."""


@dataclass(frozen=True)
class Limits:
    """Upper limits of a process, in bytes; it leaves no core file.

    memory  of its address space
    file    of each file that it writes, its stderr among them
    """

    memory: int
    file: int


@dataclass(frozen=True)
class Command:
    """A program to run, and everything that it gets.

    env      its whole environment; None: that of this process
    cwd      its working folder; None: that of this process
    timeout  seconds after which it is killed; None: it may take as long as it likes
    input    what it reads from stdin
    limits   for a program that is not trusted
    tail     of one that may print without end: its stdout is thrown away, and at most so many
             bytes of the end of its stderr are kept
    terminal for a program that tells more on a terminal: it is streamed through a pseudo terminal,
             which has no width; where the system has none to give, through a pipe
    """

    argv: Sequence[str]
    env: Mapping[str, str] | None
    cwd: Path | None = None
    timeout: float | None = None
    input: bytes = b""
    limits: Limits | None = None
    tail: int | None = None
    terminal: bool = False


@dataclass(frozen=True)
class Finished:
    """The result of a command; `code` is None if it was killed at its timeout."""

    argv: tuple[str, ...]
    code: int | None
    stdout: bytes = b""
    stderr: bytes = b""

    @property
    def out(self) -> str:
        """Text that the command wrote to stdout."""
        return _text(self.stdout)

    @property
    def err(self) -> str:
        """Text that the command wrote to stderr."""
        return _text(self.stderr)

    def reason(self) -> str:
        """One line that says why it failed: the first error that it wrote, else its last line."""
        lines = [line.strip() for line in (self.err or self.out).splitlines() if line.strip()]
        marked = [line for line in lines if line.startswith(("E:", "fatal:", "error:"))]
        said = marked[0] if marked else [*lines, "no output"][max(len(lines) - 1, 0)]
        return f"timed out ({said})" if self.code is None else said


def _text(output: bytes) -> str:
    return output.decode("utf-8", "replace").replace("\r\n", "\n")


class CommandRunner(Protocol):
    """Runs commands; passed in, so that a caller decides where they run, and whether."""

    def run(self, command: Command) -> Finished:
        """Run it to its end.

        It and all that it started are killed when its time is over, or on Ctrl-C. Raises
        `FileNotFoundError` where there is no such program, and other `OSError`s where it cannot be
        started.
        """
        ...

    # what a program said of itself is remembered for each runner
    def __hash__(self) -> int: ...

    def stream(self, command: Command, feed: Callable[[bytes], None]) -> int:
        """Run a program that ends by itself on SIGINT, and cleans up; its exit code.

        What it writes to stdout and stderr goes to `feed` as it comes. On Ctrl-C, or what `feed`
        raises, it gets a SIGINT and its end is waited for. `timeout`, `input`, `limits` and `tail`
        do not apply.
        """
        ...


@dataclass(frozen=True)
class LocalRunner:
    """Runs commands as processes of this machine."""

    def run(self, command: Command) -> Finished:
        """See `CommandRunner`."""
        argv = tuple(command.argv)
        # Between the start of a process and the first line that could kill it, a Ctrl-C would leave
        # it running: it is kept until then.
        with kept_interrupts() as let_through, ExitStack() as opened:
            stderr = None
            if command.tail is not None:
                # the fast path of a build, which imports this, needs no such file
                import tempfile

                stderr = opened.enter_context(tempfile.TemporaryFile())
            process = opened.enter_context(_start(command, stderr))
            try:
                let_through()
                _await_end(process, command.timeout)
                out, err = process.communicate(command.input or None, timeout=command.timeout)
                code: int | None = process.returncode
            except subprocess.TimeoutExpired:
                _kill(process)
                out, err = _rest(process)
                code = None
            except BaseException:
                _kill(process)
                raise
            if stderr is not None and command.tail is not None:
                stderr.seek(max(0, stderr.seek(0, os.SEEK_END) - command.tail))
                err = stderr.read()
            return Finished(argv, code, out or b"", err or b"")

    def stream(self, command: Command, feed: Callable[[bytes], None]) -> int:
        """See `CommandRunner`."""
        with kept_interrupts() as let_through, ExitStack() as opened:
            ours, theirs = _channel(command.terminal)
            opened.callback(os.close, ours)
            try:
                process = opened.enter_context(
                    subprocess.Popen(
                        command.argv,
                        env=_environment(command),
                        cwd=command.cwd,
                        stdout=theirs,
                        stderr=subprocess.STDOUT,
                    )
                )
            finally:
                os.close(theirs)
            try:
                let_through()
                while chunk := _read(ours):
                    feed(chunk)
                return process.wait()
            except BaseException:
                # A terminal's Ctrl-C reaches it too; a signal to this process alone does not.
                process.send_signal(signal.SIGINT)
                while _read(ours):
                    pass
                raise


LOCAL = LocalRunner()


def _start(command: Command, stderr: IO[bytes] | None) -> subprocess.Popen[bytes]:
    if command.limits is None:
        return _opened(command, command.argv, stderr)
    ours, theirs = os.pipe()
    with os.fdopen(ours, "rb") as report:
        try:
            argv = _limited(command, command.limits, theirs)
            process = _opened(command, argv, stderr, theirs)
        finally:
            os.close(theirs)
        # ends when the program has started
        error = report.read()
    if error:
        with process:
            process.wait()
        raise OSError(int(error), os.strerror(int(error)), command.argv[0])
    return process


def _opened(
    command: Command, argv: Sequence[str], stderr: IO[bytes] | None, *passed: int
) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        argv,
        env=_environment(command),
        cwd=command.cwd,
        stdin=subprocess.PIPE if command.input else subprocess.DEVNULL,
        stdout=subprocess.PIPE if stderr is None else subprocess.DEVNULL,
        stderr=subprocess.PIPE if stderr is None else stderr,
        start_new_session=True,
        pass_fds=passed,
    )


def _limited(command: Command, limits: Limits, report: int) -> Sequence[str]:
    """Return the argv of a program that sets the limits and then executes the command."""
    locale = "LC_CTYPE" in (os.environ if command.env is None else command.env)
    numbers = (limits.memory, limits.file, report, int(locale))
    python = (sys.executable, "-I", "-S", str(Path(__file__).with_name("limited.py")))
    return (*python, *map(str, numbers), *command.argv)


def _await_end(process: subprocess.Popen[bytes], timeout: float | None) -> None:
    """Wait for the end of a process, at most until its timeout (seconds); not for one with pipes,
    which must be read meanwhile.

    Python looks for it in ever longer intervals, of up to 50 ms, where there is a timeout. Linux
    tells it at once (pidfd_open(2)); a kernel or sandbox that has no such call is left to Python.
    """
    if process.stdin or process.stdout or timeout is None or sys.platform != "linux":
        return
    try:
        descriptor = os.pidfd_open(process.pid)
    except OSError:
        return
    try:
        ended = select.poll()
        ended.register(descriptor, select.POLLIN)
        if not ended.poll(timeout * 1000):
            raise subprocess.TimeoutExpired(process.args, timeout)
    finally:
        os.close(descriptor)


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a process and what it started; nothing where all of it has ended meanwhile."""
    # macOS refuses what is dead and not yet waited for
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def _rest(process: subprocess.Popen[bytes]) -> tuple[bytes, bytes]:
    """Read the output of a killed process; a child that left its process group may hold the pipes
    open."""
    try:
        return process.communicate(timeout=_GRACE)
    except subprocess.TimeoutExpired as error:
        return error.output or b"", error.stderr or b""


def _channel(terminal: bool) -> tuple[int, int]:
    """The two ends of what a program writes: ours to read, and its own."""
    if terminal:
        try:
            return os.openpty()
        except OSError:
            pass
    return os.pipe()


def _read(channel: int) -> bytes:
    """Read the next bytes; none at the end, which Linux reports as EIO for a terminal."""
    try:
        return os.read(channel, 65536)
    except OSError as error:
        if error.errno != errno.EIO:
            raise
        return b""


def _environment(command: Command) -> dict[str, str] | None:
    return None if command.env is None else dict(command.env)


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
