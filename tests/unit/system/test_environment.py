"""Which variables of the environment somebody asked for."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

from orchestrator.system.environment import Environment


def test_what_is_looked_up_is_noted_set_or_not() -> None:
    env = Environment({"A": "1", "B": "2", "C": "3", "D": "4"})
    assert env.get("A") == "1"
    assert env["B"] == "2"
    assert "C" in env
    assert env.get("E") is None
    assert env.get("F", "x") == "x"
    assert env.looked_up == {"A", "B", "C", "E", "F"}


def test_a_copy_is_no_look_up() -> None:
    env = Environment({"A": "1"})
    assert {**env, "B": "2"} == {"A": "1", "B": "2"}
    assert dict(env) == {"A": "1"}
    assert list(env.items()) == [("A", "1")]
    assert env.looked_up == set()


def test_processes_take_it() -> None:
    env = Environment({**os.environ, "LTA_A": "1"})
    code = "import os; print(os.environ['LTA_A'])"
    done = subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True
    )
    assert done.stdout == "1\n"
    assert env.looked_up <= {"PATH"}
    assert shutil.which("sh", path=env.get("PATH"))
    assert env.looked_up == {"PATH"}
