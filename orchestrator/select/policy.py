"""From traces to a selection: traced, static, or guarded (closures of what never ran added)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from types import MappingProxyType

from orchestrator.index.model import RuntimeIndex, UnitFacts
from orchestrator.pytorch.versions import AddonsData, LayoutsData
from orchestrator.select.closure import Registry
from orchestrator.select.layouts import of_other_layouts
from orchestrator.select.needs import Needed, needed
from orchestrator.values.config.forms import SelectionPolicy
from orchestrator.values.operators import OperatorName
from orchestrator.values.selection import (
    ADDONS,
    ALL_CLASSES,
    ALL_DTYPES,
    ALL_TAGS,
    EXTRA,
    Selection,
    merge_all,
)
from orchestrator.values.trace import Trace


def static_selection(
    index: RuntimeIndex, kernels: Registry, operators: Iterable[OperatorName], requester: str
) -> Selection:
    """The static closure of `operators`: every operator that they may call, with all dtypes."""
    roots = frozenset(operators)
    found = needed(index, kernels, entry=(), operators=roots, follow_calls=True)
    return _closed(index, found, roots, requester)


def _closed(
    index: RuntimeIndex, found: Needed, roots: frozenset[OperatorName], requester: str
) -> Selection:
    """All dtypes of every kernel tag that reached code switches on.

    A tag name that a reached unit computes is not in its code: all tags of such units then.
    """
    who = frozenset({requester})
    units = [index.units[number] for number in sorted(found.units)]
    return Selection(
        operators=dict.fromkeys(sorted(found.operators), who),
        root_operators=roots,
        kernel_dtypes={
            tag: {ALL_DTYPES: who} for tag in sorted(found.tags.union(*_computed(units)))
        },
        custom_classes={name: who for unit in units for name in _classes(unit)},
        build_features={name: who for unit in units for name in unit.features},
    )


def _computed(units: Iterable[UnitFacts]) -> Iterator[tuple[str, ...]]:
    return ((*unit.tags, ALL_TAGS) for unit in units if unit.open_tags)


def _classes(unit: UnitFacts) -> tuple[str, ...]:
    return (ALL_CLASSES,) if unit.open_classes else unit.classes


def recorded_selection(
    index: RuntimeIndex,
    kernels: Registry,
    operators: Iterable[OperatorName],
    requester: str,
    *,
    entry: Iterable[int],
    units: Iterable[int],
    cut: Iterable[int],
) -> Selection:
    """Selection of a tracer: the static closure of `operators` and of everything else that it
    links.

    It has the tags, classes and features of every unit, reached or not: projections that do not
    depend on the app let the tracers of all apps share their objects.
    """
    roots, who = frozenset(operators), frozenset({requester})
    found = needed(
        index, kernels, entry=entry, operators=roots, units=units, cut=cut, follow_calls=True
    )
    tags = {ALL_TAGS, *(tag for unit in index.units for tag in unit.tags)}
    return Selection(
        operators=dict.fromkeys(sorted(found.operators), who),
        root_operators=roots,
        kernel_dtypes={tag: {ALL_DTYPES: who} for tag in sorted(tags)},
        custom_classes={ALL_CLASSES: who},
        build_features={name: who for unit in index.units for name in unit.features},
    )


def traced_selection(trace: Trace) -> Selection:
    """Selection of what ran, and of every operator that the bytecode names where some input may
    reach the call: the loader requires them."""
    who = frozenset({trace.model})
    operators = sorted({*trace.root_operators, *trace.called_operators})
    return Selection(
        operators=dict.fromkeys(operators, who),
        root_operators=frozenset(trace.root_operators),
        left_out=dict.fromkeys(sorted(trace.unreachable_operators), who),
        kernel_dtypes={
            tag: dict.fromkeys(sorted(trace.kernel_tags[tag]), who)
            for tag in sorted(trace.kernel_tags)
        },
        custom_classes=dict.fromkeys(sorted(trace.custom_classes), who),
        build_features=dict.fromkeys(sorted(trace.build_features), who),
    )


def select(
    index: RuntimeIndex,
    kernels: Registry,
    traces: Iterable[Trace],
    policy: SelectionPolicy,
    unrun_units: Mapping[str, Collection[str]] = MappingProxyType({}),
    layouts: LayoutsData | None = None,
) -> Selection:
    """The selection of one app from its models' traces.

    layouts: what its operators use for other layouts is selected by, whatever the policy but
    `traced`; None: it is not

    unrun_units: model -> own units with a class of which the model calls a method that its inputs
    never ran
    """
    return merge_all(
        _select_one(index, kernels, trace, policy, unrun_units.get(trace.model, ()), layouts)
        for trace in traces
    )


def _select_one(
    index: RuntimeIndex,
    kernels: Registry,
    trace: Trace,
    policy: SelectionPolicy,
    unrun_units: Collection[str],
    layouts: LayoutsData | None,
) -> Selection:
    traced = traced_selection(trace)
    if policy == "traced":
        return traced
    if layouts is not None:
        traced = traced.merge(of_other_layouts(index, kernels, trace, layouts))
    if unrun_units:
        whole = [number for number, unit in enumerate(index.units) if unit.path in unrun_units]
        found = needed(index, kernels, entry=(), operators=(), units=whole, follow_calls=True)
        traced = traced.merge(_closed(index, found, frozenset(), trace.model))
    if policy == "static":
        return traced.merge(static_selection(index, kernels, trace.root_operators, trace.model))
    unrun = trace.unrun_operators
    if not unrun:
        return traced
    guard = static_selection(index, kernels, unrun, trace.model)
    return traced.merge(
        Selection(
            operators=guard.operators,
            guarded=frozenset(unrun),
            kernel_dtypes=guard.kernel_dtypes,
            custom_classes=guard.custom_classes,
            build_features=guard.build_features,
        )
    )


def with_extra(
    index: RuntimeIndex, kernels: Registry, selection: Selection, operators: Iterable[OperatorName]
) -> Selection:
    """A selection plus operators that no model asks for: as roots, with their static closure in all
    dtypes, whatever the policy. The app calls them, with arguments that no trace has recorded."""
    wanted = tuple(operators)
    if not wanted:
        return selection
    return selection.merge(static_selection(index, kernels, wanted, EXTRA))


def with_addon_dtypes(selection: Selection, data: AddonsData) -> Selection:
    """A selection for a library that takes add-ons: of the kernels that no add-on can bring for
    another dtype, those that it has anyhow get the usual dtypes."""
    who = frozenset({ADDONS})
    tags = {
        tag: dict.fromkeys(data.dtypes, who) for tag in data.tags if tag in selection.kernel_dtypes
    }
    return selection.merge(Selection(kernel_dtypes=tags))


def everything(index: RuntimeIndex, kernels: Registry) -> Selection:
    """All operators with all dtypes: the runtime that variants are compared with."""
    who = frozenset({"all operators"})
    return Selection(operators=dict.fromkeys(kernels.by_operator, who), everything=True)
