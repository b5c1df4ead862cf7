"""The exported workspace by the rules of Bazel 9, its actions run by workers on other machines.

Bazel is the newest that Debian has, 7: `--enable_bzlmod --noenable_workspace`, where `MODULE.bazel`
alone makes a workspace. The machines are two workers of BuildBox (`remote_execution.py`).
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest
from real import ROOT, orchestrator, workspace_copy
from remote_execution import PACKAGES, farm
from test_bazel import same_bytes

from orchestrator.load.workspace import load_workspace
from tests.debian_root import debian_root, inside

pytestmark = [pytest.mark.real, pytest.mark.full_only]

APP, ABI = "scanner", "linux-x86_64"
WORKERS = ("first", "second")
JAVA = "/usr/lib/jvm/java-25-openjdk-amd64"
# Bazel's own modules, of which it wants to know what they depend on. Nothing of ours loads any.
_NEEDED = re.compile(r'bazel_dep\(\s*name = "([\w-]+)",\s*version = "([^"]+)"')


def registry(root: Path, folder: Path) -> str:
    """A registry of modules in place of the public one, which is on the network: with those that
    Bazel's own files name, each without contents but `platforms`, whose files Debian has."""
    shared = root / "usr/share/bazel"
    for file in (shared / "embedded_tools/MODULE.bazel", *shared.glob("rules/*/MODULE.bazel")):
        for name, version in _NEEDED.findall(file.read_text()):
            module = folder / "modules" / name / version
            module.mkdir(parents=True, exist_ok=True)
            text = f'module(name = "{name}", version = "{version}")\n'
            (module / "MODULE.bazel").write_text(text)
            lies = "platforms/platforms" if name == "platforms" else "embedded_tools"
            source = {"type": "local_path", "path": f"/usr/share/bazel/{lies}"}
            (module / "source.json").write_text(json.dumps(source))
    (folder / "bazel_registry.json").write_text("{}")
    return f"file://{folder}"


def test_workers_make_the_library_that_is_delivered(tmp_path: Path) -> None:
    around = load_workspace(ROOT, os.environ).cache.with_name("libtorch-orchestrator-bazel")
    around.mkdir(parents=True, exist_ok=True)
    system = debian_root(around / "debian-sid", PACKAGES)
    # PostgreSQL, which is nobody, looks for its socket in it
    for folder in (tmp_path, *tmp_path.parents):
        if folder.stat().st_uid == os.getuid() and folder != Path("/"):
            folder.chmod(folder.stat().st_mode | 0o011)
    root = workspace_copy(tmp_path, APP)
    label = f"//apps/{APP}:{ABI}"
    assert orchestrator("build", label, "--quiet", cwd=root).code == 0
    exported = tmp_path / "exported"
    assert orchestrator("export", "bazel", str(exported), label, cwd=root).code == 0
    (exported / "WORKSPACE").unlink()
    rules = ("--enable_bzlmod", "--noenable_workspace", "--lockfile_mode=off")
    modules = f"--registry={registry(system, tmp_path / 'registry')}"
    with farm(around, system, tmp_path, WORKERS) as address:
        where = (f"--remote_executor={address}", "--spawn_strategy=remote", "--jobs=8")
        # BuildGrid takes no more at once
        limits = ("--remote_max_connections=4", "--remote_timeout=600")
        bazel = f"cd {exported} && export JAVA_HOME={JAVA} PATH={JAVA}/bin:$PATH && exec bazel"
        startup = f"--output_user_root={tmp_path}/bazel --batch"
        words = " ".join(("build", *rules, modules, *where, *limits, label))
        argv = inside(system, ["sh", "-c", f"{bazel} {startup} {words}"], shared=tmp_path)
        ran = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    told = re.search(r"INFO: (\d+) processes: (\d+) internal, (\d+) remote\.", ran.stderr)
    assert told, ran.stderr
    # no action ran here, and both workers did
    assert int(told[1]) == int(told[2]) + int(told[3])
    for worker in WORKERS:
        assert "Runner exited with code 0" in (tmp_path / f"{worker}.log").read_text()
    same_bytes(APP, exported / "bazel-bin/apps" / APP / ABI, root / "dist" / APP / ABI)
