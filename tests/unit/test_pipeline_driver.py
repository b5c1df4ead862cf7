"""Running a driver: what it is given, what is read back, and whatever goes wrong."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from pydantic import TypeAdapter

import orchestrator.pipeline.driver as driver
from orchestrator.pipeline.driver import run_driver
from orchestrator.report.verify import DriverRun
from orchestrator.values.config import ModelConfig

BUNDLED = ModelConfig(file="models/m.ptl")
DECLARED = TypeAdapter(ModelConfig).validate_python(
    {"file": "models/m.ptl", "inputs": [{"args": [{"shape": [1], "fill": "ones"}, 3]}]}
)
# Writes a result that holds its own arguments.
ECHO = """
import json, sys
words = [w for w in sys.argv[1:] if w != "--no-args"]
options = dict(zip(words[::2], words[1::2]))
given = json.load(open(options["--inputs"])) if "--inputs" in options else None
json.dump({"model": options["--model"], "runs": [], "inputs": given,
           "quiet": "--no-args" in sys.argv}, open(options["--output"], "w"))
"""


def run(script: str, model: ModelConfig = BUNDLED, env: dict[str, str] | None = None) -> DriverRun:
    argv = [sys.executable, "-c", script]
    return run_driver(argv, Path("/apps/camera/models/m.ptl"), model, env or os.environ)


def test_bundled_inputs_need_no_file() -> None:
    # the model's path would make a recording differ from machine to machine
    assert run(ECHO) == DriverRun(0, {"runs": [], "inputs": None, "quiet": True})


def test_declared_inputs_are_handed_over() -> None:
    result = run(ECHO, DECLARED).result
    assert result is not None
    assert result["inputs"] == [
        {
            "method": "forward",
            "args": [
                {"tensor": {"dtype": "float32", "shape": [1], "data": "AACAPw=="}},
                {"int": 3},
            ],
        }
    ]


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("import sys; sys.exit(2)", DriverRun(2, None)),
        (
            "import sys; print('no such operator', file=sys.stderr); sys.exit(1)",
            DriverRun(1, None, "no such operator\n"),
        ),
        ("import os; os.kill(os.getpid(), 11)", DriverRun(-11, None)),
        # half a result is none
        (
            "import sys; open(sys.argv[sys.argv.index('--output') + 1], 'w').write('{\"runs\": [')",
            DriverRun(0, None),
        ),
        # what a damaged model is called need not be text
        (
            "import sys; sys.stderr.buffer.write(b'bad \\xff name'); sys.exit(1)",
            DriverRun(1, None, "bad � name"),
        ),
    ],
)
def test_drivers_that_fail(script: str, expected: DriverRun) -> None:
    assert run(script) == expected


def test_a_model_that_never_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "TIME_LIMIT", 0.3)
    assert run("import time; time.sleep(60)") == DriverRun(-1, None, "still running after 0.3 s")


def test_the_environment_is_the_callers() -> None:
    script = "import os, sys; print(sorted(os.environ)[:1], file=sys.stderr)"
    assert run(script, env={"A": "1"}).stderr == "['A']\n"


def test_nothing_stays() -> None:
    script = "import sys; print(sys.argv[sys.argv.index('--output') + 1], file=sys.stderr)"
    assert not Path(run(script).stderr.strip()).parent.exists()
