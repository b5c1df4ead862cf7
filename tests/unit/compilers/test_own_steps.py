"""Our own code in links."""

from __future__ import annotations

import ast
from pathlib import Path

from orchestrator.compilers.own_steps import OWN_STEPS

PACKAGE = Path(__file__).parents[3] / "orchestrator"


def test_our_own_steps_are_all_that_they_import() -> None:
    for files in OWN_STEPS.values():
        found = {*files}
        for name in files:
            tree = ast.parse((PACKAGE / name).read_text(encoding="utf-8"))
            for node in ast.walk(tree):
                if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("orch"):
                    found.add("/".join((node.module or "").split(".")[1:]) + ".py")
        assert found == {*files}
