"""`completion`: what a shell that has read the script completes."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
import shtab
from test_load import good_workspace

from orchestrator import cli
from orchestrator.commands import COMMANDS


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return good_workspace(tmp_path)


def completed(script: str, *words: str) -> list[str]:
    """What bash offers for the last word of a command line."""
    bash = shutil.which("bash")
    assert bash, "bash is needed here"
    *before, last = words
    code = (
        f'{script}\nCOMP_WORDS=({" ".join(before)} "$LAST")\nCOMP_CWORD={len(before)}\n'
        "function=$(complete -p orchestrate); function=${function##*-F }\n"
        '${function%% *}\nprintf "%s\\n" "${COMPREPLY[@]}"\n'
    )
    done = subprocess.run(
        [bash, "-c", code], env={"LAST": last}, capture_output=True, text=True, check=True
    )
    return done.stdout.split()


def test_bash_completes_verbs_options_and_labels(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["completion", "bash"], env={"HOME": "/h"}, cwd=root) == 0
    script = capsys.readouterr().out
    assert completed(script, "orchestrate", "bu") == ["build"]
    assert set(completed(script, "orchestrate", "")) >= set(COMMANDS)
    assert completed(script, "orchestrate", "build", "--keep") == ["--keep-going"]
    assert completed(script, "orchestrate", "build", "//apps/cam") == [
        "//apps/camera",
        "//apps/camera:linux-x86_64",
    ]


@pytest.mark.parametrize("shell", shtab.SUPPORTED_SHELLS)
def test_every_shell_has_a_script(
    shell: str, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["completion", shell], env={"HOME": "/h"}, cwd=root) == 0
    out = capsys.readouterr().out
    assert all(name in out for name in (*COMMANDS, "//apps/camera:linux-x86_64"))
