"""`memory`: what models take in delivered libraries, on both runtimes; that another count of the
same library agrees; and limits in a build."""

from __future__ import annotations

import base64
import json
import math
import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from guide import rough, shown
from real import ROOT, models_of, orchestrator, workspace_copy
from zig_tool import zig

pytestmark = pytest.mark.real

CAMERA, KEYBOARD = "//apps/camera:linux-x86_64", "//apps/keyboard:linux-x86_64"
# camera's classifier takes pictures of any size: its activations are then most of what there is
PICTURE = (1, 3, 512, 512)


def test_what_models_take(built: Path) -> None:
    ran = orchestrator("memory", CAMERA, KEYBOARD, "--json", "--quiet")
    assert ran.code == 0, ran.err
    camera, keyboard = json.loads(ran.out)["models"]
    for one in (camera, keyboard):
        assert one["peak_bytes"] >= one["kept_bytes"] > one["file_bytes"] / 2
        for run in one["runs"]:
            parts = run["loaded_bytes"] + run["earlier_bytes"] + run["own_bytes"]
            shown_blocks = sum(block["bytes"] for block in run["blocks"])
            assert parts == shown_blocks + run["others"]["bytes"]
            # the library lets go of a little that it had before
            assert 0 <= parts - run["peak_bytes"] < 50_000
            assert run["at"] is not None
    first, again, other = camera["runs"]
    assert (first["again"], again["again"], other["index"]) == (False, True, 1)
    # the first run packs; what it left is all that later ones find
    assert first["earlier_bytes"] == 0
    assert first["after"]["left_bytes"] == again["earlier_bytes"] == again["after"]["left_bytes"]
    # a convolution's result, of 48 channels, is most of it
    largest = again["blocks"][0]
    assert (largest["dtype"], largest["shape"]) == ("float32", [1, 48, 48, 48])
    assert largest["bytes"] - 4 * 48**3 in range(256)
    assert largest["at"]["operator"] == again["at"]["operator"] == "aten::conv2d"
    # LSTMs are packed for each method that runs them
    left = [run["after"]["left_bytes"] for run in keyboard["runs"]]
    assert left == sorted(left)
    assert left[-1] > 1.5 * left[0]


@pytest.mark.full_only
def test_in_an_emulator(built: Path) -> None:
    """With glibc and musl; most of it are tensors, which are the same for every processor."""
    labels = (CAMERA, "//apps/camera:linux-arm64", "//apps/reader:linux-arm64-musl")
    ran = orchestrator("memory", *labels, "--json", "--quiet")
    assert ran.code == 0, ran.err
    here, arm, *readers = json.loads(ran.out)["models"]
    assert abs(arm["peak_bytes"] - here["peak_bytes"]) < here["peak_bytes"] / 20
    assert [one["model"] for one in readers] == ["detector", "recogniser"]
    assert all(run["at"] for one in (arm, *readers) for run in one["runs"])


def test_the_guide(built: Path) -> None:
    ran = orchestrator("memory", CAMERA, "--top", "4", "--quiet")
    assert rough(ran.out) == rough(shown("docs/guide/memory.md", "//apps/camera:linux-x86_64 cl"))


def test_another_count_of_the_delivered_library_agrees(built: Path, tmp_path: Path) -> None:
    ran = orchestrator("memory", CAMERA, "--quiet")
    assert ran.code == 0, ran.err
    (model,) = models_of("camera")
    library = built / "camera/linux-x86_64/lib/libcamera_torch.so"
    counted = runner_peak(model, library, tmp_path)
    counter = tmp_path / "count.so"
    source = Path(__file__).with_name("count_malloc.c")
    target = ("-target", "x86_64-linux-gnu.2.28")
    zig("cc", "-O2", "-shared", "-fPIC", *target, str(source), "-ldl", "-o", str(counter))
    program = Path(__file__).with_name("taken_program.py")
    done = subprocess.run(
        [sys.executable, str(program), str(library), str(model), *map(str, PICTURE)],
        env={**os.environ, "LD_PRELOAD": str(counter)},
        capture_output=True,
        text=True,
        check=True,
    )
    other, resident = map(int, done.stdout.split())
    assert abs(other - counted) < counted / 200
    # pages hold free memory between blocks, too
    assert counted < resident < 1.25 * counted


def runner_peak(model: Path, library: Path, folder: Path) -> int:
    """The peak of two runs on a picture of ones, as our runner counts it."""
    data = base64.b64encode(struct.pack("<f", 1.0) * math.prod(PICTURE)).decode()
    tensor = {"dtype": "float32", "shape": PICTURE, "data": data}
    given, told = folder / "inputs.json", folder / "told.json"
    given.write_text(json.dumps([{"method": "forward", "args": [{"tensor": tensor}]}]))
    runner = ROOT / ".orchestrator/variants/camera/linux-x86_64/memory"
    files = ("--model", str(model), "--inputs", str(given), "--output", str(told))
    subprocess.run(
        [str(runner), *files, "--no-args", "--time", "--warmup", "0", "--repeat", "1"],
        env={"LD_LIBRARY_PATH": str(library.parent)},
        check=True,
    )
    runs = json.loads(told.read_text())["memory"]["runs"]
    return max(int(run["peak"]) for run in runs)


def test_limits(tmp_path: Path) -> None:
    root = workspace_copy(tmp_path, "camera")
    declaration = root / "apps/camera/app.yaml"
    declared = yaml.safe_load(declaration.read_text())

    def build(limits: object) -> tuple[int, str]:
        declaration.write_text(yaml.dump({**declared, "memory": limits}, sort_keys=False))
        ran = orchestrator("build", CAMERA, "--quiet", cwd=root)
        return ran.code, ran.err

    code, said = build("1.2MB")
    assert code == 1
    assert "classifier takes more memory in //apps/camera:linux-x86_64 than its budget" in said
    assert "expected: at most 1,200,000 bytes at once" in said
    assert " bytes in forward[0] again, aten::conv2d, forward at instruction " in said
    assert " bytes: float32 [1, 48, 48, 48], aten::conv2d, forward at instruction " in said
    assert "; dist/camera/linux-x86_64 is not written" in said
    assert not (root / "dist/camera/linux-x86_64").exists()
    code, said = build({"peak": "2MB", "kept": "1.5MB", "models": {"classifier": "1.8MB"}})
    assert (code, said) == (0, "")
    ran = orchestrator("verify", CAMERA, "--quiet", cwd=root)
    assert ran.code == 0, ran.err
