"""The mistakes of somebody's first hour: tests/failing/hour, each with the whole answer.

A folder there has `command`, the words behind `./orchestrate` (lines of `NAME=value` before them
are its environment), `expected.txt`, and what differs from a good workspace with two apps. `$root`
stands for the workspace. What is wrong with a model, a lock or a toolchain has its case elsewhere.
"""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path

import pytest
from golden_files import Golden
from test_load import TOOLCHAIN, WORKSPACE

from orchestrator import cli

CASES = Path(__file__).parents[2] / "failing/hour"
APP = """\
models:
  - file: models/m.ptl
targets:
  - linux-x86_64
  - linux-arm64
"""


def complete(root: Path) -> None:
    """Give a workspace whatever good files it lacks."""
    arm = TOOLCHAIN.replace("x86_64", "arm64").replace("arm64-linux", "aarch64-linux")
    texts = {
        "WORKSPACE": WORKSPACE,
        "toolchains/linux-x86_64.yaml": TOOLCHAIN,
        "toolchains/linux-arm64.yaml": arm,
        "toolchains/android-arm64-v8a.yaml": arm.replace("linux-arm64", "android-arm64-v8a"),
        "apps/camera/app.yaml": APP,
        "apps/camera/models/m.ptl": "",
        "apps/vad/app.yaml": APP,
        "apps/vad/models/m.ptl": "",
    }
    others = ("app.yml", "app.json", "App.yaml")
    misnamed = [path.parent / "app.yaml" for path in root.glob("apps/*/*") if path.name in others]
    for name, text in texts.items():
        path = root / name
        if not path.exists() and path not in misnamed:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)


def answer(case: Path, root: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """What a case's command prints, both streams, with its exit code."""
    shutil.copytree(case, root, ignore=shutil.ignore_patterns("command", "expected.txt"))
    complete(root)
    *settings, words = (case / "command").read_text(encoding="utf-8").splitlines()
    pairs = (setting.partition("=") for setting in settings)
    env = {"HOME": "/home/me", **{name: value for name, _, value in pairs}}
    before = set(root.rglob("*"))
    code = cli.main(shlex.split(words), env=env, cwd=root)
    assert set(root.rglob("*")) == before, "a mistake leaves nothing behind"
    captured = capsys.readouterr()
    return f"{captured.out}{captured.err}[{code}]\n".replace(str(root), "$root")


@pytest.mark.parametrize("case", sorted(path.name for path in CASES.iterdir()))
def test_a_mistake(
    case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], golden: Golden
) -> None:
    said = answer(CASES / case, tmp_path / "workspace", capsys)
    golden(CASES / case / "expected.txt", said)


def test_a_good_workspace_is_good(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """So that each case has the fault that it is meant to have, and no other."""
    complete(tmp_path)
    assert cli.main(["completion", "bash"], env={"HOME": "/home/me"}, cwd=tmp_path) == 0
    assert capsys.readouterr().err == ""
