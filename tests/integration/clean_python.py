"""Python environments with nothing but what they are given: in them, wheels of ours are used."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

# The only package that a wheel of ours needs.
NUMPY = "numpy==2.4.6"


def run(*command: str | Path, cwd: Path | None = None) -> str:
    """What a command prints; it must succeed."""
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        list(map(str, command)), cwd=cwd, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def environment(folder: Path, wanted: Sequence[str | Path]) -> Path:
    """The Python of a new environment with these packages."""
    run(sys.executable, "-m", "venv", folder)
    python = folder / "bin/python"
    quietly = ("--quiet", "--disable-pip-version-check")
    run(python, "-m", "pip", "install", *quietly, "--only-binary", ":all:", *wanted)
    return python
