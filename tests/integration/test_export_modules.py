"""Modules exported by real torch, and run; what PyTorch 1.13.1 lacks of their operators is lowered.

Part of `./check --campaigns`: torch is a download of 200 MB.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from guide import rough, shown
from real import EACH_RUNTIME, ROOT, V1_13, V2_6, Ran, orchestrator, workspace_copy
from torch_python import torch_python

from orchestrator.export.lowering_table import LOWERINGS
from orchestrator.trace.runs import runs_in
from orchestrator.verify.compare import compare_results

pytestmark = pytest.mark.full_only

PAGE = "docs/guide/export.md"
SOURCES = Path(__file__).parent / "canonical"
NETS = """
import torch
from torch import Tensor, nn

class Gate(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(6, 4)
    def forward(self, x: Tensor) -> Tensor:
        if bool((x > 0).all()):
            return torch.relu(self.layer(x))
        return self.layer(x).tanh()

class Opens(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        with open("/dev/null") as file:
            return x

class Fixed(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.reshape(torch.Size(int(n) for n in x.shape)) * torch.numel(x)

def examples():
    return [(torch.randn(2, 6),), (torch.rand(1, 6),)]
"""
# What docs/guide/export.md exports, and one that its section on control flow is about.
VAD = """
import torch
from torch import Tensor, nn

class Detector(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden = nn.Linear(160, 8)
        self.last = nn.Linear(8, 1)
    def forward(self, sound: Tensor) -> Tensor:
        if bool((sound.abs() < 0.001).all()):
            return torch.zeros(sound.size(0), 1)
        return torch.sigmoid(self.last(torch.relu(self.hidden(sound))))

def examples():
    return [(torch.randn(1, 160),)]

class Logs(nn.Module):
    def forward(self, sound: Tensor, name: str) -> Tensor:
        with open(name) as file:
            return sound

def logged():
    return [(torch.randn(1, 160), "/dev/null")]
"""
WITH_CODE = """
import sys
from pathlib import Path
import today
from orchestrator.export.saving import Export, prepare, write
prepare()
write({"attends": Export(today.Attends(), today.lines())}, Path(sys.argv[1]), with_code=True)
"""


@pytest.fixture(scope="session")
def python() -> str:
    return torch_python()


@pytest.fixture
def runtime() -> str:
    """The runtime of the workspace, where a test names none."""
    return V2_6


@pytest.fixture
def root(tmp_path: Path, runtime: str) -> Path:
    made = workspace_copy(tmp_path, runtime=runtime)
    (made / "nets.py").write_text(NETS)
    return made


def export(root: Path, python: str, app: str, *words: str) -> Ran:
    return orchestrator("export", "model", f"apps/{app}", "--python", python, *words, cwd=root)


def run(python: str, *words: str) -> str:
    env = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{SOURCES}"}
    argv = [python, "-W", "ignore", *words]
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


def test_lowered_operators_compute_the_same(python: str) -> None:
    said = list(map(json.loads, run(python, str(SOURCES / "decomposed.py")).splitlines()))
    assert {one["operator"] for one in said} == set(LOWERINGS)
    assert [one for one in said if not one["same"]] == []


def test_a_module_becomes_an_app(root: Path, python: str) -> None:
    words = ("--module", "nets:Gate", "--inputs", "nets:examples", "--quiet")
    ran = export(root, python, "gate", *words)
    assert ran.code == 0, ran.err
    assert "; created //apps/gate\n  11 calls compared with the module, largest" in ran.out
    made = (root / "apps/gate/models/gate.ptl").read_bytes()
    # the branches are there, and in another process the same bytes
    again = export(root, python, "gate", *words)
    assert again.code == 0, again.err
    assert "created" not in again.out
    assert (root / "apps/gate/models/gate.ptl").read_bytes() == made


def test_the_outputs_of_the_guide(root: Path, python: str) -> None:
    """The first command of docs/guide/export.md, and a module that TorchScript refuses."""
    (root / "models").mkdir()
    (root / "models/vad.py").write_text(VAD)
    words = ("--module", "models.vad:Detector", "--inputs", "models.vad:examples")
    assert f"export model apps/vad {' '.join(words)}\n" in (ROOT / PAGE).read_text()
    ran = export(root, python, "vad", *words)
    assert ran.code == 0, ran.err
    assert rough(ran.out) == rough(shown("docs/guide/export.md", "apps/vad/models/detector.ptl"))
    logs = ("--module", "models.vad:Logs", "--inputs", "models.vad:logged", "--via", "script")
    ran = export(root, python, "logs", *logs, "--quiet")
    assert ran.code == 1
    assert rough(ran.err) == rough(shown("docs/guide/export.md", "models/vad.py:"))


@pytest.mark.parametrize(
    ("words", "place", "told"),
    [
        (
            ("nets:Opens", "--via", "script"),
            "nets.py:16:1: error: TorchScript cannot compile",
            "with open(",
        ),
        (
            ("nets:Gate", "--via", "trace"),
            "nets.py:10:1: error: a trace of this",
            "if bool((x > 0)",
        ),
        (("nets:Fixed", "--via", "trace"), "nets.py:21:1: error: a trace of this", "torch.Size("),
        (("nets:None_",), "nets:None_: error: nets:None_ gives no module", "no attribute 'None_'"),
        (("nets:examples",), "nets:examples: error: nets:examples gives", "gives a list"),
    ],
)
def test_what_is_refused(
    root: Path, python: str, words: tuple[str, ...], place: str, told: str
) -> None:
    ran = export(root, python, "new", "--module", *words, "--inputs", "nets:examples", "--quiet")
    assert ran.code == 1
    assert place in ran.err
    assert told in ran.err
    assert not (root / "apps").exists()


@pytest.mark.real
@pytest.mark.parametrize("runtime", EACH_RUNTIME)
def test_models_of_today_run(root: Path, python: str) -> None:
    """Exported, lowered, traced by the pinned PyTorch: the outputs are those of eager torch."""
    shutil.copy(SOURCES / "today.py", root)
    names = ("Attends", "Encodes")
    for name in names:
        words = ("--module", f"today:{name}", "--inputs", "today:lines", "--quiet")
        ran = export(root, python, "today", *words)
        assert ran.code == 0, ran.err
    declared = root / "apps/today/app.yaml"
    text = declared.read_text()
    one = "  - file: models/{0}.ptl\n    inputs: models/{0}.npz\n"
    assert text.startswith(f"models:\n{one.format('attends')}")
    declared.write_text(text.replace("models:\n", f"models:\n{one.format('encodes')}"))
    traced = orchestrator("trace", "//apps/today", "--quiet", cwd=root)
    assert traced.code == 0, traced.err
    for name in names:
        expected = json.loads(run(python, str(root / "today.py"), name))
        seen = runs_in(root / f"apps/today/traces/{name.lower()}.runs.zst")
        assert len(seen["runs"]) == 2
        assert compare_results(expected, seen) == []


@pytest.mark.real
@pytest.mark.parametrize("runtime", [V1_13])
def test_canonical_lowers_what_a_command_refuses(root: Path, python: str) -> None:
    app = root / "apps/today"
    script = root / "with_code.py"
    script.write_text(WITH_CODE)
    run(python, str(script), str(app / "models"))
    (app / "app.yaml").write_text("models: [{file: models/attends.ptl}]\ntargets: [linux-x86_64]\n")
    refused = orchestrator("trace", "//apps/today", "--quiet", cwd=root)
    assert refused.code == 1
    assert "2 operators newer than PyTorch 1.13.1" in refused.err
    assert "then ./orchestrate canonical //apps/today --write" in refused.err
    with (app / "app.yaml").open("a") as file:
        file.write("canonical: static\n")
    words = ("//apps/today", "--write", "--quiet", "--python", python)
    made = orchestrator("canonical", *words, cwd=root)
    assert made.code == 0, made.err
    lock = yaml.safe_load((app / "models/attends.canonical.yaml").read_text())
    lowered = [one["from"] for one in lock["rewrites"] if one["name"] == "lowering"]
    assert lowered == ["aten::rms_norm", "aten::scaled_dot_product_attention"]
    assert not {*lowered} & {*lock["operators"]["after"]}
