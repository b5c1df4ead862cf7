"""Models in PT2E, exported by real torch and torchao: their operators become int8 kernels.

`canonical/int8.py` quantises the modules, exports them and compares them with what torch computes
for PT2E's own graphs. Part of `./check --campaigns`: torch is a download of 200 MB.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from driving import numbers
from real import EACH_RUNTIME, ROOT, orchestrator, workspace_copy
from torch_python import torchao_python

pytestmark = pytest.mark.full_only

SCRIPT = Path(__file__).parent / "canonical/int8.py"
# What quantises a model's input, and makes numbers of its results.
ENDS = {"aten::quantize_per_tensor", "aten::dequantize.self"}
# case -> operators, beside those; and those that stay in float
CASES: dict[str, tuple[set[str], set[str]]] = {
    **{
        f"{layer}-{kind}": ({"quantized::conv2d.new"}, set())
        for layer in ("relu", "depthwise", "grouped", "pointwise")
        for kind in ("channels", "tensors")
    },
    # the bound of relu6 is the largest integer
    **{
        f"relu6-{kind}": ({"quantized::conv2d.new", "quantized::conv2d_relu.new"}, set())
        for kind in ("channels", "tensors")
    },
    "residual-channels": ({"quantized::conv2d.new", "quantized::add"}, set()),
    "product-channels": ({"quantized::conv2d.new", "quantized::mul"}, set()),
    "cat-channels": ({"quantized::conv2d.new", "quantized::cat"}, set()),
    "pools-channels": (
        {"quantized::conv2d.new", "aten::max_pool2d", "aten::adaptive_avg_pool2d"},
        set(),
    ),
    "several-channels": (
        {
            *("quantized::conv2d.new", "quantized::cat", "quantized::linear"),
            *("aten::max_pool2d", "aten::reshape"),
        },
        set(),
    ),
    "head-channels": (
        {"quantized::conv2d.new", "aten::mean.dim", "quantized::linear"},
        {"aten::mean"},
    ),
    "swish-channels": (
        {"quantized::conv2d.new", "aten::hardswish", "aten::sigmoid"},
        {"aten::hardswish", "aten::sigmoid"},
    ),
    "linear-channels": ({"quantized::linear"}, set()),
    # x86's quantiser leaves a last result in float
    "relu-x86": ({"aten::conv2d", "aten::relu"}, {"aten::conv2d"}),
    "relu6-x86": ({"quantized::conv2d.new", "aten::conv2d"}, {"aten::conv2d"}),
    "linear-x86": ({"quantized::linear", "aten::linear"}, {"aten::linear"}),
    "relu-narrow": ({"aten::clamp", "aten::conv2d", "aten::relu"}, {"aten::conv2d"}),
    "residual-x86": (
        {"quantized::conv2d.new", "aten::conv2d", "aten::add.Tensor", "aten::relu"},
        {"aten::conv2d", "aten::add"},
    ),
}
DYNAMIC = ("linear-dynamic", "linear-dynamic_x86")
RUN = ("several-channels", "swish-channels", "linear-dynamic", "linear-weights", "residual-x86")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, dict[str, Any]]]:
    """A folder with all models and their results, and what is told of each."""
    folder = tmp_path_factory.mktemp("int8")
    argv = [torchao_python(), "-W", "ignore", str(SCRIPT), str(folder)]
    env = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'apps'}"}
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    return folder, {row["name"]: row for row in map(json.loads, done.stdout.splitlines())}


Made = tuple[Path, dict[str, dict[str, Any]]]


@pytest.mark.parametrize("name", CASES)
def test_operators_become_int8_kernels(made: Made, name: str) -> None:
    row, (operators, in_float) = made[1][name], CASES[name]
    assert ({*row["operators"]}, {*row["float"]}) == (operators | ENDS, in_float)
    # one rounding of a layer's result, and what the layers behind make of it
    assert row["steps"] <= 1.001


@pytest.mark.parametrize("name", DYNAMIC)
def test_dynamic_layers_do_too(made: Made, name: str) -> None:
    row = made[1][name]
    assert ({*row["operators"]}, row["float"]) == ({"aten::relu", "quantized::linear_dynamic"}, [])
    assert row["steps"] < 0.01


def test_weights_alone_stay_int8(made: Made) -> None:
    row = made[1]["linear-weights"]
    assert "aten::mm" in row["operators"]
    assert row["steps"] < 0.01


def test_mobilenet_is_int8_but_for_its_softmax(made: Made) -> None:
    row = made[1]["mobilenet-channels"]
    assert row["float"] == ["aten::softmax"]
    assert {one for one in row["operators"] if one.startswith("quantized::")} == {
        *("quantized::conv2d.new", "quantized::conv2d_relu.new", "quantized::linear"),
        "quantized::add",
    }


@pytest.mark.parametrize("runtime", EACH_RUNTIME)
@pytest.mark.parametrize("name", RUN)
def test_they_run_in_both_runtimes(made: Made, name: str, runtime: str, tmp_path: Path) -> None:
    """With the results of PT2E, within a step."""
    folder, rows = made
    words = ("run", str(folder / f"{name}.ptl"), "--runtime", runtime, "--json")
    ran = orchestrator(*words, cwd=workspace_copy(tmp_path, runtime=runtime))
    assert ran.code == 0, ran.err
    runs = json.loads(ran.out)["models"][0]["runs"]
    expected = json.loads((folder / f"{name}.json").read_text())
    assert len(runs) == len(expected)
    for run, values in zip(runs, expected, strict=True):
        assert numbers(run["output"]) == pytest.approx(values, abs=1.001 * rows[name]["step"])
