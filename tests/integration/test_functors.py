"""The twelve elementwise operators of tests/golden/elementwise, in torch, against PyTorch's own."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from real import ROOT
from torch_python import torch_python

from orchestrator.build.workshop.elementwise import all_sources
from orchestrator.load.workspace import load_workspace

pytestmark = [pytest.mark.real, pytest.mark.ci_only]

CHECK = Path(__file__).parent / "elementwise_check.py"
KERNELS = ROOT / "tests/golden/elementwise"
APP = """\
models: [{file: small.ptl}]
targets: [linux-x86_64]
sources: {kernels: {namespace: ew, files: ["kernels/*.elementwise"]}}
"""
# How many calls of each were compared: dtypes, layouts, promotions.
COMPARED = """\
gcd 50
lcm 50
lgamma 39
digamma 39
trigamma 39
i0 39
i0e 39
i1 39
i1e 39
ndtri 23
erfcx 23
zeta 30
"""


def test_they_compute_what_pytorch_does(tmp_path: Path) -> None:
    app = tmp_path / "apps/toy"
    shutil.copytree(KERNELS, app / "kernels", ignore=shutil.ignore_patterns("texts"))
    (app / "app.yaml").write_text(APP)
    (app / "small.ptl").touch()
    shutil.copy(ROOT / "WORKSPACE", tmp_path)
    sources = all_sources(load_workspace(tmp_path, {"HOME": str(tmp_path)}).apps["toy"])
    assert sources is not None
    # as one unit, so that torch's headers are compiled once
    texts = [
        sources.texts[file].replace("\nnamespace {\n", f"\nnamespace unit_{number} {{\n", 1)
        for number, file in enumerate(sources.files)
    ]
    (tmp_path / "all.cpp").write_text("".join(texts))
    done = subprocess.run(
        [torch_python(), str(CHECK), str(tmp_path / "all.cpp")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    *compared, refused = done.stdout.splitlines()
    assert "\n".join(compared) + "\n" == COMPARED
    assert refused == "\"ew_gcd\" not implemented for 'Float'"
