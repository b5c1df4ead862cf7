"""The example apps declare, between them, each key that app.yaml may have: CI builds them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, get_args

import pytest
import yaml
from pydantic import BaseModel

from orchestrator.values.config.app import AppConfig, Budget

ROOT = Path(__file__).parents[3]
APPS: Final = tuple(sorted(ROOT.glob("apps/*/app.yaml")))


def keys(model: type[BaseModel], before: str = "") -> Iterator[str]:
    """The keys of a declaration, with those of its parts: `models.inputs.args.shape`."""
    for name, field in model.model_fields.items():
        yield f"{before}{name}"
        for part in _models(field.annotation):
            yield from keys(part, f"{before}{name}.")


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from _models(argument)


def declared(value: Any, known: frozenset[str], at: str = "") -> Iterator[str]:
    """Those keys that a declaration has. A key that is none of them is a name of the app's own,
    such as an ABI's, or an operator's."""
    if isinstance(value, list):
        for item in value:
            yield from declared(item, known, at)
    elif isinstance(value, Mapping):
        for name, content in value.items():
            key = f"{at}.{name}" if at else str(name)
            if key in known:
                yield key
                yield from declared(content, known, key)
            else:
                yield from declared(content, known, at)


def undeclared(texts: list[str]) -> list[str]:
    """The keys that none of these declarations has."""
    known = frozenset(keys(AppConfig))
    found = {key for text in texts for key in declared(yaml.safe_load(text), known)}
    return sorted(known - found)


def test_the_example_apps_declare_every_key() -> None:
    assert undeclared([file.read_text(encoding="utf-8") for file in APPS]) == []


def test_a_key_is_found_at_each_depth() -> None:
    known = {*keys(AppConfig)}
    assert {f"budgets.{name}" for name in Budget.model_fields} <= known
    assert {"threads", "models.inputs.args.shape", "sources.licence.expression"} <= known


@pytest.mark.parametrize(
    ("line", "missing"),
    [
        ("threads: 1", "threads"),
        ("  operators:\n    - torchvision::nms", "sources.operators"),
        ("    growth: 50kB", "budgets.growth"),
    ],
)
def test_a_key_that_no_app_declares_is_named(line: str, missing: str) -> None:
    texts = [file.read_text(encoding="utf-8").replace(line, "") for file in APPS]
    assert undeclared(texts) == [missing]
