"""What no input can take is not in a library: branches that a model's attributes decide.

`apps/flags/export.py` beside this file writes the models. Whether the proofs hold for whatever
modules is `tests/campaigns/test_settled_flags.py`.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from driving import build_verified, call, reaches, tensor, traced_alone
from real import EACH_RUNTIME, orchestrator
from torch_python import torch_python

from orchestrator.models.settled import WITHOUT_RESULT

pytestmark = pytest.mark.real

FLAGS = Path(__file__).parent / "apps" / "flags"
X = tensor(*(8 * [1.0]), shape=[1, 8])
LEFT_OUT = (
    "aten::abs",
    "aten::cumsum",
    "aten::fft_fft",
    "aten::sort",
    "quantized::linear_dynamic_fp16",
)


@pytest.fixture(scope="module", params=EACH_RUNTIME)
def traced(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, str]:
    """A workspace whose only app is `flags`, traced and built; what `trace` printed."""
    root, out = traced_alone(FLAGS, tmp_path_factory.mktemp("flags"), request.param)
    build_verified(root)
    return root, out


def manifest(root: Path) -> dict[str, Any]:
    text = (root / "dist/flags/linux-x86_64/manifest.json").read_text()
    return dict(json.loads(text))


def test_a_library_is_without_what_no_input_can_take(traced: tuple[Path, str]) -> None:
    root, told = traced
    # what a method turns on is there, though no input ran it
    unrun = "aten::erf, aten::len.t"
    assert f"; never ran: {unrun}; no input can reach: {', '.join(LEFT_OUT)}\n" in told
    selection = manifest(root)["selection"]
    assert {*LEFT_OUT} <= {*selection["left_out_operators"]}
    assert not {*LEFT_OUT} & {*selection["operators"]}
    for fast in (True, False):
        assert call(root, "flags", "hurry", {"bool": fast}, model="plain")["error"] is None


def test_a_model_may_name_what_the_runtime_does_not_have(traced: tuple[Path, str]) -> None:
    """Where no input reaches the call: `interpolate` of today's torch names an operator for each of
    its modes."""
    root, told = traced
    lanczos = "aten::_upsample_lanczos2d_aa.vec"
    assert lanczos in told
    assert lanczos in manifest(root)["selection"]["left_out_operators"]
    shutil.copy(FLAGS / "models/resized.ptl", root / "resized.ptl")
    ran = orchestrator("run", "resized.ptl", "--json", "--quiet", cwd=root)
    assert (ran.code, ran.err) == (0, "")
    found = orchestrator("doctor", "--json", cwd=root)
    assert lanczos not in found.out


def test_a_model_with_the_attribute_turned_is_refused_where_it_calls(
    traced: tuple[Path, str],
) -> None:
    root, _ = traced
    error = call(root, "flags", "forward", X, model="turned")["error"]
    assert error == {
        "code": "MISSING_OPERATOR",
        "text": "operator 'aten::sort' not selected: no input of the models that this library was"
        " built for reaches its call",
        "operators": ["aten::sort"],
    }
    # its other methods run
    assert call(root, "flags", "hurry", {"bool": True}, model="turned")["error"] is None


def test_layers_of_such_a_model_are_found(traced: tuple[Path, str]) -> None:
    assert reaches(traced[0], "flags", "plain", "LinearSite7compute")


def test_why_coverage_and_fits_say_so(traced: tuple[Path, str]) -> None:
    root, _ = traced
    label = "//apps/flags:linux-x86_64"
    ran = orchestrator("why", label, "aten::sort", cwd=root)
    assert (ran.code, ran.out) == (
        0,
        f"aten::sort is not in {label}: nothing that is selected needs it\n"
        "  plain: its bytecode names it, in branches that no input can take: forward at"
        " instruction 84\n"
        "  resized: its bytecode does not name it, and no input ran it\n"
        "  operators that no input ran cannot call it: aten::erf, aten::len.t\n"
        "  to have it: `extra` in app.yaml, or a file of the model that reaches it\n",
    )
    covered = orchestrator("coverage", "//apps/flags", "--json", cwd=root)
    model, _ = json.loads(covered.out)["models"]
    (forward,) = (one for one in model["coverage"]["methods"] if one["method"] == "forward")
    # of the branches inside nothing counts but `fast`, which no input sets
    (unrun, branch) = forward["missing"]
    assert unrun.endswith(" (aten::erf)")
    assert branch.startswith("if at instruction ")
    package = root / "dist/flags/linux-x86_64"
    # what it cannot reach either lacks to no model, also to one without a trace
    for name, lacking in (("plain", []), ("turned", ["aten::sort"])):
        shutil.copy(FLAGS / f"models/{name}.ptl", root / f"{name}.ptl")
        argv = ("fits", f"{name}.ptl", "--in", str(package), "--no-run", "--json")
        found = orchestrator(*argv, cwd=root)
        (row,) = json.loads(found.out)["packages"]
        assert [one["name"] for one in row["lacks"]] == lacking, row


@pytest.mark.ci_only
def test_operators_without_one_result_are_known() -> None:
    """The data flow takes all others of `aten` and `quantized` for such that give one value, unless
    several are stored at once."""
    program = (
        "import torch\n"
        "for s in torch._C._jit_get_all_schemas():\n"
        "    if not s.returns: print(s.name)\n"
    )
    ran = subprocess.run(
        [torch_python(), "-W", "ignore", "-c", program], capture_output=True, text=True, check=True
    )
    names = {name.partition("::")[2] for name in ran.stdout.split() if name.startswith("aten::")}
    assert "append" not in names
    assert names - {name for name in names if name.startswith("_")} <= WITHOUT_RESULT
    assert not any(name.startswith("quantized::") for name in ran.stdout.split())
