"""Verdicts on whether a model fits a library, as values: what is missing, what is unknown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from orchestrator.errors import Place

# proven        it ran in this very library, on its inputs
# by manifest   the library would be the same if its app had this model too
# unknown       nothing is known to lack, and neither a trace nor static analysis tells the rest
# does not fit  something lacks that it needs to be loaded, or needed when it was traced; or it ran,
#               and failed
Verdict = Literal["proven", "by manifest", "unknown", "does not fit"]
FITTING: Final = ("proven", "by manifest")

# why: its bytecode names it; it was called when it was traced; static analysis finds it possible
Need = Literal["named", "called", "possible"]
Kind = Literal["operator", "kernel tag", "custom class", "build feature", "model", "runtime"]


@dataclass(frozen=True)
class Lack:
    """Something that a library lacks, or is not known to have.

    name     of the operator, kernel tag, class, feature; else what it is about
    dtypes   of a kernel tag: those that lack
    has      of a kernel tag: those that the library has
    asked_by the model's own operators that may call it
    methods  of the model that name it, or what calls it
    places   in the model's source that name it, or what calls it
    bytes    what it would add to the library, about; `at_most` for what is no more than a bound
    note     what else there is to say
    """

    kind: Kind
    name: str
    needed: Need
    dtypes: tuple[str, ...] = ()
    has: tuple[str, ...] = ()
    asked_by: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()
    places: tuple[Place, ...] = ()
    bytes: int | None = None
    at_most: bool = False
    note: str = ""


@dataclass(frozen=True)
class Judgement:
    """The result for a model by a manifest: with `lacks` it does not fit; with only `unknown`, it
    is undecided. `reason` is a clause."""

    verdict: Verdict
    reason: str
    lacks: tuple[Lack, ...] = ()
    unknown: tuple[Lack, ...] = ()
