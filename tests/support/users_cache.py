"""The user's cache, on a machine that has none."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from orchestrator.load.workspace import load_workspace
from orchestrator.system.folders import ensure_folder

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session", autouse=True)
def users_cache() -> None:
    """Some call compilers, which write to the user's cache before any verb has made the folder."""
    ensure_folder(load_workspace(ROOT, os.environ).cache, "cache")
