"""What the integration tests share: our command as a user runs it, and workspaces to run it in."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Ran:
    """How a command of ours ended."""

    code: int
    out: str
    err: str


def orchestrator(*arguments: str, cwd: Path = ROOT, **env: str) -> Ran:
    """Run the command as a user does, in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-P", "-m", "orchestrator", *arguments],
        cwd=cwd,
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        check=False,
    )
    return Ran(done.returncode, done.stdout, done.stderr)


def models_of(app: str) -> list[Path]:
    config = yaml.safe_load((ROOT / "apps" / app / "app.yaml").read_text())
    return [ROOT / "apps" / app / model["file"] for model in config["models"]]


def workspace_copy(tmp_path: Path, *apps: str) -> Path:
    """A workspace of its own with some of the apps; it shares the user's cache."""
    root = tmp_path / "workspace"
    root.mkdir()
    shutil.copy(ROOT / "WORKSPACE", root)
    shutil.copytree(ROOT / "toolchains", root / "toolchains")
    for app in apps:
        shutil.copytree(ROOT / "apps" / app, root / "apps" / app)
    return root
