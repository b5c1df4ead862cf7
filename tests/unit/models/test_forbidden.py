"""`forbid:` in app.yaml: a model that names such an operator is refused, with its source line."""

from __future__ import annotations

import io
import shutil
import zipfile
from pathlib import Path

import pytest
from canonical_toy import digest, lock
from core_toy import ROOT, camera_workspace

from orchestrator import cli
from orchestrator.canonical.lock import write_canonical
from orchestrator.load.workspace import load_workspace
from orchestrator.models.checks import (
    FileOperatorError,
    ForbiddenOperatorError,
    file_operators,
    forbidden_operators,
    require_allowed,
    require_no_files,
)
from orchestrator.models.info import read_model
from orchestrator.models.source_lines import operator_places
from orchestrator.pytorch.v1_13.dialect import DIALECT

MODEL = ROOT / "tests/golden/fits/mapped.ptl"
OPENS = MODEL.with_name("opens.ptl")


@pytest.mark.parametrize("name", ["aten::mul", "aten::mul.Scalar"])
def test_the_operator_its_reason_and_its_line(name: str) -> None:
    info = read_model(MODEL, DIALECT.models, name="mapped.ptl")
    found = forbidden_operators(info, {name: "too slow", "aten::rand": "never"})
    with pytest.raises(ForbiddenOperatorError) as caught:
        require_allowed(info, found, operator_places(MODEL, found))
    assert caught.value.render() == (
        "mapped.ptl: error: this model names an operator that its app forbids\n"
        "  expected: none of those under `forbid:` in app.yaml\n"
        "  seen:     aten::mul.Scalar\n"
        "  do:       express that part of the model in other operators, or take them out of"
        " `forbid:`\n"
        "  | aten::mul.Scalar: too slow; named in forward, at /src/sample.py:8"
    )


def test_what_no_model_names_may_be_forbidden() -> None:
    info = read_model(MODEL, DIALECT.models)
    found = forbidden_operators(info, {"aten::rand": "never", "aten::mul.Tensor": "other overload"})
    assert found == {}
    require_allowed(info, found, {})


def test_a_model_that_opens_files() -> None:
    info = read_model(OPENS, DIALECT.models, name="opens.ptl")
    found = file_operators(info)
    with pytest.raises(FileOperatorError) as caught:
        require_no_files(info, found, operator_places(OPENS, found))
    assert caught.value.render() == (
        "opens.ptl: error: this model opens files, with the rights of whoever runs it\n"
        "  expected: a model that computes from its arguments and weights\n"
        "  seen:     aten::from_file in forward, at /src/opens.py:6\n"
        "  do:       read the file outside of the model, and pass a tensor; if the app means it,"
        " name the operator under `extra:` in app.yaml, with the reason"
    )
    assert file_operators(info, ["aten::from_file"]) == ()
    assert file_operators(info, ["aten::relu"]) == found


def test_a_model_that_opens_files_is_refused_before_it_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = tmp_path / "workspace"
    file, env = camera_workspace(root, "")
    shutil.copy(OPENS, file.parent / "models/classifier.ptl")
    for words in (
        ["new-app", "opens", "--model", str(OPENS)],
        ["trace", "//apps/camera"],
        ["run", str(OPENS)],
    ):
        assert cli.main(words, env=env, cwd=root) == 1, words
        assert "this model opens files" in capsys.readouterr().err, words
    file.write_text(file.read_text() + "extra:\n  aten::from_file: a table of ours\n")
    cli.main(["plan", "//apps/camera:linux-x86_64"], env=env, cwd=root)
    assert "this model opens files" not in capsys.readouterr().err


def test_every_verb_that_reads_models_or_locks_refuses(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = tmp_path / "workspace"
    file, env = camera_workspace(root, "forbid:\n  aten::conv2d: linear layers only\n")
    assert cli.main(["plan", "//apps/camera:linux-x86_64"], env=env, cwd=root) == 1
    assert "  | aten::conv2d: linear layers only; named in " in capsys.readouterr().err
    file.write_text(file.read_text().replace("aten::conv2d", "conv2d"))
    assert cli.main(["plan", "//apps/camera:linux-x86_64"], env=env, cwd=root) == 1
    error = capsys.readouterr().err
    assert "expected: an operator, such as aten::rand or aten::add.Tensor" in error


def test_the_line_of_a_canonical_model_is_that_of_its_original(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = tmp_path / "workspace"
    file, env = camera_workspace(root, "")
    file.write_text(
        "models: [{file: models/net.ptl, inputs: [{args: [1]}]}]\ntargets: [linux-x86_64]\n"
        "canonical: static\nforbid:\n  aten::mul: too slow\n"
    )
    (file.parent / "models/net.ptl").write_bytes(MODEL.read_bytes())
    app = load_workspace(root, env).apps["camera"]
    made = without_debug_information(MODEL)
    assert operator_places_of(made, tmp_path) == {}
    digests = {"original": digest(MODEL.read_bytes()), "canonical": digest(made)}
    write_canonical(app, app.config.models[0], lock(inputs="declared", **digests), made, None)
    assert cli.main(["plan", "//apps/camera:linux-x86_64"], env=env, cwd=root) == 1
    assert capsys.readouterr().err == (
        "apps/camera/models/net.canonical.ptl: error: this model names an operator that its app"
        " forbids\n"
        "  expected: none of those under `forbid:` in app.yaml\n"
        "  seen:     aten::mul.Scalar\n"
        "  do:       express that part of the model in other operators, or take them out of"
        " `forbid:`\n"
        "  | aten::mul.Scalar: too slow; named in forward, at /src/sample.py:8\n"
    )


def without_debug_information(model: Path) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(model) as old, zipfile.ZipFile(out, "w") as new:
        for entry in old.infolist():
            if "debug" not in entry.filename:
                new.writestr(entry, old.read(entry))
    return out.getvalue()


def operator_places_of(model: bytes, folder: Path) -> object:
    path = folder / "stripped.ptl"
    path.write_bytes(model)
    return operator_places(path, read_model(path, DIALECT.models).root_operators)
