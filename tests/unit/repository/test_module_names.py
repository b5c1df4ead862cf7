"""Test modules have names of their own, so that one pytest process can collect them all.

pytest imports a test file by its basename where its folder is no package (import mode `prepend`),
and helpers by bare name from `pythonpath`: of two modules with one name, the second is an error.
https://docs.pytest.org/en/stable/explanation/pythonpath.html
"""

from __future__ import annotations

import tomllib
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[3]


def clashes(root: Path, helpers: list[str]) -> dict[str, list[str]]:
    """Module name -> the files that have it, where there are several.

    Counted are tests, wherever they are in `tests/`, and modules of the helpers' folders.
    """
    files = set((root / "tests").rglob("test_*.py"))
    files.update(file for folder in helpers for file in (root / folder).glob("*.py"))
    by_name = defaultdict(list)
    for file in sorted(files):
        if file.name not in ("conftest.py", "__init__.py"):
            by_name[file.stem].append(file.relative_to(root).as_posix())
    return {name: paths for name, paths in by_name.items() if len(paths) > 1}


def test_no_two_test_modules_have_one_name() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert clashes(ROOT, settings["tool"]["pytest"]["ini_options"]["pythonpath"]) == {}


def test_the_rule_itself(tmp_path: Path) -> None:
    names = ("unit/test_one.py", "whole/test_one.py", "unit/test_two.py", "unit/conftest.py")
    for name in (*names, "whole/conftest.py", "support/toy.py", "unit/toy.py", "apart/toy.py"):
        (tmp_path / "tests" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "tests" / name).touch()
    assert clashes(tmp_path, ["tests/support", "tests/unit"]) == {
        "test_one": ["tests/unit/test_one.py", "tests/whole/test_one.py"],
        "toy": ["tests/support/toy.py", "tests/unit/toy.py"],
    }
