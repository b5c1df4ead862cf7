"""What was packed for a layer is used again only while it is what the model says.

`apps/reused/export.py` beside this file writes models that change a layer's weights, biases or
statistics in a run, each by another way. What PyTorch gives is recorded by the trace.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from driving import build_verified, call, numbers, tensor, traced_alone
from real import EACH_RUNTIME

pytestmark = pytest.mark.real

REUSED = Path(__file__).parent / "apps" / "reused"


@pytest.fixture(scope="module", params=EACH_RUNTIME)
def workspace(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace whose only app is `reused`, traced, built, and verified in every run."""
    root, _ = traced_alone(REUSED, tmp_path_factory.mktemp("reused"), request.param)
    build_verified(root)
    return root


def test_what_a_model_writes_to_is_never_used_as_it_was(workspace: Path) -> None:
    manifest = json.loads((workspace / "dist/reused/linux-x86_64/manifest.json").read_text())
    assert "rewrite" in manifest["kernels"]["features"]


def test_an_attribute_of_the_callers_is_read_in_every_run(workspace: Path) -> None:
    x, weight = tensor(*(4 * [1.0]), shape=[1, 4]), tensor(*(12 * [1.0]), shape=[3, 4])
    found = call(workspace, "reused", "forward", x, weight, model="kept")["output"]["list"]
    assert [numbers(one)[0] for one in found] == [4.0, 8.0, 12.0]
