"""Every test is one that pytest finds."""

from __future__ import annotations

from fnmatch import fnmatch
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[2]


def test_pytest_looks_into_every_folder_with_tests(pytestconfig: pytest.Config) -> None:
    """Its own list of folders to leave out has `build` and `dist`."""
    omitted = pytestconfig.getini("norecursedirs")
    inside = {
        part for file in TESTS.rglob("test_*.py") for part in file.relative_to(TESTS).parts[:-1]
    }
    assert {"build", "deliver"} <= inside
    assert [part for part in sorted(inside) if any(fnmatch(part, one) for one in omitted)] == []
