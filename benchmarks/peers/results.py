"""What peers.json tells: cases, the libraries that ran, and the points of the picture. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from benchmarks.peers.catalogue import RUNTIMES

Values = Mapping[str, Any]

# The models of the picture, in the order of its parts.
PICTURED: Final = ("mobilenet", "camera")
# The picture has one dot of ours for a model: the default.
LABELLED: Final = tuple(name for name in RUNTIMES if not name.startswith("ours-"))


@dataclass(frozen=True)
class Point:
    """A dot: what an app ships, in MB, and the least CPU time of a run, in ms."""

    model: str
    runtime: str
    megabytes: float
    milliseconds: float


def points(results: Values) -> tuple[Point, ...]:
    """The picture's dots, one thread."""
    found = []
    for model in PICTURED:
        for runtime in LABELLED:
            case = case_of(results, runtime, model, 1)
            library = shipped(results, runtime, model)
            if case and library:
                megabytes = round(library["stripped"] / 10**6, 3)
                found.append(
                    Point(model, runtime, megabytes, round(case["cpu"]["least"] / 1000, 5))
                )
    return tuple(found)


def shipped(results: Values, runtime: str, model: str) -> Values | None:
    """The library that ran: ours of the model; a peer's first, or the set that is told."""
    told = results["ran_with"].get(f"{runtime}/{model}")
    for row in results["libraries"]:
        if (
            row["runtime"] == runtime
            and row["model"] in (model, None)
            and told in (None, row["what"])
        ):
            chosen: Values = row
            return chosen
    return None


def case_of(results: Values, runtime: str, model: str, threads: int) -> Values | None:
    """What was measured; None where it was not."""
    for case in results["cases"]:
        if (case["runtime"], case["model"], case["threads"]) == (runtime, model, threads):
            chosen: Values = case
            return None if "not_measured" in case else chosen
    return None


def present(results: Values, kind: str, known: Mapping[str, object]) -> tuple[str, ...]:
    """The models (`model`) or runtimes (`runtime`) of the results, in the catalogue's order."""
    seen = {case[kind] for case in results["cases"]}
    return tuple(name for name in known if name in seen)
