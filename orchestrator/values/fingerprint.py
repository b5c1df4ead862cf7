"""Identity of an action: named parts, and the digest over them.

Content only, never time: equal fingerprints mean equal objects on every machine.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Identity:
    """The parts that identify an action, by name.

    A part is text, None, a sequence of text, or the identity of another action, which counts by its
    digest.
    """

    parts: Mapping[str, object]

    @property
    def digest(self) -> str:
        """sha256 (hex) of the parts, whatever their order."""
        return fingerprint(self.parts)


def fingerprint(parts: Mapping[str, object]) -> str:
    """sha256 (hex) of the parts, canonical JSON."""
    return hashlib.sha256(_canonical(parts).encode()).hexdigest()


def fingerprint_but(parts: Mapping[str, object], name: str) -> Callable[[object], str]:
    """`fingerprint` of `parts` and one more, as a function of that one: the rest is hashed once.

    `name` is a part of its own, not among `parts`.
    """
    # keys are sorted, so what stands before and behind the part does not depend on its value
    before = {key: value for key, value in parts.items() if key < name}
    behind = {key: value for key, value in parts.items() if key > name}
    head = "{" + (_canonical(before)[1:-1] + "," if before else "")
    tail = ("," + _canonical(behind)[1:-1] if behind else "") + "}"
    hashed = hashlib.sha256(f"{head}{_canonical(name)}:".encode())

    def whole(value: object) -> str:
        digest = hashed.copy()
        digest.update((_canonical(value) + tail).encode())
        return digest.hexdigest()

    return whole


def _digest_of(value: object) -> str:
    if not isinstance(value, Identity):
        raise TypeError(f"no part of an identity: {value!r}")
    return value.digest


# `json.dumps` would make such an encoder for each of a large plan's 100,000 fingerprints
_canonical = json.JSONEncoder(sort_keys=True, separators=(",", ":"), default=_digest_of).encode


def text_digest(text: str) -> str:
    """sha256 (hex) of a text."""
    return hashlib.sha256(text.encode()).hexdigest()
