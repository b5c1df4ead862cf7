"""One version's facts as changes to another's, so that shared facts are written once.

In a mapping, each key changes the base's value, and `null` removes it. A list is replaced by a
list, or changed by a mapping: `drop` removes what its entries match; `change` is a list of
`{of, to}`, in which `to` changes what `of` matches; `add` is appended last. An entry matches a
value that is equal, or a mapping that has all of the entry's keys and values.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

_EDITS: Final = frozenset({"drop", "change", "add"})


def changed(base: Any, change: Any) -> Any:
    """`base` after `change`. A change to something that does not exist is our bug, and asserted."""
    if isinstance(base, Mapping) and isinstance(change, Mapping):
        found = dict(base)
        for key, value in change.items():
            if value is None:
                del found[key]
            else:
                found[key] = changed(base[key], value) if key in base else value
        return found
    if isinstance(base, list) and isinstance(change, Mapping):
        return _edited(base, change)
    return change


def _edited(base: list[Any], edits: Mapping[str, Any]) -> list[Any]:
    assert edits, f"a list is changed by {sorted(_EDITS)}"
    assert edits.keys() <= _EDITS, f"a list is changed by {sorted(_EDITS)}: {edits}"
    drop, change = edits.get("drop", []), edits.get("change", [])
    for entry in (*drop, *(one["of"] for one in change)):
        assert any(_matches(entry, item) for item in base), f"there is no {entry}"
    found = []
    for item in base:
        if not any(_matches(entry, item) for entry in drop):
            for one in change:
                if _matches(one["of"], item):
                    item = changed(item, one["to"])
            found.append(item)
    return [*found, *edits.get("add", [])]


def _matches(entry: Any, item: Any) -> bool:
    if isinstance(entry, Mapping) and isinstance(item, Mapping):
        return entry.items() <= item.items()
    return bool(entry == item)
