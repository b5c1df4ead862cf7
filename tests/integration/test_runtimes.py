"""Several runtimes in one workspace: one graph, and what they have alike is compiled once."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
import yaml
from real import V1_13, orchestrator, workspace_copy

pytestmark = pytest.mark.real

HOST = "linux-x86_64"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two apps of one model; `again` is cut from a runtime that differs in its name alone."""
    root = workspace_copy(tmp_path_factory.mktemp("runtimes"), "camera")
    declared = yaml.safe_load((root / "WORKSPACE").read_text())
    pin = declared["runtimes"][V1_13]
    declared["runtimes"] = {"first": pin, "second": pin}
    declared["defaults"]["runtime"] = "first"
    (root / "WORKSPACE").write_text(yaml.safe_dump(declared))
    config = root / "apps/camera/app.yaml"
    text = config.read_text()
    assert f"runtime: {V1_13}\n" in text
    config.write_text(text.replace(f"runtime: {V1_13}\n", ""))
    shutil.copytree(root / "apps/camera", root / "apps/again")
    config = root / "apps/again/app.yaml"
    config.write_text(config.read_text() + "runtime: second\n")
    for lock in (root / "apps/again/traces").glob("*.yaml"):
        lock.write_text(re.sub(r"\bapp: camera\b", "app: again", lock.read_text()))
    return root


def test_a_runtime_of_another_name_shares_all_objects(root: Path) -> None:
    for app in ("camera", "again"):
        ran = orchestrator("build", f"//apps/{app}:{HOST}", "--json", "--quiet", cwd=root)
        assert ran.code == 0, ran.err
        (variant,) = json.loads(ran.out)["variants"]
        assert variant["verified"] == "ok"
    assert variant["units_compiled"] == 0
    manifests = [
        json.loads((root / f"dist/{app}/{HOST}/manifest.json").read_text())
        for app in ("camera", "again")
    ]
    assert manifests[0]["runtime"] == manifests[1]["runtime"]


def test_both_are_planned_in_one_graph(root: Path) -> None:
    labels = [f"//apps/{app}:{HOST}" for app in ("camera", "again")]
    variants = root / ".orchestrator/variants"
    shutil.rmtree(variants)
    ran = orchestrator("build", *labels, "--json", "--quiet", cwd=root)
    assert ran.code == 0, ran.err
    assert [one["verified"] for one in json.loads(ran.out)["variants"]] == ["ok", "ok"]
    text = (root / ".orchestrator/build.ninja").read_text()
    assert "tree_second" not in text, "the same folder has one variable"
    for app in ("camera", "again"):  # linked, or from the cache
        assert (variants / app / HOST / f"lib{app}_torch.so").is_file()


def test_each_tree_is_fetched_once(root: Path) -> None:
    ran = orchestrator("fetch", "--json", cwd=root)
    assert ran.code == 0, ran.err
    folders = [tree["folder"] for tree in json.loads(ran.out)["trees"]]
    assert len(folders) == len(set(folders)) == 5


def test_a_maintainers_verb_takes_a_runtime_by_name(root: Path) -> None:
    ran = orchestrator("runtime", "index", "--runtime", "sceond", cwd=root)
    assert (ran.code, ran.err) == (
        1,
        "error: WORKSPACE pins no runtime sceond\n"
        "  expected: first, second\n"
        "  seen:     sceond\n"
        "  do:       did you mean `second`?\n",
    )
