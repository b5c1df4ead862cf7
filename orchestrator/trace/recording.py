"""From the tracer's JSON (native/tracer) to a `Trace`. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from orchestrator.trace.hot import Scales, hot_tags, multiply_adds
from orchestrator.values.coverage import FunctionCoverage
from orchestrator.values.operators import OperatorName
from orchestrator.values.trace import Trace, TraceIdentity


def trace_from_recording(
    app: str,
    model: str,
    identity: TraceIdentity,
    recording: Mapping[str, Any],
    runs: int,
    outputs: str,
    scales: Scales,
    coverage: Mapping[str, FunctionCoverage] | None = None,
    unreachable: Collection[str] = (),
) -> Trace:
    """The trace of one model.

    recording is the tracer's `trace` object; set-up calls count as calls, because every app makes
    them.  runs is how many it recorded.  outputs is the digest of the recorded runs.  scales
    decides which kernels are worth making fast.  unreachable are the operators whose calls no input
    can reach.
    """
    roots = {_full_name(root["name"], root["overload"]) for root in recording["root_operators"]}
    counts = _sum_counts(recording["called_operators"], recording["setup_operators"])
    called = {OperatorName.parse(name): count for name, count in counts.items()}
    called |= {
        _full_name(root["name"], root["overload"]): root["calls"]
        for root in recording["root_operators"]
        if root["calls"] and _full_name(root["name"], root["overload"]) not in called
    }
    tags = _tags(recording)
    work = recorded_work(recording, runs, scales)
    return Trace(
        app=app,
        model=model,
        identity=identity,
        root_operators=tuple(sorted(roots.difference(unreachable))),
        called_operators={name: called[name] for name in sorted(called)},
        kernel_tags={tag: tags[tag] for tag in sorted(tags)},
        custom_classes=tuple(sorted(recording["custom_classes"])),
        build_features=tuple(sorted(recording["build_features"])),
        hot_tags=work.hot_tags,
        multiply_adds=work.multiply_adds,
        outputs=outputs,
        coverage=coverage,
        unreachable_operators=tuple(sorted(roots.intersection(unreachable))),
    )


@dataclass(frozen=True)
class RecordedWork:
    """As a `Trace` has both."""

    hot_tags: tuple[str, ...]
    multiply_adds: int


def recorded_work(recording: Mapping[str, Any], runs: int, scales: Scales) -> RecordedWork:
    """Return the work that a recording shows; the arguments are those of `trace_from_recording`."""
    hot = hot_tags(recording, _tags(recording), scales)
    return RecordedWork(hot, multiply_adds(recording, runs, scales.work))


def reached_operators(recording: Mapping[str, Any]) -> frozenset[str]:
    """The operators that a model's own code called, also where they failed."""
    return frozenset(
        _full_name(root["name"], root["overload"])
        for root in recording["root_operators"]
        if root["calls"]
    )


def _tags(recording: Mapping[str, Any]) -> dict[str, dict[str, int]]:
    """Kernel tag -> dtype -> how often it ran, set-up calls included."""
    tags: dict[str, dict[str, int]] = {}
    for table in (recording["kernel_tags"], recording["setup_kernel_tags"]):
        for tag, dtypes in table.items():
            tags[tag] = _sum_counts(tags.get(tag, {}), dtypes)
    return tags


def _full_name(name: str, overload: str) -> OperatorName:
    return OperatorName.of(name, overload)


def _sum_counts(left: Mapping[str, int], right: Mapping[str, int]) -> dict[str, int]:
    return {key: left.get(key, 0) + right.get(key, 0) for key in sorted({*left, *right})}
