"""Faster kernels for loaded models: the same results as PyTorch's own, at every CPU level.

`apps/layers/export.py` beside this file writes the models: convolutions and linear layers of all
kinds, a model whose weights are others in every run, and one of softmax, norms and single numbers.
And the memory of weights, once they are packed: `memory_program.py` runs models made by hand.
"""

from __future__ import annotations

import json
import os
import random
import re
import struct
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from chain_models import chains_both_ways
from driving import call, levels_told, numbers, reaches, tensor, traced_alone, verified_layers
from memory_program import CHANNELS
from real import EACH_RUNTIME, orchestrator, workspace_copy
from shortcut_models import both_ways

from tests import ptl

pytestmark = pytest.mark.real

LAYERS = Path(__file__).parent / "apps" / "layers"


@pytest.fixture(scope="module", params=EACH_RUNTIME)
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
    told = verified_layers("also at CPU level baseline")
    assert (ran.code, ran.err, ran.out) == (0, "", told)
    assert manifest(workspace)["kernels"] == {
        "features": [
            *(
                "activation",
                "add",
                "batches",
                "bilinear",
                "convolution",
                "convolution_site",
                "gemm",
            ),
            *(
                "images",
                "large_windows",
                "layer_norm",
                "linear",
                "pooling",
                "pooling_rows",
                "products",
            ),
            *("rewrite", "shortcut_activation", "shortcut_add", "shortcut_layer_norm"),
            *("shortcut_numbers", "shortcut_products", "shortcut_softmax", "shortcut_views"),
            *("shortcuts", "small_products", "softmax", "spares", "transposed", "unary"),
        ],
        "library": "xnnpack",
        "levels": ["avx2"],
        "version": "0.0~git20241108",
    }


@pytest.mark.parametrize(
    ("model", "function", "reached"),
    [
        ("layers", "ConvolutionSite7compute", True),
        ("layers", "LinearSite7compute", True),
        ("layers", "PoolingSite7compute", True),
        ("windows", "_ZN3lta8convolveE", True),
        ("windows", "PoolingSite7compute", True),
        ("rows", "shortcuts12_GLOBAL__N_110layer_norm", True),
        ("images", "_ZN3lta16interpolate_rows", True),
        ("changing", "ConvolutionSite7compute", False),  # it writes to its weights
        ("switched", "ConvolutionSite7compute", False),  # so may these
        ("opened", "ConvolutionSite7compute", False),
    ],
)
def test_which_kernels_compute(workspace: Path, model: str, function: str, reached: bool) -> None:
    """Modules that were scripted and not frozen: their branches of training are never taken."""
    assert reaches(workspace, "layers", model, function) == reached


def test_shortcuts_give_what_operators_give(workspace: Path, tmp_path: Path) -> None:
    """On each runtime."""
    told, names = both_ways(workspace / "dist/layers/linux-x86_64", tmp_path, calls=2000)
    assert {"aten::softmax.int", "aten::layer_norm", "aten::add.Tensor"} <= names
    assert 0 < told.pop("failed") < 1000
    assert told == {"different": [], "forked": 0}


def test_chains_give_what_operators_give(workspace: Path, tmp_path: Path) -> None:
    """With writes in place."""
    built = workspace / "dist/layers/linux-x86_64"
    told = chains_both_ways(built, tmp_path, calls=150, seeds=range(3))
    assert told["calls"] == 3 * 150
    assert 0 < told["failed"] < 3 * 150
    assert told["different"] == []


def test_a_kernel_that_is_larger_than_the_image_is_an_error(workspace: Path) -> None:
    """`grouped` does not pad. XNNPACK would take zeros for what is missing."""
    x = tensor(*(24 * [1.0]), shape=[1, 6, 2, 2])
    ran = call(workspace, "layers", "forward", x, model="layers")
    assert (ran["error"]["code"], ran["output"]) == ("RUN_FAILED", None)


def _features(workspace: Path, app: str, rows: int) -> list[float]:
    rng = random.Random(rows)
    x = tensor(*(rng.uniform(-1, 1) for _ in range(rows * 40)), shape=[rows, 4, 10])
    output = call(workspace, app, "features", x, model="layers")["output"]
    (found,) = (item for key, item in output["dict"] if key == {"string": "out"})
    return numbers(found)


@pytest.mark.ci_only
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


@pytest.mark.ci_only
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
    told = verified_layers(levels_told("avx2", "avx512"))
    assert (ran.code, ran.err, ran.out) == (0, "", told)


def test_much_work_brings_avx512(workspace: Path) -> None:
    """By what the lock says of a run."""
    lock = workspace / "apps/layers/traces/rows.yaml"
    before = lock.read_text()
    levels = []
    for count in (19_999_999, 20_000_000):
        lock.write_text(re.sub("multiply_adds: [0-9]+", f"multiply_adds: {count}", before))
        ran = orchestrator("plan", "//apps/layers", "--json", "--quiet", cwd=workspace)
        (row,) = json.loads(ran.out)["variants"]
        levels.append(row["cpu_levels"])
    lock.write_text(before)
    assert levels == [["avx2"], ["avx2", "avx512"]]


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


_WIDE = 4
_WIDE_BYTES = _WIDE * CHANNELS * CHANNELS * 4


def _wide(
    *more: tuple[str, int, int],
    method: int = zipfile.ZIP_STORED,
    after_first: Sequence[tuple[str, int, int]] = (),
    registers: int = 4,
    **other: bytes,
) -> bytes:
    """A model of convolutions whose weights are 4 MB each; and more instructions before its end.

    other: attributes behind its weights
    """
    rows = [("STOREN", 1, 2), ("LOAD", 2, 0)]
    for layer in range(_WIDE):
        rows += [("LOAD", 1, 0), ("GET_ATTR", layer, 0), ("LOADC", 0, 0)]
        for constant in (1, 2):
            rows += [("LOADC", constant, 0), ("LOADC", constant, 0), ("LIST_CONSTRUCT", 0, 2)]
        rows += [("OP", 0, 0), *(after_first if layer == 0 else ())]
    tables = ptl.code(
        ptl.tuple_of(*(ptl.instruction(*row) for row in [*rows, *more, ("RET", 0, 0)])),
        operators=ptl.tuple_of(ptl.operator("aten::conv2d", "", 5)),
        constants=ptl.tuple_of(ptl.NONE, ptl.number(1), ptl.number(0), ptl.FALSE),
        types=ptl.tuple_of(ptl.text("List[int]")),
        registers=ptl.number(registers),
    )
    arguments = ptl.argument("self", ptl.MODULE), ptl.argument("x", "Tensor")
    function = ptl.function(tables=tables, signature=ptl.schema(ptl.tuple_of(*arguments)))
    weights, records = {}, {}
    for layer in range(_WIDE):
        held = ptl.storage(str(layer), "Float", CHANNELS * CHANNELS)
        sizes = ptl.numbers(CHANNELS, CHANNELS, 1, 1), ptl.numbers(CHANNELS, 1, 1, 1)
        weights[f"w{layer}"] = ptl.put(ptl.tensor(held, *sizes), 1000 + layer)
        rng = random.Random(layer)
        some = struct.pack("<4099f", *(rng.uniform(-0.05, 0.05) for _ in range(4099)))
        records[f"data/{layer}"] = (some * 256)[: CHANNELS * CHANNELS * 4]
    return ptl.archive(
        {
            "data.pkl": ptl.module(**weights, **other),
            "bytecode.pkl": ptl.bytecode(function),
            "version": b"3\n",
            **records,
        },
        method,
    )


def _steps(workspace: Path, model: bytes, *steps: str) -> list[Any]:
    path = workspace / "wide.ptl"
    path.write_bytes(model)
    library = workspace / "dist/layers/linux-x86_64/lib/liblayers_torch.so"
    program = Path(__file__).with_name("memory_program.py")
    argv = [sys.executable, str(program), str(library), str(path), *steps]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    path.unlink(missing_ok=True)
    assert done.returncode == 0, done.stderr
    return list(json.loads(done.stdout))


def test_packed_weights_are_in_memory_once(workspace: Path) -> None:
    loaded, first, run, again = _steps(workspace, _wide(), "load", "run", "gained", "run")
    assert first == again
    # besides, the library's own pages; when packed also the copy that a layer was packed from
    assert _WIDE_BYTES < loaded < 1.35 * _WIDE_BYTES
    assert _WIDE_BYTES < run < 1.7 * _WIDE_BYTES
    _, in_memory = _steps(workspace, _wide(), "load_memory", "run")
    assert first == in_memory


def test_weights_of_a_method_leave_before_its_second_layer_runs(workspace: Path) -> None:
    """Here it never does: the first one is followed by a jump over all others, if x is not None."""
    missing = [("LOAD", 2, 0), ("LOADC", 0, 0), ("__IS__", 0, 0)]
    jump = [*missing, ("JF", 10 * (_WIDE - 1) + 1, 0)]
    stops = _wide(after_first=jump)
    _, before, first, after, again = _steps(workspace, stops, "load", "away", "run", "away", "run")
    assert first == again
    assert before == 0
    assert _WIDE_BYTES <= after < 1.01 * _WIDE_BYTES
    # weights that something else reads stay where they are
    reads = [("LOAD", 1, 0), ("GET_ATTR", 1, 0), ("TUPLE_CONSTRUCT", 2, 0)]
    read = _wide(*reads, after_first=[])
    _, _, after = _steps(workspace, read, "load", "run", "away")
    assert (_WIDE - 1) * _WIDE_BYTES / _WIDE <= after < 0.8 * _WIDE_BYTES


def test_a_method_with_thousands_of_registers_is_packed(workspace: Path) -> None:
    """What is kept of a method's flow does not grow with its length times its registers."""
    count = 4000
    values = [row for at in range(3, count) for row in (("LOAD", 2, 0), ("STORE", at, 0))]
    many = _wide(after_first=values, registers=count)
    _, run, away = _steps(workspace, many, "load", "run", "away")
    assert run == _steps(workspace, _wide(), "load", "run")[1]
    assert away >= _WIDE_BYTES


def test_a_layer_that_cannot_use_its_packed_weights_reads_them_again(workspace: Path) -> None:
    expected = _steps(workspace, _wide(), "load_memory", "run", "run_none")[1:]
    assert expected[0] != expected[1]
    for steps in (("run", "run_none"), ("run", "run_none", "run", "run_none")):
        for change in ("remove", "replace"):
            found = _steps(workspace, _wide(), "load", "run", change, *steps)[3:]
            assert found == expected * (len(steps) // 2)
    deflated = _wide(method=zipfile.ZIP_DEFLATED)
    assert _steps(workspace, deflated, "load", "run", "truncate", "run_none")[3] == expected[1]


def test_a_file_that_is_written_over_while_its_model_is_loaded_costs_an_error_at_most(
    workspace: Path,
) -> None:
    for change in ("truncate", "overwrite"):
        steps = ("run", "run_none", "run", "run_none")
        _, first, _, *found = _steps(workspace, _wide(), "load", "run", change, *steps)
        assert found[::2] == [first, first]
        for error in found[1::2]:
            assert error.startswith(
                "error: the model's file was changed after the model was loaded"
            )
        # before anything is packed, nothing needs the file
        _, _, *found = _steps(workspace, _wide(), "load", change, "run_none", "run")
        assert found[1] == first


def test_weights_that_something_else_reads_stay(workspace: Path) -> None:
    """A method that gives back a weight: its own attribute, and an item of a list."""
    load = ("LOAD", 1, 0)
    pair = ("TUPLE_CONSTRUCT", 2, 0)
    weights = {
        "itself": _wide(load, ("GET_ATTR", 1, 0), pair),
        "in a list": _wide(
            load,
            ("GET_ATTR", _WIDE, 0),
            ("LIST_UNPACK", 1, 0),
            pair,
            kept=ptl.list_of(ptl.get(1001)),
        ),
    }
    for how, model in weights.items():
        expected = _steps(workspace, model, "load_memory", "run")[1]
        found = _steps(workspace, model, "load", "run", "truncate", "run")
        assert (found[1], found[3]) == (expected, expected), how


def test_threads_that_pack_one_module_at_once(workspace: Path) -> None:
    expected = _steps(workspace, _wide(), "load_memory", "run")[1]
    assert _steps(workspace, _wide(), "load", "run_twice", "run_twice")[1:] == [expected] * 2


def test_a_damaged_weight_is_found_when_it_is_loaded(workspace: Path) -> None:
    model = bytearray(_wide())
    model[len(model) // 2] ^= 1
    (by_path,) = _steps(workspace, bytes(model), "load")
    assert by_path.startswith("error: the archive is damaged: ")
    assert _steps(workspace, bytes(model), "load_memory") == [by_path]


def _microseconds(root: Path) -> float:
    """The least time of camera's first traced image."""
    output = root / "timed.json"
    argv = [str(root / ".orchestrator/variants/camera/linux-x86_64/driver"), "--time", "--no-args"]
    argv += ["--model", str(root / "apps/camera/models/classifier.ptl"), "--output", str(output)]
    library = root / "dist/camera/linux-x86_64/lib"
    subprocess.run(argv, env={**os.environ, "LD_LIBRARY_PATH": str(library)}, check=True)
    runs = json.loads(output.read_text())["runs"]
    return float(next(run["microseconds_min"] for run in runs if run["microseconds_min"]))


@pytest.mark.ci_only
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
