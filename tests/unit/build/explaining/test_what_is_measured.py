"""`size` of what was not built."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from toy_workspace import toy_invocation

from orchestrator.build.explaining.size import (
    Bytes,
    NothingMeasuredError,
    OptimisedAsWholeError,
    measure,
    measured,
)
from orchestrator.values.labels import VariantLabel

APP = "models: [{file: m.ptl}]\ntargets: [linux-x86_64]\n"


def test_what_is_not_built(tmp_path: Path) -> None:
    here = toy_invocation(tmp_path, {"camera": APP})
    with pytest.raises(NothingMeasuredError) as raised:
        measured(here, VariantLabel("camera", "linux-x86_64"))
    assert raised.value.render() == (
        f"{tmp_path}/dist/camera/linux-x86_64: error: //apps/camera:linux-x86_64 is not built\n"
        "  expected: a delivered library\n"
        "  do:       run: ./orchestrate build //apps/camera:linux-x86_64"
    )


def test_what_is_optimised_as_a_whole(tmp_path: Path) -> None:
    here = toy_invocation(tmp_path, {"camera": APP})
    spec: Any = SimpleNamespace(lto=True)
    variant: Any = SimpleNamespace(
        label=VariantLabel("camera", "linux-x86_64"),
        app=here.workspace.apps["camera"],
        objects=SimpleNamespace(plan=SimpleNamespace(spec=spec)),
    )
    runtime: Any = None
    with pytest.raises(OptimisedAsWholeError) as raised:
        measure(here, runtime, variant, tmp_path / "libcamera_torch.so")
    assert raised.value.what == (
        "//apps/camera:linux-x86_64 is optimised as a whole: its objects do not tell what it has"
    )


def test_bytes_as_a_line() -> None:
    assert Bytes(7, 1234, 5678).text() == (
        "without it the library would be 1,234 bytes smaller; "
        "what it needs as others do takes 5,678 bytes more"
    )
    assert Bytes(7, 1234, None).text() == (
        "it takes 7 bytes; without it the library would be 1,234 bytes smaller"
    )
