"""Plans without building: each variant's selection, the units it needs, and those that are
cached."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from pathlib import Path

from orchestrator.build.planning.estimate import SelectedCode, estimated_library, selected_code
from orchestrator.build.planning.links import VariantLinks, links_of, runner_compiles
from orchestrator.build.planning.variants import VariantRequest, hot_units, plan_all
from orchestrator.build.workshop.invocation import Invocation, Prepared, parts_chosen
from orchestrator.build.workshop.runtime import Runtime
from orchestrator.build.workshop.traced import ReadApp, read_app, read_traces
from orchestrator.load.declared import App
from orchestrator.plan.graph import VariantObjects
from orchestrator.plan.static_links import StaticLinks
from orchestrator.plan.variant import VariantSpec
from orchestrator.report.plan import PlannedObjects, PlannedVariant, PlanReport, plan_report
from orchestrator.select.policy import select, with_addon_dtypes, with_extra
from orchestrator.select.tag_code import UnselectedDtypes
from orchestrator.values.action import Compile, precompiled_headers
from orchestrator.values.config.toolchain import ToolchainConfig
from orchestrator.values.labels import VariantLabel
from orchestrator.values.same import Same
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
        """Selection of the variant from its runtime."""
        return self.request.selection


def plan_variants(
    here: Invocation,
    labels: Sequence[VariantLabel],
    *,
    generate: bool = True,
    last: bool = False,
    memory: bool = False,
) -> tuple[Variant, ...]:
    """Prepare and plan every label, in the order given; all selections come from the traces.

    generate: whether torchgen writes registrations that are not there yet; see `plan_all`.
    last: whether no other plan is expected: then a runtime's index and needs are forgotten once its
    variants are planned, so that there is one at a time, and none while libraries are delivered
    memory: whether each has a runner that counts memory, also of an app without limits on it
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
            found |= _plan_on(here, runtime, own, generate, memory)
            if last:
                runtime.forget_plans()
                if runtime is not base:
                    runtime.forget_index()
        # after all of them: an app's own sources are a layer over the same index
        if last:
            base.forget_index()
    return tuple(found[label] for label in labels)


def _plan_on(
    here: Invocation,
    runtime: Runtime,
    labels: Sequence[VariantLabel],
    generate: bool,
    memory: bool,
) -> dict[VariantLabel, Variant]:
    """The variants of one runtime's apps."""
    apps = {
        app.name: read_app(here, app, read_traces(here, app))
        for app in here.workspace.apps_of(labels)
    }
    prepared = here.prepare(runtime, (label.abi for label in labels))
    requests = variant_requests(prepared, labels, apps)
    objects = plan_all(prepared, requests, generate=generate)
    return {
        label: Variant(
            label=label,
            app=apps[label.app].app,
            traces=apps[label.app].traces,
            request=request,
            objects=objects[label],
            links=links_of(
                prepared,
                label.app,
                objects[label],
                memory=memory or apps[label.app].app.config.memory is not None,
            ),
        )
        for label, request in requests.items()
    }


def variant_requests(
    prepared: Prepared, labels: Iterable[VariantLabel], apps: Mapping[str, ReadApp]
) -> dict[VariantLabel, VariantRequest]:
    """The request of each label, by what was read of its app; nothing is read here."""
    of_apps = {name: _app_request(prepared.runtime, app) for name, app in apps.items()}
    return {label: of_apps[label.app](label.abi, prepared.config(label.abi)) for label in labels}


def _app_request(
    runtime: Runtime, read: ReadApp
) -> Callable[[str, ToolchainConfig], VariantRequest]:
    """The request of an app's variant for an ABI: from the traces of its models and what the app
    adds."""
    app, traces = read.app, read.traces
    extra = runtime.extra_operators(app)
    roots = {o for trace in traces for o in trace.root_operators}.union(extra)
    called = {o for trace in traces for o in trace.called_operators}
    kernels, parts = runtime.kernels_for(roots), parts_chosen(app.kernels)
    layouts = runtime.layouts(parts)
    traced = select(runtime.index, kernels, traces, app.selection, read.unrun, layouts)
    selection = with_extra(runtime.index, kernels, traced, extra)
    if app.config.extensible:
        selection = with_addon_dtypes(selection, runtime.version.addons)
    request = partial(
        VariantRequest,
        selection=selection,
        kernels=kernels,
        purpose="release",
        optimize=app.optimize,
        hot=hot_units(runtime, {tag for trace in traces for tag in trace.hot_tags}),
        lean=runtime.lean_units(read.upgraded),
        cut=runtime.cut_units(roots),
        app=app.name,
        multiply_adds=max((one.multiply_adds or 0 for one in traces), default=0),
        parts=parts,
        threads=app.threads,
        self_relocation=app.config.self_relocation,
        dispatch=app.config.dispatch,
        extensible=app.config.extensible,
    )
    return lambda abi, config: request(
        abi,
        features=runtime.features_of(config, parts, roots, called),
        cpu=runtime.declared_levels(app, config),
    )


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
    of_app: dict[str, list[VariantLabel]] = {}
    for label in sorted(labels, key=lambda label: label.app):
        of_app.setdefault(label.app, []).append(label)
    apps = {app: here.workspace.apps[app] for app in of_app}
    traces = {name: read_traces(here, app) for name, app in apps.items()}
    prepared = here.prepare(runtime, (label.abi for label in labels))
    dtypes = UnselectedDtypes(runtime.index)
    runners = dict[tuple[VariantSpec, bool], tuple[Compile, ...]]()
    for name, own in of_app.items():
        app = apps[name]
        read = read_app(here, app, traces.pop(name))
        planned = plan_all(prepared, variant_requests(prepared, own, {name: read}), generate=False)
        # an app's variants have one selection, and nearly always the same needs
        found = dict[tuple[Same, frozenset[str]], SelectedCode]()
        for objects in planned.values():
            spec = objects.plan.spec
            key = (Same(objects.plan.request), spec.hot)
            if key not in found:
                found[key] = selected_code(runtime, dtypes, objects)
            runner = (spec.common, app.config.memory is not None)
            if runner not in runners:
                runners[runner] = runner_compiles(prepared, spec, memory=runner[1])
            yield PlannedVariant(
                app=name,
                abi=spec.abi,
                objects=every.numbers((*objects.compiles, *runners[runner])),
                estimated_bytes=estimated_library(
                    runtime, objects, found[key], prepared.config(spec.abi)
                ),
                generated=_is_generated(here, objects),
                budget_bytes=_total_budget(app, spec.abi),
                cpu_levels=spec.levels,
                usual_levels=_has_usual_levels(prepared, spec),
            )
        runtime.planner.forget_apps()


def _total_budget(app: App, abi: str) -> int | None:
    budget = app.config.budgets.get(abi)
    return None if budget is None else budget.total


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


def _present(here: Invocation, compiles: Sequence[Compile]) -> frozenset[str]:
    """Objects and precompiled headers that the cache holds, by their names alone."""
    inputs = (*(action.object for action in compiles), *precompiled_headers(compiles))
    outputs = {here.runtimes.stored_name(output): output for output in inputs}
    return frozenset(outputs[name] for name in here.store.listed(outputs))
