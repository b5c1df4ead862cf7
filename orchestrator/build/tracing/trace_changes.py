"""Compares a new trace with a model's lock: names, and how far the outputs differ."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from orchestrator.report.table import human_bytes
from orchestrator.trace.difference import Change, changes_between
from orchestrator.trace.lock import read_runs, trace_before
from orchestrator.trace.reading import TraceDamagedError
from orchestrator.values.trace import Trace
from orchestrator.verify.compare import Difference, MalformedResultError, compare_results

_LONGEST: Final = 40


def changes_in_lock(
    app_folder: Path,
    root: Path,
    trace: Trace,
    runs: Mapping[str, Any],
    runtimes: Mapping[str, str],
    bytes_in: Callable[[str, Trace], int | None] = lambda tree, trace: None,
) -> tuple[Change, ...] | None:
    """Against the lock that is still there; None where there is none to read.

    runs: the new ones
    runtimes: digest of a runtime's tree -> its name, of those that the workspace pins
    bytes_in: what a library of a trace would have, cut from the runtime of a tree; None where that
              is not known. Asked where an app has moved to another runtime.
    """
    before = trace_before(app_folder, trace.model)
    if before is None:
        return None
    old, new = before.identity, trace.identity
    details = {"runtime": f"{_named(old.runtime, runtimes)} -> {_named(new.runtime, runtimes)}"}
    if old.runtime != new.runtime:
        sizes = (bytes_in(old.runtime, before), bytes_in(new.runtime, trace))
        details["runtime"] += _sizes(*sizes)
    # results of other inputs, or of another model, say nothing
    if (old.model, old.inputs) == (new.model, new.inputs) and before.outputs != trace.outputs:
        with suppress(TraceDamagedError, MalformedResultError):  # what was there is replaced
            details["outputs"] = outputs_apart(read_runs(app_folder, before, root), runs)
    return changes_between(before, trace, details)


def _named(tree: str, runtimes: Mapping[str, str]) -> str:
    return runtimes.get(tree, f"a tree {tree[:12]} that WORKSPACE does not pin")


def _sizes(before: int | None, after: int | None) -> str:
    if before is None or after is None:
        return ""
    sizes = f"{human_bytes(before)} -> {human_bytes(after)}"
    return f"; a library of this model alone, with all dtypes, by the index: {sizes}"


def outputs_apart(old: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    """Describe how the results of two traces differ: the worst place, and the number of others.
    Pure.

    Raises MalformedResultError.
    """
    beyond = compare_results(old, new)
    found = beyond or compare_results(old, new, exact=True)
    if not found:
        return "equal values"
    more = f", and {len(found) - 1} more" if len(found) > 1 else ""
    return f"{'beyond' if beyond else 'within'} the tolerance: {_text_of(_worst(found))}{more}"


def _worst(differences: Iterable[Difference]) -> Difference:
    """The one with the largest distance; one without numbers before all."""
    return max(differences, key=lambda one: (one.max_abs is None, one.max_abs or 0.0))


def _text_of(one: Difference) -> str:
    kind = "" if one.kind == "value" else f"{one.kind} "
    where = " ".join(part for part in (one.run, one.path) if part)
    apart = "" if one.max_abs is None else f", at most {one.max_abs:.3g} apart"
    text = f"{kind}{_clipped(one.expected)} -> {_clipped(one.seen)}{apart}"
    return f"{where}: {text}" if where else text


def _clipped(text: str) -> str:
    """A model may return a text of any length."""
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
