"""What the integration tests share: our command as a user runs it, and workspaces to run it in."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from zig_tool import zig_environment

ROOT = Path(__file__).parents[2]
TOOLS = Path(sys.executable).parent
CMAKE = str(TOOLS / "cmake")
# The runtimes that WORKSPACE pins; the second is its default.
V1_13, V2_6 = "pytorch_1_13", "pytorch_2_6"
# For tests of what is the same on each: `./check` runs them on the default, CI on both.
EACH_RUNTIME = (pytest.param(V1_13, marks=pytest.mark.ci_only), V2_6)
CONSUMERS = Path(__file__).parent / "consumers"


@dataclass(frozen=True)
class Ran:
    """How a command of ours ended."""

    code: int
    out: str
    err: str


def orchestrator(*arguments: str, cwd: Path = ROOT, **env: str) -> Ran:
    """Run the command as a user does, in a process of its own."""
    in_turn = cwd == ROOT and arguments[:1] == ("build",) and not _alone
    with alone_in_repository() if in_turn else nullcontext():
        done = subprocess.run(
            [sys.executable, "-P", "-m", "orchestrator", *arguments],
            cwd=cwd,
            env={**os.environ, **env},
            capture_output=True,
            text=True,
            check=False,
        )
    return Ran(done.returncode, done.stdout, done.stderr)


@contextmanager
def alone_in_repository() -> Iterator[None]:
    """Meanwhile no other run of the tests builds in this repository, of which `check` starts two:
    each build replaces what the last one left in `.orchestrator`."""
    with Path(__file__).open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        _alone.append(None)
        try:
            yield
        finally:
            _alone.pop()


_alone: list[None] = []


def models_of(app: str) -> list[Path]:
    config = yaml.safe_load((ROOT / "apps" / app / "app.yaml").read_text())
    return [ROOT / "apps" / app / model["file"] for model in config["models"]]


def workspace_copy(tmp_path: Path, *apps: str, runtime: str = V2_6) -> Path:
    """A workspace of its own with some of the apps; it shares the user's cache.

    runtime: the default runtime, of apps that name none
    """
    root = tmp_path / "workspace"
    root.mkdir()
    declared = (ROOT / "WORKSPACE").read_text()
    assert f"\n  runtime: {V2_6}\n" in declared
    declared = declared.replace(f"\n  runtime: {V2_6}\n", f"\n  runtime: {runtime}\n")
    (root / "WORKSPACE").write_text(declared)
    shutil.copytree(ROOT / "toolchains", root / "toolchains")
    for app in apps:
        shutil.copytree(ROOT / "apps" / app, root / "apps" / app)
    return root


def consumer_environment() -> dict[str, str]:
    """CMake and ninja are found first, and zig's libraries are those that all tests link."""
    return {**zig_environment(), "PATH": f"{TOOLS}{os.pathsep}{os.environ['PATH']}"}


def consumer_program(folder: Path, consumer: str, app: str, delivered: Path, *options: str) -> Path:
    """The program of a CMake consumer of a delivered app, which was moved, configured and built."""
    prefix, build = folder / "moved", folder / "build"
    shutil.copytree(delivered, prefix)
    configure = [CMAKE, "-G", "Ninja", "-S", str(CONSUMERS / consumer)]
    configure += ["-B", str(build), f"-DAPP={app}", f"-DCMAKE_PREFIX_PATH={prefix}", *options]
    for argv in (configure, [CMAKE, "--build", str(build)]):
        done = subprocess.run(
            argv, env=consumer_environment(), capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
    (program,) = (p for p in build.iterdir() if p.is_file() and os.access(p, os.X_OK))
    return program


def consume(folder: Path, consumer: str, app: str, delivered: Path, *options: str) -> str:
    """What a CMake consumer of a delivered app prints of the app's first model."""
    program = consumer_program(folder, consumer, app, delivered, *options)
    done = subprocess.run(
        [str(program), str(models_of(app)[0])], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
