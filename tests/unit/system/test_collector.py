"""The collector of reference cycles is paused for what asks for it, and as it was after it."""

from __future__ import annotations

import gc
import subprocess
import sys

import pytest

from orchestrator.system.collector import collector_paused


@collector_paused()
def fail() -> None:
    assert not gc.isenabled()
    with collector_paused():
        pass
    assert not gc.isenabled()
    raise ZeroDivisionError


def test_it_goes_on_afterwards_also_after_an_error() -> None:
    with pytest.raises(ZeroDivisionError):
        fail()
    assert gc.isenabled()


def test_its_end_has_no_pass_over_what_was_made_meanwhile() -> None:
    passes = list[str]()

    def note(phase: str, _: object) -> None:
        passes.append(phase)

    gc.collect()
    gc.callbacks.append(note)
    try:
        with collector_paused():
            kept = [[n] for n in range(10_000)]
        kept += [[n] for n in range(100)]
    finally:
        gc.callbacks.remove(note)
    assert passes == []
    assert len(kept) == 10_100


AT_THE_END = """
from orchestrator.system.collector import collector_paused

class Cycle:
    def __init__(self):
        self.itself = self

    def __del__(self):
        print("freed")

with collector_paused():
    Cycle()
print("made")
"""


def test_nor_has_that_of_the_process() -> None:
    ran = subprocess.run([sys.executable, "-c", AT_THE_END], capture_output=True, check=True)
    assert ran.stdout.decode().split() == ["made"]


def test_the_end_of_a_process_with_lief_tells_of_no_leaks() -> None:
    script = "import lief\nfrom orchestrator.system.collector import collector_paused\n"
    script += "with collector_paused():\n    pass\n"
    ran = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")
