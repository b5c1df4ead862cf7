"""What the benchmark of `./check` reads and writes; nothing is checked here."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.checking import CHECKS, check, passed_tests, render
from benchmarks.processes import CommandFailedError

SAID = """\
Success: no issues found in 600 source files
============ 3 skipped, 2700 passed, 4 deselected in 600.1s (0:10:00) ============
the other run:
======================= 2747 passed in 598.3s (0:09:58) ========================
"""


def clone(at: Path, script: str) -> Path:
    at.mkdir()
    (at / "check").write_text(f"#!/bin/sh\n{script}\n")
    (at / "check").chmod(0o755)
    return at


def test_both_runs_count() -> None:
    assert passed_tests(SAID) == 5447
    assert passed_tests("no tests ran in 0.1s") == 0


def test_it_runs_with_the_cache_and_without_what_leads_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ORCHESTRATOR_CACHE", "elsewhere")
    monkeypatch.setenv("PYTEST_ADDOPTS", "-k nothing")
    says = 'echo "$XDG_CACHE_HOME|$ORCHESTRATOR_CACHE|$PYTEST_ADDOPTS" > seen; echo "7 passed"'
    folder = clone(tmp_path / "a clone", says)
    done = check("again", folder, tmp_path / "cache")
    assert (folder / "seen").read_text() == f"{tmp_path}/cache||\n"
    assert (done.what, done.passed) == ("again", 7)


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("echo 7 passed; echo '1 failed: x'; exit 3", "./check failed, again"),
        ("echo no tests ran", "./check ran no test, again"),
    ],
)
def test_what_is_no_measurement_ends_it(tmp_path: Path, script: str, message: str) -> None:
    with pytest.raises(CommandFailedError, match=message) as raised:
        check("again", clone(tmp_path / "a clone", script), tmp_path)
    assert raised.value.details


def test_the_page() -> None:
    cold, warm = CHECKS
    checks = [
        {"what": cold, "wall_seconds": 2605.4, "user_seconds": 5075.2, "passed": 5447},
        {"what": warm, "wall_seconds": 481.0, "user_seconds": 900.0, "passed": 5450},
    ]
    assert (
        render({"checks": checks, "machine": {"cores": "2"}})
        == """\
# `./check`

Written by `python -m benchmarks.checking`.

| check | target | measured | user CPU s | tests | met |
|---|---|---|---:|---:|---|
| with empty caches, in a new clone | at most 60 min | 43 min 25 s | 5,075 | 5,447 passed | yes |
| again, in the same clone | at most 8 min | 8 min 1 s | 900 | 5,450 passed | **no** |

- cores: 2
"""
    )
