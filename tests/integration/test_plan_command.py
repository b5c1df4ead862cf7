"""`plan` and `why` on this repository's own workspace: the real index, and nothing compiled."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from guide import rough, shown
from real import ROOT, orchestrator, workspace_copy

from orchestrator.system.folders import ensure_folder

pytestmark = pytest.mark.real


def files(folder: Path) -> set[Path]:
    return {path for path in folder.rglob("*") if path.is_file()}


def empty_cache(tmp_path: Path) -> Path:
    """A cache that holds what is fetched and generated for the runtime, and nothing else."""
    first = orchestrator("fetch", "--json")
    assert first.code == 0, first.err
    tree = Path(json.loads(first.out)["trees"][0]["folder"])
    users = next(f for f in tree.parents if (f / "generated").is_dir())
    cache = tmp_path / "cache"
    ensure_folder(cache, "cache")
    for name in ("runtime", "generated"):
        (cache / name).symlink_to(users / name)
    return cache


def test_a_plan_needs_nothing_that_was_built(tmp_path: Path) -> None:
    root = workspace_copy(tmp_path, "reader", "scanner")
    cache = empty_cache(tmp_path)
    words = ("plan", "//...:linux-x86_64", "--json", "--quiet")
    ran = orchestrator(*words, cwd=root, ORCHESTRATOR_CACHE=str(cache))
    assert ran.code == 0, ran.err
    plan = json.loads(ran.out)
    reader, scanner = plan["variants"]
    assert (reader["app"], scanner["app"]) == ("reader", "scanner")
    assert reader["cached"] == scanner["cached"] == plan["cached"] == 0
    assert not reader["generated"]
    assert 100 < scanner["units"] <= reader["units"] < 350
    assert reader["shared_with"] == [
        {"variant": "//apps/scanner:linux-x86_64", "units": reader["shared"]}
    ]
    assert reader["shared"] > 0.85 * reader["units"]
    # units of a unity shard are one object
    assert plan["objects"] < 0.8 * (reader["units"] + scanner["units"] - reader["shared"])
    (both,) = plan["shared"]
    assert len(both["units"]) == reader["shared"]
    assert 1_000_000 < scanner["estimated_bytes"] < reader["estimated_bytes"] < 4_000_000
    assert scanner["cpu_seconds"] > 100
    # byte for byte the same again, and nothing was compiled, linked or generated
    assert orchestrator(*words, cwd=root, ORCHESTRATOR_CACHE=str(cache)).out == ran.out
    for folder in ("objects", "registrations", "pch"):
        assert not (cache / folder).exists()
    assert not (root / "dist").exists()
    assert not any((root / ".orchestrator").rglob("*.ninja"))


def test_after_a_build_everything_is_cached(built: Path) -> None:
    ran = orchestrator("plan", "//apps/camera:linux-x86_64", "--quiet")
    assert ran.code == 0, ran.err
    row, sums = ran.out.splitlines()[1], ran.out.splitlines()[3]
    app, abi, units, cached, todo, seconds, *_ = row.split()
    assert (app, abi, cached, todo, seconds) == ("camera", "linux-x86_64", units, "0", "0")
    assert sums.endswith("0 to compile, about 0 CPU seconds")
    manifest = json.loads((built / "camera/linux-x86_64/manifest.json").read_text())
    size = manifest["files"][manifest["library"]["file"]]["bytes"]
    plan = json.loads(orchestrator("plan", "//apps/camera:linux-x86_64", "--json").out)
    assert plan["variants"][0]["estimated_bytes"] == pytest.approx(size, rel=0.08)
    labels = (f"//apps/{app}:linux-x86_64" for app in ("reader", "scanner"))
    ran = orchestrator("plan", *labels, "--quiet")
    assert rough(ran.out) == rough(shown("docs/guide/ci-matrix.md", "app      ABI"))


def test_why() -> None:
    operator = orchestrator("why", "//apps/camera", "aten::conv2d", "--quiet")
    assert operator.out.splitlines()[1].startswith("  classifier: its bytecode names it; it ran ")
    label = "//apps/camera:linux-x86_64"
    unit = orchestrator("why", label, "aten/src/ATen/native/Linear.cpp", "--quiet")
    assert unit.out == shown("docs/guide/read-a-size-report.md", "aten/src/ATen/native/Linear.cpp")
    absent = orchestrator("why", label, "aten::conv2d.padding", "--quiet")
    assert absent.code == 0
    assert absent.out == shown("docs/guide/read-a-size-report.md", "aten::conv2d.padding is not in")
    unknown = orchestrator("why", "//apps/camera", "Linear.cpp", "--quiet", cwd=ROOT)
    assert unknown.code == 1
    assert unknown.err == (
        "error: PyTorch 1.13.1 has nothing of the name `Linear.cpp`\n"
        "  expected: an operator, a unit's path, a kernel tag, a class, a feature or a mangled"
        " symbol\n"
        "  do:       did you mean `aten/src/ATen/native/Linear.cpp`?\n"
    )
