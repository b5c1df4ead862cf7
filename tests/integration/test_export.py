"""The apps' committed models name exactly the operators that are on record.

Every committed `.ptl` is read, and its root operators are compared with
`tests/golden/operators/<app>-<model>.txt`. An app with C++ of its own is exported again, and
compared with the same record; so is each app where this Python has torch (`pip install -e
.[export]`): elsewhere that test is not defined at all, rather than skipped.

`python tests/integration/test_export.py` writes the record from the committed models.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest
from torch_python import torch_python

from orchestrator.models.info import read_model
from orchestrator.pytorch.v1_13.dialect import DIALECT

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests" / "golden" / "operators"
APPS = sorted(path.parent.name for path in ROOT.glob("apps/*/app.yaml"))


def operators(folder: Path) -> dict[str, str]:
    """For each model in a folder: its root operators, one a line."""
    return {
        model.stem: "".join(
            f"{operator}\n" for operator in read_model(model, DIALECT.models).root_operators
        )
        for model in sorted(folder.glob("*.ptl"))
    }


def recorded(app: str) -> dict[str, str]:
    return {
        file.stem.removeprefix(f"{app}-"): file.read_text()
        for file in sorted(GOLDEN.glob(f"{app}-*.txt"))
    }


def test_there_are_apps() -> None:
    assert APPS == [
        "assistant",
        "camera",
        "inker",
        "keyboard",
        "listener",
        "reader",
        "scanner",
        "translator",
    ]


@pytest.mark.parametrize("app", APPS)
def test_committed_models(app: str) -> None:
    assert operators(ROOT / "apps" / app / "models") == recorded(app)


@pytest.mark.ci_only
def test_an_app_with_a_class_of_its_own_is_exported_again(tmp_path: Path) -> None:
    """inker's, which is C++: a scripted module may make objects of it."""
    export = [torch_python(), "apps/inker/export.py", "--out", str(tmp_path)]
    subprocess.run(export, cwd=ROOT, check=True)
    assert operators(tmp_path) == recorded("inker")


if importlib.util.find_spec("torch") is not None:

    @pytest.mark.parametrize("app", APPS)
    def test_exported_again(app: str, tmp_path: Path) -> None:
        export = [sys.executable, f"apps/{app}/export.py", "--out", str(tmp_path)]
        subprocess.run(export, cwd=ROOT, check=True)
        assert operators(tmp_path) == recorded(app)


def main() -> None:
    for app in APPS:
        for model, text in operators(ROOT / "apps" / app / "models").items():
            (GOLDEN / f"{app}-{model}.txt").write_text(text)


if __name__ == "__main__":
    main()
