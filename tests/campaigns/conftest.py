"""The options of `./check --campaigns`, as a value."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from harness import Campaign

# what the tests of one unit share serves campaigns too
sys.path[1:1] = [str(Path(__file__).parents[1] / name) for name in ("support", "integration")]


_ENDED_EARLY = pytest.StashKey[list[str]]()


@pytest.fixture
def campaign(request: pytest.FixtureRequest) -> Campaign:
    """How much of each campaign to run."""
    option, name = request.config.getoption, request.node.name
    early = request.config.stash.setdefault(_ENDED_EARLY, [])
    return Campaign(
        long=option("--campaigns"),
        seed=option("--seed"),
        only=option("--only"),
        seconds=option("--seconds"),
        tell=lambda line: early.append(f"{name}: {line}"),
    )


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """A campaign that ran out of time passes, but has not tried all."""
    for line in config.stash.get(_ENDED_EARLY, []):
        terminalreporter.write_line(line)
