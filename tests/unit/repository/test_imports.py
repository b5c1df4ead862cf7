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
    "size": {"binary", "index", "pytorch", "select", "values"},
    "codegen": {"index", "pytorch", "values"},
    "plan": {
        *("codegen", "compilers", "index", "libraries", "platforms", "pytorch", "select"),
        "values",
    },
    "verify": {"export", "trace", "values"},
    "deliver": {"binary", "platforms", "values"},
    "packagers": {"binary", "deliver", "platforms", "values"},
    "report": {"execute", "size", "values", "verify"},
    "ci": {"canonical", "load", "trace", "values"},
    # the rooms of build/, each below those that it stands on
    "build": set(),
    "build.workshop": {
        *("cache", "canonical", "codegen", "compilers", "deliver", "export", "index"),
        *("libraries", "load", "models", "plan", "pytorch", "report", "select", "source"),
        *("trace", "values", "verify"),
    },
    "build.executing": {
        "build.workshop",
        *("cache", "compilers", "execute", "load", "plan", "values"),
    },
    "build.planning": {
        "build.workshop",
        *("canonical", "codegen", "compilers", "deliver", "execute", "libraries", "load"),
        *("models", "packagers", "plan", "platforms", "pytorch", "report", "select"),
        *("size", "trace", "values", "verify"),
    },
    "build.development": {
        *("build.executing", "build.planning", "build.workshop"),
        *("binary", "canonical", "codegen", "compilers", "index", "load", "models", "plan"),
        *("platforms", "pytorch", "select", "trace", "values", "verify"),
    },
    "build.tracing": {
        *("build.development", "build.executing", "build.planning", "build.workshop"),
        *("execute", "load", "models", "plan", "report", "select", "trace", "values"),
        "verify",
    },
    "build.explaining": {
        *("build.executing", "build.planning", "build.tracing", "build.workshop"),
        *("binary", "codegen", "compilers", "deliver", "execute", "index", "libraries"),
        *("models", "packagers", "plan", "pytorch", "report", "select", "size", "values"),
        "verify",
    },
    "build.delivering": {
        *("build.executing", "build.explaining", "build.planning", "build.workshop"),
        *("binary", "canonical", "ci", "compilers", "deliver", "execute", "index"),
        *("libraries", "load", "models", "packagers", "plan", "platforms", "pytorch", "report"),
        *("size", "source", "trace", "values", "verify"),
    },
    "build.shipped": {
        *("build.delivering", "build.development", "build.executing", "build.planning"),
        "build.workshop",
        *("binary", "canonical", "codegen", "compilers", "deliver", "load"),
        *("models", "packagers", "plan", "platforms", "pytorch", "report", "select"),
        *("size", "trace", "values", "verify"),
    },
    "build.authoring": {
        *("build.tracing", "build.workshop"),
        *("canonical", "export", "load", "models", "pytorch", "report", "select", "values"),
        "verify",
    },
    "build.indexing": {
        *("build.executing", "build.planning", "build.workshop"),
        *("codegen", "compilers", "execute", "index", "libraries", "plan", "pytorch"),
        *("select", "values"),
    },
    "build.bazel": {
        *("build.executing", "build.planning", "build.workshop"),
        *("compilers", "execute", "plan", "values"),
    },
    "commands": {
        *("build.authoring", "build.bazel", "build.delivering", "build.development"),
        *("build.executing", "build.explaining", "build.indexing", "build.planning"),
        *("build.shipped", "build.tracing", "build.workshop"),
        *("cache", "canonical", "ci", "compilers", "deliver", "execute", "load", "pytorch"),
        *("report", "size", "trace", "values", "verify"),
    },
    "cli": {"commands", "load"},
    "__main__": {"cli"},
}


def package_of(module: str) -> str:
    """The package below `orchestrator` that a dotted name is in; in `build`, the room."""
    names = module.split(".")
    return ".".join(names[: 2 if names[0] == "build" else 1])


def imports(text: str) -> Iterator[str]:
    """The packages of `orchestrator` that a module's text imports, wherever the import stands."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level:
            names = ["orchestrator.(relative)"]
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            if name.startswith("orchestrator."):
                yield package_of(name.removeprefix("orchestrator."))


def graph(modules: Mapping[str, str]) -> dict[str, set[str]]:
    """package -> packages that its modules import, from the modules' paths and texts."""
    found: dict[str, set[str]] = {}
    for path, text in modules.items():
        part = package_of(path.removesuffix(".py").removesuffix("/__init__").replace("/", "."))
        found.setdefault(part, set()).update({*imports(text)} - {part})
    return found


def ours() -> dict[str, set[str]]:
    return graph(
        {
            file.relative_to(PACKAGE).as_posix(): file.read_text(encoding="utf-8")
            for file in PACKAGE.rglob("*.py")
            if file != PACKAGE / "__init__.py"
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
        ("build/a/b.py", "from orchestrator.build.a import x", {"build.a": set()}),
        ("build/a/b.py", "from orchestrator.build.c.d import x", {"build.a": {"build.c"}}),
        ("build/a/__init__.py", "from orchestrator.build import c", {"build.a": {"build.c"}}),
        ("build/__init__.py", "from orchestrator.build.a import x", {"build": {"build.a"}}),
    ],
)
def test_the_rule_itself(path: str, text: str, expected: dict[str, set[str]]) -> None:
    assert graph({path: text}) == expected


def test_a_circle_is_found() -> None:
    with pytest.raises(CycleError):
        [*TopologicalSorter({"plan": {"codegen"}, "codegen": {"plan"}}).static_order()]
