"""Other programs, run and stopped; Ctrl-C at any moment leaves none of them running."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from orchestrator.system.process import Finished, kept_interrupts, run


def test_how_a_process_ended(tmp_path: Path) -> None:
    done = run(["sh", "-c", "pwd; echo no >&2; exit 3"], os.environ, tmp_path, 10)
    assert done == Finished(3, f"{tmp_path}\n", "no\n")


def test_a_program_that_is_not_there(tmp_path: Path) -> None:
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(FileNotFoundError):
        run(["no-such-program"], os.environ, tmp_path, 10)
    assert signal.getsignal(signal.SIGINT) is before


def test_one_that_takes_too_long_is_killed_with_its_children(tmp_path: Path) -> None:
    done = run(["sh", "-c", "sleep 100 & echo $!; wait"], os.environ, tmp_path, 0.5)
    assert done.code is None
    assert _is_gone(int(done.out))


def test_ctrl_c_while_a_process_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The signal comes when the process runs and nobody knows its number yet."""
    started: list[int] = []

    class Interrupted(subprocess.Popen[str]):
        def __init__(self, *arguments: object, **named: object) -> None:
            super().__init__(*arguments, **named)  # type: ignore[call-overload]
            started.append(self.pid)
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr("orchestrator.system.process.subprocess.Popen", Interrupted)
    with pytest.raises(KeyboardInterrupt):
        run(["sleep", "100"], os.environ, tmp_path, 200)
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
