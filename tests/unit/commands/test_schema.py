"""`schema`: what it prints is the committed file, also outside of a workspace."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator import cli
from orchestrator.commands.schema import names

SCHEMAS = Path(__file__).parents[3] / "schemas"


def test_every_schema_has_its_name() -> None:
    assert names() == ("app", "output", "toolchain", "toolchain-group", "workspace")
    assert len(names()) == len(list(SCHEMAS.iterdir()))


@pytest.mark.parametrize("name", names())
def test_a_schema(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["schema", name], env={}, cwd=tmp_path) == 0
    assert capsys.readouterr().out == (SCHEMAS / f"{name}.schema.json").read_text()
    assert list(tmp_path.iterdir()) == []
