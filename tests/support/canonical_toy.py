"""A workspace with one model, and a lock of its canonical one."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path
from typing import Any

from orchestrator.canonical.lock import CanonicalLock
from orchestrator.load.declared import App
from orchestrator.load.workspace import load_workspace

ROOT = Path(__file__).parents[2]
ORIGINAL, MADE, INPUTS = b"the original", b"the canonical", b'[{"method":"forward","args":[]}]'
APP = "models: [{file: models/net.ptl%s}]\ntargets: [linux-x86_64]\ncanonical: %s\n"
DECLARED = ", inputs: [{args: [1]}]"


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def lock(**changes: Any) -> CanonicalLock:
    return CanonicalLock.model_validate(
        {
            "format": 1,
            "app": "camera",
            "model": "net",
            "kind": "static",
            "original": digest(ORIGINAL),
            "canonical": digest(MADE),
            "inputs": digest(INPUTS),
            "torch": "2.13.0",
            "worker": "0123456789abcdef",
            "folded": True,
            "largest": 3e-07,
            "operators": {"before": ["aten::relu_"], "after": ["aten::relu"]},
            "rewrites": [
                {
                    "name": "mutation",
                    "from": "aten::relu_",
                    "to": ["aten::relu"],
                    "calls": 1,
                    "why": "nothing else sees the tensor that it writes to",
                }
            ],
            "comparison": [
                {
                    "call": "forward[0]",
                    "inputs": ["float32[1, 3]"],
                    "result": "same",
                    "largest": 3e-07,
                },
                {"call": "forward[0], longer", "inputs": ["float32[1, 4]"], "result": "not taken"},
            ],
            **changes,
        }
    )


def workspace(tmp_path: Path, inputs: str = "", canonical: str = "static") -> App:
    """An app with one model; the workspace is this repository's."""
    if not (tmp_path / "WORKSPACE").exists():
        shutil.copy(ROOT / "WORKSPACE", tmp_path)
        (tmp_path / "apps/camera/models").mkdir(parents=True)
        (tmp_path / "apps/camera/models/net.ptl").write_bytes(ORIGINAL)
    (tmp_path / "apps/camera/app.yaml").write_text(APP % (inputs, canonical))
    return load_workspace(tmp_path, {"HOME": str(tmp_path)}).apps["camera"]
