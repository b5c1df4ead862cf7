"""The tracer on real PyTorch: the committed traces are what tracing gives, run for run."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from guide import shown
from real import ROOT, orchestrator, workspace_copy

pytestmark = pytest.mark.real

TRACED = ("camera", "keyboard")


def stable(lock: Path) -> dict[str, object]:
    """A lock without the outputs, of which the last bits may be the processor's own, and without
    coverage, which one from before it was recorded has not."""
    value = yaml.safe_load(lock.read_text())
    value.pop("outputs")
    value.pop("coverage", None)
    return dict(value)


@pytest.mark.parametrize("app", TRACED)
def test_tracing_again_gives_the_committed_trace(tmp_path: Path, app: str) -> None:
    root = workspace_copy(tmp_path, app)
    ran = orchestrator("trace", f"//apps/{app}", "--quiet", cwd=root)
    assert ran.code == 0, ran.err
    for lock in sorted((ROOT / "apps" / app / "traces").glob("*.yaml")):
        assert stable(root / "apps" / app / "traces" / lock.name) == stable(lock)
    # what was recorded is read from the locks, with nothing run
    ran = orchestrator("coverage", f"//apps/{app}", "--json", "--quiet", cwd=root)
    assert ran.code == 0, ran.err
    for model in json.loads(ran.out)["models"]:
        covered = model["coverage"]
        assert covered["instructions"] > 200
        assert covered["ways"] > 0
        assert 50 < covered["percent"] <= 100
    if app == "camera":  # a mobilenet: every instruction, and past its one assertion
        assert (covered["unrun"], covered["untaken"], covered["percent"]) == (0, 0, 100)


def test_what_changed_in_the_lock_is_told(tmp_path: Path) -> None:
    root = workspace_copy(tmp_path, "camera")
    lock = root / "apps/camera/traces/classifier.yaml"
    text = lock.read_text()
    lock.write_text(text.replace("- add_stub\n", "- copy_kernel\n", 1))
    command = ("trace", "//apps/camera", "--quiet")
    ran = orchestrator(*command, cwd=root)
    assert ran.code == 0, ran.err
    # the outputs' last bits may be the processor's own
    told = re.sub(r"; outputs \([^()]*\)$", "", ran.out.rstrip("\n"))
    assert told.splitlines()[1:] == [
        "  classifier: 58 operators ran, 18 kernel tags",
        "    changed in the lock: hot tags +add_stub -copy_kernel",
    ]
    ran = orchestrator(*command, "--json", cwd=root)
    assert json.loads(ran.out)["apps"][0]["models"][0]["changes"] == []


def test_pytorchs_own_selective_builder_reads_a_trace(tmp_path: Path) -> None:
    ran = orchestrator("fetch", "--json", "--quiet")
    assert ran.code == 0, ran.err
    tree = yaml.safe_load(ran.out)["trees"][0]
    lock = yaml.safe_load((ROOT / "apps/camera/traces/classifier.yaml").read_text())
    selected = tmp_path / "selected_operators.yaml"
    selected.write_text(yaml.safe_dump(lock["selected_operators"]))
    script = (
        "import sys\n"
        "from torchgen.selective_build.selector import SelectiveBuilder\n"
        "b = SelectiveBuilder.from_yaml_path(sys.argv[1])\n"
        "assert b.is_root_operator('aten::conv2d')\n"
        "assert b.is_operator_selected('aten::_slow_conv2d_forward')\n"
        "assert not b.is_root_operator('aten::_slow_conv2d_forward')\n"
        "assert b.is_kernel_dtype_selected('slow_conv2d_cpu', 'Float')\n"
        "assert not b.is_kernel_dtype_selected('slow_conv2d_cpu', 'Double')\n"
    )
    subprocess.run(
        [sys.executable, "-c", script, str(selected)],
        env={**os.environ, "PYTHONPATH": tree["folder"]},
        check=True,
    )


def test_a_stale_trace_fails_the_build_and_says_what_to_run(tmp_path: Path) -> None:
    root = workspace_copy(tmp_path, "camera")
    model = root / "apps/camera/models/classifier.ptl"
    model.write_bytes((ROOT / "apps/scanner/models/pages.ptl").read_bytes())
    ran = orchestrator("build", "--quiet", cwd=root)
    assert ran.code == 1
    assert ran.err == shown("docs/guide/trace.md", "apps/camera/traces/classifier.yaml")


def test_a_missing_trace_fails_the_build_and_says_what_to_run(tmp_path: Path) -> None:
    root = workspace_copy(tmp_path, "camera")
    (root / "apps/camera/traces/classifier.yaml").unlink()
    ran = orchestrator("build", "--quiet", cwd=root)
    assert ran.code == 1
    assert ran.err == (
        "error: the model classifier of //apps/camera has not been traced\n"
        "  expected: apps/camera/traces/classifier.yaml\n"
        "  do:       run: ./orchestrate trace //apps/camera\n"
    )


def test_a_model_that_fails_is_told_with_the_operator_it_fails_in(tmp_path: Path) -> None:
    root = workspace_copy(tmp_path, "camera")
    declared = root / "apps/camera/app.yaml"
    value = yaml.safe_load(declared.read_text())
    value["models"][0]["inputs"] = [{"args": [{"shape": [1, 5, 96, 96], "fill": "ones"}]}]
    declared.write_text(yaml.safe_dump(value))
    ran = orchestrator("trace", "//apps/camera", "--quiet", cwd=root)
    assert ran.code == 1
    assert ran.err == (
        "apps/camera/models/classifier.ptl: error: the model classifier does not run on its"
        " inputs\n"
        "  seen:     RUN_FAILED: input.size(1) == (weight_sizes[1] * groups)"
        " (raised from check at Convolution.cpp:565)\n"
        "  do:       run the model in PyTorch on the same inputs, and check declared shapes; where"
        " a newer PyTorch runs it, PyTorch 1.13.1 may lack a kernel for a dtype, such as float16:"
        " compute that part in float32; where it runs there, trace with --tracer\n"
        "  | raised in aten::conv2d, which called aten::convolution,"
        " which called aten::_convolution\n"
    )
