"""The workspace's lock, between real processes."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from orchestrator.system.workspace_lock import WorkspaceLockedError, workspace_lock

# Holds the lock, says so, and goes on when it is told to.
HOLDER = """
import sys
from pathlib import Path
from orchestrator.system.workspace_lock import workspace_lock
def told(text):
    print(text, flush=True)
with workspace_lock(Path(sys.argv[1]), True, told, command="build //apps/camera"):
    print("held", flush=True)
    sys.stdin.readline()
"""


def _hold(state: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(state)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def _line(process: subprocess.Popen[str]) -> str:
    assert process.stdout
    return process.stdout.readline().rstrip()


def _never(text: str) -> None:
    raise AssertionError(text)


def test_a_lock_is_free_again_after_use(tmp_path: Path) -> None:
    state = tmp_path / "state"
    for _ in range(2):
        with workspace_lock(state, wait=False, on_wait=_never):
            pass


def test_a_lock_is_free_again_after_a_failure(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), workspace_lock(tmp_path, False, _never):
        raise ZeroDivisionError
    with workspace_lock(tmp_path, wait=False, on_wait=_never):
        pass


def test_the_second_is_told_who_has_it(tmp_path: Path) -> None:
    with _hold(tmp_path) as first:
        assert _line(first) == "held"
        with (
            pytest.raises(WorkspaceLockedError) as caught,
            workspace_lock(tmp_path, wait=False, on_wait=_never),
        ):
            pass
        first.communicate("\n")
    assert re.fullmatch(
        "error: another process is using this workspace\n"
        rf"  seen:     process {first.pid}, since \d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d[+-]\d\d:\d\d:"
        " build //apps/camera\n"
        "  do:       wait for it to end, or stop it",
        caught.value.render(),
    )


def test_the_second_waits_and_then_goes_on(tmp_path: Path) -> None:
    with workspace_lock(tmp_path, False, _never, command="build //..."):
        second = _hold(tmp_path)
        waiting = _line(second)
    assert waiting.startswith(f"waiting for process {os.getpid()}, since ")
    assert waiting.endswith(": build //...")
    assert _line(second) == "held"
    second.communicate("\n")
    assert second.returncode == 0


def test_a_lock_vanishes_with_its_process(tmp_path: Path) -> None:
    with _hold(tmp_path) as first:
        assert _line(first) == "held"
        first.send_signal(signal.SIGKILL)
        first.wait()
    with workspace_lock(tmp_path, wait=False, on_wait=_never):
        pass


def test_a_lock_whose_file_was_removed_guards_nothing(tmp_path: Path) -> None:
    """The waiter must end up with the lock of the file that the path now names."""
    with workspace_lock(tmp_path, False, _never):
        second = _hold(tmp_path)
        assert _line(second).startswith("waiting for process ")
        (tmp_path / "lock").unlink()
    assert _line(second) == "held"
    with pytest.raises(WorkspaceLockedError), workspace_lock(tmp_path, False, _never):
        pass
    second.communicate("\n")


def test_a_holder_that_has_not_written_yet(tmp_path: Path) -> None:
    with workspace_lock(tmp_path, False, _never):
        (tmp_path / "lock").write_text("")
        with pytest.raises(WorkspaceLockedError) as caught, workspace_lock(tmp_path, False, _never):
            pass
    assert caught.value.seen == "a process that has just begun"


def test_children_do_not_keep_the_lock(tmp_path: Path) -> None:
    with workspace_lock(tmp_path, False, _never):
        child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    with workspace_lock(tmp_path, False, _never):
        pass
    child.communicate(b"\n")
