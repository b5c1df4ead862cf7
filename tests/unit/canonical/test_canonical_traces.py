"""What builds take of a canonical model: the file, and what a trace is bound to."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from canonical_toy import INPUTS, MADE, ORIGINAL, digest, lock, workspace
from toy_workspace import toy_invocation

from orchestrator.build.authoring.canonical import CanonicalPlaceError, canonical_apps, rounded_up
from orchestrator.canonical.lock import CanonicalChangedError, write_canonical
from orchestrator.load.declared import App
from orchestrator.values.trace import TraceIdentity


def identity(root: Path) -> TraceIdentity:
    here = toy_invocation(root)
    app = here.workspace.apps["camera"]
    return here.models.trace_identity(app, app.config.models[0])


@pytest.fixture
def app(tmp_path: Path) -> App:
    made = workspace(tmp_path)
    write_canonical(made, made.config.models[0], lock(), MADE, INPUTS)
    return made


def test_a_trace_is_of_the_canonical_model_and_its_inputs(app: App, tmp_path: Path) -> None:
    canonical = identity(tmp_path)
    assert (canonical.model, canonical.inputs) == (digest(MADE), digest(INPUTS))
    workspace(tmp_path, canonical="off")
    plain = identity(tmp_path)
    assert (plain.model, plain.inputs) == (digest(ORIGINAL), "bundled")
    assert replace(plain, model=canonical.model, inputs=canonical.inputs) == canonical


def test_a_build_stops_where_it_was_edited(app: App, tmp_path: Path) -> None:
    (tmp_path / "apps/camera/models/net.canonical.ptl").write_bytes(b"edited")
    with pytest.raises(CanonicalChangedError):
        identity(tmp_path)


def test_it_is_looked_at_once(app: App, tmp_path: Path) -> None:
    here = toy_invocation(tmp_path)
    camera = here.workspace.apps["camera"]
    first = here.models.shipped(camera, camera.config.models[0])
    assert here.models.shipped(camera, camera.config.models[0]) is first


def test_a_declared_model_keeps_its_place(tmp_path: Path) -> None:
    workspace(tmp_path)
    (tmp_path / "apps/camera/models/net.canonical.ptl").write_bytes(b"somebody's")
    (tmp_path / "apps/camera/app.yaml").write_text(
        "models: [{file: models/net.ptl}, {file: models/net.canonical.ptl, name: other}]\n"
        "targets: [linux-x86_64]\ncanonical: static\n"
    )
    here = toy_invocation(tmp_path)
    with pytest.raises(CanonicalPlaceError) as caught:
        canonical_apps(here, [here.workspace.apps["camera"]], python=None, write=True)
    assert caught.value.render() == (
        "apps/camera/models/net.canonical.ptl: error: the canonical model of net would"
        " overwrite a declared one\n"
        "  do:       rename the declared file, or give the model another `name`"
    )


@pytest.mark.parametrize(
    ("number", "rounded"),
    [(0.0, 0.0), (2.384185791015625e-07, 3e-07), (3e-07, 3e-07), (9.5e-08, 1e-07), (1.0, 1.0)],
)
def test_differences_are_rounded_up(number: float, rounded: float) -> None:
    assert rounded_up(number) == rounded
