"""The collector of reference cycles is paused for what asks for it, and as it was after it."""

from __future__ import annotations

import gc

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
