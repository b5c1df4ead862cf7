"""What every test may count on."""

from __future__ import annotations

import signal

import pytest

# A shell starts its background jobs with SIGINT ignored, and an ignored signal stays ignored in
# children: tests of Ctrl-C would wait for nothing where CI runs in the background.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    """How much of the campaigns to run (tests/campaigns/harness.py)."""
    group = parser.getgroup("campaigns")
    group.addoption("--campaigns", action="store_true", help="campaigns in full, not in short")
    group.addoption("--seed", type=int, default=1, help="of all random numbers (1)")
    group.addoption("--only", type=int, default=None, help="repeat this one try")
    group.addoption("--seconds", type=float, default=3600.0, help="the most for one campaign")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Campaigns without a short form are part of full runs."""
    if not config.getoption("--campaigns"):
        left_out = [item for item in items if item.get_closest_marker("full_only")]
        items[:] = [item for item in items if item not in left_out]
        config.hook.pytest_deselected(items=left_out)
