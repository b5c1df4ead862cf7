"""`extra:` in app.yaml: what it adds to a plan, and what `why` tells of it. Nothing is compiled."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from real import orchestrator, workspace_copy

pytestmark = pytest.mark.real

LABEL = "//apps/camera:linux-x86_64"
UNIT = "aten/src/ATen/native/ReduceOps.cpp"


def test_an_operator_that_no_model_names_is_planned_with_its_reason(tmp_path: Path) -> None:
    root = workspace_copy(tmp_path, "camera")

    def estimated() -> int:
        ran = orchestrator("plan", LABEL, "--json", "--quiet", cwd=root)
        assert ran.code == 0, ran.err
        return int(json.loads(ran.out)["variants"][0]["estimated_bytes"])

    before = estimated()
    file = root / "apps/camera/app.yaml"
    file.write_text(f"{file.read_text()}extra:\n  aten::cumprod.out: the app multiplies\n")
    assert estimated() > before
    ran = orchestrator("why", LABEL, "aten::cumprod.out", "--quiet", cwd=root)
    assert ran.code == 0, ran.err
    assert "app.yaml adds it (`extra`): the app multiplies" in ran.out
    ran = orchestrator("why", LABEL, "cumprod_out_cpu", "--quiet", cwd=root)
    assert "app.yaml: all dtypes, for the operators under `extra`" in ran.out
