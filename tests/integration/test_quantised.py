"""Int8 models run, on QNNPACK: static and dynamic ones, whichever engine they were packed for.

`apps/quantised/export.py` beside this file writes the models, and what stock PyTorch gives for
their inputs (`expected.json`).
"""

from __future__ import annotations

import json
import os
import subprocess
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from driving import numbers, traced_alone
from real import orchestrator

pytestmark = pytest.mark.real

APP = Path(__file__).parent / "apps" / "quantised"
EXPECTED = json.loads((APP / "models/expected.json").read_text())


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace whose only app is `quantised`, traced and built."""
    root, _ = traced_alone(APP, tmp_path_factory.mktemp("quantised"))
    ran = orchestrator("build", "--quiet", cwd=root)
    assert ran.code == 0, ran.err
    return root


def outputs(workspace: Path, model: str) -> list[list[dict[str, Any]]]:
    """What the delivered library gives for the model's bundled inputs: the tensors of each run."""
    written = workspace / "outputs.json"
    argv = [str(workspace / ".orchestrator/variants/quantised/linux-x86_64/driver")]
    argv += ["--model", str(APP / f"models/{model}.ptl"), "--output", str(written)]
    library = workspace / "dist/quantised/linux-x86_64/lib"
    env = {**os.environ, "LD_LIBRARY_PATH": str(library)}
    ran = subprocess.run(argv, env=env, check=True, stderr=subprocess.PIPE, text=True)
    assert ran.stderr == ""
    runs = json.loads(written.read_text())["runs"]
    return [run["output"]["list"] for run in runs]


def quantum(values: list[float]) -> float:
    """The least distance between two of some dequantised numbers, which is a multiple of theirs."""
    found = sorted(set(values))
    return min(b - a for a, b in pairwise(found))


def test_every_model_is_verified(workspace: Path) -> None:
    ran = orchestrator("verify", "//apps/quantised", "--quiet", cwd=workspace)
    assert (ran.code, ran.err, ran.out) == (
        0,
        "",
        "//apps/quantised:linux-x86_64 channels: ok, 3 runs, also at CPU level baseline\n"
        "//apps/quantised:linux-x86_64 tensors: ok, 3 runs, also at CPU level baseline\n"
        "//apps/quantised:linux-x86_64 dynamic: ok, 2 runs, also at CPU level baseline\n",
    )


@pytest.mark.parametrize("model", ["channels", "tensors"])
def test_static_layers_are_within_a_quantum_of_stock_pytorch(workspace: Path, model: str) -> None:
    found = outputs(workspace, model)
    assert len(found) == len(EXPECTED[model])
    for run, expected in zip(found, EXPECTED[model], strict=True):
        for number, (mine, (shape, values)) in enumerate(zip(run, expected, strict=True)):
            assert mine["tensor"]["shape"] == shape
            assert numbers(mine) == pytest.approx(values, abs=1.001 * quantum(values)), number


def test_dynamic_layers_give_what_stock_pytorch_gives(workspace: Path) -> None:
    """The last are recurrent: a quantum of one step goes into the next."""
    for run, expected in zip(outputs(workspace, "dynamic"), EXPECTED["dynamic"], strict=True):
        for mine, (shape, values) in zip(run, expected, strict=True):
            assert mine["tensor"]["shape"] == shape
            assert numbers(mine) == pytest.approx(values, abs=0.01)
