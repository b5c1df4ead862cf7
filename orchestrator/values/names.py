"""The nearest known name, for errors about an unknown one."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that a mistyped one most likely means."""
    return next(iter(get_close_matches(name, sorted(known), n=1)), None)


def did_you_mean(name: str, known: Iterable[str], otherwise: str | None = None) -> str | None:
    """The advice for an unknown name: its nearest known one, else the other advice."""
    like = nearest(name, known)
    return f"did you mean `{like}`?" if like else otherwise
