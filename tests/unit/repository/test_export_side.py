"""What runs in torch's Python imports nothing that this Python may be without."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

EXPORT = Path(__file__).parents[3] / "orchestrator" / "export"
MODULES = sorted(path.relative_to(EXPORT).as_posix() for path in EXPORT.rglob("*.py"))
# torch's sizes are sympy's symbols
ALLOWED = {*sys.stdlib_module_names, "torch", "sympy"}
# What the orchestrator's own Python reads too, which has no torch.
BOTH = ["__init__", "lowering_table", "tolerances"]


def imported(text: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or "."


@pytest.mark.parametrize("name", MODULES)
def test_its_modules_import_torch_and_each_other(name: str) -> None:
    others = {
        module
        for module in imported((EXPORT / name).read_text(encoding="utf-8"))
        if module.split(".")[0] not in ALLOWED and not module.startswith("orchestrator.export.")
    }
    assert others == set()


@pytest.mark.parametrize("name", BOTH)
def test_what_both_sides_read_imports_nothing(name: str) -> None:
    text = (EXPORT / f"{name}.py").read_text(encoding="utf-8")
    assert {module.split(".")[0] for module in imported(text)} <= {
        "__future__",
        *("collections", "dataclasses", "typing"),
    }


def test_the_worker_finds_its_package_alone(tmp_path: Path) -> None:
    """Started as a file, isolated, it has this very package and no other folder to import from."""
    script = (
        "import importlib.util, sys\n"
        f"spec = importlib.util.spec_from_file_location('worker', {str(EXPORT / 'worker.py')!r})\n"
        "worker = importlib.util.module_from_spec(spec); spec.loader.exec_module(worker)\n"
        "before = list(sys.path); worker._find_package()\n"
        "import orchestrator.export.tolerances as found\n"
        "assert sys.path == before\n"
        "print(found.__file__)\n"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", script],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == str(EXPORT / "tolerances.py")
