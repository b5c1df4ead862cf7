"""Models whose archives are so old that they mean something else by an operator.

Up to version 9, `aten::gelu` had no argument that says how exact it is (torch/csrc/jit/mobile/
upgrader_mobile.cpp, `gelu_0_9`).
"""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from crafted import archive, argument, method, module, operator, pickled
from driving import build_verified, call, numbers, tensor
from real import EACH_RUNTIME, orchestrator, workspace_copy

pytestmark = [pytest.mark.real, pytest.mark.ci_only]

LIBRARY = "dist/{}/linux-x86_64/lib/lib{}_torch.so"
APP = """\
models:
  - file: models/bumps.ptl
    inputs:
      - args: [{shape: [4], fill: uniform, low: -3, high: 3, seed: 0}]
targets: [linux-x86_64]
"""


def bumps(version: int) -> bytes:
    """gelu(x), in an archive of this version."""
    code = method(
        (("STOREN", 1, 2), ("DROPR", 1, 0), ("MOVE", 2, 0), ("OP", 0, 0), ("RET", 0, 0)),
        arguments=[argument("x", "Tensor")],
        result="Tensor",
        operators=[operator("aten::gelu", "", 1)],
        registers=2,
    )
    return archive(
        {
            "data.pkl": module(),
            "version": f"{version}\n".encode(),
            "bytecode.pkl": code,
            "constants.pkl": pickled(b")"),
        }
    )


def declare(app: Path, version: int) -> None:
    (app / "models").mkdir(parents=True)
    (app / "models/bumps.ptl").write_bytes(bumps(version))
    (app / "app.yaml").write_text(APP)


@pytest.mark.parametrize("runtime", EACH_RUNTIME)
def test_a_library_has_upgraders_where_a_model_needs_them(runtime: str, tmp_path: Path) -> None:
    sizes = dict[int, int]()
    for version in (9, 10):
        folder = tmp_path / str(version)
        folder.mkdir()
        root = workspace_copy(folder, runtime=runtime)
        declare(root / "apps/old", version)
        ran = orchestrator("trace", "//apps/old", "--quiet", cwd=root)
        assert ran.code == 0, ran.err
        build_verified(root)
        given = numbers(call(root, "old", "forward", tensor(1.0, -2.0))["output"])
        exact = [x / 2 * (1 + math.erf(x / math.sqrt(2))) for x in (1.0, -2.0)]
        assert given == pytest.approx(exact, rel=1e-5)
        sizes[version] = (root / LIBRARY.format("old", "old")).stat().st_size
    assert sizes[9] - sizes[10] > 10_000
    # the library that has none refuses the other model, and what does not run it does not say so
    declare(root / "apps/older", 9)
    assert orchestrator("trace", "//apps/older", cwd=root).code == 0
    fits = ("fits", "apps/older/models/bumps.ptl", "--in", "dist/old/linux-x86_64")
    ran = orchestrator(*fits, cwd=root)
    assert ran.code == 1
    assert "does not fit: it ran there, and failed\n  bumps: upgrader.index < " in ran.out
    ran = orchestrator(*fits, "--no-run", cwd=root)
    assert ran.code == 2
    assert "cannot tell: it means by aten::gelu what an earlier PyTorch did" in ran.out
