"""Int8 models run, on XNNPACK and QNNPACK: static and dynamic ones, whichever engine they were
packed for.

`apps/quantised/export.py` beside this file writes the models, and what stock PyTorch gives for
their inputs (`expected.json`).
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from driving import levels_told, numbers, traced_alone, verified
from real import EACH_RUNTIME, orchestrator

pytestmark = pytest.mark.real

APP = Path(__file__).parent / "apps" / "quantised"
EXPECTED = json.loads((APP / "models/expected.json").read_text())


@pytest.fixture(scope="module", params=EACH_RUNTIME)
def workspace(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace whose only app is `quantised`, traced and built."""
    root, _ = traced_alone(APP, tmp_path_factory.mktemp("quantised"), request.param)
    ran = orchestrator("build", "--quiet", cwd=root)
    assert ran.code == 0, ran.err
    return root


@pytest.fixture(scope="module")
def native(workspace: Path) -> Path:
    """The same workspace, with an app `native` beside: the same models without XNNPACK."""
    shutil.copytree(APP, workspace / "apps/native")
    with (workspace / "apps/native/app.yaml").open("a") as config:
        config.write("kernels: native\n")
    for verb in ("trace", "build"):
        ran = orchestrator(verb, "//apps/native", "--quiet", cwd=workspace)
        assert ran.code == 0, ran.err
    return workspace


def outputs(workspace: Path, model: str, app: str = "quantised") -> list[list[dict[str, Any]]]:
    """What the delivered library gives for the model's bundled inputs: the tensors of each run."""
    written = workspace / "outputs.json"
    argv = [str(workspace / f".orchestrator/variants/{app}/linux-x86_64/driver")]
    argv += ["--model", str(APP / f"models/{model}.ptl"), "--output", str(written)]
    library = workspace / f"dist/{app}/linux-x86_64/lib"
    env = {**os.environ, "LD_LIBRARY_PATH": str(library)}
    ran = subprocess.run(argv, env=env, check=True, stderr=subprocess.PIPE, text=True)
    assert ran.stderr == ""
    runs = json.loads(written.read_text())["runs"]
    return [run["output"].get("list", [run["output"]]) for run in runs]


def quantum(values: list[float]) -> float:
    """The least distance between two of some dequantised numbers, which is a multiple of theirs."""
    found = sorted(set(values))
    return min(b - a for a, b in pairwise(found))


def test_every_model_is_verified(workspace: Path) -> None:
    ran = orchestrator("verify", "//apps/quantised", "--quiet", cwd=workspace)
    assert (ran.code, ran.err, ran.out) == (
        0,
        "",
        "".join(
            verified("quantised", model, runs, levels_told("avx2", "avxvnni", "avx512vnni"))
            for model, runs in (
                ("channels", 3),
                ("tensors", 3),
                ("chains", 2),
                ("rows", 2),
                ("wide", 2),
                ("dynamic", 2),
            )
        ),
    )


STATIC = ["channels", "tensors", "chains", "rows", "wide"]


@pytest.mark.parametrize("model", STATIC)
def test_static_layers_are_within_a_quantum_of_stock_pytorch(workspace: Path, model: str) -> None:
    found = outputs(workspace, model)
    assert len(found) == len(EXPECTED[model])
    for run, expected in zip(found, EXPECTED[model], strict=True):
        for number, (mine, (shape, values)) in enumerate(zip(run, expected, strict=True)):
            assert mine["tensor"]["shape"] == shape
            assert numbers(mine) == pytest.approx(values, abs=1.001 * quantum(values)), number


@pytest.mark.ci_only
@pytest.mark.parametrize("model", STATIC)
@pytest.mark.parametrize("level", ["", "avxvnni", "avx2", "baseline"])
def test_xnnpack_gives_what_qnnpack_gives(
    native: Path, model: str, level: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bit by bit, at every CPU level."""
    monkeypatch.setenv("LTA_CPU_LEVEL", level)
    assert outputs(native, model) == outputs(native, model, "native")


def test_packed_weights_leave_memory(workspace: Path) -> None:
    """Those of two layers, 128 KB each, and of one between them, 16 KB; also where the classes of
    layers have methods that set attributes."""
    program, model = Path(__file__).with_name("memory_program.py"), workspace / "wide.ptl"
    library = workspace / "dist/quantised/linux-x86_64/lib/libquantised_torch.so"
    shutil.copy(APP / "models/wide.ptl", model)

    def steps(*of: str) -> list[Any]:
        argv = [sys.executable, str(program), str(library), str(model), *of]
        done = subprocess.run(argv, capture_output=True, text=True, check=True)
        return list(json.loads(done.stdout))

    _, usual, odd = steps("load_memory", "run", "run_odd")
    assert usual != odd
    _, before, *found = steps("load", "away_64k", "run", "away_64k", "run_odd", "away_64k", "run")
    assert found[::2] == [usual, odd, usual]
    assert [left - before for left in found[1::2]] == [256 * 1024] * 2
    assert steps("load", "run", "truncate", "run", "run_odd")[1:] == [usual, None, usual, odd]


def test_the_kernels_of_quantised_layers_are_told(native: Path) -> None:
    def facts(app: str) -> dict[str, list[str]]:
        manifest = native / f"dist/{app}/linux-x86_64/manifest.json"
        return json.loads(manifest.read_text())["kernels"] or {"features": []}

    def features(app: str) -> list[str]:
        named = ("quantise", "depthwise")
        return [one for one in facts(app)["features"] if one.startswith(named)]

    assert facts("quantised")["levels"] == ["avx2", "avx512vnni", "avxvnni"]
    layers = ["quantise", "quantised_convolution", "quantised_linear"]
    assert features("quantised") == ["depthwise_vnni", *layers]
    assert features("native") == []


def test_dynamic_layers_give_what_stock_pytorch_gives(workspace: Path) -> None:
    """The last are recurrent: a quantum of one step goes into the next."""
    for run, expected in zip(outputs(workspace, "dynamic"), EXPECTED["dynamic"], strict=True):
        for mine, (shape, values) in zip(run, expected, strict=True):
            assert mine["tensor"]["shape"] == shape
            assert numbers(mine) == pytest.approx(values, abs=0.01)
