"""Models of `optimize_for_mobile`: they give what stock PyTorch gives, as fast as plain ones, and a
damaged layer is an error.

`apps/packed/export.py` beside this file writes the models, and `expected.json`.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from driving import numbers, tensor, traced_alone, verified
from real import EACH_RUNTIME, orchestrator

from tests import ptl

pytestmark = pytest.mark.real

PACKED = Path(__file__).parent / "apps" / "packed"
CLASSES = "__torch__.torch.classes.xnnpack"


@pytest.fixture(scope="module", params=EACH_RUNTIME)
def workspace(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace whose only app is `packed`, traced and built."""
    root, _ = traced_alone(PACKED, tmp_path_factory.mktemp("packed"), request.param)
    built = orchestrator("build", "//apps/packed", "--quiet", cwd=root)
    assert built.code == 0, built.err
    return root


def driven(root: Path, model: Path, *options: str) -> dict[str, Any]:
    """What the driver says of a model in the delivered library."""
    output = root / "driven.json"
    driver = root / ".orchestrator/variants/packed/linux-x86_64/driver"
    argv = [str(driver), "--model", str(model), "--output", str(output), *options]
    library = root / "dist/packed/linux-x86_64/lib"
    output.unlink(missing_ok=True)
    subprocess.run(argv, env={**os.environ, "LD_LIBRARY_PATH": str(library)}, check=False)
    return dict(json.loads(output.read_text()))


def outputs(root: Path, model: str) -> list[list[list[float]]]:
    runs = driven(root, root / f"apps/packed/models/{model}.ptl")["runs"]
    return [[numbers(one) for one in run["output"]["list"]] for run in runs]


def test_packed_layers_give_what_stock_pytorch_gives(workspace: Path) -> None:
    _require_stock(workspace)


def _require_stock(root: Path) -> None:
    expected = json.loads((PACKED / "expected.json").read_text())
    for model in ("packed", "plain"):
        given = outputs(root, model)
        assert [len(run) for run in given] == [15, 15, 15]
        for run, stock in zip(given, expected, strict=True):
            for one, other in zip(run, stock, strict=True):
                assert one == pytest.approx(other, rel=1e-4, abs=1e-4)


def test_every_layer_is_verified_at_every_cpu_level(workspace: Path) -> None:
    """Against PyTorch's own kernels, which the tracer ran."""
    ran = orchestrator("verify", "//apps/packed", "--quiet", cwd=workspace)
    assert (ran.code, ran.err, ran.out) == (
        0,
        "",
        "".join(
            verified("packed", model, runs, "also at CPU level baseline")
            for model, runs in (("packed", 3), ("plain", 3), ("late", 1))
        ),
    )
    manifest = json.loads((workspace / "dist/packed/linux-x86_64/manifest.json").read_text())
    assert {"prepacked_convolution", "prepacked_linear", "transposed"} <= set(
        manifest["kernels"]["features"]
    )


def test_packed_layers_run_without_the_kernels_that_they_were_packed_for(
    workspace: Path, tmp_path: Path
) -> None:
    root = tmp_path / "native"
    shutil.copytree(workspace, root, symlinks=True)
    declared = root / "apps/packed/app.yaml"
    declared.write_text(declared.read_text() + "kernels: native\n")
    ran = orchestrator("build", "//apps/packed", "--quiet", cwd=root)
    assert (ran.code, ran.err) == (0, "")
    manifest = json.loads((root / "dist/packed/linux-x86_64/manifest.json").read_text())
    assert manifest["kernels"] is None
    _require_stock(root)


def _microseconds(root: Path, model: str) -> float:
    run, *_ = driven(root, root / f"apps/packed/models/{model}.ptl", "--time", "--no-args")["runs"]
    return float(run["microseconds_min"])


def test_packed_layers_are_as_fast_as_plain_ones(workspace: Path) -> None:
    """They run on XNNPACK as well; PyTorch's own kernels take four times as long. Where a process
    has its memory makes one in three take half as long again."""
    packed = min(_microseconds(workspace, "packed") for _ in range(10))
    assert packed < 1.5 * min(_microseconds(workspace, "plain") for _ in range(3))


# ---- Layers that are damaged, or hostile ----


def _ints(*values: int) -> bytes:
    return ptl.call("torch.jit._pickle", "build_intlist", ptl.list_of(*map(ptl.number, values)))


def _tensor(*sizes: int, kind: str = "Float") -> bytes:
    count = 1
    strides: list[int] = []
    for size in reversed(sizes):
        strides.insert(0, count)
        count *= size
    held = ptl.storage(kind=kind, elements=count)
    return ptl.tensor(held, ptl.numbers(*sizes), ptl.numbers(*strides))


WEIGHT, ONES, ZEROS = _tensor(2, 2, 1, 1), _ints(1, 1), _ints(0, 0)
PLAIN = (WEIGHT, ptl.NONE, ONES, ZEROS, ONES, ptl.number(1), ptl.NONE, ptl.NONE)
FOLDED = (WEIGHT, ptl.NONE, ONES, ZEROS, ZEROS, ONES, ptl.number(1), ptl.NONE, ptl.NONE)


def _layer(name: str, state: bytes) -> bytes:
    return ptl.named(CLASSES, name) + b")\x81" + state + b"b"


def _model(layer: bytes, operator: str = "prepacked::conv2d_clamp_run") -> bytes:
    """A model that holds one layer, and calls an operator with its input and the layer."""
    steps = [("STOREN", 1, 2), ("MOVE", 2, 0), ("MOVE", 1, 0), ("GET_ATTR", 0, 0)]
    steps += [("OP", 0, 0), ("RET", 0, 0)]
    tables = ptl.code(
        ptl.tuple_of(*(ptl.instruction(*step) for step in steps)),
        operators=ptl.tuple_of(ptl.operator(operator, "", 2)),
    )
    arguments = ptl.argument("self", ptl.MODULE), ptl.argument("x", "Tensor")
    function = ptl.function(tables=tables, signature=ptl.schema(ptl.tuple_of(*arguments)))
    data = {"data__0": bytes(4 * 4)}
    return ptl.model(ptl.bytecode(function), ptl.module(layer=layer), **data)


def _changed(state: tuple[bytes, ...], index: int, value: bytes) -> bytes:
    return ptl.tuple_of(*state[:index], value, *state[index + 1 :])


def _run(root: Path, model: bytes) -> dict[str, Any]:
    path, inputs = root / "hostile.ptl", root / "inputs.json"
    path.write_bytes(model)
    image = tensor(1, 2, shape=[1, 2, 1, 1])
    inputs.write_text(json.dumps([{"method": "forward", "args": [image]}] * 2))
    return driven(root, path, "--inputs", str(inputs))


def test_a_layer_that_is_whole(workspace: Path) -> None:
    for name, state, operator in (
        ("Conv2dOpContext", PLAIN, "conv2d_clamp_run"),
        ("TransposeConv2dOpContext", FOLDED, "conv2d_transpose_clamp_run"),
    ):
        ran = _run(workspace, _model(_layer(name, ptl.tuple_of(*state)), f"prepacked::{operator}"))
        assert [numbers(run["output"]) for run in ran["runs"]] == [[0, 0]] * 2


@pytest.mark.parametrize(
    "state",
    [
        _changed(PLAIN, 0, _tensor(2, 2)),
        _changed(PLAIN, 0, _tensor(0, 2, 1, 1)),
        _changed(PLAIN, 0, _tensor(1, 2, 1, 1, kind="Double")),
        _changed(PLAIN, 0, ptl.NONE),
        _changed(PLAIN, 0, ptl.number(7)),
        _changed(PLAIN, 1, _tensor(3)),
        _changed(PLAIN, 1, _tensor(2, 1)),
        _changed(PLAIN, 2, _ints(0, 1)),
        _changed(PLAIN, 2, _ints(1, 1, 1)),
        _changed(PLAIN, 2, _ints()),
        _changed(PLAIN, 2, ptl.NONE),
        _changed(PLAIN, 3, _ints(-1, 0)),
        _changed(PLAIN, 3, _ints(2**40, 0)),
        _changed(PLAIN, 4, _ints(1, -(2**62))),
        _changed(PLAIN, 5, ptl.number(0)),
        _changed(PLAIN, 5, ptl.number(-2)),
        _changed(PLAIN, 5, ptl.number(3)),
        _changed(PLAIN, 5, ptl.NONE),
        _changed(PLAIN, 6, ptl.text("0")),
        _changed(PLAIN, 6, ptl.real(float("nan"))),
        _changed(PLAIN, 6, ptl.real(float("inf"))),
        ptl.tuple_of(*PLAIN[:6], ptl.number(1), ptl.number(1)),
        ptl.tuple_of(*PLAIN[:7]),
        ptl.tuple_of(*FOLDED),
        ptl.EMPTY,
        ptl.NONE,
        ptl.number(1),
    ],
)
def test_a_damaged_layer_is_an_error_when_it_is_loaded(workspace: Path, state: bytes) -> None:
    ran = _run(workspace, _model(_layer("Conv2dOpContext", state)))
    assert ran["error"]["code"] == "LOAD_FAILED"
    assert ran.get("runs", []) == []


@pytest.mark.parametrize(
    ("name", "state", "operator"),
    [
        ("Conv2dOpContext", PLAIN, "prepacked::linear_clamp_run"),
        ("Conv2dOpContext", PLAIN, "prepacked::conv2d_transpose_clamp_run"),
        ("TransposeConv2dOpContext", FOLDED, "prepacked::conv2d_clamp_run"),
    ],
)
def test_a_layer_of_another_kind_is_an_error(
    workspace: Path, name: str, state: tuple[bytes, ...], operator: str
) -> None:
    layer = _layer(name, ptl.tuple_of(*state))
    ran = _run(workspace, _model(layer, operator))
    assert [run["error"]["code"] for run in ran["runs"]] == ["RUN_FAILED"] * 2


def test_what_is_no_layer_is_an_error(workspace: Path) -> None:
    """A tensor, and numbers, where the operator wants a layer."""
    for layer in (WEIGHT, ptl.NONE, ptl.number(1)):
        ran = _run(workspace, _model(layer))
        assert [run["error"]["code"] for run in ran["runs"]] == ["RUN_FAILED"] * 2


def test_a_layer_that_pads_and_strides_without_end_is_an_error(workspace: Path) -> None:
    most = 2**20
    for name, state, operator in (
        ("Conv2dOpContext", _changed(PLAIN, 3, _ints(most, most)), "conv2d_clamp_run"),
        (
            "TransposeConv2dOpContext",
            _changed(FOLDED, 4, _ints(most, most)),
            "conv2d_transpose_clamp_run",
        ),
    ):
        ran = _run(workspace, _model(_layer(name, state), f"prepacked::{operator}"))
        assert [run["error"] is None for run in ran["runs"]] == [False, False]
