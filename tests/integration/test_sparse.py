"""Sparse tensors: kernels for them are in a workspace that names their backend, and in none else.

`apps/sparse/export.py` beside this file writes the model.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from driving import call, numbers, tensor
from real import V1_13, V2_6, orchestrator, workspace_copy

pytestmark = [pytest.mark.real, pytest.mark.ci_only]

SPARSE = Path(__file__).parent / "apps" / "sparse"


def workspace(folder: Path, backends: str, runtime: str = V2_6) -> Path:
    root = workspace_copy(folder, runtime=runtime)
    declared = (root / "WORKSPACE").read_text()
    assert "backends: [CPU, QuantizedCPU]" in declared
    text = declared.replace("backends: [CPU, QuantizedCPU]", f"backends: [{backends}]")
    (root / "WORKSPACE").write_text(text)
    (root / "apps/sparse/models").mkdir(parents=True)
    for name in ("app.yaml", "models/sparse.ptl"):
        (root / "apps/sparse" / name).write_bytes((SPARSE / name).read_bytes())
    return root


@pytest.mark.parametrize("runtime", [V1_13, V2_6])
def test_a_backend_that_a_workspace_names(tmp_path: Path, runtime: str) -> None:
    root = workspace(tmp_path, "CPU, QuantizedCPU, SparseCPU", runtime)
    for verb in ("trace", "build"):
        ran = orchestrator(verb, "//apps/sparse", "--json", "--quiet", cwd=root)
        assert ran.code == 0, ran.err
    (variant,) = json.loads(ran.out)["variants"]
    assert variant["verified"] == "ok"
    dense = tensor(0, 1, 0, 2, 0, 3, shape=[2, 3])
    places = tensor(0, 1, 4, 1, 2, 0, 5, 0, dtype="int64", shape=[2, 4])
    run = call(root, "sparse", "forward", dense, places, tensor(1, 2, 3, 4))
    product, twice, total, coordinates = map(numbers, run["output"]["tuple"])
    rows = [[8, 9, 10, 11], [0, 6, 12, 18], [0] * 4, [0] * 4, [60, 63, 66, 69]]
    assert product == [value for row in rows for value in row]
    assert (twice, total) == ([0, 2, 0, 4, 0, 6], [6])
    assert coordinates == [0, 1, 4, 2, 0, 5]


def test_without_it_the_model_is_refused(tmp_path: Path) -> None:
    root = workspace(tmp_path, "CPU, QuantizedCPU")
    ran = orchestrator("trace", "//apps/sparse", "--quiet", cwd=root)
    assert ran.code == 1
    assert "SparseCPU" in ran.err
