"""A `.pt2` from its file to what is traced, without torch: its worker is a script here."""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
from pathlib import Path

import pytest
from program_toy import records, write
from toy_workspace import toy_invocation

from orchestrator.build.authoring.add_app import AppRequest, add_app
from orchestrator.build.workshop.programs import loadable
from orchestrator.canonical import process
from orchestrator.canonical.lock import CanonicalMissingError, CanonicalStaleError, files_of
from orchestrator.canonical.python import VARIABLE, TorchMissingError
from orchestrator.load.workspace import load_workspace
from orchestrator.models.programs import UnsafeProgramError
from orchestrator.verify.inputs_file import InputsFileError, inputs_file

ROOT = Path(__file__).parents[4]
MODEL = ROOT / "apps/camera/models/classifier.ptl"
CALLS = [{"method": "forward", "args": [{"int": 3}]}]
WORKER = f"""\
import json, shutil, sys
from pathlib import Path
request = json.loads(Path(sys.argv[1]).read_text())
folder = Path(request["folder"])
shutil.copyfile({str(MODEL)!r}, folder / "canonical.ptl")
(folder / "inputs.json").write_text(json.dumps({CALLS!r}))
(folder / "result.json").write_text(json.dumps(dict(
    torch="2.13.0", folded=False, rewrites=[], comparison=[], microseconds=None,
    notes=["size 0 of x is always 1"])))
"""
TORCH = '#!/bin/sh\nif [ "$2" = -c ]; then echo torch 2.13.0; else exec "{python}" "$@"; fi\n'
LOCK = """\
format: 1
app: net
model: net
kind: exported
original: {original}
canonical: {canonical}
inputs: declared
torch: 2.13.0
exporter: 2.13.0
worker: '0123456789abcdef'
folded: false
largest: 0.0
operators: {{before: [], after: []}}
rewrites: []
comparison: []
"""


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture
def env(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    worker, python = tmp_path / "worker.py", tmp_path / "python"
    worker.write_text(WORKER)
    monkeypatch.setattr(process, "WORKER", worker)
    python.write_text(TORCH.format(python=sys.executable))
    python.chmod(0o755)
    return {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin", VARIABLE: str(python)}


def test_of_a_path_a_model_is_made_once(tmp_path: Path, env: dict[str, str]) -> None:
    said: list[str] = []
    here = toy_invocation(tmp_path / "w", env=env, log=said.append)
    file = write(tmp_path / "net.pt2", records())
    made = loadable(here, file)
    assert made.path.read_bytes() == MODEL.read_bytes()
    assert json.loads(made.inputs or b"") == CALLS
    assert said == [f"making a model of {file} by torch 2.13.0", "  size 0 of x is always 1"]
    assert loadable(here, file) == made
    assert len(said) == 2
    # what was damaged is made again; other inputs, another runtime or another file are another one
    made.path.write_bytes(b"x")
    assert loadable(here, file) == made
    assert made.path.read_bytes() == MODEL.read_bytes()
    assert loadable(here, file, "1.13.1").path != made.path
    assert loadable(here, file, given=json.dumps(CALLS).encode()).path != made.path
    assert loadable(here, MODEL).path == MODEL


def test_without_torch(tmp_path: Path, env: dict[str, str]) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho none\n")
    here = toy_invocation(tmp_path / "w", env=env)
    with pytest.raises(TorchMissingError) as caught:
        loadable(here, write(tmp_path / "net.pt2", records()))
    assert "do:       make an environment with it" in caught.value.render()


def test_an_app_of_a_program(tmp_path: Path) -> None:
    here = toy_invocation(tmp_path / "w")
    file = write(tmp_path / "net.pt2", records())
    added = add_app(here, AppRequest("net", [file], ["linux-x86_64"]), tmp_path)
    (model,) = added.models
    assert (model.file, model.is_program, model.inputs) == ("models/net.pt2", True, {"forward": 1})
    assert (tmp_path / "w/apps/net/app.yaml").read_text() == (
        "models:\n  - file: models/net.pt2\ntargets:\n  - linux-x86_64\n"
    )
    # one that is not safe is no app
    bad = write(tmp_path / "bad.pt2", {**records(), "data/aotinductor/x.so": b""})
    with pytest.raises(UnsafeProgramError):
        add_app(here, AppRequest("bad", [bad], ["linux-x86_64"]), tmp_path)
    assert not (tmp_path / "w/apps/bad").exists()


def test_what_is_traced_of_a_program(tmp_path: Path) -> None:
    """Its canonical file, as its lock says; without one, an error says how to make it."""
    folder = tmp_path / "apps/net/models"
    folder.mkdir(parents=True)
    write(folder / "net.pt2", records())
    text = "models: [{file: models/net.pt2, inputs: [{args: []}]}]\ntargets: [linux-x86_64]\n"
    here = toy_invocation(tmp_path, {"net": text})
    app = here.workspace.apps["net"]
    (model,) = app.config.models
    with pytest.raises(CanonicalMissingError, match="has no canonical model"):
        here.models.shipped(app, model)
    shutil.copyfile(MODEL, folder / "net.canonical.ptl")
    digests = {"original": digest(folder / "net.pt2"), "canonical": digest(MODEL)}
    (folder / "net.canonical.yaml").write_text(LOCK.format(**digests))
    assert here.models.shipped(app, model).path == folder / "net.canonical.ptl"
    assert [path.name for path in files_of(app, model)] == [
        "net.pt2",
        "net.canonical.ptl",
        "net.canonical.yaml",
    ]
    write(folder / "net.pt2", {**records(), "extra/x": b""})
    with pytest.raises(CanonicalStaleError):
        toy_invocation(tmp_path).models.shipped(app, model)


def test_inputs_in_a_file(tmp_path: Path) -> None:
    """They are an identity of a trace; a file that is none is told by its path."""
    folder = tmp_path / "apps/net/models"
    folder.mkdir(parents=True)
    shutil.copyfile(MODEL, folder / "net.ptl")
    text = "models: [{file: models/net.ptl, inputs: models/net.npz}]\ntargets: [linux-x86_64]\n"
    here = toy_invocation(tmp_path, {"net": text})
    app = here.workspace.apps["net"]
    (model,) = app.config.models
    with pytest.raises(InputsFileError, match="these are no inputs of this model") as caught:
        here.models.shipped(app, model)
    assert caught.value.place is not None
    assert caught.value.place.file == "apps/net/models/net.npz"
    data = {"tensor": {"dtype": "float32", "shape": [0, 3], "data": ""}}
    calls = [{"method": "forward", "args": [data]}]
    _, content = inputs_file(json.dumps(calls).encode(), ())
    (folder / "net.npz").write_bytes(content)
    inputs = here.models.shipped(app, model).inputs
    assert json.loads(inputs or b"") == calls
    call = here.models.bundled_call(app, model)
    assert call is not None
    assert (call.method, call.arguments[0].shape) == ("forward", (0, 3))
    assert [path.name for path in files_of(app, model)] == ["net.ptl", "net.npz"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "{file: models/net.pt2, canonical: traced}",
            "a program of torch.export is always made canonical",
        ),
        ("{file: models/net.ptl, inputs: models/net.txt}", "a .npz or .json file"),
        ("{file: models/net.onnx}", "neither a lite-interpreter file nor a program"),
    ],
)
def test_declarations_that_are_none(tmp_path: Path, text: str, said: str) -> None:
    toy_invocation(tmp_path)
    app = tmp_path / "apps/net/app.yaml"
    app.parent.mkdir(parents=True)
    app.write_text(f"models: [{text}]\ntargets: [linux-x86_64]\n")
    (fault,) = load_workspace(tmp_path, {"HOME": str(tmp_path)}).broken["net"]
    assert said in fault.render()
