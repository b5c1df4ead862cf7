"""torchvision's detectors as an app has them: exported by default, traced, built, delivered, and
compared with eager PyTorch for pictures of other sizes than the examples.

Part of `./check --campaigns`: torch and torchvision are a download of 200 MB.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from real import ROOT, V2_6, orchestrator, workspace_copy
from test_street import HERE
from torch_python import torchvision_python

from orchestrator.verify.compare import compare_results

pytestmark = [pytest.mark.real, pytest.mark.full_only]

HOST = "linux-x86_64"


@pytest.fixture(scope="module")
def python() -> str:
    return torchvision_python()


@pytest.fixture(scope="module")
def expected(python: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the calls of each, and what eager PyTorch gives."""
    folder = tmp_path_factory.mktemp("expected")
    argv = [python, "-W", "ignore", str(HERE / "detectors.py"), str(folder)]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    return folder


@pytest.fixture(scope="module")
def root(python: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = workspace_copy(tmp_path_factory.mktemp("detectors"), runtime=V2_6)
    # R-CNNs resize some pictures to another size in TorchScript than in Python
    for name, sizes in (("ssdlite", []), ("rcnn", ["--fixed-sizes"])):
        told = ["--module", f"detectors:{name}", "--inputs", "detectors:pictures", *sizes]
        argv = ["export", "model", f"apps/{name}", "--python", python, "--path", str(HERE), *told]
        ran = orchestrator(*argv, cwd=made)
        assert ran.code == 0, ran.err
    for verb in ("trace", "build"):
        ran = orchestrator(verb, "//...", "--quiet", cwd=made)
        assert ran.code == 0, ran.err
    return made


@pytest.mark.parametrize("name", ["ssdlite", "rcnn"])
def test_a_detector_gives_what_eager_pytorch_does(
    root: Path, expected: Path, name: str, tmp_path: Path
) -> None:
    calls: list[dict[str, Any]] = json.loads((expected / f"{name}.json").read_text())
    assert [call["expected"]["error"] for call in calls] == [None] * len(calls)
    setting = {
        "through": "c",
        "library": str(root / f"dist/{name}/{HOST}/lib/lib{name}_torch.so"),
        "host": {},
        "model": str(root / f"apps/{name}/models/{name}.ptl"),
        "calls": calls,
    }
    (tmp_path / "setting.json").write_text(json.dumps(setting))
    argv = [sys.executable, str(HERE / "host.py"), str(tmp_path / "setting.json")]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    seen = json.loads(done.stdout)
    errors = [run["error"] for run in seen["runs"] if run["error"]]
    assert compare_results({"runs": [call["expected"] for call in calls]}, seen) == [], errors
