"""docs/guide/read-a-size-report.md shows what a build prints for machines: camera's report, and the
error where the library is larger than its budget."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from guide import FENCE, differences, shown_json
from real import ROOT, orchestrator, workspace_copy

pytestmark = pytest.mark.real

PAGE = "docs/guide/read-a-size-report.md"
ABI = "linux-x86_64"
BUILD = ("build", f"//apps/camera:{ABI}", "--json", "--quiet")


def shown_budget() -> str:
    """Of camera's library, as the page declares it first."""
    text = (ROOT / PAGE).read_text(encoding="utf-8")
    part = next(
        fence["body"]
        for fence in FENCE.finditer(text)
        if fence["info"] == "yaml apps/camera/app.yaml, part"
    )
    budget: str = yaml.safe_load(part)["budgets"]["linux-x86_64"]
    return budget


def test_what_is_shown_for_machines(tmp_path: Path) -> None:
    root = workspace_copy(tmp_path, "camera")
    declaration = root / "apps/camera/app.yaml"
    declared = yaml.safe_load(declaration.read_text())

    declaration.write_text(
        yaml.dump({**declared, "budgets": {"linux-x86_64": shown_budget()}}, sort_keys=False)
    )
    ran = orchestrator(*BUILD, cwd=root)
    assert ran.code == 1, ran.err
    printed, error = json.loads(ran.out), shown_json(PAGE, "code")
    real = printed["error"]["facts"]["stripped_bytes"]
    # a number in a text is not one that may be off
    seen = f"{error['facts']['stripped_bytes']:,} bytes"
    assert (error["seen"], printed["error"]["seen"]) == (seen, f"{real:,} bytes")
    said = {**error, "seen": printed["error"]["seen"]}
    assert differences({"format": 1, "error": said}, printed) == []

    del declared["budgets"]
    declaration.write_text(yaml.dump(declared, sort_keys=False))
    ran = orchestrator(*BUILD, cwd=root)
    assert ran.code == 0, ran.err
    printed, report = json.loads(ran.out), shown_json(PAGE, "variants")
    (row,), (example,) = printed["variants"], report["variants"]
    assert (row["stripped_bytes"], example["stripped_bytes"]) == (
        real,
        error["facts"]["stripped_bytes"],
    )
    units = [one["units_compiled"] + one["units_reused"] for one in (row, example)]
    assert units[0] == units[1]
    packages = printed["packages"]
    assert [one["kind"] for one in packages] == ["tar", "deb"]
    # the page says that it leaves out the Debian packages
    assert differences(report, {**printed, "packages": packages[:1]}) == []

    assert_engines(root, "camera", "classifier")


def assert_engines(root: Path, app: str, model: str) -> None:
    """What each engine of kernels takes of the app's library."""
    ran = orchestrator("build", f"//apps/{app}:{ABI}", "--json", "--engines", "--quiet", cwd=root)
    assert ran.code == 0, ran.err
    (row,) = json.loads(ran.out)["variants"]
    found = {one["name"]: one for one in row["engines"]}
    assert list(found) == ["XNNPACK", "kernels of ours", "pthreadpool"]
    assert found["XNNPACK"]["models"] == found["kernels of ours"]["models"] == [model]
    # the guide to speed says what the kernels add in all
    assert 60_000 < sum(one["bytes"] for one in found.values()) < 170_000


def test_the_same_of_another_runtime(tmp_path: Path) -> None:
    """The page shows camera's, of PyTorch 1.13.1. On 2.6.0: an error of that form, and sizes."""
    root = workspace_copy(tmp_path, "scanner")
    declaration = root / "apps/scanner/app.yaml"
    declared = yaml.safe_load(declaration.read_text())
    limits = {**declared, "budgets": {ABI: {"operators": {"aten::conv2d": "1kB"}}}}
    declaration.write_text(yaml.dump(limits, sort_keys=False))
    build = ("build", f"//apps/scanner:{ABI}", "--json", "--quiet")
    ran = orchestrator(*build, cwd=root)
    assert ran.code == 1, ran.err
    error = json.loads(ran.out)["error"]
    assert {**error, "details": "", "seen": "", "facts": {}} == {
        **shown_json(PAGE, "code"),
        "message": f"//apps/scanner:{ABI} has more for aten::conv2d alone than its budget",
        "place": {"file": "apps/scanner/app.yaml", "line": None, "column": None},
        "expected": "at most 1,000 bytes",
        "hint": "raise the budget, or find out which model needs an operator: ./orchestrate why"
        f" //apps/scanner:{ABI} NAME; dist/scanner/{ABI} is not written",
        **{"details": "", "seen": "", "facts": {}},
    }
    own = error["facts"]["operator_bytes"]
    assert f"\n  {own:,}: aten::conv2d, pages: forward at " in error["details"]
    declaration.write_text(yaml.dump(declared, sort_keys=False))
    assert_engines(root, "scanner", "pages")
    sizes = orchestrator("size", f"//apps/scanner:{ABI}", "--by", "operator", "--quiet", cwd=root)
    assert sizes.code == 0, sizes.err
    assert f"{own:,}" in next(one for one in sizes.out.splitlines() if "aten::conv2d" in one)
