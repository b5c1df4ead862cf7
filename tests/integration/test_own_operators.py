"""`inker`: an operator of the app's own, from C++ to a verified library and its package."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from real import ROOT, orchestrator, workspace_copy

from orchestrator.trace.lock import parse_lock

pytestmark = pytest.mark.real

HOST = "linux-x86_64"


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return workspace_copy(tmp_path_factory.mktemp("inker"), "inker")


def test_it_is_cut_verified_and_delivered(built: Path) -> None:
    """On this machine and, in an emulator, for arm64; with what its kernel calls, and a licence."""
    for abi in (HOST, "linux-arm64"):
        manifest = json.loads((built / "inker" / abi / "manifest.json").read_text())
        selection = manifest["selection"]
        assert "ink::smooth" in selection["root_operators"]
        # what the operator calls, and the model does not
        assert {"aten::lerp.Scalar", "aten::empty_like"} <= {*selection["operators"]}
        assert not {"aten::lerp.Scalar", "aten::empty_like"} & {*selection["root_operators"]}
        assert selection["kernel_dtypes"]["ink_middles"] == ["Float"]
        texts = built / "inker" / abi / "share/doc/inker_libtorch/licences/inker-sources/LICENSE"
        assert texts.read_bytes() == (ROOT / "apps/inker/LICENSE").read_bytes()
        ran = orchestrator("verify", f"//apps/inker:{abi}", "--quiet")
        assert ran.code == 0, ran.err
        assert f"//apps/inker:{abi} strokes: ok" in ran.out


def test_its_lock_is_of_its_sources() -> None:
    lock = parse_lock((ROOT / "apps/inker/traces/strokes.yaml").read_text(), "strokes.yaml")
    assert lock.identity.sources
    assert lock.called_operators["ink::smooth"] > 0


def test_a_source_that_does_not_compile(workspace: Path) -> None:
    source = workspace / "apps/inker/src/smooth.cpp"
    text = source.read_text()
    source.write_text(text.replace("at::lerp(", "at::lerq("))
    ran = orchestrator("plan", "//apps/inker", cwd=workspace)
    source.write_text(text)
    assert ran.code == 1
    line = 1 + text[: text.index("at::lerp(")].count("\n")
    assert f"apps/inker/src/smooth.cpp:{line}:" in ran.err
    assert "no member named 'lerq' in namespace 'at'" in ran.err


def test_a_changed_source_wants_a_new_trace(workspace: Path) -> None:
    source = workspace / "apps/inker/src/smooth.cpp"
    text = source.read_text()
    source.write_text(text + "// changed\n")
    ran = orchestrator("plan", "//apps/inker", cwd=workspace)
    source.write_text(text)
    assert ran.code == 1
    assert "the trace of strokes is stale: sources changed since" in ran.err
