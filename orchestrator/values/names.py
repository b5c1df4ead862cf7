"""The nearest known name, for errors about an unknown one."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Final

# What others call the processors of our ABIs.
_PROCESSORS: Final = {
    **dict.fromkeys(("x64", "amd64", "x86-64", "x8664"), "x86_64"),
    **dict.fromkeys(("aarch64", "arm64v8", "armv8"), "arm64"),
}
# Below that, two words are not one mistyped.
_ALIKE: Final = 0.6


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that a mistyped one most likely means."""
    every = sorted(known)
    same = next((each for each in every if each.casefold() == name.casefold()), None)
    return same or next(iter(get_close_matches(name, every, n=1)), None)


def did_you_mean(name: str, known: Iterable[str], otherwise: str | None = None) -> str | None:
    """The advice for an unknown name: its nearest known one, else the other advice."""
    like = nearest(name, known)
    return f"did you mean `{like}`?" if like else otherwise


def nearest_abi(name: str, known: Iterable[str]) -> str | None:
    """The known ABI that a mistyped one most likely means: never one of another system, or of
    another processor, which would be built and not run."""
    every = sorted(known)
    processor = _PROCESSORS.get(name.lower(), name.lower())
    ended = [abi for abi in every if abi == processor or abi.endswith(f"-{processor}")]
    if processor in every:
        return processor
    if len(ended) == 1:  # a processor alone, which one system has
        return ended[0]
    wanted = _processor_named(name if "-" in name else name.replace("_", "-", 1))
    begun = [abi for abi in every if abi.startswith(f"{wanted}-")]
    if wanted in every or len(begun) == 1:
        return wanted if wanted in every else begun[0]
    like = [abi for abi in every if _same_kind(wanted, abi)]
    return next(iter(get_close_matches(wanted, like, n=1, cutoff=_ALIKE)), None)


def did_you_mean_abi(name: str, known: Iterable[str], otherwise: str | None = None) -> str | None:
    """The advice for an unknown ABI: the one that it means, else the other advice."""
    like = nearest_abi(name, known)
    return f"did you mean `{like}`?" if like else otherwise


def _processor_named(name: str) -> str:
    system, _, processor = name.lower().partition("-")
    return f"{system}-{_PROCESSORS.get(processor, processor)}" if processor else system


def _same_kind(name: str, abi: str) -> bool:
    """True if the names of the systems are similar, and the numbers in the processors' names
    equal."""
    system, _, processor = name.partition("-")
    other, _, known = abi.partition("-")
    alike = get_close_matches(system, [other], cutoff=_ALIKE)
    return bool(alike) and _digits(processor) == _digits(known)


def _digits(text: str) -> list[str]:
    return sorted(filter(str.isdigit, text))
