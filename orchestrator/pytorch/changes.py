"""One version's facts as changes of another's: what is the same is written once.

In a mapping each key changes the base's value, and `null` takes it away. A list is replaced by a
list, or changed by a mapping: what an entry of `drop` matches goes; `change` is a list of
`{of, to}`, where what `of` matches is changed by `to`; `add` comes last. What matches is equal, or
a mapping that has all that the entry has.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

_EDITS: Final = frozenset({"drop", "change", "add"})


def changed(base: Any, change: Any) -> Any:
    """`base` after `change`. A change of what is not there is our bug, and asserted."""
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
