"""Work in a recording: the hot kernel tags, whose work justifies larger, faster units; and the
number of multiply-adds of a run. Pure.

Contract: the work is counted (native/tracer/recorder.h), never timed, and earlier traces do not
matter: the same model and inputs give the same tags on every machine.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Final

from orchestrator.pytorch.versions import WorkData, WorkRule

# A tag that does less of a model's work than this is not hot.
HOT_SHARE: Final = 0.005
# The share of the model's work that a unit's kernels must do for each KB of code (measured:
# docs/decisions/0027, 0043).
_SHARE_OF_A_KB: Final = 0.0005
# The number of dtypes of a kernel: the code of one dtype is about one such part of it.
_ALL_DTYPES: Final = 12


@dataclass(frozen=True)
class Scales:
    """The weights of work and bytes.

    sizes: of a tag's code with all dtypes, in each unit that a hot tag of the name makes fast.
    """

    work: WorkData
    sizes: Callable[[str], Mapping[str, int]]


def hot_tags(
    recording: Mapping[str, Any], tags: Mapping[str, Collection[str]], scales: Scales
) -> tuple[str, ...]:
    """The hot tags of a recording, sorted.

    tags: the model's kernel tags, set-up calls included, each with its dtypes.
    """
    steps = _steps(recording, scales.work)
    calls = sum(recording["called_operators"].values())
    total = sum(steps.values()) + scales.work.call * calls
    return tuple(
        sorted(
            tag
            for tag, own in steps.items()
            if own and own >= HOT_SHARE * total and _is_worth(tag, steps, total, tags, scales)
        )
    )


def multiply_adds(recording: Mapping[str, Any], runs: int, work: WorkData) -> int:
    """The multiply-adds of products of matrices and of convolutions in one of a recording's runs,
    on average and by order of magnitude: those of the tag that did the most, since one product may
    count for several."""
    counted = [
        worked["products"]
        for tag, worked in recording["work"].items()
        if (rule := _rule(tag, work)) and rule.of == "products"
    ]
    most: int = max(counted, default=0)
    return most // max(1, runs)


def _steps(recording: Mapping[str, Any], work: WorkData) -> dict[str, float]:
    """Return the steps of work that the kernels of each tag did."""
    starts = {tag: sum(dtypes.values()) for tag, dtypes in recording["kernel_tags"].items()}
    return {
        tag: _weighed(tag, worked, work) + work.kernel * starts[tag]
        for tag, worked in recording["work"].items()
    }


def _weighed(tag: str, worked: Mapping[str, int], work: WorkData) -> float:
    rule = _rule(tag, work)
    of, steps = (rule.of, rule.steps) if rule else ("elements", work.element)
    return steps * _COUNTED[of](worked)


def _rule(tag: str, work: WorkData) -> WorkRule | None:
    return next((r for r in work.rules if any(fnmatchcase(tag, glob) for glob in r.tags)), None)


_COUNTED: Final[Mapping[str, Callable[[Mapping[str, int]], int]]] = {
    "elements": lambda worked: max(worked["inputs"], worked["outputs"]),
    "results": lambda worked: worked["outputs"],
    "products": lambda worked: worked["products"],
}


def _is_worth(
    tag: str,
    steps: Mapping[str, float],
    total: float,
    tags: Mapping[str, Collection[str]],
    scales: Scales,
) -> bool:
    """True if the work done in the tag's units justifies the bytes of the model's kernels there."""
    units = scales.sizes(tag).keys()
    done, size = 0.0, 0.0
    for other, dtypes in tags.items():
        shared = units & (sizes := scales.sizes(other)).keys()
        size += sum(sizes[unit] for unit in shared) * min(1, len(dtypes) / _ALL_DTYPES)
        if shared or other == tag:
            done += steps.get(other, 0)
    return done >= _SHARE_OF_A_KB * total * size / 1000
