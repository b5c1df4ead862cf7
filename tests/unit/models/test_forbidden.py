"""`forbid:` in app.yaml: a model that names such an operator is refused, with its source line."""

from __future__ import annotations

from pathlib import Path

import pytest
from core_toy import ROOT, camera_workspace

from orchestrator import cli
from orchestrator.models.checks import (
    ForbiddenOperatorError,
    forbidden_operators,
    require_allowed,
)
from orchestrator.models.info import read_model
from orchestrator.models.source_lines import operator_places
from orchestrator.pytorch.v1_13.dialect import DIALECT

MODEL = ROOT / "tests/golden/fits/mapped.ptl"


@pytest.mark.parametrize("name", ["aten::mul", "aten::mul.Scalar"])
def test_the_operator_its_reason_and_its_line(name: str) -> None:
    info = read_model(MODEL, DIALECT.models, name="mapped.ptl")
    found = forbidden_operators(info, {name: "too slow", "aten::rand": "never"})
    with pytest.raises(ForbiddenOperatorError) as caught:
        require_allowed(info, found, operator_places(MODEL, found))
    assert caught.value.render() == (
        "mapped.ptl: error: this model names an operator that its app forbids\n"
        "  expected: none of those under `forbid:` in app.yaml\n"
        "  seen:     aten::mul.Scalar\n"
        "  do:       express that part of the model in other operators, or take them out of"
        " `forbid:`\n"
        "  | aten::mul.Scalar: too slow; named in forward, at /src/sample.py:8"
    )


def test_what_no_model_names_may_be_forbidden() -> None:
    info = read_model(MODEL, DIALECT.models)
    found = forbidden_operators(info, {"aten::rand": "never", "aten::mul.Tensor": "other overload"})
    assert found == {}
    require_allowed(info, found, {})


def test_every_verb_that_reads_models_or_locks_refuses(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = tmp_path / "workspace"
    file, env = camera_workspace(root, "forbid:\n  aten::conv2d: linear layers only\n")
    assert cli.main(["plan", "//apps/camera:linux-x86_64"], env=env, cwd=root) == 1
    assert "  | aten::conv2d: linear layers only; named in " in capsys.readouterr().err
    file.write_text(file.read_text().replace("aten::conv2d", "conv2d"))
    assert cli.main(["plan", "//apps/camera:linux-x86_64"], env=env, cwd=root) == 1
    error = capsys.readouterr().err
    assert "expected: an operator, such as aten::rand or aten::add.Tensor" in error
