"""The Python that has torch: found in an order, and refused in words. Each is a script here."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrator.canonical import python as finding
from orchestrator.canonical.python import (
    VARIABLE,
    ExportPython,
    ExportPythonError,
    TorchMissingError,
    TorchTooOldError,
    find_python,
)
from orchestrator.errors import OrchestratorError
from orchestrator.system.process import LOCAL, Command

Make = Callable[[str, str], str]
DO = (
    "  do:       make an environment with it (python3 -m venv DIR; DIR/bin/pip install"
    " torch==2.13.0), and name DIR/bin/python by --python or $ORCHESTRATOR_EXPORT_PYTHON; or"
    " install the extra `export` of this package"
)


@pytest.fixture
def make(tmp_path: Path) -> Make:
    def script(name: str, body: str) -> str:
        path = tmp_path / name
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(0o755)
        return str(path)

    return script


def test_the_order(make: Make) -> None:
    asked, named = make("asked", "echo torch 2.13.0+cpu"), make("named", "echo torch 2.14.1")
    env = {VARIABLE: named}
    assert find_python(asked, env, LOCAL) == ExportPython(asked, "2.13.0+cpu")
    assert find_python(None, env, LOCAL) == ExportPython(named, "2.14.1")


def failure(program: str | None, kind: type[OrchestratorError], **env: str) -> str:
    with pytest.raises(kind) as caught:
        find_python(program, env, LOCAL)
    return caught.value.render()


def test_none(make: Make) -> None:
    program = make("python", "echo none")
    assert failure(program, TorchMissingError) == (
        "error: canonical models and exports need torch, and this Python has none\n"
        "  expected: torch 2.13.0\n"
        f"  seen:     {program} (--python)\n"
        f"{DO}"
    )
    named = failure(None, TorchMissingError, **{VARIABLE: program})
    assert f"seen:     {program} ($ORCHESTRATOR_EXPORT_PYTHON)" in named
    with pytest.raises(TorchMissingError) as caught:
        find_python(None, {VARIABLE: program}, LOCAL, option="")
    assert "name DIR/bin/python by $ORCHESTRATOR_EXPORT_PYTHON; or" in str(caught.value.hint)


def test_a_real_python_without_torch() -> None:
    assert finding._ASK.count("torch") == 2
    done = LOCAL.run(Command([sys.executable, "-I", "-S", "-c", finding._ASK], None, timeout=60))
    assert done.out == "none\n"


@pytest.mark.parametrize("version", ["1.13.1", "2.6.0+cpu", "2.12.9"])
def test_too_old(make: Make, version: str) -> None:
    program = make("python", f"echo torch {version}")
    text = failure(program, TorchTooOldError)
    assert "expected: torch 2.13 or newer\n" in text
    assert f"seen:     torch {version} of {program} (--python)\n" in text


@pytest.mark.parametrize(
    ("body", "seen"),
    [
        ("echo no such module >&2; exit 1", "no such module"),
        ("echo Python 2", "Python 2"),
        ("exit 0", "no output"),
    ],
)
def test_it_does_not_run(make: Make, body: str, seen: str) -> None:
    text = failure(make("python", body), ExportPythonError)
    assert f"seen:     {seen}\n" in text


def test_there_is_no_such_program() -> None:
    text = failure("/nowhere/python", ExportPythonError)
    assert "does not run: /nowhere/python (--python)\n" in text
    assert "seen:     No such file or directory\n" in text
