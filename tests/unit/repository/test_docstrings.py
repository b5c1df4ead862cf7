"""Docstrings begin with a verb or a noun, so that their first word says what kind of thing it is.

A clause such as "What it needs with these operators" or "Whether it is there" makes a riddle of a
function: a reader has to find out whether it returns, checks, writes or raises. A verb in the
imperative ("Return ...", "Raise ..."), "True if ..." or a noun of the field ("Symbols that ...",
"Number of ...") tells at once.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).parents[3] / "orchestrator"
CLAUSES = {"what", "which", "whether", "of", "those", "where", "how", "who", "whose", "when"}


def clauses(text: str) -> Iterator[str]:
    """The line number and first line of each docstring of a module that begins with a clause."""
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        words = (ast.get_docstring(node) or "").split()
        if words and words[0].rstrip(",.:").lower() in CLAUSES:
            yield f"{node.body[0].lineno}: {' '.join(words[:8])}"


def test_no_docstring_begins_with_a_clause() -> None:
    found = [
        f"{path.relative_to(PACKAGE)}:{clause}"
        for path in sorted(PACKAGE.rglob("*.py"))
        for clause in clauses(path.read_text(encoding="utf-8"))
    ]
    assert found == [], "\n".join(found)


def test_clauses_are_found_in_modules_classes_and_functions() -> None:
    text = (
        '"""Which names there are."""\n'
        "class Names:\n"
        '    """Names that there are."""\n'
        "    def known(self) -> bool:\n"
        '        """Whether it is one."""\n'
        "    async def read(self) -> None:\n"
        '        """Read them; what is left stays."""\n'
        "    def _end(self) -> int:\n"
        "        # What this is for.\n"
        '        """Of each: its end."""\n'
    )
    assert list(clauses(text)) == [
        "1: Which names there are.",
        "5: Whether it is one.",
        "10: Of each: its end.",
    ]
