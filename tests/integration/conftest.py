"""One real build for all integration tests: this repository's own workspace, in the user's cache.

From an empty cache the first build takes minutes; later ones reuse every object. Nothing here is
skipped: where a component is missing, the fixture fails and says which.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from real import ROOT, orchestrator


@pytest.fixture(scope="session")
def built() -> Path:
    """`dist/` after `orchestrator build //...` of this repository."""
    ran = orchestrator("build", "//...", "--quiet")
    assert ran.code == 0, ran.err
    return ROOT / "dist"
