"""Models traced again and again, on an idle machine and on a busy one: one lock comes of it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from harness import Campaign
from real import orchestrator, workspace_copy

pytestmark = pytest.mark.real

BUSY = 4


@contextmanager
def a_busy_machine() -> Iterator[None]:
    """Processes that take all processor time that they can get."""
    hogs = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(BUSY)]
    try:
        yield
    finally:
        for hog in hogs:
            hog.kill()
        for hog in hogs:
            hog.wait()


def traced(root: Path) -> tuple[dict[str, bytes], str]:
    """All files of all traces, and what was printed."""
    ran = orchestrator("trace", "//...", "--quiet", cwd=root)
    assert ran.code == 0, ran.err
    files = sorted(root.glob("apps/*/traces/*"))
    return {path.name: path.read_bytes() for path in files}, ran.out


def test_a_model_traced_again_gives_the_same_lock(tmp_path: Path, campaign: Campaign) -> None:
    """`reader` has two models, and takes the branches that its numbers tell it to."""
    root = workspace_copy(tmp_path, "camera", "reader")
    # nothing is to come from a lock that is there
    for path in root.glob("apps/*/traces/*"):
        path.unlink()
    first, said = traced(root)
    assert len(first) == 6
    for number, _ in campaign.tries(short=2, long=19):
        if number % 2:
            again, said = traced(root)
        else:
            with a_busy_machine():
                again, said = traced(root)
        changed = [name for name in first if again.get(name) != first[name]]
        assert (number, changed) == (number, [])
        assert "changed in the lock" not in said
