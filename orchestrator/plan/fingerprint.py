"""One walk for an action's fingerprint and for its explanation, so that they cannot differ.

Content only, never time: equal fingerprints mean equal objects on every machine.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping


def fingerprint(parts: Mapping[str, object]) -> str:
    """sha256 (hex) of the parts, canonical JSON."""
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def explain(old: Mapping[str, object], new: Mapping[str, object]) -> list[str]:
    """What makes two actions differ: one line a part, `flags: -Os -> -O2`."""
    return [
        f"{name}: {old.get(name)} -> {new.get(name)}"
        for name in sorted({*old, *new})
        if old.get(name) != new.get(name)
    ]


def text_digest(text: str) -> str:
    """sha256 (hex) of a text."""
    return hashlib.sha256(text.encode()).hexdigest()
