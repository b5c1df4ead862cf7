"""What was packed for a layer is used again only while it is what the model says.

`apps/reused/export.py` beside this file writes models that change a layer's weights, biases or
statistics in a run, each by another way. What PyTorch gives is recorded by the trace.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from driving import build_verified, call, numbers, tensor, traced_alone
from real import EACH_RUNTIME, consumer_program
from rewriting import CASES, crafted

pytestmark = pytest.mark.real

REUSED = Path(__file__).parent / "apps" / "reused"


@pytest.fixture(scope="module", params=EACH_RUNTIME)
def workspace(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace whose only app is `reused`, traced, built, and verified in every run."""
    root, _ = traced_alone(REUSED, tmp_path_factory.mktemp("reused"), request.param)
    build_verified(root)
    return root


def test_what_a_model_writes_to_is_never_used_as_it_was(workspace: Path) -> None:
    manifest = json.loads((workspace / "dist/reused/linux-x86_64/manifest.json").read_text())
    assert "rewrite" in manifest["kernels"]["features"]


def test_an_attribute_of_the_callers_is_read_in_every_run(workspace: Path) -> None:
    x, weight = tensor(*(4 * [1.0]), shape=[1, 4]), tensor(*(12 * [1.0]), shape=[3, 4])
    found = call(workspace, "reused", "forward", x, weight, model="kept")["output"]["list"]
    assert [numbers(one)[0] for one in found] == [4.0, 8.0, 12.0]


def test_what_is_rewritten_is_what_is_the_models_own(workspace: Path, tmp_path: Path) -> None:
    """Of crafted bytecode, by the library itself: it prints the operators that a run calls, those
    that are rewritten with a star. So a rewrite that no more fires fails as one that fires wrongly.
    """
    delivered = workspace / "dist/reused/linux-x86_64"
    toolchain = delivered / "lib/cmake/reused_libtorch/toolchain.cmake"
    options = (f"-DCMAKE_TOOLCHAIN_FILE={toolchain}", "-DPROGRAM=rewritten.cpp")
    program = consumer_program(tmp_path, "cpp_static", "reused", delivered, *options)
    files = [tmp_path / f"{number}.ptl" for number in range(len(CASES))]
    for file, case in zip(files, CASES, strict=True):
        file.write_bytes(crafted(case))
    argv = [str(program), *map(str, files)]
    ran = subprocess.run(argv, capture_output=True, text=True, check=True)
    lines = [line for line in ran.stdout.splitlines() if line.startswith("forward:")]
    told = {
        case.name: line.removeprefix("forward: ").replace("aten::", "")
        for case, line in zip(CASES, lines, strict=True)
    }
    assert told == {case.name: case.told for case in CASES}
