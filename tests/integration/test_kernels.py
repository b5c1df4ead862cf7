"""Faster kernels for loaded models: the same results as PyTorch's own, at every CPU level.

`apps/layers/export.py` beside this file writes the models: convolutions and linear layers of all
kinds, a model whose weights are others in every run, and one of softmax, norms and single numbers.
"""

from __future__ import annotations

import json
import os
import random
import struct
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from driving import call, levels_told, numbers, tensor, traced_alone
from real import V1_13, V2_6, orchestrator, workspace_copy

from tests import ptl

pytestmark = pytest.mark.real

LAYERS = Path(__file__).parent / "apps" / "layers"


@pytest.fixture(scope="module", params=[V1_13, V2_6])
def workspace(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace whose only app is `layers`, traced and built."""
    root, _ = traced_alone(LAYERS, tmp_path_factory.mktemp("layers"), request.param)
    built(root)
    return root


def built(root: Path) -> dict[str, Any]:
    ran = orchestrator("build", "--json", "--quiet", cwd=root)
    assert ran.code == 0, ran.err
    (variant,) = json.loads(ran.out)["variants"]
    return dict(variant)


def manifest(root: Path, app: str = "layers") -> dict[str, Any]:
    return dict(json.loads((root / "dist" / app / "linux-x86_64/manifest.json").read_text()))


def test_every_layer_gives_what_pytorch_gives_at_every_cpu_level(workspace: Path) -> None:
    ran = orchestrator("verify", "//apps/layers", "--quiet", cwd=workspace)
    assert (ran.code, ran.err, ran.out) == (
        0,
        "",
        "//apps/layers:linux-x86_64 layers: ok, 14 runs, also at CPU level baseline\n"
        "//apps/layers:linux-x86_64 changing: ok, 2 runs, also at CPU level baseline\n"
        "//apps/layers:linux-x86_64 rows: ok, 7 runs, also at CPU level baseline\n",
    )
    assert manifest(workspace)["kernels"] == {
        "features": [
            *("activation", "convolution", "convolution_site", "gemm", "layer_norm", "linear"),
            *("rewrite", "softmax", "transposed", "unary"),
        ],
        "library": "xnnpack",
        "levels": ["avx2"],
        "version": "0.0~git20241108",
    }


def _features(workspace: Path, app: str, rows: int) -> list[float]:
    rng = random.Random(rows)
    x = tensor(*(rng.uniform(-1, 1) for _ in range(rows * 40)), shape=[rows, 4, 10])
    output = call(workspace, app, "features", x, model="layers")["output"]
    (found,) = (item for key, item in output["dict"] if key == {"string": "out"})
    return numbers(found)


def test_native_kernels_alone_give_the_same(workspace: Path) -> None:
    """Sizes that no trace had; and `kernels: native` leaves the library out."""
    with_library = [_features(workspace, "layers", rows) for rows in (2, 33)]
    declared = workspace / "apps/layers/app.yaml"
    before = declared.read_text()
    declared.write_text(before + "kernels: native\n")
    built(workspace)
    assert manifest(workspace)["kernels"] is None
    native = [_features(workspace, "layers", rows) for rows in (2, 33)]
    declared.write_text(before)
    built(workspace)
    for one, other in zip(with_library, native, strict=True):
        assert one == pytest.approx(other, rel=1e-4, abs=1e-5)


def test_declared_avx512_gives_the_same(workspace: Path) -> None:
    """Each model runs at it where the processor has it; elsewhere `verify` says that none did."""
    declared = workspace / "apps/layers/app.yaml"
    before = declared.read_text()
    declared.write_text(before + "cpu:\n  x86_64: [avx2, avx512]\n")
    built(workspace)
    kernels = manifest(workspace)["kernels"]
    ran = orchestrator("verify", "//apps/layers", "--quiet", cwd=workspace)
    declared.write_text(before)
    built(workspace)
    assert kernels["levels"] == ["avx2", "avx512"]
    levels = levels_told("avx2", "avx512")
    assert (ran.code, ran.err, ran.out) == (
        0,
        "",
        f"//apps/layers:linux-x86_64 layers: ok, 14 runs, {levels}\n"
        f"//apps/layers:linux-x86_64 changing: ok, 2 runs, {levels}\n"
        f"//apps/layers:linux-x86_64 rows: ok, 7 runs, {levels}\n",
    )


def _convolution(padding: int, *more: tuple[str, int, int]) -> bytes:
    """A model that convolves with one weight, which is 2; and more instructions before its end."""
    rows = [("STOREN", 1, 2), ("MOVE", 2, 0), ("MOVE", 1, 0), ("GET_ATTR", 0, 0), ("LOADC", 0, 0)]
    for constant in (1, 2):
        rows += [("LOADC", constant, 0), ("LOADC", constant, 0), ("LIST_CONSTRUCT", 0, 2)]
    rows += [("OP", 0, 0), *more, ("RET", 0, 0)]
    tables = ptl.code(
        ptl.tuple_of(*(ptl.instruction(*row) for row in rows)),
        operators=ptl.tuple_of(ptl.operator("aten::conv2d", "", 5)),
        constants=ptl.tuple_of(ptl.NONE, ptl.number(1), ptl.number(padding)),
        types=ptl.tuple_of(ptl.text("List[int]")),
    )
    arguments = ptl.argument("self", ptl.MODULE), ptl.argument("x", "Tensor")
    function = ptl.function(tables=tables, signature=ptl.schema(ptl.tuple_of(*arguments)))
    held = ptl.storage(kind="Float", elements=1)
    weight = ptl.tensor(held, ptl.numbers(1, 1, 1, 1), ptl.numbers(1, 1, 1, 1))
    data = {"data__0": struct.pack("<f", 2)}
    return ptl.model(ptl.bytecode(function), ptl.module(w=weight), **data)


def test_a_model_that_pads_without_end_is_an_error(workspace: Path) -> None:
    """2^40 numbers and more: no memory of a size that has gone around is written."""
    for padding in (1, 2**20 - 1):
        (workspace / "apps/layers/models/padded.ptl").write_bytes(_convolution(padding))
        ran = call(workspace, "layers", "forward", tensor(3, shape=[1, 1, 1, 1]), model="padded")
        (workspace / "apps/layers/models/padded.ptl").unlink()
        if padding == 1:
            assert numbers(ran["output"]) == [0, 0, 0, 0, 6, 0, 0, 0, 0]
        else:
            assert ran["error"]["code"] == "OUT_OF_MEMORY"


def test_bytecode_that_stores_below_its_registers_harms_no_memory(workspace: Path) -> None:
    """A register's number and how many follow it: their sum is one that there is."""
    path = workspace / "apps/layers/models/below.ptl"
    more = [("LOADC", 0, 0)] * 4 + [("STOREN", -2, 4)]
    path.write_bytes(_convolution(1, *more))
    ran = call(workspace, "layers", "forward", tensor(3, shape=[1, 1, 1, 1]), model="below")
    path.unlink()
    assert ran["error"]["code"] == "RUN_FAILED"


def _microseconds(root: Path) -> float:
    """The least time of camera's first traced image."""
    output = root / "timed.json"
    argv = [str(root / ".orchestrator/variants/camera/linux-x86_64/driver"), "--time", "--no-args"]
    argv += ["--model", str(root / "apps/camera/models/classifier.ptl"), "--output", str(output)]
    library = root / "dist/camera/linux-x86_64/lib"
    subprocess.run(argv, env={**os.environ, "LD_LIBRARY_PATH": str(library)}, check=True)
    runs = json.loads(output.read_text())["runs"]
    return float(next(run["microseconds_min"] for run in runs if run["microseconds_min"]))


def test_a_classifier_takes_a_fifth_of_the_time(tmp_path: Path) -> None:
    root = workspace_copy(tmp_path, "camera")
    declared = root / "apps/camera/app.yaml"
    value = {**yaml.safe_load(declared.read_text()), "targets": ["linux-x86_64"]}
    value.pop("budgets")
    times = {}
    for kernels in ("auto", "native"):
        declared.write_text(yaml.safe_dump({**value, "kernels": kernels}))
        built(root)
        times[kernels] = _microseconds(root)
    assert times["auto"] * 5 < times["native"]
