"""The exported workspace in a real Bazel: sandboxed, with the bytes that are delivered, shared."""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
from grid import grid
from real import ROOT, orchestrator, workspace_copy

from orchestrator.load.workspace import load_workspace

pytestmark = [pytest.mark.real, pytest.mark.ci_only]

# One of each runtime.
APPS = ("scanner", "camera")
ABI = "linux-x86_64"
# one program in one package of npm's, checked by npm against the registry's sha512
PACKAGE = "@bazel/bazel-linux_x64@2.1.0"


@pytest.fixture(scope="module")
def around() -> Path:
    """What outlives a test run: Bazel itself and the shared cache, beside the user's cache."""
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


@dataclass(frozen=True)
class Bazel:
    """Bazel in a folder that is exported for one build, with a cache that machines share.

    user   its own folder of outputs: another one for each workspace, so that it finds nothing there
    cache  address of the shared cache
    """

    program: Path
    user: Path
    cache: str

    def build(self, exported: Path, label: str) -> str:
        """What it says; it is refused everything that an action does not name."""
        startup = [str(self.program), f"--output_user_root={self.user}"]
        build = ["build", "--spawn_strategy=linux-sandbox", f"--remote_cache={self.cache}", label]
        try:
            done = subprocess.run([*startup, *build], cwd=exported, capture_output=True, text=True)
        finally:
            subprocess.run([*startup, "shutdown"], cwd=exported, check=False, capture_output=True)
        assert done.returncode == 0, done.stderr
        return done.stderr


@pytest.mark.parametrize("app", APPS)
def test_bazel_makes_the_library_that_is_delivered_once_for_all_machines(
    app: str, program: Path, around: Path, tmp_path: Path
) -> None:
    root = workspace_copy(tmp_path, app)
    label = f"//apps/{app}:{ABI}"
    assert orchestrator("build", label, "--quiet", cwd=root).code == 0
    delivered = root / "dist" / app / ABI
    with grid(around) as cache:
        for machine in ("one", "other"):
            # no blank in its path: Bazel refuses that itself
            exported = tmp_path / machine
            ran = orchestrator("export", "bazel", str(exported), label, cwd=root)
            assert (ran.code, ran.out) == (0, f"{exported}: 1 variant\n"), ran.err
            # else no two machines would have a key in common
            assert list(exported.rglob("*.pyc")) == []
            said = Bazel(program, tmp_path / f"{machine}.bazel", cache).build(exported, label)
            same_bytes(app, exported / "bazel-bin/apps" / app / ABI, delivered)
            ran_nothing = re.search(r"INFO: (\d+) processes: \1 remote cache hit\.", said)
            # an earlier run of this test, which lay in another folder, was the first machine
            if ran_nothing:
                break
    assert ran_nothing, said


def same_bytes(app: str, made: Path, delivered: Path) -> None:
    for name in (f"lib/lib{app}_torch.so", f"symbols/lib{app}_torch.so.debug"):
        assert (made / name).read_bytes() == (delivered / name).read_bytes(), name
    for part in ("registrations", "core"):
        name = f"lib{app}_torch_{part}.a"
        assert (made / name).read_bytes() == (delivered / "lib" / name).read_bytes(), name
