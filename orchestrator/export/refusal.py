"""Why a model is not exported or converted."""

from __future__ import annotations

from typing import Any


class Refused(Exception):
    """`kind` is one of those that `canonical/process.py` and `canonical/exporting.py` tell."""

    def __init__(self, kind: str, text: str, **facts: Any) -> None:
        super().__init__(text)
        self.kind = kind
        self.facts = facts
