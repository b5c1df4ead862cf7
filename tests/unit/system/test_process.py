"""Other programs, run and stopped; Ctrl-C at any moment leaves none of them running."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from orchestrator.system.process import LOCAL, Command, Finished, Limits, kept_interrupts


def test_how_a_process_ended(tmp_path: Path) -> None:
    argv = ["sh", "-c", "pwd; echo no >&2; exit 3"]
    done = LOCAL.run(Command(argv, os.environ, tmp_path, 10))
    assert done == Finished(tuple(argv), 3, f"{tmp_path}\n".encode(), b"no\n")
    assert (done.out, done.err) == (f"{tmp_path}\n", "no\n")


def test_what_it_is_given(tmp_path: Path) -> None:
    given = Command(["sh", "-c", "cat; echo $A$HOME"], {"A": "a"}, tmp_path, input=b"in\r\n\xff ")
    assert LOCAL.run(given).out == "in\n\ufffd a\n"
    # nothing to read is an end, not a terminal
    assert LOCAL.run(Command(["cat"], None)).stdout == b""


def test_one_that_prints_without_end(tmp_path: Path) -> None:
    """Its stdout is thrown away, of its stderr the end is kept, up to what a file may have."""
    script = "while echo 123456789; do echo 123456789 >&2; done"
    limits = Limits(2**30, 4000)
    done = LOCAL.run(
        Command(["sh", "-c", script], os.environ, tmp_path, 20, limits=limits, tail=15)
    )
    assert done.code not in (0, None)
    assert (done.stdout, done.stderr) == (b"", b"6789\n123456789\n")


def test_what_a_limited_program_is_given(tmp_path: Path) -> None:
    """Its limits, and nothing else that it would not have without them."""
    for env in ({"A": "a"}, {"A": "a", "LC_CTYPE": "C.UTF-8"}):
        given = Command(["env"], env, tmp_path, 20, b"in", Limits(2**30, 2**20))
        assert sorted(LOCAL.run(given).out.splitlines()) == [f"{n}={v}" for n, v in env.items()]
    limits = "ulimit -v; ulimit -f; ulimit -c; ulimit -Hv"
    script = f"pwd; cat; grep SigIgn /proc/self/status; {limits}; ls /proc/self/fd"
    given = Command(["sh", "-c", script], {}, tmp_path, 20, b"in\n", Limits(2**30, 2**20))
    free = replace(given, limits=None)
    one, other = LOCAL.run(given).out.splitlines(), LOCAL.run(free).out.splitlines()
    assert one[3:7] == ["1048576", "2048", "0", "1048576"]
    assert one[:3] + one[7:] == other[:3] + other[7:]


def test_a_limited_program_takes_no_more_memory_than_it_may() -> None:
    argv = [sys.executable, "-c", "bytearray(2**31)"]
    assert "MemoryError" in LOCAL.run(Command(argv, None, limits=Limits(2**30, 2**20))).err
    assert LOCAL.run(Command(argv, None, limits=Limits(2**33, 2**20))).code == 0


def test_no_python_runs_in_a_child_that_is_to_be_limited() -> None:
    """Python itself calls these before it forks a child that would run some."""
    forks = list[int]()
    os.register_at_fork(before=lambda: forks.append(1))
    assert LOCAL.run(Command(["true"], None, limits=Limits(2**30, 2**20))).code == 0
    assert forks == []


@pytest.mark.parametrize("limits", [None, Limits(2**30, 2**20)], ids=["free", "limited"])
def test_a_program_that_cannot_start(limits: Limits | None, tmp_path: Path) -> None:
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(FileNotFoundError, match="no-such-program"):
        LOCAL.run(Command(["no-such-program"], os.environ, tmp_path, 10, limits=limits))
    (tmp_path / "locked").touch()
    with pytest.raises(PermissionError, match="locked"):
        LOCAL.run(Command([str(tmp_path / "locked")], None, timeout=10, limits=limits))
    assert signal.getsignal(signal.SIGINT) is before


def test_a_stream_comes_as_it_is_written() -> None:
    got = list[bytes]()
    assert LOCAL.stream(Command(["sh", "-c", "echo a; echo b >&2; exit 4"], None), got.append) == 4
    assert b"".join(got) == b"a\nb\n"


def test_a_stream_of_a_program_that_wants_a_terminal() -> None:
    got = list[bytes]()
    script = "test -t 1 && test -t 2 && stty size <&1; sleep 0.1; echo end"
    command = Command(["sh", "-c", script], {"PATH": os.environ["PATH"]}, terminal=True)
    assert LOCAL.stream(command, got.append) == 0
    assert b"".join(got) == b"0 0\r\nend\r\n"


def test_a_stream_that_is_given_up_ends_by_itself(tmp_path: Path) -> None:
    """It gets a SIGINT, and the time to clean up."""
    script = "trap 'echo > cleaned; exit 130' INT; echo $$; while :; do sleep 0.05; done"
    started = list[int]()

    def give_up(chunk: bytes) -> None:
        started.append(int(chunk))
        raise ValueError("enough")

    with pytest.raises(ValueError, match="enough"):
        LOCAL.stream(Command(["sh", "-c", script], os.environ, tmp_path), give_up)
    assert (tmp_path / "cleaned").is_file()
    assert _is_gone(started[0])


def test_one_that_takes_too_long_is_killed_with_its_children(tmp_path: Path) -> None:
    done = LOCAL.run(Command(["sh", "-c", "sleep 100 & echo $!; wait"], None, tmp_path, 0.5))
    assert done.code is None
    assert _is_gone(int(done.out))


def test_a_grandchild_in_a_session_of_its_own_holds_nobody_up(tmp_path: Path) -> None:
    """It is not killed with the others, and keeps the pipes open."""
    script = "setsid sleep 30 & echo $!; sleep 30"
    before = time.monotonic()
    done = LOCAL.run(Command(["sh", "-c", script], None, tmp_path, 0.5))
    os.kill(int(done.out), signal.SIGKILL)
    assert done.code is None
    assert time.monotonic() - before < 10


def test_ctrl_c_when_a_process_has_just_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is left to kill, and the signal is what is told."""

    def interrupted(process: subprocess.Popen[bytes], *_: object, **__: object) -> None:
        process.wait()
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(subprocess.Popen, "communicate", interrupted)
    with pytest.raises(KeyboardInterrupt):
        LOCAL.run(Command(["true"], None, timeout=10))


def _no_such_call(_: int) -> int:
    raise OSError(errno.ENOSYS, "Function not implemented")


@pytest.mark.parametrize("known", [True, False], ids=["linux", "others"])
def test_one_without_pipes_ends_or_takes_too_long(
    known: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not known:
        monkeypatch.setattr(os, "pidfd_open", _no_such_call)
    script = "echo no >&2; sleep 0.1; exit 3"
    done = LOCAL.run(Command(["sh", "-c", script], None, timeout=20, tail=5))
    assert (done.code, done.stderr) == (3, b"no\n")
    assert LOCAL.run(Command(["sleep", "100"], None, timeout=0.3, tail=5)).code is None


def test_the_end_of_one_without_pipes_is_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python looks for it between sleeps."""

    def sleep(_: float) -> None:
        raise AssertionError

    monkeypatch.setattr(time, "sleep", sleep)
    assert LOCAL.run(Command(["sh", "-c", "sleep 0.1"], None, timeout=20, tail=5)).code == 0


def test_ctrl_c_while_a_process_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The signal comes when the process runs and nobody knows its number yet."""
    started: list[int] = []

    class Interrupted(subprocess.Popen[bytes]):
        def __init__(self, *arguments: object, **named: object) -> None:
            super().__init__(*arguments, **named)  # type: ignore[call-overload]
            started.append(self.pid)
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr("orchestrator.system.process.subprocess.Popen", Interrupted)
    with pytest.raises(KeyboardInterrupt):
        LOCAL.run(Command(["sleep", "100"], os.environ, tmp_path, 200))
    assert _is_gone(started[0])
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_interrupts_are_kept_until_they_are_let_through() -> None:
    with kept_interrupts() as let_through:
        signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            let_through()
        # once
        let_through()


def test_an_ignored_interrupt_stays_ignored() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with kept_interrupts() as let_through:
            signal.raise_signal(signal.SIGINT)
            let_through()
    finally:
        signal.signal(signal.SIGINT, before)


def _is_gone(pid: int) -> bool:
    for _ in range(100):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except FileNotFoundError:
            return True
        if state == "Z":
            return True
        time.sleep(0.05)
    return False
