"""What libraries of the shipped index offer, and what models with a trace want, for `fits`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cache

from shipped_index import kernels_for, shipped, shipped_spec
from variants import planner

from orchestrator.build.workshop.runtime_index import whole_index
from orchestrator.index.entry import load_entry, loader_symbols
from orchestrator.plan.planner import entry_nodes
from orchestrator.plan.variant import VariantPlan
from orchestrator.pytorch.v1_13.dialect import DIALECT
from orchestrator.select.closure import GENERATED
from orchestrator.select.fits import KnownRuntime, ModelFacts, Offer
from orchestrator.select.policy import select, static_selection
from orchestrator.values.config.forms import SelectionPolicy
from orchestrator.values.selection import Selection
from orchestrator.values.trace import Trace

BACKENDS = ("CPU", "QuantizedCPU")


@cache
def runtime() -> KnownRuntime:
    """The shipped index, without units of ours, as the planner of `variants` has it."""
    symbols = load_entry(DIALECT).library | loader_symbols(shipped(), DIALECT.symbols)
    return KnownRuntime(DIALECT, shipped(), tuple(entry_nodes(shipped(), symbols, DIALECT.symbols)))


@cache
def whole_runtime() -> KnownRuntime:
    index = whole_index(DIALECT, shipped().tree)
    symbols = load_entry(DIALECT).library | loader_symbols(index, DIALECT.symbols)
    return KnownRuntime(DIALECT, index, tuple(entry_nodes(index, symbols, DIALECT.symbols)))


def plan_of(traces: Iterable[Trace], policy: SelectionPolicy = "guarded") -> VariantPlan:
    """The plan of a library for these models."""
    every = tuple(traces)
    roots = {name for trace in every for name in trace.root_operators}
    return planned(select(shipped(), kernels_for(roots), every, policy))


def planned(selection: Selection) -> VariantPlan:
    """The plan of a library with this selection, as `build/planning/plan.py` wants it."""
    roots = selection.root_operators
    lean = frozenset(rule.unit for rule in DIALECT.facts.include if rule.unless)
    spec = replace(shipped_spec(roots), dispatch="direct", lean=lean)
    return planner().plan(kernels_for(roots), selection, spec)


def plan_with(plan: VariantPlan, trace: Trace, *, traced: bool = True) -> VariantPlan:
    """The plan of the same library for one model more."""
    roots = plan.selection.root_operators | {*trace.root_operators}
    kernels = kernels_for(roots)
    more = select(shipped(), kernels, [trace], "guarded")
    if not traced:
        more = static_selection(shipped(), kernels, trace.root_operators, "m")
    return planned(plan.selection.merge(more))


def offer_of(plan: VariantPlan, models: Sequence[str] = ()) -> Offer:
    """What its manifest would say (`build/delivering/deliver.py`)."""
    selection = plan.selection
    kernels = kernels_for(selection.root_operators)
    units = shipped().units
    resolved = frozenset(
        name
        for name in selection.operators
        if name not in plan.request.operators
        and all(units[one.unit].path.startswith(GENERATED) for one in kernels.kernels(name))
    )
    return Offer(
        pytorch=shipped().pytorch,
        tree=shipped().tree,
        operators=frozenset(selection.operators),
        kernel_dtypes={tag: frozenset(d) for tag, d in selection.kernel_dtypes.items()},
        classes=frozenset(selection.custom_classes),
        features=frozenset(selection.build_features),
        roots=selection.root_operators,
        resolved=resolved,
        backends=BACKENDS,
        bytecode=(4, 9),
        archive=(1, 10),
        models=frozenset(models),
    )


def model_facts(trace: Trace, *, traced: bool = True) -> ModelFacts:
    """The model of a trace; `traced`: whether it is told."""
    return ModelFacts(
        sha256="e" * 64,
        bytecode=8,
        archive=3,
        roots=frozenset(trace.root_operators),
        classes=frozenset(trace.custom_classes),
        trace=trace if traced else None,
        no_trace="" if traced else "it has no trace",
    )
