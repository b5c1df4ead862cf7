"""A version's facts as changes of another's."""

from __future__ import annotations

import pytest

from orchestrator.pytorch.changes import changed

RULES = [{"unit": "a.cpp", "header": "a.h"}, {"unit": "b.cpp", "header": "b.h"}]


def test_keys_change_come_and_go() -> None:
    base = {"a": 1, "b": {"c": 2, "d": 3}, "e": [4]}
    assert changed(base, {"a": 5, "b": {"c": None, "f": 6}, "e": [7], "g": 8}) == {
        "a": 5,
        "b": {"d": 3, "f": 6},
        "e": [7],
        "g": 8,
    }
    assert base == {"a": 1, "b": {"c": 2, "d": 3}, "e": [4]}


def test_entries_of_a_list_go_change_where_they_are_and_come_last() -> None:
    assert changed(["a", "b", "c"], {"drop": ["b"], "add": ["d"]}) == ["a", "c", "d"]
    edits = {"change": [{"of": {"header": "a.h"}, "to": {"header": "new.h", "unless": ["x"]}}]}
    assert changed(RULES, edits) == [
        {"unit": "a.cpp", "header": "new.h", "unless": ["x"]},
        RULES[1],
    ]
    assert changed(RULES, {"drop": [{"unit": "a.cpp"}]}) == [RULES[1]]


@pytest.mark.parametrize(
    ("base", "change", "what"),
    [
        (["a"], {"drop": ["b"]}, "there is no b"),
        (RULES, {"change": [{"of": {"unit": "c.cpp"}, "to": {}}]}, "there is no {'unit': 'c.cpp'}"),
        (["a"], {"dorp": ["a"]}, "a list is changed by"),
        (["a"], {}, "a list is changed by"),
    ],
)
def test_a_change_of_what_is_not_there(base: object, change: object, what: str) -> None:
    with pytest.raises(AssertionError, match=what):
        changed(base, change)


def test_a_key_that_is_not_there_cannot_be_taken_away() -> None:
    with pytest.raises(KeyError):
        changed({"a": 1}, {"b": None})
