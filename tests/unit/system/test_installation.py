"""What to do where a package is missing: right in a clone, and where a wheel was installed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from orchestrator.system.installation import install_again, pip


def test_a_clone_installs_by_its_script() -> None:
    assert install_again() == (
        "remove .venv and run ./orchestrate again, which installs the pinned dependencies"
    )


def test_an_installed_wheel_is_installed_again(tmp_path: Path) -> None:
    """The script that `init` writes into a workspace installs nothing."""
    (tmp_path / "orchestrate").touch()
    assert install_again(tmp_path) == (
        f"install libtorch-orchestrator again, with all that it depends on, in {sys.prefix}"
    )


def test_pip_is_that_of_the_python_that_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/my tools/python3")
    assert pip() == "'/my tools/python3' -m pip"
