"""`size` and `why --bytes` of this repository's apps, as they are delivered."""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

import pytest
from guide import rough, shown
from real import ROOT, orchestrator

from benchmarks.removals import removals
from orchestrator.binary.macho_live import linked_bytes
from orchestrator.build.workshop.invocation import load
from orchestrator.cli import make_context
from orchestrator.values.labels import VariantLabel


def check(built: Path, *labels: str) -> None:
    ran = orchestrator("size", *labels, "--by", "operator", "--json", "--quiet")
    assert ran.code == 0, ran.err
    for one in json.loads(ran.out)["libraries"]:
        folder = built / one["app"] / one["abi"]
        library = folder / json.loads((folder / "manifest.json").read_text())["library"]["file"]
        size = linked_bytes(library) if library.suffix == ".a" else library.stat().st_size
        assert sum(row["bytes"] for row in one["rows"]) == one["bytes"] == size
        of_models = {row["name"]: row["bytes"] for row in one["rows"] if row["sites"]}
        # what only models ask for is found, whatever compiled the library: a tenth at least
        assert sum(of_models.values()) > size / 25, (one["app"], one["abi"])


def test_the_sum_is_the_file(built: Path) -> None:
    check(built, "//apps/camera:linux-x86_64", "//apps/camera:ios-arm64")


@pytest.mark.full_only
def test_the_sum_is_the_file_of_every_app(built: Path) -> None:
    check(built, "//...")


@pytest.mark.ci_only
def test_without_an_operator_the_library_is_smaller_by_what_is_told(built: Path) -> None:
    """More of them are in benchmarks/REMOVALS.md."""
    del built
    context = make_context(argparse.Namespace(workspace=str(ROOT)), os.environ, ROOT)
    label = VariantLabel("scanner", "linux-x86_64")
    operators = ("aten::conv2d", "aten::hardswish")
    found = [*removals(load(context, pytest.fail), label, operators)]
    assert [one.operator for one in found] == [*operators]
    for one in found:
        assert one.gone == pytest.approx(one.told, rel=0.02)


def test_the_guide(built: Path) -> None:
    label = "//apps/camera:linux-x86_64"
    ran = orchestrator("size", label, "--by", "operator", "--top", "8", "--quiet")
    assert rough(ran.out) == rough(
        shown("docs/guide/read-a-size-report.md", "//apps/camera:linux-x86_64: ")
    )
    ran = orchestrator(
        "size", "//apps/keyboard:linux-x86_64", "--by", "dtype", "--top", "6", "--quiet"
    )
    assert rough(ran.out) == rough(
        shown("docs/guide/read-a-size-report.md", "//apps/keyboard:linux-x86_64: ")
    )
    kept = built / "camera/sizes/linux-x86_64.json"
    before = kept.read_bytes()
    ran = orchestrator("why", label, "aten::conv2d", "--bytes", "--quiet", cwd=ROOT)
    assert rough(ran.out) == rough(shown("docs/guide/read-a-size-report.md", "aten::conv2d is in"))
    assert kept.read_bytes() == before
