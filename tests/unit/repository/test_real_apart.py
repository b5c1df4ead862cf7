"""`./check tests/unit` compiles no PyTorch: what does is marked `real`, and is in tests/real."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).parents[2]
MARK = re.compile(r"\bmark\.real\b")


def test_what_needs_the_real_pytorch_is_apart() -> None:
    unit, real = set((TESTS / "unit").rglob("*.py")), set((TESTS / "real").rglob("test_*.py"))
    assert {file for file in unit | real if MARK.search(file.read_text(encoding="utf-8"))} == real
