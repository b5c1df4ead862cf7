"""Verifying what was delivered: with how many threads."""

from __future__ import annotations

import os
from types import SimpleNamespace

import pytest

from orchestrator.build.verify import verified_threads
from orchestrator.values.config import CORES


@pytest.mark.parametrize(
    ("declared", "cores", "verified"),
    [
        (1, 4, 1),
        (3, 4, 3),
        (CORES, 4, 4),
        # more than this machine has, and a machine that has one: two show what several do
        (64, 4, 2),
        (1024, 1, 2),
        (CORES, 1, 2),
    ],
)
def test_the_threads_that_models_are_verified_with(
    declared: int, cores: int, verified: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(cores)))
    app = SimpleNamespace(threads=declared)
    assert verified_threads(app) == verified  # type: ignore[arg-type]
