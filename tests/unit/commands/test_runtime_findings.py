"""`doctor` on PyTorch's versions: the exact rows."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from test_load import good_workspace
from test_output_schemas import faults

from orchestrator import cli
from orchestrator.build.planning.model_needs import ReadModel, Unfit, VersionUse
from orchestrator.commands.findings import Finding
from orchestrator.commands.runtime_findings import runtime_findings
from orchestrator.errors import OrchestratorError
from orchestrator.load.declared import Workspace
from orchestrator.load.workspace import load_workspace

GOOD = Path(__file__).parents[2] / "golden/models/small.ptl"
FAULT = OrchestratorError("the runtime index of it cannot be read", hint="run: make it")
MODEL = ReadModel("camera", "small", "1.13.1", "apps/camera/app.yaml")
PIN = "pin it under `runtimes:` in WORKSPACE, and give apps `runtime:`"


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    """One app, `camera`, for linux-x86_64, of the runtime `stable`."""
    root = good_workspace(tmp_path)
    text = (root / "WORKSPACE").read_text()
    head, _, rest = text.partition("runtime:\n")
    pin = rest.replace("\n  ", "\n    ")
    (root / "WORKSPACE").write_text(
        f"{head}runtimes:\n  stable:\n  {pin}  next:\n  {pin}defaults: {{runtime: stable}}\n"
    )
    return load_workspace(root, {})


def version(*able: str, unable: tuple[str, ...] = (), needed: tuple[str, ...] = ()) -> VersionUse:
    return VersionUse("2.6.0", ("next",), able, unable, needed)


@pytest.mark.parametrize(
    ("use", "found"),
    [
        (version("a/x", "b/y"), "pinned as next; has all models' operators"),
        (
            version("a/x", unable=("b/y",)),
            "pinned as next; has all models' operators but b/y",
        ),
        (
            version("a/x", unable=("b/1", "b/2", "b/3", "b/4", "b/5")),
            "pinned as next; has all models' operators but b/1, b/2, b/3 and 2 more",
        ),
        (version(unable=("b/y",)), "pinned as next; has all operators of no model"),
        (version(), "pinned as next"),
        (VersionUse("2.6.0", (), (), (), ()), "supported, not pinned"),
        (VersionUse("2.6.0", ("a", "b"), (), (), ()), "pinned as a, b"),
    ],
)
def test_a_version(workspace: Workspace, use: VersionUse, found: str) -> None:
    assert runtime_findings(workspace, [use], {}, [], []) == (
        Finding("PyTorch 2.6.0", "present", found, (), PIN),
    )


def test_the_models_that_need_a_version_are_all_listed(workspace: Workspace) -> None:
    needed = tuple(f"b/{number}" for number in range(9))
    (found,) = runtime_findings(workspace, [version(*needed, needed=needed)], {}, [], [])
    assert found.needed_by == needed


def test_a_runtime_that_does_not_work(workspace: Workspace) -> None:
    cure = "the runtime index of it cannot be read: run: make it"
    assert runtime_findings(workspace, [], {"next": FAULT, "stable": FAULT}, [], []) == (
        Finding("runtime next", "absent", "", (), cure),
        Finding("runtime stable", "missing", "", ("linux-x86_64",), cure),
    )


def test_models_that_do_not_work(workspace: Workspace) -> None:
    broken = ReadModel("camera", "torn", "1.13.1", "", fault=OrchestratorError("torn", seen="it"))
    lacking = Unfit(MODEL, ("aten::a", "aten::b", "aten::c", "aten::d"), "next has them")
    alone = Unfit(MODEL, ("aten::a",), None)
    found = runtime_findings(workspace, [], {}, [MODEL, broken], [lacking, alone])
    assert {one.state for one in found} == {"missing"}
    assert {one.needed_by for one in found} == {("linux-x86_64",)}
    assert [(one.name, one.get) for one in found] == [
        ("model camera/torn", "torn: it"),
        (
            "model camera/small",
            "PyTorch 1.13.1 does not have aten::a, aten::b, aten::c and 1 more; next has them",
        ),
        ("model camera/small", "PyTorch 1.13.1 does not have aten::a"),
    ]


def test_a_runtime_without_a_name(tmp_path: Path) -> None:
    workspace = load_workspace(good_workspace(tmp_path), {})
    use = VersionUse("1.13.1", ("default",), (), (), ())
    found = runtime_findings(workspace, [use], {"default": FAULT}, [], [])
    assert [(one.name, one.found) for one in found] == [
        ("PyTorch 1.13.1", "pinned"),
        ("runtime", ""),
    ]


def test_the_verb(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = good_workspace(tmp_path)
    (root / "apps/camera/models/small.ptl").write_bytes(GOOD.read_bytes())
    assert cli.main(["doctor", "--json"], env={"PATH": "", "HOME": str(root)}, cwd=root) == 1
    out = capsys.readouterr().out
    assert faults("doctor", out) == []
    told = {one["name"]: one for one in json.loads(out)["findings"]}
    assert told["runtime"]["state"] == "missing", "its pinned tree is not the index's"
    assert "from another source tree" in told["runtime"]["get"]
    assert "model camera/small" not in told
