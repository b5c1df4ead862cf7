"""What the shard of a model has at first, and what came up missing in it.

The operators that a model names, and those that it probably calls: what its trace says, else what
other models were seen to call.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from orchestrator.build.session import RuntimeSession
from orchestrator.build.subject import Subject, readable_locks
from orchestrator.plan.development import NAME, entered_operators, guess, wide_tags
from orchestrator.select.closure import Registry
from orchestrator.select.policy import static_selection
from orchestrator.system.reading import read_json
from orchestrator.system.staging import write_if_changed
from orchestrator.trace.set_up import KERNEL_TAGS, called_by_model, dtypes_of_model
from orchestrator.verify.verdict import RunnerResult


def probable_operators(session: RuntimeSession, subject: Subject) -> frozenset[str]:
    """The operators that the model has at first."""
    kernels = session.kernels_for(subject.roots)
    known = kernels.by_operator.keys()
    remembered = _remembered(session, subject, "operators")
    if remembered:
        return subject.roots | (remembered & known)
    trace = subject.trace or subject.earlier
    if trace is not None:
        return subject.roots | (called_by_model(trace) & known)
    called = frozenset[str]().union(*map(called_by_model, readable_locks(session)))
    called |= frozenset(session.runtime.version.usual_calls)
    return _guessed(session, kernels, subject.roots, called)


def recorded_operators(session: RuntimeSession, subject: Subject) -> frozenset[str]:
    """The operators that a model has at first that is recorded: with those of the recorder's set-up
    calls, which every lock has."""
    runtime, kernels = session.runtime, session.kernels_for(subject.roots)
    entered = frozenset(entered_operators(runtime.index, runtime.tracer_entry).values())
    own = subject.trace or subject.earlier
    if own is not None:
        called = frozenset(own.called_operators) & kernels.by_operator.keys()
    else:
        locks = [frozenset(lock.called_operators) for lock in readable_locks(session)]
        common = frozenset.intersection(*locks) if locks else frozenset[str]()
        common |= frozenset(runtime.version.usual_calls)
        called = _guessed(session, kernels, entered, common)
    return probable_operators(session, subject) | entered | called


def _guessed(
    session: RuntimeSession, kernels: Registry, roots: frozenset[str], called: frozenset[str]
) -> frozenset[str]:
    closure = static_selection(session.runtime.index, kernels, roots, NAME).operators
    return guess(roots, closure, called & kernels.by_operator.keys())


def probably_wide(session: RuntimeSession, subject: Subject) -> frozenset[str]:
    """The kernel tags that the model has in all dtypes at first: those that it, or any model that
    was traced, ran in an unusual one."""
    locks = readable_locks(session) if subject.trace is None else (subject.trace,)
    traced = frozenset[str]().union(*(wide_tags(dtypes_of_model(lock)) for lock in locks))
    return traced | _remembered(session, subject, "wide_tags")


def recorded_wide(session: RuntimeSession, subject: Subject) -> frozenset[str]:
    """The same of a model that is recorded: with those of the recorder's set-up calls."""
    return probably_wide(session, subject) | wide_tags(KERNEL_TAGS)


def _notes(session: RuntimeSession, subject: Subject) -> Path:
    tree = session.runtime.index.tree[:16]
    return session.context.state / NAME / "calls" / f"{subject.info.sha256}-{tree}.json"


def _remembered(session: RuntimeSession, subject: Subject, what: str) -> frozenset[str]:
    """What the model had when it last ran; nothing where that cannot be read."""
    try:
        names = read_json(_notes(session, subject))[what]
        return frozenset(map(str, names))
    except (OSError, ValueError, TypeError, KeyError):
        return frozenset()


def remember(
    session: RuntimeSession, subject: Subject, operators: frozenset[str], wide: frozenset[str]
) -> None:
    """Note what the model had when it ran. The caller holds the workspace's lock."""
    had = {"format": 1, "operators": sorted(operators), "wide_tags": sorted(wide)}
    text = json.dumps(had) + "\n"
    write_if_changed(_notes(session, subject), text)


def missing_operators(seen: RunnerResult) -> tuple[str, ...]:
    """The operators that the model asked for in vain, in loading it or in one of its runs."""
    names = {
        str(name)
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
