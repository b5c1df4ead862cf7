"""What another PyTorch touches: no module but the dialects names a version, and what depends on
PyTorch's own names is in the guide's list."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from orchestrator.pytorch.dialects import DIALECTS

PACKAGE = Path(__file__).parents[3] / "orchestrator"
GUIDE = PACKAGE.parent / "docs/guide/maintain-a-runtime.md"
# A supported version, or a dialect's package, in code; a mangled name with one of PyTorch's
# namespaces, or a part of one (Itanium C++ ABI, 5.1).
_VERSION = re.compile("|".join([*map(re.escape, DIALECTS), r"v\d+_\d+"]))
_MANGLED = re.compile(r"2at|3c10|5torch|6caffe2|_ZTV$")
# Where a version stands in a text for people, as an example.
EXAMPLES = {
    "commands/fetch.py": "the command's help",
    "values/advisories.py": "what an error expects",
    "values/config/workspace.py": "the schema's description",
}
# Modules with mangled names of PyTorch's core, the same for all versions so far.
MANGLED = {
    "build/shipped/app_package.py",
    "index/entry.py",
    "index/layers.py",
    "index/model.py",
    "index/side_by_side.py",
    "plan/development.py",
    "plan/extension.py",
    "platforms/android.py",
    "size/dtypes.py",
}
# Sources that tell PyTorch's errors by their texts.
BY_TEXT = {
    "build/tracing/on_demand.py",
    "native/capi/capi.cpp",
    "native/capi/kept_messages.h",
}
_TEXTS = re.compile(r"\b(?:contains|between)\(message, |Could not find schema")


def texts(source: str) -> Iterator[str]:
    """The strings of a module but for docstrings, and the packages that it imports."""
    tree = ast.parse(source)
    documented = ast.Module | ast.ClassDef | ast.FunctionDef
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, documented) and node.body and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            yield node.module or ""
        elif isinstance(node, ast.Constant) and id(node) not in docstrings:
            yield node.value.decode("latin1") if isinstance(node.value, bytes) else str(node.value)


@cache
def modules() -> dict[str, tuple[str, ...]]:
    """The texts of every module outside of the dialects, by its path."""
    return {
        file.relative_to(PACKAGE).as_posix(): tuple(texts(file.read_text(encoding="utf-8")))
        for file in PACKAGE.rglob("*.py")
        if not file.is_relative_to(PACKAGE / "pytorch")
    }


def modules_with(pattern: re.Pattern[str]) -> set[str]:
    return {path for path, found in modules().items() if any(map(pattern.search, found))}


def test_dialects_alone_name_versions() -> None:
    assert modules_with(_VERSION) == {*EXAMPLES}


def test_mangled_names_and_messages_are_where_the_guide_says() -> None:
    assert modules_with(_MANGLED) == MANGLED
    sources = (file for kind in ("*.py", "*.cpp", "*.h") for file in PACKAGE.rglob(kind))
    by_text = {
        file.relative_to(PACKAGE).as_posix()
        for file in sources
        if not file.is_relative_to(PACKAGE / "pytorch")
        and _TEXTS.search(file.read_text(encoding="utf-8"))
    }
    assert by_text == BY_TEXT
    listed = set(re.findall(r"^\| \[`([^`]+)`\]", GUIDE.read_text(encoding="utf-8"), re.MULTILINE))
    assert {*MANGLED, *BY_TEXT} <= listed


@pytest.mark.parametrize(
    ("source", "pattern", "expected"),
    [
        ('if version == "2.6.0": pass', _VERSION, True),
        ("from orchestrator.pytorch.v2_6.dialect import DIALECT", _VERSION, True),
        ('"""As in 2.6.0."""\nif version in dialects: pass', _VERSION, False),
        ('START = b"_ZN3c10"', _MANGLED, True),
        ('CXX = "_ZNSt3__1"', _MANGLED, False),
    ],
)
def test_the_rule_itself(source: str, pattern: re.Pattern[str], expected: bool) -> None:
    assert any(map(pattern.search, texts(source))) is expected
