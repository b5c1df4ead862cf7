"""Differences between two runs of a model that was saved again. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from orchestrator.errors import visible
from orchestrator.verify.compare import Difference, compare_results

_MOST: Final = 6


@dataclass(frozen=True)
class RunComparison:
    """A run against the one before.

    inputs       whether both had the same: else outputs say nothing about the model
    differences  of the outputs, exactly
    added        operators that ran in it and not before; removed: the other way round
    """

    inputs: bool
    differences: tuple[Difference, ...]
    added: tuple[str, ...]
    removed: tuple[str, ...]

    def text(self) -> str:
        """For people; ends with a newline."""
        return "".join(f"{visible(line)}\n" for line in self._lines())

    def _lines(self) -> Iterator[str]:
        yield "  against the run before:"
        if not self.inputs:
            yield "    other inputs: outputs are not compared"
        elif not self.differences:
            yield "    outputs are equal"
        for one in self.differences[:_MOST]:
            apart = "" if one.max_abs is None else f", at most {one.max_abs:.3g} apart"
            where = " ".join(part for part in (one.run, one.path) if part)
            yield f"    {where}: {one.kind} {one.expected} before, {one.seen} now{apart}"
        if len(self.differences) > _MOST:
            yield f"    and {len(self.differences) - _MOST} other differences"
        for sign, names in (("+", self.added), ("-", self.removed)):
            yield from (f"    {sign} {name}" for name in names)
        if not self.added and not self.removed:
            yield "    the same operators ran"


def compare_runs(before: Mapping[str, Any], now: Mapping[str, Any]) -> RunComparison:
    """Two results of the model runner, with arguments. Raises `compare.MalformedResultError`."""
    inputs = _inputs(before) == _inputs(now)
    ran = [frozenset(result.get("operators") or {}) for result in (before, now)]
    return RunComparison(
        inputs,
        tuple(compare_results(before, now, exact=True)) if inputs else (),
        tuple(sorted(ran[1] - ran[0])),
        tuple(sorted(ran[0] - ran[1])),
    )


def _inputs(result: Mapping[str, Any]) -> list[object]:
    return [(run["method"], run["index"], run.get("args")) for run in result["runs"]]
