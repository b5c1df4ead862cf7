"""`extra:` in app.yaml: what it adds to a plan, and what `why` tells of it. Nothing is compiled."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from real import orchestrator, workspace_copy

pytestmark = pytest.mark.real

# on 1.13.1 and on 2.6.0
APPS = (pytest.param("camera", marks=pytest.mark.ci_only), "scanner")


@pytest.mark.parametrize("app", APPS)
def test_an_operator_that_no_model_names_is_planned_with_its_reason(
    app: str, tmp_path: Path
) -> None:
    root, label = workspace_copy(tmp_path, app), f"//apps/{app}:linux-x86_64"

    def estimated() -> int:
        ran = orchestrator("plan", label, "--json", "--quiet", cwd=root)
        assert ran.code == 0, ran.err
        return int(json.loads(ran.out)["variants"][0]["estimated_bytes"])

    before = estimated()
    file = root / "apps" / app / "app.yaml"
    file.write_text(f"{file.read_text()}extra:\n  aten::cumprod.out: the app multiplies\n")
    assert estimated() > before
    ran = orchestrator("why", label, "aten::cumprod.out", "--quiet", cwd=root)
    assert ran.code == 0, ran.err
    assert "app.yaml adds it (`extra`): the app multiplies" in ran.out
    ran = orchestrator("why", label, "cumprod_out_cpu", "--quiet", cwd=root)
    assert "app.yaml: all dtypes, for the operators under `extra`" in ran.out
