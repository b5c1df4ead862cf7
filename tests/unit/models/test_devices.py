"""Devices of the machine that exported a model: told, with the method and the line."""

from __future__ import annotations

from pathlib import Path

import pytest
from core_toy import ROOT, camera_workspace

from orchestrator import cli
from orchestrator.models.devices import foreign_devices
from orchestrator.models.info import read_model
from orchestrator.models.listing import read_listings
from orchestrator.pytorch.v1_13.dialect import DIALECT

MODEL = ROOT / "tests/golden/fits/devices.ptl"
TOLD = ("mps in forward at /src/devices.py:11", "cuda:0 in an attribute")


def test_devices_in_code_and_in_attributes() -> None:
    info = read_model(MODEL, DIALECT.models)
    assert foreign_devices(info, read_listings(MODEL)) == TOLD
    assert foreign_devices(info, ()) == ("mps in forward", "cuda:0 in an attribute")
    camera = ROOT / "apps/camera/models/classifier.ptl"
    assert foreign_devices(read_model(camera, DIALECT.models), read_listings(camera)) == ()


def test_a_new_app_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = tmp_path / "workspace"
    _, env = camera_workspace(root, "")
    assert cli.main(["new-app", "devices", "--model", str(MODEL)], env=env, cwd=root) == 0
    assert (
        "    names devices that no library has: mps in forward at /src/devices.py:11, cuda:0 in an"
        " attribute: export it again from the CPU, with module.cpu() before it is scripted or"
        " traced, and device=x.device in place of a name\n"
    ) in capsys.readouterr().out
