"""The quick way of a build: what it must notice."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.commands.unchanged import signature

WORDS = ("build", "//...")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in (
        "WORKSPACE",
        "apps/camera/app.yaml",
        "dist/camera/linux-x86_64/manifest.json",
        "dist/camera/linux-x86_64/lib/libcamera_torch.so",
        "dist/camera/packages/camera-libtorch-0.1.0-linux-x86_64.tar.zst",
        "dist/camera/packages/camera-libtorch_0.1.0_amd64.deb",
        "dist/camera/packages/camera-libtorch-0.1.0.aar",
        "dist/camera/packages/.packages.json",
    ):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    return tmp_path


def test_the_same_files_have_the_same_signature(root: Path) -> None:
    assert signature(root, WORDS, {}) == signature(root, WORDS, {})


@pytest.mark.parametrize(
    "name",
    [
        "apps/camera/app.yaml",
        "dist/camera/linux-x86_64/manifest.json",
        "dist/camera/packages/camera-libtorch-0.1.0-linux-x86_64.tar.zst",
        "dist/camera/packages/camera-libtorch_0.1.0_amd64.deb",
        "dist/camera/packages/camera-libtorch-0.1.0.aar",
    ],
)
@pytest.mark.parametrize("change", ["deleted", "changed"])
def test_what_was_delivered_is_missed(name: str, change: str, root: Path) -> None:
    before = signature(root, WORDS, {})
    if change == "deleted":
        (root / name).unlink()
    else:
        (root / name).write_text("of another length")
    assert signature(root, WORDS, {}) != before
