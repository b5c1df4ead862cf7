"""Ctrl-C while modules are imported ends the process without a word."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

IMPORTING = """\
import signal
from orchestrator.system.interrupts import ends_the_process
{before}
with ends_the_process():
    {inside}
signal.raise_signal(signal.SIGINT)
print("went on")
"""
RAISED = "signal.raise_signal(signal.SIGINT)"


@pytest.mark.parametrize(
    ("before", "inside", "code", "out", "err"),
    [
        ("", RAISED, -signal.SIGINT, "", ""),
        ("", "pass", -signal.SIGINT, "", "KeyboardInterrupt"),
        ("signal.signal(signal.SIGINT, signal.SIG_IGN)", RAISED, 0, "went on", ""),
    ],
    ids=["inside", "after", "ignored"],
)
def test_interrupts(before: str, inside: str, code: int, out: str, err: str) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", IMPORTING.format(before=before, inside=inside)],
        capture_output=True,
        text=True,
    )
    assert (ran.returncode, ran.stdout.strip()) == (code, out)
    assert (ran.stderr.strip().splitlines() or [""])[-1] == err
