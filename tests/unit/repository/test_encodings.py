"""Texts are read and written as UTF-8, whatever the locale: digests are made of them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[3] / "orchestrator"


def of_the_locale(text: str) -> Iterator[int]:
    """The lines of a module that read or write a text without an encoding."""
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        if any(keyword.arg == "encoding" for keyword in node.keywords):
            continue
        name = node.func.attr
        if name in ("read_text", "write_text"):
            # Path.read_text(encoding), Path.write_text(data, encoding)
            encoded = len(node.args) > (name == "write_text")
        elif name == "open" and not node.keywords:
            # Path.open(mode); `os.open` and archives take something else first
            encoded = not all(isinstance(one, ast.Constant) for one in node.args)
            encoded = encoded or any("b" in ast.unparse(one) for one in node.args)
        else:
            continue
        if not encoded:
            yield node.lineno


def test_every_text_has_an_encoding() -> None:
    found = [
        f"{path.relative_to(PACKAGE)}:{line}"
        for path in sorted(PACKAGE.rglob("*.py"))
        for line in of_the_locale(path.read_text(encoding="utf-8"))
    ]
    assert found == []


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("path.read_text()", [1]),
        ("path.read_text('utf-8')", []),
        ("path.read_text(encoding='ascii')", []),
        ("\npath.write_text(text)", [2]),
        ("path.write_text(text, 'utf-8')", []),
        ("write_text(path, text)", []),
        ("path.open()", [1]),
        ("(folder / 'x').open('w')", [1]),
        ("path.open('a', encoding='utf-8')", []),
        ("path.open('rb')", []),
        ("os.open(path, os.O_RDONLY)", []),
        ("archive.open(entry)", []),
    ],
)
def test_the_rule_itself(text: str, lines: list[int]) -> None:
    assert [*of_the_locale(text)] == lines
