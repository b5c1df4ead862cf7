"""Activations, functions of single numbers, softmax of any dimension, pooling, and products with a
model's own matrices: the same results as PyTorch's own kernels, at every CPU level, in libraries
without a convolution or a linear layer. `apps/functions/export.py` beside this file writes the
models.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from driving import levels_told, reaches, traced_alone, verified
from real import EACH_RUNTIME, orchestrator

pytestmark = pytest.mark.real

FUNCTIONS = Path(__file__).parent / "apps" / "functions"


@pytest.fixture(scope="module", params=EACH_RUNTIME)
def workspace(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace whose only app is `functions`, traced and built."""
    root, _ = traced_alone(FUNCTIONS, tmp_path_factory.mktemp("functions"), request.param)
    ran = orchestrator("build", "--quiet", cwd=root)
    assert ran.code == 0, ran.err
    return root


def test_functions_give_what_pytorch_gives_at_every_cpu_level(workspace: Path) -> None:
    ran = orchestrator("verify", "//apps/functions", "--quiet", cwd=workspace)
    assert (ran.code, ran.err, ran.out) == (
        0,
        "",
        verified(
            *("functions", "functions", 9, "also at CPU level baseline"),
            "layouts output[9] (none), columns output[8] (all 1), columns output[9] (none),"
            " columns output[10] (all 1), columns output[11] (all 0)",
        )
        + verified(
            "functions", "products", 2, "also at CPU level baseline", "forward output[18] (none)"
        ),
    )
    manifest = json.loads((workspace / "dist/functions/linux-x86_64/manifest.json").read_text())
    assert {*manifest["kernels"]["features"]} >= {
        *("activation", "images", "linear", "pooling", "pooling_rows", "products", "rewrite"),
        *("softmax", "unary"),
    }
    assert not {"convolution", "convolution_site"} & {*manifest["kernels"]["features"]}


@pytest.mark.parametrize(
    ("model", "function"),
    [
        ("functions", "PoolingSite7compute"),
        ("products", "LinearSite7compute"),
        *(
            ("functions", name)
            for name in ("hardswish", "leaky_relu", "softmax_of_columns", "sqrt")
        ),
    ],
)
def test_which_kernels_compute(workspace: Path, model: str, function: str) -> None:
    name = function if function[0].isupper() else f"_ZN3lta{len(function)}{function}E"
    assert reaches(workspace, "functions", model, name)


@pytest.mark.ci_only
def test_functions_with_sixteen_lanes_and_threads(workspace: Path) -> None:
    declared = workspace / "apps/functions/app.yaml"
    before = declared.read_text()
    declared.write_text(before + "cpu:\n  x86_64: [avx2, avx512]\nthreads: 2\n")
    built = orchestrator("build", "--quiet", cwd=workspace)
    ran = orchestrator("verify", "//apps/functions", "--quiet", cwd=workspace)
    declared.write_text(before)
    assert built.code == 0, built.err
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.count(levels_told("avx2", "avx512")) == 2, ran.out


def test_pooling_can_be_left_out(workspace: Path) -> None:
    declared = workspace / "apps/functions/app.yaml"
    before = declared.read_text()
    declared.write_text(before + "kernels: [linear, unary]\n")
    ran = orchestrator("build", "--quiet", cwd=workspace)
    manifest = json.loads((workspace / "dist/functions/linux-x86_64/manifest.json").read_text())
    declared.write_text(before)
    assert ran.code == 0, ran.err
    assert manifest["kernels"]["features"] == [
        "linear",
        "products",
        "rewrite",
        "spares",
        "unary",
    ]
