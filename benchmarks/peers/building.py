"""Our side: an app for each model and setting, traced and built by our own command."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import yaml

from benchmarks.peers.catalogue import RUNTIMES
from benchmarks.processes import run

# what the peers' wheels are for
_ABI: Final = "linux-x86_64"


def app_name(runtime: str, model: str) -> str:
    """The scratch app of one of our libraries' settings and a model."""
    return f"{model}_{runtime.replace('-', '_')}"


def library_of(workspace: Path, runtime: str, model: str) -> Path:
    """The shared library that a build delivers for it."""
    app = app_name(runtime, model)
    return workspace / "dist" / app / _ABI / "lib" / f"lib{app}_torch.so"


def write_workspace(
    root: Path, workspace: Path, made: Path, runtimes: Sequence[str], models: Sequence[str]
) -> None:
    """Write the declarations; `made` has a folder for each model.

    What an earlier run left there of apps is replaced, but for traces, which say themselves whether
    they are stale.
    """
    (workspace / "toolchains").mkdir(parents=True, exist_ok=True)
    shutil.copy2(root / "WORKSPACE", workspace)
    shutil.copy2(root / "toolchains" / f"{_ABI}.yaml", workspace / "toolchains")
    for runtime in runtimes:
        for model in models:
            folder = workspace / "apps" / app_name(runtime, model)
            folder.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(made / model / "model.ptl", folder / "model.ptl")
            declared = {
                "models": [{"file": "model.ptl"}],
                "targets": [_ABI],
                **(RUNTIMES[runtime].declared or {}),
            }
            (folder / "app.yaml").write_text(yaml.safe_dump(declared, sort_keys=False))


def build(root: Path, workspace: Path, jobs: int | None) -> None:
    """Build all apps of the workspace, and trace them before where there are no traces that fit.
    Raises CommandFailedError."""
    env = {**os.environ, "PYTHONPATH": str(root)}
    command = [sys.executable, "-m", "orchestrator", "--workspace", str(workspace), "--quiet"]
    options = [] if jobs is None else ["--jobs", str(jobs)]
    if run([*command, "build", "//...", *options], env=env).code:
        for verb in ("trace", "build"):
            run([*command, verb, "//...", *options], env=env).require(f"orchestrator {verb}")
