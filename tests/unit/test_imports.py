"""Imports point one way, and each import is of a layer that may be known there."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "orchestrator"
FREE = {"errors", "context", "system"}
# From left to right; a module imports from its own layer or from one to the left.
LAYERS = (
    {"values"},
    {
        "load",
        "runtime",
        "libraries",
        "models",
        "toolchain",
        "trace",
        "select",
        "codegen",
        "plan",
        "emit",
    },
    {"execute", "package", "report"},
    {"pipeline"},
    {"commands"},
    {"cli", "__main__"},
)
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}


def imports(text: str) -> Iterator[str]:
    """The parts of `orchestrator` that a module's text imports, wherever the import stands."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level:
            names = ["orchestrator.(relative)"]
        elif isinstance(node, ast.ImportFrom) and node.module == "orchestrator":
            names = [f"orchestrator.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        else:
            continue
        for name in names:
            if name.startswith("orchestrator."):
                yield name.split(".")[1]


def faults(part: str, text: str) -> list[str]:
    """What a module of one part imports and must not."""
    allowed = {name for name, level in LEVEL.items() if level <= LEVEL.get(part, -1)} | FREE
    return sorted({name for name in imports(text) if name not in allowed})


@pytest.mark.parametrize(
    "file", sorted(PACKAGE.rglob("*.py")), ids=lambda file: file.relative_to(PACKAGE).as_posix()
)
def test_imports_point_left(file: Path) -> None:
    part = file.relative_to(PACKAGE).parts[0].removesuffix(".py")
    assert part in LEVEL.keys() | FREE | {"__init__", "native"}
    assert faults(part, file.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    ("part", "text", "expected"),
    [
        ("values", "from orchestrator.load.yaml import x", ["load"]),
        ("values", "from orchestrator.errors import x\nimport os", []),
        ("plan", "def f():\n    import orchestrator.execute.lock", ["execute"]),
        ("plan", "from orchestrator import cli", ["cli"]),
        ("plan", "from . import x", ["(relative)"]),
        ("report", "from orchestrator.plan import x", []),
        ("errors", "from orchestrator.values.labels import x", ["values"]),
    ],
)
def test_the_rule_itself(part: str, text: str, expected: list[str]) -> None:
    assert faults(part, text) == expected
