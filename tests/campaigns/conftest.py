"""The options of `./check --campaigns`, as a value."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from harness import Campaign

# what the tests of one unit share serves campaigns too
sys.path[1:1] = [str(Path(__file__).parents[1] / name) for name in ("support", "integration")]


@pytest.fixture
def campaign(request: pytest.FixtureRequest) -> Campaign:
    """How much of each campaign to run."""
    option = request.config.getoption
    return Campaign(
        long=option("--campaigns"),
        seed=option("--seed"),
        only=option("--only"),
        seconds=option("--seconds"),
    )
