"""The peers' Python: a virtual environment with requirements/peers.in and nothing else."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from benchmarks.processes import run

# What ExecuTorch's wheel depends on, and nobody publishes a wheel of: plain Python.
_WITHOUT_WHEELS: Final = ("antlr4-python3-runtime",)


def pins(text: str) -> tuple[str, ...]:
    """The requirements in the text of a requirements file, without comments."""
    lines = (line.partition("#")[0].strip() for line in text.splitlines())
    return tuple(line for line in lines if line)


def peers_python(root: Path, folder: Path) -> Path:
    """Its interpreter, set up where it is not there yet. Raises CommandFailedError.

    Where the whole list does not install, each pin is tried by itself: a runtime that is missing
    is one that is not measured.
    """
    python = folder / "venv" / "bin" / "python"
    done = folder / "venv" / "installed"
    wanted = (root / "requirements" / "peers.in").read_text(encoding="utf-8")
    if done.is_file() and done.read_text(encoding="utf-8") == wanted:
        return python
    command = [sys.executable, "-m", "venv", "--clear", str(folder / "venv")]
    run(command, env=os.environ).require("making the peers' virtual environment")
    if not _installs(python, pins(wanted)):
        for pin in pins(wanted):
            _installs(python, (pin,))
    done.write_text(wanted, encoding="utf-8")
    return python


def _installs(python: Path, wanted: Sequence[str]) -> bool:
    command = [str(python), "-m", "pip", "install", "--quiet", "--only-binary", ":all:"]
    for name in _WITHOUT_WHEELS:
        command += ["--no-binary", name]
    return run([*command, *wanted], env=os.environ).code == 0
