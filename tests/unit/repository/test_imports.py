"""Which package imports which: exactly this table, and no circle."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[3] / "orchestrator"
# What every module may import; they import each other and nothing else.
FREE = {"errors", "context", "system"}
# package -> packages that it imports. A new arrow is written here, or it is a mistake.
IMPORTS: Mapping[str, set[str]] = {
    "values": set(),
    "binary": set(),
    "cache": set(),
    "models": {"values"},
    # torch's side: test_export_side.py has what it may import of others
    "export": set(),
    "canonical": {"load", "models", "values"},
    "platforms": {"values"},
    "load": {"platforms", "values"},
    "execute": {"values"},
    "source": {"load", "values"},
    "pytorch": {"source", "values"},
    "trace": {"load", "pytorch", "values"},
    "compilers": {"binary", "platforms", "source", "values"},
    "index": {"pytorch", "values"},
    "libraries": {"index", "pytorch", "source", "values"},
    "select": {"index", "pytorch", "values"},
    "codegen": {"index", "pytorch", "values"},
    "plan": {
        *("codegen", "compilers", "index", "libraries", "platforms", "pytorch", "select"),
        "values",
    },
    "verify": {"export", "trace", "values"},
    "deliver": {"binary", "platforms", "values"},
    "packagers": {"binary", "deliver", "platforms", "values"},
    "report": {"execute", "values", "verify"},
    "ci": {"canonical", "load", "trace", "values"},
    "build": {
        *(
            "binary",
            "cache",
            "canonical",
            "codegen",
            "compilers",
            "deliver",
            "execute",
            "export",
            "index",
            "libraries",
        ),
        *("load", "models", "packagers", "plan", "platforms", "pytorch", "report", "select"),
        *("source", "trace", "values", "verify"),
    },
    "commands": {
        *("build", "cache", "canonical", "ci", "compilers", "deliver", "execute", "load"),
        *("pytorch", "report", "trace", "values", "verify"),
    },
    "cli": {"commands", "load"},
    "__main__": {"cli"},
}


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


def graph(modules: Mapping[str, str]) -> dict[str, set[str]]:
    """package -> packages that its modules import, from the modules' paths and texts."""
    found: dict[str, set[str]] = {}
    for path, text in modules.items():
        part = path.split("/")[0].removesuffix(".py")
        found.setdefault(part, set()).update({*imports(text)} - {part})
    return found


def ours() -> dict[str, set[str]]:
    files = (file for file in PACKAGE.rglob("*.py") if file.name != "__init__.py")
    inits = PACKAGE.glob("*/__init__.py")
    return graph(
        {
            file.relative_to(PACKAGE).as_posix(): file.read_text(encoding="utf-8")
            for file in (*files, *inits)
        }
    )


def test_the_packages_import_what_the_table_says() -> None:
    found = {part: names - FREE for part, names in ours().items()}
    assert {part: names for part, names in found.items() if part not in FREE} == IMPORTS
    assert {part: names for part, names in ours().items() if part in FREE} == {
        "errors": set(),
        "context": {"errors", "system"},
        "system": {"errors"},
    }


def test_there_is_no_circle() -> None:
    assert {*TopologicalSorter(IMPORTS).static_order()} >= IMPORTS.keys()


@pytest.mark.parametrize(
    ("path", "text", "expected"),
    [
        ("values/a.py", "from orchestrator.load.yaml import x", {"values": {"load"}}),
        ("values/a.py", "from orchestrator.errors import x\nimport os", {"values": {"errors"}}),
        ("plan/a.py", "def f():\n    import orchestrator.execute.x", {"plan": {"execute"}}),
        ("plan/a.py", "from orchestrator import cli", {"plan": {"cli"}}),
        ("plan/a.py", "from . import x", {"plan": {"(relative)"}}),
        ("report/a.py", "from orchestrator.report import x", {"report": set()}),
        ("cli.py", "from orchestrator.commands import x", {"cli": {"commands"}}),
    ],
)
def test_the_rule_itself(path: str, text: str, expected: dict[str, set[str]]) -> None:
    assert graph({path: text}) == expected


def test_a_circle_is_found() -> None:
    with pytest.raises(CycleError):
        [*TopologicalSorter({"plan": {"codegen"}, "codegen": {"plan"}}).static_order()]
