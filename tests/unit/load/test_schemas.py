"""The committed JSON schemas: current, valid, and true for the files that we ship."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from orchestrator.load.schemas import MODELS, main, schema_text
from orchestrator.load.yaml import load_located

ROOT = Path(__file__).parents[3]
SHIPPED = [
    *[(ROOT / "WORKSPACE", "workspace")],
    *[(file, "app") for file in sorted(ROOT.glob("apps/*/app.yaml"))],
    *[
        (file, "toolchain-group" if "\nmembers:" in file.read_text() else "toolchain")
        for file in sorted(ROOT.glob("toolchains/*.yaml"))
    ],
]


def _validator(name: str) -> Draft202012Validator:
    text = (ROOT / "schemas" / f"{name}.schema.json").read_text(encoding="utf-8")
    return Draft202012Validator(json.loads(text))


@pytest.mark.parametrize("name", sorted(MODELS))
def test_committed_schemas_are_current(name: str) -> None:
    file = ROOT / "schemas" / f"{name}.schema.json"
    assert file.read_text(encoding="utf-8") == schema_text(name), (
        "run: python -m orchestrator.load.schemas --write"
    )


@pytest.mark.parametrize("name", sorted(MODELS))
def test_schemas_are_valid(name: str) -> None:
    schema = json.loads(schema_text(name))
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    Draft202012Validator.check_schema(schema)


@pytest.mark.parametrize(
    ("file", "name"), SHIPPED, ids=[file.relative_to(ROOT).as_posix() for file, _ in SHIPPED]
)
def test_shipped_files_validate(file: Path, name: str) -> None:
    data, _ = load_located(file.read_text(encoding="utf-8"), file.name)
    assert [error.message for error in _validator(name).iter_errors(data)] == []


@pytest.mark.parametrize("name", sorted(MODELS))
def test_every_key_is_described(name: str) -> None:
    # A key whose words are its definition's has only the reference.
    def keys(schema: Any, path: str) -> list[str]:
        assert schema["description"]
        inner = schema["properties"]
        return [f"{path}.{key}" for key in inner if not inner[key].keys() & {"description", "$ref"}]

    schema = json.loads(schema_text(name))
    missing = keys(schema, name)
    for title, definition in schema.get("$defs", {}).items():
        # where a plain value may stand in its place, the keys are those of the other form
        forms = [one for one in definition.get("anyOf", [definition]) if "properties" in one]
        missing += [key for form in forms for key in keys(form, title)]
    assert missing == []


def test_a_schema_refuses_what_the_loader_refuses() -> None:
    app = {"models": [{"file": "a.ptl"}], "targets": ["x"], "target": []}
    assert [error.message for error in _validator("app").iter_errors(app)] == [
        "Additional properties are not allowed ('target' was unexpected)"
    ]


def test_writing_and_checking(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([], tmp_path) == 1
    assert main(["--write"], tmp_path) == 0
    assert main([], tmp_path) == 0
    stale = "".join(f"{name}.schema.json\n" for name in sorted(MODELS))
    assert capsys.readouterr().out == stale + stale + "current\n"
