"""Plans of variants over the shipped index: the tracer, and the library of each policy."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from typing import get_args

from link_rule import LinkRule
from shipped_index import kernels_for, shipped, shipped_facts, shipped_spec

from orchestrator.index.entry import load_entry, loader_symbols, recording_symbols
from orchestrator.plan.planner import Planner
from orchestrator.plan.variant import VariantPlan
from orchestrator.pytorch.dialect import Dialect
from orchestrator.pytorch.v1_13.dialect import DIALECT as V1_13
from orchestrator.select.policy import recorded_selection, select, static_selection
from orchestrator.values.config.forms import SelectionPolicy
from orchestrator.values.operators import OperatorName as Op
from orchestrator.values.selection import Selection
from orchestrator.values.trace import Trace, TraceIdentity

POLICIES: tuple[SelectionPolicy, ...] = get_args(SelectionPolicy)
_IDENTITY = TraceIdentity("m" * 64, "r" * 64, "bundled", ("CPU", "QuantizedCPU"), "t" * 64)


@cache
def every_operator(dialect: Dialect = V1_13) -> tuple[Op, ...]:
    """The operators that the runtime registers, for whatever backend."""
    names = {one.operator for one in shipped(dialect).registrations}
    return tuple(sorted(name for name in names if not name.endswith("::<fallback>")))


@cache
def planner(dialect: Dialect = V1_13) -> Planner:
    return Planner(shipped(dialect), shipped_facts(dialect))


@cache
def rule(dialect: Dialect = V1_13) -> LinkRule:
    return LinkRule(shipped(dialect), dialect)


def plans(
    roots: Sequence[str], source: random.Random, dialect: Dialect = V1_13
) -> Iterator[tuple[str, VariantPlan]]:
    """What is built for a model with these root operators: each plan, and what it is of.

    Some of the roots ran, and some operators that they call: drawn from `source`.
    """
    names = list(map(Op, roots))
    index, kernels = shipped(dialect), kernels_for(roots, dialect)
    how, plan = shipped_spec(roots, dialect), planner(dialect).plan
    recorded = shipped_spec(roots, dialect, purpose="tracer", entry=_tracer_entry(dialect))
    yield "tracer", plan(kernels, _recorded(roots, recorded.cut, dialect), recorded)
    closure = sorted(static_selection(index, kernels, names, "model").operators)
    ran = [name for name in sorted(names) if source.random() < 0.5]
    ran += source.sample(closure, min(len(closure), source.randint(0, 8)))
    trace = Trace(
        app="app",
        model="model",
        identity=_IDENTITY,
        root_operators=tuple(sorted(names)),
        called_operators=dict.fromkeys(sorted(ran), 1),
        kernel_tags={},
    )
    for policy in POLICIES:
        selection = select(index, kernels, [trace], policy)
        yield policy, plan(kernels, selection, how)
        straight = replace(how, dispatch="direct")
        yield f"{policy}, direct", plan(kernels, selection, straight)


def undefined(roots: Sequence[str], source: random.Random, dialect: Dialect = V1_13) -> list[str]:
    """What the variants of these operators refer to and nothing of them defines: a line each."""
    return [
        f"{kind}: {' -> '.join(way)}"
        for kind, plan in plans(roots, source, dialect)
        for way in rule(dialect).undefined(plan).values()
    ]


def _recorded(roots: Sequence[str], cut: frozenset[str], dialect: Dialect) -> Selection:
    index, always = shipped(dialect), shipped_facts(dialect).always_for("tracer")
    return recorded_selection(
        index,
        kernels_for(roots, dialect),
        map(Op, roots),
        "model",
        entry=rule(dialect).entry(_tracer_entry(dialect)),
        units=sorted(rule(dialect).numbers[path] for path in always),
        cut=sorted(rule(dialect).numbers[path] for path in cut),
    )


@cache
def _tracer_entry(dialect: Dialect) -> frozenset[str]:
    entry, index = load_entry(dialect), shipped(dialect)
    return (
        entry.library
        | entry.tracer
        | loader_symbols(index, dialect.symbols)
        | recording_symbols(index, dialect.symbols)
    )
