"""`orchestrator export bazel`: what it refuses before it writes."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from orchestrator.build import export
from orchestrator.build.export import NotExportedError, export_bazel
from orchestrator.errors import Place
from orchestrator.values.labels import Label


def test_an_extensible_library_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    label = Label("toy", "linux-x86_64")
    variant = SimpleNamespace(
        label=label,
        app=SimpleNamespace(place=Place("apps/toy/app.yaml", 1, 1)),
        objects=SimpleNamespace(plan=SimpleNamespace(spec=SimpleNamespace(extensible=True))),
    )
    monkeypatch.setattr(export, "plan_variants", lambda *_: [variant])
    session: Any = SimpleNamespace()
    with pytest.raises(NotExportedError) as caught:
        export_bazel(session, [label], tmp_path / "exported")
    assert caught.value.render() == (
        "apps/toy/app.yaml:1:1: error: //apps/toy:linux-x86_64 takes add-ons, and Bazel does not"
        " build such libraries yet\n"
        "  expected: an app without `extensible: true`\n"
        "  seen:     extensible: true\n"
        "  do:       build it with ./orchestrate build"
    )
    assert not (tmp_path / "exported").exists()
