"""Models in the development library: what is missing is compiled, what was is found again."""

from __future__ import annotations

import base64
import json
import struct
from pathlib import Path
from typing import Any

import pytest
from crafted import argument, method, operator
from crafted import model as model_bytes
from guide import rough, shown
from real import ROOT, V1_13, Ran, orchestrator, workspace_copy

from orchestrator.system.folders import ensure_folder
from orchestrator.system.workspace_lock import workspace_lock
from orchestrator.trace.lock import parse_lock

pytestmark = pytest.mark.real

CAMERA = "apps/camera/models/classifier.ptl"
# What the model calls, and nobody is told of at first.
LATE = "aten::native_batch_norm"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace with camera, whose model ran without one of its operators, and got it."""
    folder = workspace_copy(tmp_path_factory.mktemp("development"), "camera", runtime=V1_13)
    lock = parse_lock((folder / "apps/camera/traces/classifier.yaml").read_text(), "lock")
    called = {*lock.called_operators, *lock.root_operators} - {LATE}
    notes = ensure_folder(folder / ".orchestrator", "state") / "development/calls"
    notes.mkdir(parents=True)
    name = f"{lock.identity.model}-{lock.identity.runtime[:16]}.json"
    (notes / name).write_text(json.dumps({"operators": sorted(called)}))
    ran = orchestrator("run", "//apps/camera", cwd=folder)
    out = good(ran)
    assert f"{LATE}: not there yet, compiling" in ran.err
    assert f"    missing when it ran: {LATE}\n" in out
    assert "  as it was traced\n" in out
    return folder


def good(ran: Ran) -> str:
    assert ran.code == 0, ran.err
    return ran.out


def model(ran: Ran) -> dict[str, Any]:
    (found,) = json.loads(good(ran))["models"]
    assert isinstance(found, dict)
    return found


def test_the_second_time_everything_comes_from_the_store(root: Path) -> None:
    # a build does not hinder it
    with workspace_lock(root / ".orchestrator", False, pytest.fail, command="build"):
        ran = orchestrator("run", "//apps/camera", cwd=root)
    assert "waiting for" not in ran.err
    out = good(ran)
    said = shown("docs/guide/run-a-model.md", "classifier: ")
    start, end = said.split("\n...\n")
    assert rough(out).startswith(rough(start))
    assert rough(out).endswith(rough(end))
    assert " aten::_convolution\n" in out or " aten::convolution\n" in out


def test_a_file_is_run_and_timed(root: Path) -> None:
    """What it called is remembered by its content."""
    found = model(orchestrator("run", CAMERA, "--json", "--repeat", "3", cwd=root))
    assert found["timed"]["units"] > found["shards"][0]["units"]
    (shard,) = found["shards"]
    assert (shard["compiled"], shard["missing"]) == (None, [])
    assert found["runs"][0]["microseconds"] >= found["runs"][0]["microseconds_min"] > 0
    assert found["operators"]["aten::_convolution"]["calls"] == 50
    assert found["growth"] is None
    # it has the dtypes of its shard, which are more than the app's
    assert not found["library"]["of_app"]
    assert 1_300_000 < found["library"]["estimated_bytes"] < 1_600_000


def test_an_app_is_timed_in_what_its_build_made(root: Path) -> None:
    """Its kernels, the kernel library's among them: nothing of them is compiled again."""
    good(orchestrator("build", "//apps/camera:linux-x86_64", cwd=root))
    out = good(orchestrator("run", "//apps/camera", "--repeat", "3", cwd=root)).splitlines()
    line, _, times = shown("docs/guide/run-a-model.md", "  timed in ").splitlines()
    timed = next(one for one in out if one.startswith("  timed in "))
    assert ", 0 compiled in " in timed
    assert rough(timed) == rough(line)
    assert rough(times) in map(rough, out)
    library = root / ".orchestrator/run/development/timed/libcamera_torch.so"
    assert b"xnn_" in library.read_bytes()


def test_a_damaged_shard_is_made_again_and_a_model_that_fails_is_told(root: Path) -> None:
    shards = (root / ".orchestrator/run/development/shards").glob("*.so")
    last = max(shards, key=lambda path: path.stat().st_mtime)
    data = last.read_bytes()
    last.write_bytes(data[:5000] + b"\1\2\3" + data[5003:])
    ran = orchestrator("run", CAMERA, "--json", cwd=root)
    (shard,) = model(ran)["shards"]
    # its objects are there
    assert (shard["compiled"], shard["compiled_units"]) == (0, [])
    assert "in the store is damaged: removed, and made again" in ran.err
    wrong = root / "wrong.json"
    wrong.write_text('[{"method": "forward", "args": [{"int": 3}]}]')
    ran = orchestrator("run", CAMERA, "--input", str(wrong), cwd=root)
    assert ran.code == 1
    assert "error: the model classifier does not run on its inputs" in ran.err


def test_a_whole_new_operator_is_added_to_a_model(root: Path) -> None:
    """scanner's model has hardswish, which camera's shard has not."""
    path = ROOT / "apps/scanner/models/pages.ptl"
    found = model(orchestrator("run", str(path), "--json", cwd=root))
    assert "aten::hardswish" in found["operators"]


RELU = model_bytes(
    code=method(
        [("STOREN", 1, 2), ("MOVE", 2, 0), ("OP", 0, 0), ("RET", 0, 0)],
        arguments=[argument("x", "Tensor")],
        operators=[operator("aten::relu", arguments=1)],
        result="Tensor",
        registers=2,
    )
)


def test_a_known_kernel_in_a_new_dtype_is_what_the_library_would_grow_by(tmp_path: Path) -> None:
    """The library that the app has does not run the model so; once that is traced, it does."""
    root = workspace_copy(tmp_path)
    (root / "apps/toy").mkdir(parents=True)
    (root / "apps/toy/relu.ptl").write_bytes(RELU)
    declaration = root / "apps/toy/app.yaml"

    def declare(dtype: str) -> None:
        inputs = f"inputs: [{{args: [{{shape: [3], dtype: {dtype}, fill: ones}}]}}]"
        declaration.write_text(f"models: [{{file: relu.ptl, {inputs}}}]\ntargets: [linux-x86_64]\n")

    declare("float32")
    good(orchestrator("trace", "//apps/toy", cwd=root))
    found = model(orchestrator("run", "//apps/toy", "--json", cwd=root))
    assert found["growth"] == {"operators": [], "kernel_dtypes": [], "bytes": 0}
    (planned,) = json.loads(good(orchestrator("plan", "//apps/toy", "--json", cwd=root)))[
        "variants"
    ]
    size = planned["estimated_bytes"]
    whole = {"abi": "linux-x86_64", "estimated_bytes": size, "of_app": True}
    assert found["library"] == whole

    lock = parse_lock((root / "apps/toy/traces/relu.yaml").read_text(), "lock")
    ones = struct.pack("<3d", 1, 1, 1)
    tensor = {"dtype": "float64", "shape": [3], "data": base64.b64encode(ones).decode()}
    calls = root / "double.json"
    calls.write_text(json.dumps([{"method": "forward", "args": [{"tensor": tensor}]}]))
    ran = model(orchestrator("run", "//apps/toy", "--input", str(calls), "--json", cwd=root))
    new = {one["kernel_tag"]: one for one in ran["growth"]["kernel_dtypes"]}
    assert ran["growth"]["operators"] == []
    assert [one["dtypes"] for one in new.values()] == [["Double"]] * len(new)
    assert all({*lock.kernel_tags[tag]} == {"Float"} for tag in new)
    assert "clamp_min_scalar_cpu" in new
    assert 0 < ran["growth"]["bytes"] < 100_000
    text = good(orchestrator("run", "//apps/toy", "--input", str(calls), cwd=root))
    assert text.splitlines()[-2].startswith("  a library of this model alone for linux-x86_64 ")
    assert "clamp_min_scalar_cpu for Double" in text.splitlines()[-1]
    assert text.splitlines()[-1].startswith("  not in the app's traces: ")

    declare("float64")
    good(orchestrator("trace", "//apps/toy", cwd=root))
    then = parse_lock((root / "apps/toy/traces/relu.yaml").read_text(), "lock")
    assert {tag: one["dtypes"] for tag, one in new.items()} == {
        tag: sorted({*dtypes} - {*lock.kernel_tags.get(tag, ())})
        for tag, dtypes in then.kernel_tags.items()
        if not {*dtypes} <= {*lock.kernel_tags.get(tag, ())}
    }
    found = model(orchestrator("run", "//apps/toy", "--json", cwd=root))
    assert found["growth"] == {"operators": [], "kernel_dtypes": [], "bytes": 0}


# x * 1.5, where PyTorch makes a float64 tensor of the number
BY_A_NUMBER = model_bytes(
    code=method(
        [("STOREN", 1, 2), ("MOVE", 2, 0), ("LOADC", 0, 0), ("OP", 0, 0), ("RET", 0, 0)],
        arguments=[argument("x", "Tensor")],
        operators=[operator("aten::mul", "Scalar", 2)],
        constants=[b"G" + struct.pack(">d", 1.5)],
        registers=2,
    )
)


def test_a_file_that_was_never_traced_is_timed_in_all_dtypes_that_ran(tmp_path: Path) -> None:
    """The base, which has all dtypes of its own kernels, misses none of them; the library that a
    model is timed in is cut."""
    root = workspace_copy(tmp_path)
    (root / "scaled.ptl").write_bytes(BY_A_NUMBER)
    data = base64.b64encode(struct.pack("<3f", 1, 2, 3)).decode()
    tensor = {"dtype": "float32", "shape": [3], "data": data}
    calls = root / "calls.json"
    calls.write_text(json.dumps([{"method": "forward", "args": [{"tensor": tensor}]}]))
    words = ("run", "scaled.ptl", "--input", str(calls), "--repeat", "3", "--json")
    (run,) = model(orchestrator(*words, cwd=root))["runs"]
    (result,) = (base64.b64decode(run["output"]["tensor"]["data"]),)
    assert struct.unpack("<3f", result) == (1.5, 3.0, 4.5)
    assert run["microseconds"] > 0


def test_own_operators_classes_and_elementwise_kernels_are_in_the_shard(tmp_path: Path) -> None:
    """inker's models call all three; the base has nothing of them."""
    folder = workspace_copy(tmp_path, "inker")
    ran = orchestrator("run", "//apps/inker", "--json", cwd=folder)
    found = {one["model"]: one for one in json.loads(good(ran))["models"]}
    assert {name: one["as_recorded"] for name, one in found.items()} == {
        "strokes": "ok",
        "outline": "ok",
        "marks_of_pens": "ok",
    }
    assert {"ink::smooth", "ink::ease.Scalar"} <= found["outline"]["operators"].keys()
    again = json.loads(good(orchestrator("run", "//apps/inker", "--json", cwd=folder)))["models"]
    assert [[shard["compiled"] for shard in one["shards"]] for one in again] == [[None]] * 3
    functor = folder / "apps/inker/kernels/ease.elementwise"
    text = functor.read_text()
    functor.write_text(text.replace("+ sharpness", "+ sharp"))
    ran = orchestrator("run", "//apps/inker", cwd=folder)
    assert ran.code == 1
    line = 1 + text[: text.index("+ sharpness")].count("\n")
    assert f"apps/inker/kernels/ease.elementwise:{line}:" in ran.err
    assert "use of undeclared identifier 'sharp'" in ran.err


def test_an_initialiser_of_an_apps_own_sources_that_throws(tmp_path: Path) -> None:
    folder = workspace_copy(tmp_path, "inker")
    with (folder / "apps/inker/src/smooth.cpp").open("a") as source:
        source.write(
            "#include <stdexcept>\n"
            'static const int dry = []() -> int { throw std::runtime_error("it is dry"); }();\n'
        )
    ran = orchestrator("run", "//apps/inker", cwd=folder)
    assert ran.code == 1
    assert "error: a static initialiser of the app's own sources threw an exception" in ran.err
    assert "  seen:     it is dry\n" in ran.err
    assert "apps/inker/src/smooth.cpp" in ran.err
