"""Where generated texts go."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from orchestrator.context import Context


def context(root: Path) -> Context:
    return Context(root, root / "cache", root / ".orchestrator", root / "dist", {})


def test_texts_go_into_a_cache_that_takes_them(tmp_path: Path) -> None:
    """Also into one that is not there yet."""
    here = context(tmp_path)
    assert here.texts == here.cache
    (here.cache / "staging").mkdir(parents=True)
    assert here.texts == here.cache


@pytest.mark.parametrize("folder", ["cache", "cache/staging"])
def test_else_into_the_workspace(
    folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Root may write wherever permissions say no: the system is asked, and answers for another."""
    here = context(tmp_path)
    (here.cache / "staging").mkdir(parents=True)
    asked = os.access

    def access(path: Path, mode: int, **more: Any) -> bool:
        return path != tmp_path / folder and asked(path, mode, **more)

    monkeypatch.setattr(os, "access", access)
    assert here.texts == here.state / "texts"
