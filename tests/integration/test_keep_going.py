"""`build --keep-going`: what fails in one variant leaves the others delivered, and is told."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from real import Ran, orchestrator, workspace_copy

LABELS = [f"//apps/{app}:linux-x86_64" for app in ("camera", "keyboard", "reader")]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """camera is over its budget, reader's model changed after it was traced, keyboard is fine."""
    root = workspace_copy(tmp_path_factory.mktemp("keep_going"), "camera", "keyboard", "reader")
    camera = root / "apps/camera/app.yaml"
    declared = yaml.safe_load(camera.read_text())
    declared["budgets"] = {"linux-x86_64": "1kB"}
    camera.write_text(yaml.dump(declared))
    lock = root / "apps/reader/traces/detector.yaml"
    model = yaml.safe_load(lock.read_text())["identity"]["model"]
    lock.write_text(lock.read_text().replace(model, "0" * 64))
    return root


@pytest.fixture(scope="module")
def ran(root: Path) -> Ran:
    return orchestrator("build", *LABELS, "--keep-going", "--json", "--quiet", cwd=root)


def test_every_variant_has_a_row(ran: Ran) -> None:
    rows = {row["app"]: row for row in json.loads(ran.out)["variants"]}
    assert {app: row["verified"] for app, row in rows.items()} == {
        "camera": None,
        "keyboard": "ok",
        "reader": None,
    }
    assert rows["camera"]["problem"] == (
        "failed: //apps/camera:linux-x86_64 is larger than its budget"
    )
    assert rows["camera"]["operators"] > 0
    assert rows["reader"]["problem"].startswith("failed: ")
    assert rows["keyboard"]["problem"] == ""


def test_each_failure_is_told_and_the_exit_code_is_one(ran: Ran) -> None:
    assert ran.code == 1
    errors = [line for line in ran.err.splitlines() if "error: " in line]
    assert len(errors) == 2
    assert "//apps/camera:linux-x86_64 is larger than its budget" in errors[0]
    assert "expected: at most 1,000 bytes" in ran.err
    assert "./orchestrate trace //apps/reader" in ran.err


def test_what_did_not_fail_is_delivered_and_packaged(root: Path, ran: Ran) -> None:
    assert (root / "dist/keyboard/linux-x86_64/manifest.json").is_file()
    assert list((root / "dist/keyboard/packages").glob("*.tar.zst"))
    assert not list((root / "dist/camera").glob("packages/*.tar.zst"))
    assert not (root / "dist/reader/linux-x86_64").exists()


def test_a_failure_is_not_told_again_as_success(root: Path, ran: Ran) -> None:
    again = orchestrator("build", *LABELS, "--keep-going", "--json", "--quiet", cwd=root)
    assert again.code == 1


def test_without_it_the_first_error_ends_the_build(root: Path) -> None:
    ran = orchestrator("build", *LABELS, "--quiet", cwd=root)
    assert ran.code == 1
    assert ran.out == ""
    assert ran.err.count("error: ") == 1
