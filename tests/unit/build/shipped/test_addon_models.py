"""Which models an add-on is proven with: none of the library's is left out without being told."""

from __future__ import annotations

import json
import shutil
import zipfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from shipped_index import ROOT
from toy_workspace import toy_invocation

from orchestrator.build.shipped.addon_models import (
    NotHere,
    Proof,
    Ready,
    UnverifiedAddonError,
    library_models,
    no_proof,
    proof,
    require_all_here,
    settled,
)
from orchestrator.deliver.manifest import FileFact, ModelFact
from orchestrator.errors import Place
from orchestrator.packagers.contents import Packaged
from orchestrator.system.reading import file_sha256
from orchestrator.values.config.app import ModelConfig
from orchestrator.verify.verdict import RunnerResult, VerifyResult

CLASSIFIER = ROOT / "apps/camera/models/classifier.ptl"
SHIPPED = file_sha256(CLASSIFIER)
WITH_INPUTS = """\
models:
  - file: models/classifier.ptl
    inputs:
      - args: [{shape: [1, 3], fill: ones}]
targets: [linux-x86_64]
"""
DELIVERED = "share/camera/models/classifier.ptl"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A workspace with the app whose library has shipped."""
    made = tmp_path / "workspace"
    shutil.copytree(ROOT / "apps/camera", made / "apps/camera")
    shutil.copy(ROOT / "WORKSPACE", made)
    return made


def package(
    folder: Path,
    *models: ModelFact,
    app: str = "camera",
    files: Mapping[str, FileFact] | None = None,
) -> Packaged:
    """A package with a manifest of these models, in a folder."""
    manifest = SimpleNamespace(app=app, models=models, files=files or {})
    return Packaged(folder, cast(Any, manifest), "lib/x.so")


def delivered(folder: Path, file: Path, sha256: str, path: str = DELIVERED) -> Packaged:
    """One that holds a model of camera's."""
    target = folder / path
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(file, target)
    fact = ModelFact(name="classifier", file="classifier.ptl", sha256=sha256, delivered=path)
    size = target.stat().st_size
    return package(folder, fact, files={path: FileFact(bytes=size, sha256=file_sha256(target))})


def fact(name: str = "classifier", sha256: str = SHIPPED) -> ModelFact:
    return ModelFact(name=name, file=f"{name}.ptl", sha256=sha256)


def found(root: Path, one: Packaged) -> Ready | NotHere:
    """What there is of the one model of a library."""
    folder = root.parent / "unpacked"
    folder.mkdir(exist_ok=True)
    here = toy_invocation(root, cache=root.parent / "cache")
    (model,) = library_models(here, one, folder)
    return model


def replaced(path: Path) -> None:
    """A new export in a model's place: the same but for its digest."""
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr(f"{archive.namelist()[0].split('/')[0]}/extra/x", b"x")


def test_a_model_whose_file_and_trace_are_here_is_compared_with_what_was_recorded(
    root: Path,
) -> None:
    model = found(root, package(root, fact()))
    assert isinstance(model, Ready)
    assert (model.of, model.model, model.sha256) == ("library", "classifier", SHIPPED)
    assert model.path == root / "apps/camera/models/classifier.ptl"
    assert model.basis == "recorded outputs"
    assert model.expected is not None
    assert model.expected["runs"]


def test_a_model_that_was_replaced_is_told(root: Path) -> None:
    """Before the new one is traced, and after."""
    replaced(root / "apps/camera/models/classifier.ptl")
    seen = NotHere("classifier", SHIPPED, "apps/camera/models/classifier.ptl is another file")
    assert found(root, package(root, fact())) == seen
    lock = root / "apps/camera/traces/classifier.yaml"
    lock.write_text(lock.read_text().replace(SHIPPED, 64 * "1"))
    assert found(root, package(root, fact())) == seen


def test_an_earlier_file_under_another_name_in_any_app_is_the_model(root: Path) -> None:
    """What the error advises: it is found by its digest."""
    shutil.copytree(root / "apps/camera", root / "apps/kept")
    replaced(root / "apps/camera/models/classifier.ptl")
    model = found(root, package(root, fact()))
    assert isinstance(model, Ready)
    assert model.path == root / "apps/kept/models/classifier.ptl"
    assert model.basis == "recorded outputs"
    # and if the library's app is not here at all
    shutil.rmtree(root / "apps/camera")
    assert found(root, package(root, fact())) == model


def test_a_model_without_a_trace_is_compared_with_the_library_alone(root: Path) -> None:
    (root / "apps/camera/traces/classifier.yaml").unlink()
    model = found(root, package(root, fact()))
    assert isinstance(model, Ready)
    assert model.path == root / "apps/camera/models/classifier.ptl"
    assert (model.expected, model.basis) == (None, "the library alone")


def test_what_was_recorded_with_other_inputs_is_not_expected(root: Path) -> None:
    """The lock is of this very file, but of the inputs that are in it."""
    (root / "apps/camera/app.yaml").write_text(WITH_INPUTS)
    model = found(root, package(root, fact()))
    assert isinstance(model, Ready)
    assert model.config.inputs == "bundled"
    assert (model.expected, model.basis) == (None, "the library alone")


@pytest.mark.parametrize(
    ("app", "model", "declared", "reason"),
    [
        ("gone", "classifier", None, "this workspace has no app gone"),
        ("camera", "older", None, "//apps/camera has no model older"),
        ("camera", "classifier", "models: 3\n", "apps/camera/app.yaml has errors"),
        (
            "camera",
            "classifier",
            "models: [{file: models/classifier.ptl, canonical: static}]\ntargets: [linux-x86_64]\n",
            "the model classifier of //apps/camera has no canonical model",
        ),
    ],
)
def test_why_a_model_is_not_here(
    root: Path, app: str, model: str, declared: str | None, reason: str
) -> None:
    if declared is not None:
        (root / "apps/camera/app.yaml").write_text(declared)
    other = fact(model, 64 * "0")
    assert found(root, package(root, other, app=app)) == NotHere(model, 64 * "0", reason)


def test_a_package_that_delivers_its_models_has_them_whatever_the_workspace_has(
    root: Path, tmp_path: Path
) -> None:
    one = delivered(tmp_path / "package", CLASSIFIER, SHIPPED)
    replaced(root / "apps/camera/models/classifier.ptl")
    model = found(root, one)
    assert isinstance(model, Ready)
    assert model.path == tmp_path / "unpacked/0.ptl"
    assert model.path.read_bytes() == CLASSIFIER.read_bytes()
    # the lock is of that file as yet, and its inputs are in it
    assert model.basis == "recorded outputs"
    (root / "apps/camera/traces/classifier.yaml").unlink()
    model = found(root, one)
    assert isinstance(model, Ready)
    assert (model.expected, model.basis) == (None, "the library alone")
    shutil.rmtree(root / "apps/camera")
    assert found(root, one) == model


@pytest.mark.parametrize("path", ["share/gone.ptl", "../outside.ptl"])
def test_what_a_package_does_not_hold_is_not_its_model(
    root: Path, tmp_path: Path, path: str
) -> None:
    replaced(root / "apps/camera/models/classifier.ptl")
    folder = tmp_path / "package"
    folder.mkdir()
    one = delivered(folder, CLASSIFIER, SHIPPED, path)
    if path == "share/gone.ptl":
        (folder / path).unlink()
    assert isinstance(found(root, one), NotHere)


def test_a_model_without_inputs_of_its_own_takes_those_that_its_app_declares(
    root: Path, tmp_path: Path
) -> None:
    """They may be other ones than it was verified with: what it gives with them is compared."""
    bare = ROOT / "tests/golden/fits/plain.ptl"
    one = delivered(tmp_path / "package", bare, 64 * "0")
    later = root / "apps/camera/models/classifier.ptl"
    model = found(root, one)
    assert isinstance(model, Ready)
    # those in a later file of it
    assert (model.like, model.inputs) == (later, None)
    data = later.read_bytes()
    shutil.copy(bare, later)
    assert found(root, one) == NotHere(
        "classifier", 64 * "0", "it holds no inputs, and no app here declares any"
    )
    later.write_bytes(data)
    (root / "apps/camera/app.yaml").write_text(WITH_INPUTS)
    model = found(root, one)
    assert isinstance(model, Ready)
    assert model.config.inputs != "bundled"
    assert (model.expected, model.basis) == (None, "the library alone")


def ready(name: str = "m", expected: Mapping[str, Any] | None = None) -> Ready:
    config = ModelConfig(file=f"{name}.ptl")
    basis = "the library alone" if expected is None else "recorded outputs"
    return Ready(
        *("library", name, 64 * "a", Path(f"{name}.ptl"), config, None),
        expected=expected,
        basis=cast(Any, basis),
    )


def gives(*numbers: float, error: str | None = None) -> RunnerResult:
    """A run with a tuple of these numbers, or with an error."""
    output = {"tuple": [{"double": number} for number in numbers]}
    told = None if error is None else {"code": "RUN_FAILED", "text": error}
    run = {"method": "forward", "index": 0, "output": None if error else output, "error": told}
    return RunnerResult(0, {"error": None, "runs": [run]})


def test_what_the_library_alone_gives_is_expected_but_for_what_differs_by_itself() -> None:
    results = iter([gives(1.0, 2.0), gives(1.0, 3.0)])
    (model,) = settled([ready()], lambda one: next(results))
    assert isinstance(model, Ready)
    assert proof(model, gives(1.0, 7.0)).status == "ok in part"
    failed = proof(model, gives(1.5, 2.0))
    assert (failed.status, failed.compared_with) == ("failed", "the library alone")


def test_what_was_recorded_is_not_asked_of_the_library() -> None:
    recorded = ready(expected=gives(1.0).result)
    missing = NotHere("n", 64 * "b", "gone")
    assert settled([recorded, missing], lambda one: pytest.fail(one.model)) == (recorded, missing)


@pytest.mark.parametrize(
    ("result", "told"),
    [
        (gives(error="no such\nshape"), "m, forward[0]: no such"),
        (RunnerResult(-11, None, "gone"), "m: the model runner was killed by SIGSEGV: gone"),
    ],
)
def test_a_model_that_the_library_alone_does_not_run_is_not_proof(
    result: RunnerResult, told: str
) -> None:
    """Not even where it fails the same way with the add-on."""
    (model,) = settled([ready()], lambda one: result)
    reason = f"with the inputs that are here it fails in the library alone: {told}"
    assert model == NotHere("m", 64 * "a", reason)


def test_an_add_on_with_unverified_models_is_refused_unless_asked_for() -> None:
    missing = NotHere("classifier", SHIPPED, "apps/camera/models/classifier.ptl is another file")
    place = Place("camera.tar.zst")
    require_all_here([ready()], "camera 1.0.0 for linux-x86_64", place, unverified=False)
    require_all_here([missing], "camera 1.0.0 for linux-x86_64", place, unverified=True)
    models: list[Ready | NotHere] = [ready(), missing, replace(missing, model="other")]
    with pytest.raises(UnverifiedAddonError) as caught:
        require_all_here(models, "camera 1.0.0 for linux-x86_64", place, unverified=False)
    assert caught.value.render() == (
        "camera.tar.zst: error: not all models of camera 1.0.0 for linux-x86_64 are here to be run"
        " with the add-on\n"
        "  expected: each model that the library was built for: in the package, or in an app here\n"
        "  seen:     classifier, sha256 bf5df4e8da0b: apps/camera/models/classifier.ptl is another"
        " file; other, sha256 bf5df4e8da0b: apps/camera/models/classifier.ptl is another file\n"
        "  do:       declare that file in an app of this workspace, under a name of its own, and"
        " trace it; or pass --unverified: the add-on then says what it was not run with"
    )


def test_what_the_add_ons_own_file_says_of_its_models() -> None:
    """Two of one name are two."""
    own = Proof("add-on", "m", 64 * "b", VerifyResult("m", "ok", 2), "recorded outputs")
    missing = no_proof(NotHere("m", 64 * "a", "gone"), "nothing runs it")
    not_run = no_proof(ready("n"), "nothing runs it")
    assert json.loads(json.dumps([one.fact for one in (own, missing, not_run)])) == [
        {
            "of": "add-on",
            "model": "m",
            "sha256": 64 * "b",
            "status": "ok",
            "reason": "",
            "compared_with": "recorded outputs",
        },
        {
            "of": "library",
            "model": "m",
            "sha256": 64 * "a",
            "status": "not here",
            "reason": "gone",
            "compared_with": None,
        },
        {
            "of": "library",
            "model": "n",
            "sha256": 64 * "a",
            "status": "not run here",
            "reason": "nothing runs it",
            "compared_with": None,
        },
    ]
