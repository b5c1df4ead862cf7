"""CONTRIBUTING: every class of error has a test.

A test names the class, or its code, or has a part of the message that a `raise` gives it. A class
without any of these has no test; one with them may still be tested badly.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator.errors import OrchestratorError

ROOT = Path(__file__).parents[3]
TEXTS = {".py", ".txt", ".md"}
# Shorter parts of a message may stand anywhere.
SHORTEST = 8


def test_every_error_is_tested() -> None:
    untested = sorted(classes_and_messages().keys() - named_in_tests())
    assert untested == []


def test_no_two_errors_have_one_name() -> None:
    """A code for machines is made of it."""
    places = defaultdict(list)
    for path, tree in modules():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and node.name.endswith("Error"):
                places[node.name].append(str(path.relative_to(ROOT)))
    assert {name: where for name, where in places.items() if len(where) > 1} == {}


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ('raise SomeError("a plain message")', ["a plain message"]),
        ('raise SomeError(f"{name} is {old} years too old")', [" years too old"]),
        ("raise SomeError(text)", []),
    ],
)
def test_the_longest_part_of_a_message_counts(source: str, message: list[str]) -> None:
    assert [part for _, part in raised(ast.parse(source))] == message


def named_in_tests() -> set[str]:
    text = "\n".join(
        path.read_text(encoding="utf-8", errors="replace")
        for path in sorted((ROOT / "tests").rglob("*"))
        if path.suffix in TEXTS and path.name != Path(__file__).name
    )
    words = set(re.findall(r"\w+", text))
    flat = condensed(text)
    return {
        name
        for name, messages in classes_and_messages().items()
        if {name, OrchestratorError.code_of(name)} & words
        or any(condensed(message) in flat for message in messages)
    }


def classes_and_messages() -> dict[str, set[str]]:
    found: dict[str, set[str]] = defaultdict(set)
    for _, tree in modules():
        for node in ast.walk(tree):
            # what has a leading underscore is caught where it is raised
            if isinstance(node, ast.ClassDef) and OrchestratorError.__name__ in map(
                ast.unparse, node.bases
            ):
                found[node.name] |= set()
        for name, message in raised(tree):
            found[name].add(message)
    return {name: found[name] for name in found if not name.startswith("_")}


def raised(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """Classes and the longest constant part of the messages that they are made with."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and node.args and isinstance(node.func, ast.Name):
            parts = [
                part.value
                for part in ast.walk(node.args[0])
                if isinstance(part, ast.Constant) and isinstance(part.value, str)
            ]
            longest = max(parts, key=len, default="")
            if node.func.id.endswith("Error") and len(longest) >= SHORTEST:
                yield node.func.id, longest


def condensed(text: str) -> str:
    """Without blanks and quotes, so that it does not matter where a test wraps a text."""
    joined = re.sub(r'"\s*\n\s*f?"', "", text)
    return re.sub(r'[\s"\\]+', "", joined)


def modules() -> Iterator[tuple[Path, ast.Module]]:
    for path in sorted((ROOT / "orchestrator").rglob("*.py")):
        yield path, ast.parse(path.read_text())
