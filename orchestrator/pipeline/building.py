"""Builds variants: locks -> selections -> one graph -> libraries -> proof -> packages -> report."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from orchestrator.errors import OrchestratorError
from orchestrator.execute.folders import ensure_folder
from orchestrator.load.declared import App
from orchestrator.package.deliver import Delivered, DeliverInputs, deliver
from orchestrator.package.manifest import (
    AndroidFact,
    ModelFact,
    RuntimeFact,
    SelectionFact,
    ToolchainFact,
)
from orchestrator.pipeline.checking import check_library
from orchestrator.pipeline.comparing import comparable, require_same_structure
from orchestrator.pipeline.compile import Carried, ProgressSink, carry_out
from orchestrator.pipeline.failing import Failures, compiled_of, failed_row
from orchestrator.pipeline.headers import consumer_definitions, delivered_headers
from orchestrator.pipeline.licences import licences
from orchestrator.pipeline.packaging import (
    common_fingerprint,
    make_packages,
    mark_proven,
    mark_unproven,
    refuse_blocked_folder,
)
from orchestrator.pipeline.prepare import NATIVE
from orchestrator.pipeline.session import HOST, Session
from orchestrator.pipeline.static_links import StaticLinks
from orchestrator.pipeline.variants import (
    VariantLinks,
    Wanted,
    hot_units,
    links_of,
    plan_all,
)
from orchestrator.pipeline.verifying import driver_path, read_traces, verify_library
from orchestrator.plan.graph import VariantObjects, action_graph
from orchestrator.report.packages import PackageReport
from orchestrator.report.table import BuildReport, VariantReport
from orchestrator.report.verify import require_verified
from orchestrator.select.policy import select
from orchestrator.toolchain.driver import AndroidFacts
from orchestrator.values.action import count_units
from orchestrator.values.labels import Label
from orchestrator.values.selection import Selection
from orchestrator.values.trace import Trace

View = Callable[[Mapping[str, float], int], ProgressSink]


class OverBudgetError(OrchestratorError):
    """A delivered library is larger than its app's budget."""


@dataclass(frozen=True)
class Variant:
    """One app for one ABI, planned."""

    label: Label
    app: App
    traces: tuple[Trace, ...]
    selection: Selection
    objects: VariantObjects
    links: VariantLinks | StaticLinks


def plan_variants(
    session: Session, labels: Sequence[Label], *, generate: bool = True
) -> tuple[Variant, ...]:
    """Plan every label; all selections come from the committed traces.

    generate: whether torchgen writes registrations that are not there yet; see `plan_all`.
    Raises TraceMissingError, TraceStaleError, TraceDamagedError, and what planning raises.
    """
    traces = {app: read_traces(session, session.workspace.apps[app]) for app in _apps(labels)}
    roots = {app: {o for trace in traces[app] for o in trace.root_operators} for app in traces}
    kernels = {app: session.kernels_for(roots[app]) for app in traces}
    selections = {
        app: select(
            session.runtime.index, kernels[app], traces[app], session.workspace.apps[app].selection
        )
        for app in traces
    }
    hot = {
        app: hot_units(session, {tag for trace in traces[app] for tag in trace.hot_tags})
        for app in traces
    }
    planned = plan_all(
        session,
        [
            Wanted(
                label=str(label),
                abi=_abi(label),
                selection=selections[label.app],
                kernels=kernels[label.app],
                purpose="release",
                optimize=session.workspace.apps[label.app].optimize,
                hot=hot[label.app],
                cut=session.cut_units(roots[label.app]),
                app=label.app,
            )
            for label in labels
        ],
        generate=generate,
    )
    return tuple(
        Variant(
            label=label,
            app=session.workspace.apps[label.app],
            traces=traces[label.app],
            selection=selections[label.app],
            objects=planned[str(label)],
            links=links_of(session, label.app, str(label), planned[str(label)]),
        )
        for label in labels
    )


def _apps(labels: Iterable[Label]) -> list[str]:
    return sorted({label.app for label in labels})


def _abi(label: Label) -> str:
    assert label.abi is not None
    return label.abi


@dataclass(frozen=True)
class Built:
    """What a build tells, and what failed in it: nothing, unless it was to keep going."""

    report: BuildReport
    failures: tuple[OrchestratorError, ...] = ()


def build(
    session: Session,
    labels: Sequence[Label],
    *,
    jobs: int | None,
    view: View,
    keep_going: bool = False,
) -> Built:
    """Build, deliver, verify and package every label.

    keep_going: what fails in one variant leaves the others built; its error is among the failures.
    Raises ActionFailedError, VerificationFailedError, OverBudgetError, and what planning,
    delivering and packaging raise.
    """
    started = time.monotonic()
    failures = Failures(session, keep_going)
    for app in _apps(labels):
        with failures.of(*(label for label in labels if label.app == app)):
            refuse_blocked_folder(session, app)
    variants = plan_variants(session, failures.with_traces(labels))
    graph = action_graph(
        (v.objects for v in variants), (link for v in variants for link in v.links.all)
    )
    compiles = dict(graph.compiles)
    for variant in variants:
        compiles.update({c.object: c for c in variant.links.driver_compiles})
    graph = type(graph)({key: compiles[key] for key in sorted(compiles)}, graph.links)
    projections = {d: t for v in variants for d, t in v.objects.plan.projections.items()}
    carried = carry_out(
        session, graph, projections, name="build", jobs=jobs, keep_going=keep_going, view=view
    )
    failures.of_actions(
        carried,
        graph,
        [(v.label, (*v.objects.compiles, *v.links.driver_compiles), v.links.all) for v in variants],
    )
    ensure_folder(session.context.dist, "dist")
    reports = []
    # the machine's own ABI first: what cannot run here is compared with it
    for variant in sorted(variants, key=lambda variant: variant.label.abi != HOST):
        if variant.label not in failures.by_label:
            with failures.of(variant.label):
                reports.append(_finish(session, variant, variants, carried))
    built = [variant.label for variant in variants if variant.label not in failures.by_label]
    packages: tuple[PackageReport, ...] = ()
    with failures.of():
        packages = make_packages(session, built)
    reports += [
        _failed(session, label, error, variants, carried)
        for label, error in failures.by_label.items()
    ]
    report = BuildReport(
        variants=tuple(reports),
        packages=packages,
        actions_run=carried.result.actions,
        seconds=time.monotonic() - started,
    )
    return Built(report, failures.all)


def _failed(
    session: Session,
    label: Label,
    error: OrchestratorError,
    variants: Sequence[Variant],
    carried: Carried,
) -> VariantReport:
    variant = next((v for v in variants if v.label == label), None)
    if variant is None:
        return failed_row(label, error, 0, 0, 0)
    counts = compiled_of(session, carried, variant.objects.compiles)
    return failed_row(label, error, len(variant.selection.operators), *counts)


def _finish(
    session: Session, variant: Variant, variants: Sequence[Variant], carried: Carried
) -> VariantReport:
    mark_unproven(session, variant.label)
    delivered = deliver(_deliver_inputs(session, variant), session.context.dist)
    check_library(session.toolchain(_abi(variant.label)), delivered)
    _check_budget(variant, delivered)
    results = verify_library(
        session,
        variant.app,
        _abi(variant.label),
        variant.traces,
        driver_path(session, variant.label),
        delivered.shared_library,
    )
    require_verified(str(variant.label), results)
    statuses = {result.status for result in results}
    made_as = _made_as(session, variant, variants) if statuses == {"not run here"} else None
    mark_proven(session, variant.label)
    compiled = count_units(c for c in variant.objects.compiles if c.object in carried.compiled)
    return VariantReport(
        app=variant.label.app,
        abi=_abi(variant.label),
        operators=len(variant.selection.operators),
        units_compiled=compiled,
        units_reused=count_units(variant.objects.compiles) - compiled,
        stripped_bytes=delivered.stripped_bytes,
        all_operators_bytes=session.runtime.version.all_operators_bytes.get(_abi(variant.label)),
        verified="ok" if statuses == {"ok"} else next(iter(statuses - {"ok"})),
        made_as=made_as,
        for_release=delivered.manifest.for_release,
    )


def _made_as(session: Session, variant: Variant, variants: Sequence[Variant]) -> str | None:
    """The ABI of this app that ran and that the variant is made as; None where none ran here.

    Raises StructureDiffersError.
    """
    ran = Label(variant.label.app, HOST)
    if HOST not in variant.app.config.targets or not comparable(session, variant.label, ran):
        return None
    host = next((v for v in variants if v.label == ran), None) or plan_variants(session, [ran])[0]
    require_same_structure(session, variant.label, variant.objects, ran, host.objects)
    return HOST


def _android(facts: AndroidFacts | None) -> AndroidFact | None:
    if facts is None:
        return None
    return AndroidFact(api=facts.api, ndk=facts.ndk, stl=facts.stl)


def _check_budget(variant: Variant, delivered: Delivered) -> None:
    budget = variant.app.config.budgets.get(_abi(variant.label))
    if budget is not None and delivered.stripped_bytes > budget:
        raise OverBudgetError(
            f"{variant.label} is larger than its budget",
            place=variant.app.place,
            expected=f"at most {budget:,} bytes",
            seen=f"{delivered.stripped_bytes:,} bytes",
            hint="raise the budget, use `optimize: size`, or see which model asks for what",
        )


def _deliver_inputs(session: Session, variant: Variant) -> DeliverInputs:
    app, abi = variant.app, _abi(variant.label)
    toolchain = session.toolchain(abi)
    links = variant.links
    selection = variant.selection
    zig = toolchain.config.compiler.zig
    shared = registrations = core = static = None
    if isinstance(links, StaticLinks):
        static = Path(session.fill(links.library.output))
    else:
        shared, registrations, core = (
            Path(session.fill(link.output))
            for link in (links.shared, links.registrations, links.core)
        )
    return DeliverInputs(
        app=app.name,
        abi=abi,
        version=app.config.version,
        package_name=app.package_name,
        system=toolchain.config.system,
        processor=toolchain.config.processor,
        shared_library=shared,
        registrations=registrations,
        core=core,
        static_library=static,
        c_header=NATIVE / "capi" / "libtorch_app.h",
        headers=() if static else delivered_headers(session, abi),
        definitions=() if static else consumer_definitions(session, abi),
        models=tuple(
            ModelFact(name=m.name, file=Path(m.file).name, sha256=t.identity.model)
            for m, t in zip(app.config.models, variant.traces, strict=True)
        ),
        selection=SelectionFact(
            operators=tuple(selection.operators),
            kernel_dtypes={tag: tuple(d) for tag, d in selection.kernel_dtypes.items()},
            custom_classes=tuple(selection.custom_classes),
            build_features=tuple(selection.build_features),
        ),
        runtime=RuntimeFact(
            pytorch=session.runtime.version.version, tree=session.runtime.fetched.digest
        ),
        toolchain=ToolchainFact(
            compiler=toolchain.driver.kind or ("zig" if zig is not None else "command"),
            version=toolchain.version,
            identity=toolchain.identity,
            cxx_library=toolchain.driver.cxx_library,
            target=toolchain.driver.target if static or zig else None,
            android=_android(toolchain.driver.android),
        ),
        licences=licences(
            session,
            abi,
            [unit for compile in variant.objects.compiles for unit in compile.units],
            shared,
        ),
        for_release=toolchain.for_release,
        beside=toolchain.driver.beside,
        fingerprint=common_fingerprint(session, app, variant.traces, selection),
    )
