"""A Python with torch, for tests that convert models.

$ORCHESTRATOR_EXPORT_PYTHON where it is set; else a venv in the user's cache folder, made once: the
wheel has 200 MB.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

TORCH = "2.13.0"
# which modules compute sizes with
NUMPY = "2.4.2"
TORCHAO = "0.18.0"
# of that torch
TORCHVISION = "0.28.0"


def torch_python() -> str:
    """The program; it fails where the wheel cannot be installed."""
    named = os.environ.get("ORCHESTRATOR_EXPORT_PYTHON")
    if named:
        return named
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = cache / "libtorch-orchestrator-tests" / f"torch-{TORCH}"
    done = folder / f"numpy-{NUMPY}"
    if not done.exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        install = [str(folder / "bin/pip"), "install", "--quiet", f"torch=={TORCH}"]
        install.append(f"numpy=={NUMPY}")
        subprocess.run(install, check=True)
        done.touch()
    return str(folder / "bin/python")


def torchao_python() -> str:
    """The same, with torchao, which quantises models."""
    return _with("torchao", TORCHAO)


def torchvision_python() -> str:
    """The same, with torchvision."""
    return _with("torchvision", TORCHVISION)


def _with(package: str, version: str) -> str:
    python = torch_python()
    done = Path(python).parents[1] / f"{package}-{version}"
    if not done.exists() and "ORCHESTRATOR_EXPORT_PYTHON" not in os.environ:
        install = [python, "-m", "pip", "install", "--quiet", f"{package}=={version}"]
        subprocess.run(install, check=True)
        done.touch()
    return python
