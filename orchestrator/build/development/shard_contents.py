"""Chooses the contents of a model's first shard, and what joins if something is missing in it.

The first shard has the operators that the model names, and those that it probably calls: by its
trace, else by what other models were seen to call, if that takes no further unit. If one is missing
nevertheless, all operators that it may call join with it, and in the next round all that the model
may call. Each round is another link and another run: a model takes two, or three.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orchestrator.build.development.subject import Subject, readable_locks
from orchestrator.build.workshop.invocation import Invocation
from orchestrator.build.workshop.runtime import Runtime
from orchestrator.plan.development import (
    NAME,
    entered_operators,
    guess,
    wide_tags,
    with_known_code,
)
from orchestrator.select.closure import Registry
from orchestrator.select.policy import static_selection
from orchestrator.system.reading import read_json
from orchestrator.system.staging import write_if_changed
from orchestrator.trace.set_up import KERNEL_TAGS, called_by_model, dtypes_of_model
from orchestrator.values.operators import OperatorName
from orchestrator.verify.verdict import RunnerResult


@dataclass(frozen=True)
class InBase:
    """The base, as guesses need it. units: paths; called: operators that its own code calls."""

    units: frozenset[str]
    called: frozenset[OperatorName]


def probable_operators(
    here: Invocation, runtime: Runtime, subject: Subject, base: InBase
) -> frozenset[OperatorName]:
    """The operators that the model has at first."""
    kernels = runtime.kernels_for(subject.roots)
    known = kernels.by_operator.keys()
    remembered = _remembered(here, runtime, subject, "operators")
    if remembered:
        return subject.roots | (known & remembered)
    trace = subject.trace or subject.earlier
    if trace is not None:
        return subject.roots | (called_by_model(trace) & known)
    called = frozenset[OperatorName]().union(*map(called_by_model, readable_locks(here, runtime)))
    called |= frozenset(map(OperatorName, runtime.version.usual_calls))
    return _guessed(runtime, kernels, subject.roots, called, base)


def recorded_operators(
    here: Invocation, runtime: Runtime, subject: Subject, base: InBase
) -> frozenset[OperatorName]:
    """The operators that a model has at first that is recorded: with those of the recorder's set-up
    calls, which every lock has."""
    kernels = runtime.kernels_for(subject.roots)
    entered = frozenset(entered_operators(runtime.index, runtime.tracer_entry).values())
    own = subject.trace or subject.earlier
    if own is not None:
        called = frozenset(own.called_operators) & kernels.by_operator.keys()
    else:
        locks = [frozenset(lock.called_operators) for lock in readable_locks(here, runtime)]
        common = frozenset.intersection(*locks) if locks else frozenset[OperatorName]()
        common |= frozenset(map(OperatorName, runtime.version.usual_calls))
        called = _guessed(runtime, kernels, entered, common, base)
    return probable_operators(here, runtime, subject, base) | entered | called


def _guessed(
    runtime: Runtime,
    kernels: Registry,
    roots: frozenset[OperatorName],
    called: frozenset[OperatorName],
    base: InBase,
) -> frozenset[OperatorName]:
    closure = _closure(runtime, kernels, roots)
    callable_ = closure | base.called
    chosen = guess(roots, callable_, called & kernels.by_operator.keys())
    return with_known_code(runtime.index, kernels, chosen, closure, base.units)


def joining(
    runtime: Runtime,
    roots: frozenset[OperatorName],
    missing: frozenset[OperatorName],
    rounds: int,
) -> frozenset[OperatorName]:
    """The operators that a shard gets where some came up missing: with what these may call, or,
    after the first round, with all that a model with these root operators may call."""
    if not missing:
        return missing
    among = missing if rounds == 1 else missing | roots
    return missing | _closure(runtime, runtime.kernels_for(roots), among)


def _closure(
    runtime: Runtime, kernels: Registry, operators: Collection[OperatorName]
) -> frozenset[OperatorName]:
    """All that these operators may call."""
    return frozenset(static_selection(runtime.index, kernels, operators, NAME).operators)


def probably_wide(here: Invocation, runtime: Runtime, subject: Subject) -> frozenset[str]:
    """The kernel tags that the model has in all dtypes at first: those that it, or any model that
    was traced, ran in an unusual one."""
    locks = readable_locks(here, runtime) if subject.trace is None else (subject.trace,)
    traced = frozenset[str]().union(*(wide_tags(dtypes_of_model(lock)) for lock in locks))
    return traced | _remembered(here, runtime, subject, "wide_tags")


def recorded_wide(here: Invocation, runtime: Runtime, subject: Subject) -> frozenset[str]:
    """The same of a model that is recorded: with those of the recorder's set-up calls."""
    return probably_wide(here, runtime, subject) | wide_tags(KERNEL_TAGS)


def _notes(here: Invocation, runtime: Runtime, subject: Subject) -> Path:
    tree = runtime.index.tree[:16]
    return here.context.shared / NAME / "calls" / f"{subject.info.sha256}-{tree}.json"


def _remembered(here: Invocation, runtime: Runtime, subject: Subject, what: str) -> frozenset[str]:
    """Names that the model used when it last ran; empty if they cannot be read."""
    try:
        names = read_json(_notes(here, runtime, subject))[what]
        return frozenset(map(str, names))
    except (OSError, ValueError, TypeError, KeyError):
        return frozenset()


def remember(
    here: Invocation,
    runtime: Runtime,
    subject: Subject,
    operators: frozenset[OperatorName],
    wide: frozenset[str],
) -> None:
    """Note what the model had when it ran."""
    had = {"format": 1, "operators": sorted(operators), "wide_tags": sorted(wide)}
    text = json.dumps(had) + "\n"
    write_if_changed(_notes(here, runtime, subject), text)


def missing_operators(seen: RunnerResult) -> tuple[OperatorName, ...]:
    """The operators that the model asked for in vain, in loading it or in one of its runs."""
    names = {
        OperatorName(name)
        for error in errors_of(seen)
        if error["code"] == "MISSING_OPERATOR"
        for name in error.get("operators", ())
    }
    return tuple(sorted(names))


def missing_dtypes(seen: RunnerResult) -> dict[str, str]:
    """Kernel tags that lacked a dtype, with one of them."""
    return {
        str(error["kernel_tag"]): str(error["dtype"])
        for error in errors_of(seen)
        if error["code"] == "MISSING_DTYPE"
    }


def errors_of(seen: RunnerResult) -> list[Mapping[str, Any]]:
    """The errors that the runner tells: that of loading the model, then those of its runs."""
    if seen.result is None:
        return []
    every = [seen.result.get("error"), *(run.get("error") for run in seen.result["runs"])]
    return [error for error in every if error]
