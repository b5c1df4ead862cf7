"""The planning benchmark's apps and its text; nothing is measured here."""

from __future__ import annotations

from pathlib import Path

import yaml
from shipped_index import shipped, shipped_kernels

from benchmarks.planning import ABIS, Generator, add_app, archive, generated_workspace, render
from orchestrator.load.workspace import load_workspace
from orchestrator.models.info import read_archive_version
from orchestrator.trace.lock import parse_lock
from orchestrator.values.trace import Trace, TraceIdentity

ROOT = Path(__file__).parents[3]
IDENTITY = TraceIdentity("a" * 64, "b" * 64, "bundled", ("CPU", "QuantizedCPU"), "c" * 16)
BACKENDS = ("CPU", "QuantizedCPU")


def traces(count: int) -> list[Trace]:
    generator = Generator(shipped(), shipped_kernels(BACKENDS))
    return [generator.trace(f"app{number}", IDENTITY) for number in range(count)]


def test_the_same_seed_gives_the_same_apps() -> None:
    assert traces(3) == traces(3)


def test_generated_traces_are_like_real_ones() -> None:
    known = shipped_kernels(BACKENDS).by_operator
    found = traces(20)
    assert all(20 <= len(trace.root_operators) <= 120 for trace in found)
    assert all({*trace.root_operators, *trace.called_operators} <= known.keys() for trace in found)
    assert any(trace.unrun_operators for trace in found)
    # families share operators, and no two apps are the same
    assert len({trace.root_operators for trace in found}) == 20


def test_a_generated_workspace_is_one(tmp_path: Path) -> None:
    targets = generated_workspace(ROOT, tmp_path)
    (trace,) = traces(1)
    add_app(tmp_path, "app0", targets, trace, b"model")
    workspace = load_workspace(tmp_path, {"HOME": str(tmp_path)})
    assert workspace.targets == {"app0": ABIS}
    lock = tmp_path / "apps/app0/traces/model.yaml"
    assert parse_lock(lock.read_text(), "x") == trace
    assert yaml.safe_load(lock.read_text())["app"] == "app0"


def test_a_plan_can_read_the_version_of_a_models_archive(tmp_path: Path) -> None:
    """It does so where operators of its trace meant something else in an older PyTorch."""
    file = tmp_path / "model.ptl"
    file.write_bytes(archive(7, 10))
    assert read_archive_version(file) == 10
    assert archive(7, 10) == file.read_bytes() != archive(8, 10)


def test_the_text() -> None:
    points = [
        {
            "apps": apps,
            "variants": 4 * apps,
            "objects": 75_034,
            "wall_seconds": wall,
            "cpu_seconds": wall,
            "peak_bytes": 596_172_288,
        }
        for apps, wall in ((500, 9.7), (1000, 11.5))
    ]
    text = render({"points": points, "machine": {"cores": "2"}})
    assert "| 1,000 | 4,000 | 75,034 | 11.5 | 11.5 | 11.5 | 596 |\n" in text
    assert "Target for 1,000 apps: at most 12 s and 600 MB: met.\n" in text
    for more in ({"wall_seconds": 12.1}, {"peak_bytes": 600_000_001}):
        open_ones = [points[0], {**points[1], **more}]
        assert ": open.\n" in render({"points": open_ones, "machine": {}})
