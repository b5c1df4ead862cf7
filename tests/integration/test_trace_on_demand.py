"""What is recorded in the development library is what an app's tracer records, byte for byte."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
from real import ROOT, V1_13, Ran, orchestrator, workspace_copy

from orchestrator.system.folders import ensure_folder
from orchestrator.trace.lock import parse_lock

pytestmark = pytest.mark.real

# An operator that a set-up call of the recorder calls, and one that camera's model calls.
OF_SET_UP, OF_MODEL = "aten::set_.source_Storage", "aten::native_batch_norm"


def traced(root: Path, app: str, *options: str) -> tuple[dict[str, bytes], Ran]:
    """Every file of an app's traces after `trace`, and what that said."""
    ran = orchestrator("trace", f"//apps/{app}", *options, cwd=root)
    assert ran.code == 0, ran.err
    return {one.name: one.read_bytes() for one in (root / f"apps/{app}/traces").iterdir()}, ran


@pytest.mark.ci_only
def test_the_lock_is_that_of_the_apps_tracer(tmp_path: Path) -> None:
    """Of other models, and on the other runtime, it is a campaign: test_traces.py."""
    root = workspace_copy(tmp_path, "camera")
    in_tracer, told = traced(root, "camera", "--tracer", "--quiet")
    on_demand, ran = traced(root, "camera", "--quiet")
    assert on_demand == in_tracer
    assert len(on_demand) > 1
    first, second = ran.out.splitlines()[:2]
    assert re.fullmatch(r"//apps/camera: development library of \d+ units, \d+ compiled", first)
    assert re.match(r"//apps/camera: tracer of \d+ units, \d+ compiled\n", told.out)
    assert "changed in the lock" not in ran.out
    assert second.startswith("  ")


def test_what_is_missing_joins_and_is_in_the_lock(tmp_path: Path) -> None:
    """An operator that nobody told of. One of a set-up call alone is known, and that these calls
    copy unusual dtypes."""
    root = workspace_copy(tmp_path, "camera", runtime=V1_13)
    lock = root / "apps/camera/traces/classifier.yaml"
    known = parse_lock(lock.read_text(), "lock")
    state = ensure_folder(root / ".orchestrator", "state") / "development/calls"
    state.mkdir(parents=True)
    called = {*known.called_operators, *known.root_operators} - {OF_SET_UP, OF_MODEL}
    name = f"{known.identity.model}-{known.identity.runtime[:16]}.json"
    (state / name).write_text(json.dumps({"operators": sorted(called), "wide_tags": []}))
    # with no lock to read, nobody knows of the operators
    shutil.rmtree(lock.parent)
    files, ran = traced(root, "camera")
    joined = [line for line in ran.err.splitlines() if ": not there yet, compiling" in line]
    assert joined == [f"{OF_MODEL}: not there yet, compiling"]
    seen = parse_lock(files["classifier.yaml"].decode(), "lock")
    assert seen.called_operators == known.called_operators
    assert seen.kernel_tags == known.kernel_tags
    again, ran = traced(root, "camera")
    assert again == files
    assert "not there yet" not in ran.err


def test_own_operators_classes_and_elementwise_kernels_are_recorded(tmp_path: Path) -> None:
    root = workspace_copy(tmp_path, "inker")
    files, _ = traced(root, "inker", "--quiet")
    for lock in sorted((ROOT / "apps/inker/traces").glob("*.yaml")):
        seen, known = (
            parse_lock(text, "lock") for text in (files[lock.name].decode(), lock.read_text())
        )
        assert (seen.identity, seen.called_operators, seen.kernel_tags, seen.custom_classes) == (
            known.identity,
            known.called_operators,
            known.kernel_tags,
            known.custom_classes,
        )
