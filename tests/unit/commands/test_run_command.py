"""`orchestrate run`: what it is asked to run."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator import cli

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (
            ["//apps/..."],
            "error: a run is of one app\n"
            "  expected: a label such as //apps/camera\n"
            "  seen:     //apps/assistant, //apps/camera, ",
        ),
        (
            ["//apps/camera", "--runtime", "pytorch_2_6"],
            "error: //apps/camera has another runtime\n"
            "  expected: pytorch_1_13\n"
            "  seen:     pytorch_2_6\n"
            "  do:       run the model's file to run it in another one\n",
        ),
        (
            ["//apps/camera", "--runtime", "2.6"],
            "error: WORKSPACE pins no runtime 2.6\n"
            "  expected: pytorch_1_13, pytorch_2_6\n"
            "  seen:     2.6\n"
            "  do:       did you mean `pytorch_2_6`?\n",
        ),
    ],
)
def test_what_is_no_subject(
    words: list[str], error: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "cache").mkdir()
    env = {"ORCHESTRATOR_CACHE": str(tmp_path / "cache"), "PATH": "/usr/bin:/bin"}
    assert cli.main(["run", *words], env=env, cwd=ROOT) == 1
    assert capsys.readouterr().err.startswith(error)
