"""The exported workspace in a real Bazel: its sandbox, and the very bytes that are delivered."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from real import ROOT, orchestrator, workspace_copy

from orchestrator.load.workspace import load_workspace

pytestmark = pytest.mark.real

APP = "camera"
ABI = "linux-x86_64"
# one program in one package of npm's, checked by npm against the registry's sha512
PACKAGE = "@bazel/bazel-linux_x64@2.1.0"


@pytest.fixture(scope="module")
def around() -> Path:
    """What outlives a test run: Bazel itself and its disk cache, beside the user's cache."""
    folder = load_workspace(ROOT, os.environ).cache.with_name("libtorch-orchestrator-bazel")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest.fixture(scope="module")
def program(around: Path) -> Path:
    found = around / "package/bazel-2.1.0-linux-x86_64"
    if not found.is_file():
        subprocess.run(["npm", "pack", "--silent", PACKAGE], cwd=around, check=True, timeout=300)
        (archive,) = around.glob("*.tgz")
        subprocess.run(["tar", "xf", archive.name], cwd=around, check=True)
        archive.unlink()
        found.chmod(0o755)
    return found


def test_bazel_makes_the_library_that_is_delivered(
    program: Path, around: Path, tmp_path: Path
) -> None:
    root = workspace_copy(tmp_path, APP)
    label = f"//apps/{APP}:{ABI}"
    # no blank in its path: Bazel refuses that itself
    exported = tmp_path / "exported"
    assert orchestrator("build", label, "--quiet", cwd=root).code == 0
    ran = orchestrator("export", "bazel", str(exported), label, cwd=root)
    assert (ran.code, ran.out) == (0, f"{exported}: 1 variant\n"), ran.err

    startup = [str(program), f"--output_user_root={tmp_path / 'bazel'}"]
    build = ["build", "--spawn_strategy=linux-sandbox", f"--disk_cache={around / 'disk'}", label]
    try:
        done = subprocess.run([*startup, *build], cwd=exported, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    finally:
        subprocess.run([*startup, "shutdown"], cwd=exported, check=False, capture_output=True)
    made = exported / "bazel-bin/apps" / APP / ABI
    delivered = root / "dist" / APP / ABI
    for name in (f"lib/lib{APP}_torch.so", f"symbols/lib{APP}_torch.so.debug"):
        assert (made / name).read_bytes() == (delivered / name).read_bytes(), name
    for part in ("registrations", "core"):
        name = f"lib{APP}_torch_{part}.a"
        assert (made / name).read_bytes() == (delivered / "lib" / name).read_bytes(), name
