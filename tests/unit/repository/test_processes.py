"""Which module starts processes: `system/process.py` alone, for all others."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[3] / "orchestrator"
RUNNER = "system/process.py"
# Programs of their own, which a process of ours starts: nothing is passed in to them.
PROGRAMS = {"compilers/relink.py", "system/limited.py"}
_MODULES = {"subprocess", "pty", "multiprocessing"}
_OF_OS = ("exec", "spawn", "posix_spawn", "fork", "popen", "system")


def starts(text: str) -> Iterator[str]:
    """What a module's text could start a process with."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (a.name for a in node.names if a.name.partition(".")[0] in _MODULES)
        elif isinstance(node, ast.ImportFrom):
            if (node.module or "").partition(".")[0] in _MODULES:
                yield node.module or ""
            elif node.module == "os":
                yield from (f"os.{a.name}" for a in node.names if a.name.startswith(_OF_OS))
        elif (
            isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Name)
            and node.value.id in ("os", "asyncio")
            and node.attr.startswith((*_OF_OS, "create_subprocess"))
        ):
            yield f"{node.value.id}.{node.attr}"


def test_nothing_runs_between_fork_and_exec() -> None:
    """Beside threads, Python in a forked child can wait for ever for what another thread held."""
    texts = [path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py")]
    assert not [text for text in texts if "preexec_fn" in text]


def test_one_module_starts_processes() -> None:
    found = {
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*.py")
        if [*starts(path.read_text(encoding="utf-8"))]
    }
    assert found == {RUNNER, *PROGRAMS}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("import os, subprocess as s", ["subprocess"]),
        ("def f():\n    from subprocess import run", ["subprocess"]),
        ("import os\nos.execve(a, b, c)", ["os.execve"]),
        ("from os import path, system", ["os.system"]),
        ("import asyncio\nasyncio.create_subprocess_exec(a)", ["asyncio.create_subprocess_exec"]),
        ("import os\nos.environ; os.path.join(a, b)", []),
    ],
)
def test_the_rule_itself(text: str, expected: list[str]) -> None:
    assert [*starts(text)] == expected
