"""Modules with a state, and calls without arguments, exported by real torch.

Part of `./check --campaigns`: torch is a download of 200 MB. `canonical/states.py` has the modules.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from real import ROOT
from torch_python import torch_python

pytestmark = pytest.mark.full_only

STATES = Path(__file__).parent / "canonical" / "states.py"
X = "float32[2]"


@pytest.fixture(scope="module")
def said() -> list[dict[str, Any]]:
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    argv = [torch_python(), "-W", "ignore", str(STATES)]
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    return list(map(json.loads, done.stdout.splitlines()))


def test_nothing_fresh_is_shared_by_calls(said: list[dict[str, Any]]) -> None:
    modules = [one for one in said if "module" in one]
    assert {one["module"]: one.get("why") for one in modules} == dict.fromkeys(
        ("Sums", "Ring", "Gives", "Constants", "Twice", "InList", "Lazy", "Shifts")
    )


def test_the_comparison_sees_what_torch_shares(said: list[dict[str, Any]]) -> None:
    """torch.jit.freeze is right where a size is an argument, or where a method writes itself."""
    right = {one["module"] for one in said if one.get("torchs")}
    assert right == {"Ring", "Lazy"}


def test_calls_without_arguments_and_with_default_ones_are_bundled(
    said: list[dict[str, Any]],
) -> None:
    found = [one["bundled"] for one in said if "bundled" in one]
    assert (
        found
        == [
            {"reset": [[]]},
            {
                "forward": [[X, "None", "2"], [X, f"({X})", "2"]],
                "reset": [[], []],
            },
            {"forward": [[X, "None", "3"], [X, "()", "2"]], "reset": [[]]},
        ]
        * 2
    )
