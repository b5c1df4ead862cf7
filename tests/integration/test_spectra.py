"""Fourier transforms, from trace to library; `apps/spectra/export.py` beside this file writes the
model, and what torch makes of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from driving import build_verified, call, numbers, tensor, traced_alone
from real import V1_13, V2_6

pytestmark = [pytest.mark.real, pytest.mark.ci_only]

SPECTRA = Path(__file__).parent / "apps" / "spectra"


@pytest.fixture(scope="module", params=[V1_13, V2_6])
def workspace(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace whose only app is `spectra`, traced, built and proven."""
    root, _ = traced_alone(SPECTRA, tmp_path_factory.mktemp("spectra"), request.param)
    build_verified(root)
    return root


def test_transforms_are_those_of_torch(workspace: Path) -> None:
    expected = json.loads((SPECTRA / "expected.json").read_text())
    run = call(workspace, "spectra", "forward", tensor(*expected["given"]))
    assert run["error"] is None, run
    for seen, wanted in zip(run["output"]["tuple"], expected["outputs"], strict=True):
        assert numbers(seen) == pytest.approx(wanted, rel=1e-5, abs=2e-5)


@pytest.mark.parametrize(("dim", "last"), [(0, 0), (0, 8), (0, 2**62), (1, 6), (-1, 6), (2**40, 6)])
def test_what_would_be_read_elsewhere_is_refused(workspace: Path, dim: int, last: int) -> None:
    x = tensor(1, 2, 3, 4)
    good = call(workspace, "spectra", "unchecked", x, {"int": 0}, {"int": 6})
    assert len(numbers(good["output"])) == 6
    run = call(workspace, "spectra", "unchecked", x, {"int": dim}, {"int": last})
    assert (run["output"], run["error"]["code"]) == (None, "RUN_FAILED")
