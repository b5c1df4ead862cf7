"""A command that prints nothing for a while says that it is still running."""

from __future__ import annotations

import io
import re
import sys
import time

import pytest

from orchestrator.system.heartbeat import heartbeat


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def silent(monkeypatch: pytest.MonkeyPatch, stream: io.StringIO, quiet: bool = False) -> str:
    monkeypatch.setattr(sys, "stderr", stream)
    with heartbeat(quiet, silence=0.05):
        time.sleep(0.3)
    assert sys.stderr is stream
    return stream.getvalue()


def test_silence_is_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    assert re.fullmatch(r"(still running after 0 s\n){2,6}", silent(monkeypatch, io.StringIO()))


def test_what_is_printed_is_passed_on_and_no_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    with heartbeat(quiet=False, silence=0.5):
        for _ in range(40):
            print("a line", file=sys.stderr)
            time.sleep(0.02)
    assert stream.getvalue() == "a line\n" * 40


def test_a_terminal_and_quiet_get_no_line(monkeypatch: pytest.MonkeyPatch) -> None:
    assert silent(monkeypatch, Terminal()) == ""
    assert silent(monkeypatch, io.StringIO(), quiet=True) == ""


def test_it_ends_with_what_it_is_around(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    with pytest.raises(KeyboardInterrupt), heartbeat(quiet=False, silence=0.05):
        raise KeyboardInterrupt
    time.sleep(0.2)
    assert (sys.stderr, stream.getvalue()) == (stream, "")
