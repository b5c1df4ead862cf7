"""The source tree's generated files: torchgen's and the autograd generator's, once a version.

No header differs under selection, so that one tree serves every app.  Each generator runs in a
process of its own, from the pinned tree, with the tree as working folder, so that no path of this
machine enters the text.  Layout: `<folder>/ATen/...` and `<folder>/autograd/torch/csrc/...`.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from orchestrator.errors import OrchestratorError

# Raised when the commands below change what they write.
RECIPE = "1"


class GenerationFailedError(OrchestratorError):
    """A generator of the pinned tree failed."""


def generated_identity(tree_digest: str) -> str:
    """Digest that names the generated files of a tree."""
    return hashlib.sha256(f"{tree_digest} {RECIPE}".encode()).hexdigest()


def generate_sources(
    tree: Path,
    tree_digest: str,
    cache: Path,
    env: Mapping[str, str],
    progress: Callable[[str], None],
) -> Path:
    """The folder of the generated files; written on first use, all or nothing (about 12 s).

    Raises GenerationFailedError.
    """
    folder = cache / "generated" / generated_identity(tree_digest)[:16]
    if (folder / "complete").is_file():
        return folder
    progress("generating headers and sources with torchgen")
    staging = cache / "staging" / f"generated-{os.getpid()}"
    shutil.rmtree(staging, ignore_errors=True)
    (staging / "ATen").mkdir(parents=True)
    try:
        _run(
            "-m torchgen.gen --source-path aten/src/ATen --per-operator-headers"
            " --generate headers sources --install_dir",
            staging / "ATen",
            tree,
            env,
        )
        _run(
            "tools/setup_helpers/generate_code.py --subset libtorch --disable-autograd"
            " --native-functions-path aten/src/ATen/native/native_functions.yaml"
            " --tags-path aten/src/ATen/native/tags.yaml --per_operator_headers --gen-dir",
            staging / "autograd",
            tree,
            env,
        )
        (staging / "complete").touch()
        folder.parent.mkdir(parents=True, exist_ok=True)
        if not (folder / "complete").is_file():
            shutil.rmtree(folder, ignore_errors=True)
            staging.replace(folder)
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    return folder


def _run(arguments: str, output: Path, tree: Path, env: Mapping[str, str]) -> None:
    done = subprocess.run(
        [sys.executable, *arguments.split(), str(output)],
        cwd=tree,
        env={**env, "PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise GenerationFailedError(
            f"{arguments.removeprefix('-m ').split()[0]} of the pinned tree failed",
            hint="orchestrator fetch --verify checks the source tree",
            details="\n".join(done.stderr.splitlines()[-12:]),
        )
