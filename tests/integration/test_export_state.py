"""Modules with a state, calls without arguments, and small numbers, exported by real torch.

Part of `./check --campaigns`: torch is a download of 200 MB. `canonical/states.py`
and `canonical/scales.py` have the modules.
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
SCALES = STATES.with_name("scales.py")
X = "float32[2]"


def printed(script: Path) -> list[dict[str, Any]]:
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    argv = [torch_python(), "-W", "ignore", str(script)]
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    return list(map(json.loads, done.stdout.splitlines()))


@pytest.fixture(scope="module")
def said() -> list[dict[str, Any]]:
    return printed(STATES)


def test_nothing_fresh_is_shared_by_calls(said: list[dict[str, Any]]) -> None:
    modules = [one for one in said if "module" in one]
    assert {one["module"]: one.get("why") for one in modules} == dict.fromkeys(
        (
            "Sums",
            "Ring",
            "Gives",
            "Constants",
            "Twice",
            "InList",
            "Lazy",
            "Shifts",
            "Unpools",
            "Parts",
        )
    )


def test_the_comparison_sees_what_torch_shares(said: list[dict[str, Any]]) -> None:
    """torch.jit.freeze is right where a size is an argument, or where a method writes itself."""
    right = {one["module"] for one in said if one.get("torchs")}
    assert right == {"Ring", "Lazy", "Unpools", "Parts"}


def test_equal_weights_of_several_methods_are_one_record(said: list[dict[str, Any]]) -> None:
    """A convolution of 64 x 2 x 3 x 3, once; and what is given away twice, of 500 numbers each."""
    (records,) = (one["records"] for one in said if "records" in one)
    assert records == [2000, 2000, 4608]


def test_what_is_entered_for_nothing_is_left_out(said: list[dict[str, Any]]) -> None:
    """In a method that nobody calls, too: the interpreter cannot enter it."""
    assert [one["quiet"] for one in said if "quiet" in one] == [[True, True]] * 2


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


def test_small_flat_and_quantised_numbers() -> None:
    found = {one["case"]: (one["result"], one["difference"]) for one in printed(SCALES)}
    tiny = "output[0]: 1.4999999853326784e-10, and now 2.2499999086100786e-10"
    assert found == {
        "3e-10, right": ("same", None),
        "3e-10, wrong": ("wrong", tiny),
        "3e-10, wrong, no float64": ("wrong", tiny),
        "1e-5, wrong": (
            "wrong",
            "output[0]: 4.999999873689376e-06, and now 5.500000042957254e-06",
        ),
        "1e-5, no float64": ("too small", None),
        "rounding": ("flat", None),
        "flat": ("flat", None),
        "other steps": ("wrong", "output: steps of 0.25 from 0, and now steps of 0.5 from 0"),
    }
