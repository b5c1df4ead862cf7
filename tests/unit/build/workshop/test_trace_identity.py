"""What makes a lock stale: a tracer's sources, and those of coverage where an app has classes."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from toy_workspace import toy_invocation

from orchestrator.build.workshop import trace_identity
from orchestrator.build.workshop.native import NATIVE
from orchestrator.values.trace import TraceIdentity

APP = "models: [{file: models/m.ptl}]\ntargets: [linux-x86_64]\n"
OWN = "sources: {files: [src/*.cpp]}\n"


@pytest.fixture
def native(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "native"
    for part in ("tracer", "coverage"):
        shutil.copytree(NATIVE / part, folder / part)
    monkeypatch.setattr(trace_identity, "NATIVE", folder)
    return folder


def identities(root: Path) -> tuple[TraceIdentity, TraceIdentity]:
    """Of a model of an app without sources of its own, and of one with some."""
    source = root / "apps/own/src/own.cpp"
    source.parent.mkdir(parents=True, exist_ok=True)
    source.touch()
    here = toy_invocation(root, {"plain": APP, "own": APP + OWN})
    plain, own = (
        here.models.trace_identity(app, app.config.models[0])
        for app in (here.workspace.apps["plain"], here.workspace.apps["own"])
    )
    return plain, own


def test_coverage_counts_where_a_selection_may_follow_from_it(tmp_path: Path, native: Path) -> None:
    before = identities(tmp_path / "work")
    with (native / "coverage/coverage.cpp").open("a", encoding="utf-8") as file:
        file.write("// mended\n")
    after = identities(tmp_path / "work")
    assert [old == new for old, new in zip(before, after, strict=True)] == [True, False]
    assert before[1].tracer != after[1].tracer


def test_the_recorder_counts_for_all(tmp_path: Path, native: Path) -> None:
    before = identities(tmp_path / "work")
    with (native / "tracer/recorder.cpp").open("a", encoding="utf-8") as file:
        file.write("// mended\n")
    after = identities(tmp_path / "work")
    assert [old.tracer == new.tracer for old, new in zip(before, after, strict=True)] == [
        False,
        False,
    ]
