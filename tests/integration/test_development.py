"""Models in the development library: what is missing is compiled, what was is found again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from guide import rough, shown
from real import ROOT, Ran, orchestrator, workspace_copy

pytestmark = pytest.mark.real

CAMERA = "apps/camera/models/classifier.ptl"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace with camera, in which it ran."""
    folder = workspace_copy(tmp_path_factory.mktemp("development"), "camera")
    good(orchestrator("run", "//apps/camera", cwd=folder))
    return folder


def good(ran: Ran) -> str:
    assert ran.code == 0, ran.err
    return ran.out


def model(ran: Ran) -> dict[str, Any]:
    (found,) = json.loads(good(ran))["models"]
    assert isinstance(found, dict)
    return found


def test_the_second_time_everything_comes_from_the_store(root: Path) -> None:
    out = good(orchestrator("run", "//apps/camera", cwd=root))
    said = shown("docs/guide/run-a-model.md", "classifier: ").splitlines()
    for line, printed in zip(said[:3], out.splitlines(), strict=False):
        assert rough(printed) == rough(line)
    assert "  as it was traced\n" in out
    assert " aten::_convolution\n" in out or " aten::convolution\n" in out


def test_a_model_without_a_trace_gets_what_comes_up_missing(root: Path) -> None:
    """The same file where no lock tells what it calls; its objects are there."""
    for lock in (root / "apps/camera/traces").iterdir():
        lock.unlink()
    for note in (root / ".orchestrator/development/calls").iterdir():
        note.unlink()
    ran = orchestrator("run", CAMERA, "--json", "--repeat", "3", cwd=root)
    first = model(ran)
    assert "not there yet, compiling" in ran.err
    assert [one for shard in first["shards"] for one in shard["missing"]]
    assert first["shards"][-1]["missing"] == []
    assert first["runs"][0]["microseconds"] > 0
    again = model(orchestrator("run", CAMERA, "--json", cwd=root))
    (shard,) = again["shards"]
    assert (shard["compiled"], shard["missing"]) == (None, [])
    assert again["runs"][0]["output"] == first["runs"][0]["output"]


def test_a_damaged_shard_is_made_again_and_a_model_that_fails_is_told(root: Path) -> None:
    shards = (root / ".orchestrator/development/shards").glob("*.so")
    last = max(shards, key=lambda path: path.stat().st_mtime)
    data = last.read_bytes()
    last.write_bytes(data[:5000] + b"\1\2\3" + data[5003:])
    ran = orchestrator("run", CAMERA, "--json", cwd=root)
    assert model(ran)["shards"][-1]["compiled"] is not None
    assert "in the store is damaged: removed, and made again" in ran.err
    wrong = root / "wrong.json"
    wrong.write_text('[{"method": "forward", "args": [{"int": 3}]}]')
    ran = orchestrator("run", CAMERA, "--input", str(wrong), cwd=root)
    assert ran.code == 1
    assert "error: the model classifier does not run on its inputs" in ran.err


def test_a_whole_new_operator_is_added_to_a_model(root: Path) -> None:
    """scanner's model has hardswish, which camera's shard has not."""
    path = ROOT / "apps/scanner/models/pages.ptl"
    found = model(orchestrator("run", str(path), "--json", cwd=root))
    assert "aten::hardswish" in found["operators"]
