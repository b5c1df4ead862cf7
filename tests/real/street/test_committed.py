"""Some of the reports in `./check --all`, which has no torch: `committed/` has their models, and
what eager PyTorch gives.

`test_street.py` makes them again and compares. After a change to one of these reports, run
`make.py`, which writes both files, into `committed/`.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from real import V2_6
from test_street import HERE, REPORTS, X86, street_workspace

from orchestrator.verify.compare import compare_results

pytestmark = [pytest.mark.real, pytest.mark.ci_only]

COMMITTED = HERE / "committed"
MODELS = tuple(sorted(path.stem for path in COMMITTED.glob("*.ptl")))


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("street")
    root = street_workspace(folder, V2_6, COMMITTED, MODELS, targets=[X86])
    return root / f"dist/street/{X86}/lib/libstreet_torch.so"


def test_the_reports_that_are_committed() -> None:
    assert {model.rpartition("-")[0] for model in MODELS} == {
        path.stem for path in COMMITTED.glob("*.json")
    }


@pytest.mark.parametrize("model", MODELS)
def test_a_committed_report_is_right(library: Path, model: str, tmp_path: Path) -> None:
    name = model.rpartition("-")[0]
    calls: list[dict[str, Any]] = json.loads((COMMITTED / f"{name}.json").read_text())
    setting = {
        "through": "c",
        "library": str(library),
        "host": {"threads": 2},
        "model": str(COMMITTED / f"{model}.ptl"),
        "calls": calls,
    }
    (tmp_path / "setting.json").write_text(json.dumps(setting))
    argv = [sys.executable, str(HERE / "host.py"), str(tmp_path / "setting.json")]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{REPORTS[name]['about']}\n{done.stderr[-2000:]}"
    expected = {"runs": [call["expected"] for call in calls]}
    seen = json.loads(done.stdout)
    errors = [run["error"] for run in seen["runs"] if run["error"]]
    assert compare_results(expected, seen) == [], errors
