"""Keys by identity."""

from __future__ import annotations

import ast
from pathlib import Path

from orchestrator.values.same import Same

PACKAGE = Path(__file__).parents[3] / "orchestrator"


def test_equal_values_are_two_keys() -> None:
    one, other = [1], [1]
    known = {Same(one): "one", Same(other): "other"}
    assert (known[Same(one)], known[Same(other)]) == ("one", "other")
    assert Same(one) != one


def test_a_key_keeps_what_it_is_of() -> None:
    """Else another object could get its identity, and be taken for it."""
    known = {Same([number]): number for number in range(1000)}
    assert len(known) == 1000


def test_no_cache_of_a_plan_is_keyed_by_a_bare_identity() -> None:
    found = [
        f"{path.relative_to(PACKAGE)}:{node.lineno}"
        for folder in ("build", "plan", "select")
        for path in sorted((PACKAGE / folder).rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "id"
    ]
    assert found == []
