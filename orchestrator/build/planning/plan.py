"""Plans without building: each variant's selection, the units it needs, and those that are
cached."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from orchestrator.build.planning.links import VariantLinks, links_of, runner_compiles
from orchestrator.build.planning.variants import VariantRequest, hot_units, plan_all
from orchestrator.build.workshop.invocation import Invocation, Prepared, parts_chosen
from orchestrator.build.workshop.runtime import Runtime
from orchestrator.build.workshop.traced import read_traces
from orchestrator.load.declared import App
from orchestrator.plan.graph import VariantObjects
from orchestrator.plan.static_links import StaticLinks
from orchestrator.plan.variant import VariantSpec
from orchestrator.report.plan import PlannedObjects, PlannedVariant, PlanReport, plan_report
from orchestrator.select.policy import select, with_addon_dtypes, with_extra
from orchestrator.select.tag_code import UnselectedDtypes
from orchestrator.values.action import Compile, precompiled_headers
from orchestrator.values.labels import VariantLabel
from orchestrator.values.selection import Selection
from orchestrator.values.trace import Trace


@dataclass(frozen=True)
class Variant:
    """One app for one ABI, planned."""

    label: VariantLabel
    app: App
    traces: tuple[Trace, ...]
    request: VariantRequest
    objects: VariantObjects
    links: VariantLinks | StaticLinks

    @property
    def selection(self) -> Selection:
        """What is selected of the runtime."""
        return self.request.selection


def plan_variants(
    here: Invocation, labels: Sequence[VariantLabel], *, generate: bool = True, last: bool = False
) -> tuple[Variant, ...]:
    """Prepare and plan every label, in the order given; all selections come from the traces.

    generate: whether torchgen writes registrations that are not there yet; see `plan_all`.
    last: whether no other plan is expected: then a runtime's index and needs are forgotten once its
    variants are planned, so that there is one at a time, and none while libraries are delivered
    Raises TraceMissingError, TraceStaleError, TraceDamagedError, and what preparing and planning
    raise.
    """
    found = dict[VariantLabel, Variant]()
    groups = here.runtimes.grouped(label.app for label in labels)
    for name, same in groupby(groups, key=lambda group: group[0]):
        base = here.runtimes.on(name)
        for _name, apps in same:
            runtime = here.runtimes.of(apps[0])
            own = [label for label in labels if label.app in apps]
            found |= _plan_on(here, runtime, own, generate)
            if last:
                runtime.forget_plans()
                if runtime is not base:
                    runtime.forget_index()
        # after all of them: an app's own sources are a layer over the same index
        if last:
            base.forget_index()
    return tuple(found[label] for label in labels)


def _plan_on(
    here: Invocation, runtime: Runtime, labels: Sequence[VariantLabel], generate: bool
) -> dict[VariantLabel, Variant]:
    """The variants of one runtime's apps."""
    traces = {app: read_traces(here, here.workspace.apps[app]) for app in apps_of(labels)}
    prepared = here.prepare(runtime, (label.abi for label in labels))
    requests = variant_requests(here, runtime, labels, traces)
    objects = plan_all(prepared, requests, generate=generate)
    return {
        label: Variant(
            label=label,
            app=here.workspace.apps[label.app],
            traces=traces[label.app],
            request=one,
            objects=objects[one.label],
            links=links_of(prepared, label.app, objects[one.label]),
        )
        for label, one in zip(labels, requests, strict=True)
    }


def variant_requests(
    here: Invocation,
    runtime: Runtime,
    labels: Collection[VariantLabel],
    traces: Mapping[str, Sequence[Trace]],
) -> tuple[VariantRequest, ...]:
    """What to plan for each label, from the traces of its app's models and what the app adds."""
    apps = {app: here.workspace.apps[app] for app in traces}
    configs = {label.abi: here.toolchains.config(label.abi) for label in labels}
    extra = {app: runtime.extra_operators(apps[app]) for app in traces}
    roots = {
        app: {o for trace in traces[app] for o in trace.root_operators}.union(extra[app])
        for app in traces
    }
    called = {app: {o for trace in traces[app] for o in trace.called_operators} for app in traces}
    kernels = {app: runtime.kernels_for(roots[app]) for app in traces}
    parts = {app: parts_chosen(apps[app].kernels) for app in apps}
    selections = {
        app: with_extra(
            runtime.index,
            kernels[app],
            select(
                runtime.index,
                kernels[app],
                traces[app],
                apps[app].selection,
                here.models.unrun_units(apps[app], traces[app]),
                runtime.layouts(parts[app]),
            ),
            extra[app],
        )
        for app in traces
    }
    selections |= {
        app: with_addon_dtypes(selection, runtime.version.addons)
        for app, selection in selections.items()
        if apps[app].config.extensible
    }
    hot = {
        app: hot_units(runtime, {tag for trace in traces[app] for tag in trace.hot_tags})
        for app in traces
    }
    lean = {app: runtime.lean_units(here.models.upgraded(apps[app], traces[app])) for app in traces}
    cut = {app: runtime.cut_units(roots[app]) for app in traces}
    return tuple(
        VariantRequest(
            label=str(label),
            abi=label.abi,
            selection=selections[label.app],
            kernels=kernels[label.app],
            purpose="release",
            optimize=apps[label.app].optimize,
            hot=hot[label.app],
            lean=lean[label.app],
            cut=cut[label.app],
            app=label.app,
            features=runtime.features_of(
                configs[label.abi], parts[label.app], roots[label.app], called[label.app]
            ),
            cpu=runtime.declared_levels(apps[label.app], configs[label.abi]),
            multiply_adds=max((one.multiply_adds or 0 for one in traces[label.app]), default=0),
            parts=parts[label.app],
            threads=apps[label.app].threads,
            self_relocation=apps[label.app].config.self_relocation,
            dispatch=apps[label.app].config.dispatch,
            extensible=apps[label.app].config.extensible,
        )
        for label in labels
    )


def apps_of(labels: Iterable[VariantLabel]) -> list[str]:
    """The names of the labels' apps, sorted, each once."""
    return sorted({label.app for label in labels})


def planned(here: Invocation, labels: Sequence[VariantLabel]) -> PlanReport:
    """The plan of every label; when all is prepared, nothing is run or written.

    Raises what reading traces, preparing and planning raise.
    """
    objects = PlannedObjects()
    variants = [
        variant
        for _name, apps in here.runtimes.grouped(label.app for label in labels)
        for variant in _planned_on(
            here,
            here.runtimes.of(apps[0]),
            [label for label in labels if label.app in apps],
            objects,
        )
    ]
    return plan_report(variants, objects.actions, present=_present(here, objects.actions))


def _planned_on(
    here: Invocation, runtime: Runtime, labels: Sequence[VariantLabel], every: PlannedObjects
) -> Iterator[PlannedVariant]:
    """The variants of one runtime's apps, one app after another: of a planned app stays what the
    report tells. All traces are read before, so that what is wrong with them is told first.

    every: gets the objects of all of them
    """
    of_app: dict[str, list[VariantLabel]] = {app: [] for app in apps_of(labels)}
    for label in labels:
        of_app[label.app].append(label)
    traces = {app: read_traces(here, here.workspace.apps[app]) for app in of_app}
    prepared = here.prepare(runtime, (label.abi for label in labels))
    left_out = UnselectedDtypes(runtime.index)
    runners = dict[VariantSpec, tuple[Compile, ...]]()
    for app, own in of_app.items():
        config = here.workspace.apps[app].config
        requests = variant_requests(here, runtime, own, {app: traces.pop(app)})
        planned = plan_all(prepared, requests, generate=False)
        # an app's variants have one selection, and nearly always the same needs
        switches = {one.plan.needed.switches: one.plan.selection for one in planned.values()}
        missing = {nodes: left_out.bytes(nodes, selection) for nodes, selection in switches.items()}
        for objects in (planned[request.label] for request in requests):
            spec = objects.plan.spec
            if spec.common not in runners:
                runners[spec.common] = runner_compiles(prepared, spec)
            yield PlannedVariant(
                app=app,
                abi=spec.abi,
                objects=every.numbers((*objects.compiles, *runners[spec.common])),
                estimated_bytes=_estimated(objects, missing),
                generated=_is_generated(here, objects),
                budget_bytes=config.budgets.get(spec.abi),
                cpu_levels=spec.levels,
                usual_levels=_has_usual_levels(prepared, spec),
            )
        runtime.planner.forget_apps()


def _has_usual_levels(prepared: Prepared, spec: VariantSpec) -> bool:
    known = prepared.runtime.cpu_levels(prepared.config(spec.abi))
    usual = tuple(one.name for one in known if one.uses is None)
    return not spec.features or spec.levels == usual


def compiles_of(variant: Variant) -> tuple[Compile, ...]:
    """All that a build of the variant compiles, the program that verifies it included."""
    every = (*variant.objects.compiles, *variant.links.runner_compiles)
    return tuple({action.object: action for action in every}.values())


def _is_generated(here: Invocation, objects: VariantObjects) -> bool:
    return all(
        Path(here.runtimes.fill(action.source)).is_file() for action in objects.registrations
    )


def _estimated(objects: VariantObjects, missing: Mapping[frozenset[int], int]) -> int:
    """Bytes of the stripped library: what is needed, without code for dtypes that are not
    selected, which `missing` has by the nodes that switch on dtypes."""
    needed = objects.plan.needed
    return needed.bytes - missing[needed.switches] + objects.library_bytes


def _present(here: Invocation, compiles: Sequence[Compile]) -> frozenset[str]:
    """Which of the objects and precompiled headers the cache holds, by their names alone."""
    inputs = (*(action.object for action in compiles), *precompiled_headers(compiles))
    outputs = {here.runtimes.stored_name(output): output for output in inputs}
    return frozenset(outputs[name] for name in here.store.listed(outputs))
