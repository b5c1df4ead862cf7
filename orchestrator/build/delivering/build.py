"""Builds variants: locks, selections, one graph, libraries, verification, packages, report."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from orchestrator.binary.elf_symbols import exported_bytes
from orchestrator.build.delivering.budgets import check_budget, sizes_of
from orchestrator.build.delivering.compare import comparable, require_same_structure
from orchestrator.build.delivering.deliver import deliver_inputs
from orchestrator.build.delivering.dropped import forget_dropped
from orchestrator.build.delivering.inputs_read import InputsRead, inputs_read
from orchestrator.build.delivering.keep_going import Failures, compiled_of, failed_row
from orchestrator.build.delivering.library_rules import check_library
from orchestrator.build.delivering.memory import check_memory
from orchestrator.build.delivering.package import (
    make_packages,
    mark_proven,
    mark_unproven,
    refuse_blocked_folder,
)
from orchestrator.build.delivering.verify import DeliveredLibrary, runner_path, verify_library
from orchestrator.build.executing.execute import Execution, View, execute_actions
from orchestrator.build.explaining.actions import changes_of, log_actions
from orchestrator.build.explaining.engines import engines_of
from orchestrator.build.planning.plan import Variant, compiles_of, plan_variants
from orchestrator.build.workshop.invocation import Invocation
from orchestrator.compilers.relink import EXPORTED
from orchestrator.deliver.variant import Delivered, DeliverInputs, delivering
from orchestrator.errors import OrchestratorError
from orchestrator.plan.graph import action_graph, texts_of
from orchestrator.report.events import Events
from orchestrator.report.packages import PackageReport
from orchestrator.report.table import BuildReport, Exported, VariantReport
from orchestrator.system.folders import ensure_folder
from orchestrator.values.action import count_units
from orchestrator.values.labels import VariantLabel
from orchestrator.verify.verdict import Status, levels_of_all, require_verified


@dataclass(frozen=True)
class Built:
    """Report of a build, and its failures: empty unless the build was to keep going.

    read: files and patterns that the result depends on; None if something failed
    """

    report: BuildReport
    failures: tuple[OrchestratorError, ...] = ()
    read: InputsRead | None = None


@dataclass(frozen=True)
class _Finished:
    """A variant's row of the report, and what it was delivered from."""

    report: VariantReport
    inputs: DeliverInputs


@dataclass(frozen=True)
class _Proof:
    """Verification of a delivery; see `VariantReport`."""

    verified: Status
    same_structure_as: str | None
    levels_run: tuple[str, ...] = ()
    levels_not_run: tuple[str, ...] = ()
    flat: tuple[str, ...] = ()


def build(
    here: Invocation,
    labels: Sequence[VariantLabel],
    *,
    jobs: int | None,
    view: View,
    keep_going: bool = False,
    engines: bool = False,
    events: Events | None = None,
) -> Built:
    """Build, deliver, verify and package every label.

    keep_going: what fails in one variant leaves the others built; its error is among the failures.
    engines: the report tells what each engine of kernels takes of a library.
    events: is told what happens.
    Raises ActionFailedError, VerificationFailedError, OverBudgetError, OverMemoryError, and what
    planning, delivering and packaging raise.
    """
    started = time.monotonic()
    events = Events(time.monotonic) if events is None else events
    events.tell("begun", said=" ".join(map(str, labels)))
    failures = Failures(here, keep_going)
    for app in sorted({label.app for label in labels}):
        with failures.of(*(label for label in labels if label.app == app)):
            refuse_blocked_folder(here, app)
    with events.stage("plan"):
        variants = plan_variants(here, failures.with_traces(labels), last=True)
    graph = action_graph(
        (v.objects for v in variants), (link for v in variants for link in v.links.all)
    )
    compiles = dict(graph.compiles)
    for variant in variants:
        compiles.update({c.object: c for c in variant.links.runner_compiles})
    graph = type(graph)({key: compiles[key] for key in sorted(compiles)}, graph.links)
    texts = texts_of(v.objects for v in variants)
    with events.stage("compile and link"):
        execution = execute_actions(
            here,
            graph,
            texts,
            name="build",
            jobs=jobs,
            keep_going=keep_going,
            view=view,
        )
    cached = len(graph.compiles) - len(execution.compiled)
    events.tell("cached", said=f"{cached} of {len(graph.compiles)} objects were there")
    for output in execution.result.failures:
        events.tell("failed", output)
    failures.of_actions(
        execution,
        graph,
        [(v.label, (*v.objects.compiles, *v.links.runner_compiles), v.links.all) for v in variants],
    )
    for variant in variants:
        compiled = [c.unit for c in compiles_of(variant) if c.object in execution.compiled]
        for one in changes_of(here, variant, compiled):
            events.tell("changed", one.action, one.done())
    log_actions(here, (v for v in variants if v.label not in failures.by_label))
    forget_dropped(here)
    ensure_folder(here.context.dist, "dist")
    finished = list[_Finished]()
    # the machine's own ABI first: what cannot run here is compared with it
    for variant in sorted(
        variants, key=lambda variant: variant.label.abi != here.toolchains.own_abi
    ):
        if variant.label not in failures.by_label:
            with failures.of(variant.label), events.stage(f"deliver and verify {variant.label}"):
                done = _finish(here, variant, variants, execution)
                events.tell("verified", str(variant.label), done.report.verified or "")
                events.tell("delivered", str(variant.label), f"{done.report.stripped_bytes} bytes")
                finished.append(_with_engines(here, variant, done) if engines else done)
    built = [variant.label for variant in variants if variant.label not in failures.by_label]
    packages: tuple[PackageReport, ...] = ()
    with failures.of(), events.stage("package"):
        packages = make_packages(here, built)
    events.tell("ended", said="failed" if failures.all else "built")
    failed = (
        _failed(here, label, error, variants, execution)
        for label, error in failures.by_label.items()
    )
    report = BuildReport(
        variants=(*(one.report for one in finished), *failed),
        packages=packages,
        actions_run=execution.result.actions,
        seconds=time.monotonic() - started,
        errors=tuple(failures.others),
    )
    if failures.all:
        return Built(report, failures.all)
    read = inputs_read(here, labels, graph, [one.inputs for one in finished])
    return Built(report, read=read)


def _failed(
    here: Invocation,
    label: VariantLabel,
    error: OrchestratorError,
    variants: Sequence[Variant],
    execution: Execution,
) -> VariantReport:
    variant = next((v for v in variants if v.label == label), None)
    if variant is None:
        return failed_row(label, error, 0, 0, 0)
    counts = compiled_of(here, execution, variant.objects.compiles)
    row = failed_row(label, error, len(variant.selection.operators), *counts)
    if row.stripped_bytes is None:
        return row
    return replace(row, all_operators_bytes=_all_operators_bytes(here, variant))


def _all_operators_bytes(here: Invocation, variant: Variant) -> int | None:
    """Size in bytes of the library of all operators with the variant's flags; None if not
    measured."""
    whole = here.runtimes.of(variant.label.app).version.all_operators_bytes.get(
        variant.label.abi, {}
    )
    return whole.get(variant.app.optimize)


def _finish(
    here: Invocation, variant: Variant, variants: Sequence[Variant], execution: Execution
) -> _Finished:
    """Deliver a variant that has been linked: it is checked and run before it is in dist/."""
    mark_unproven(here, variant.label)
    inputs = deliver_inputs(here, here.runtimes.of(variant.label.app), variant)
    with (
        delivering(inputs, here.context.dist) as delivered,
        _noting_what_is_delivered(here, variant.label, delivered),
    ):
        proof = _prove(here, variant, variants, delivered)
    mark_proven(here, variant.label)
    compiled = count_units(c for c in variant.objects.compiles if c.object in execution.compiled)
    report = VariantReport(
        app=variant.label.app,
        abi=variant.label.abi,
        operators=len(variant.selection.operators),
        units_compiled=compiled,
        units_reused=count_units(variant.objects.compiles) - compiled,
        stripped_bytes=delivered.stripped_bytes,
        all_operators_bytes=_all_operators_bytes(here, variant),
        verified=proof.verified,
        same_structure_as=proof.same_structure_as,
        for_release=delivered.manifest.for_release,
        levels_run=proof.levels_run,
        levels_not_run=proof.levels_not_run,
        flat=proof.flat,
        extensible=_exported(variant, inputs),
    )
    return _Finished(report, inputs)


def _with_engines(here: Invocation, variant: Variant, one: _Finished) -> _Finished:
    library = one.inputs.shared_library
    if library is None or here.toolchains.of(variant.label.abi).config.format != "elf":
        return one
    runtime = here.runtimes.of(variant.label.app)
    found = engines_of(here.prepare(runtime, [variant.label.abi]), variant, library)
    return replace(one, report=replace(one.report, engines=found))


def _exported(variant: Variant, inputs: DeliverInputs) -> Exported | None:
    """Exports of an extensible library for add-ons; None if the library takes none."""
    if not variant.objects.plan.spec.extensible:
        return None
    assert inputs.shared_library is not None
    return Exported(*exported_bytes(inputs.shared_library, EXPORTED))


def _prove(
    here: Invocation, variant: Variant, variants: Sequence[Variant], delivered: Delivered
) -> _Proof:
    """Check the delivered library, and run its models. Raises the first error."""
    check_library(
        here.toolchains.of(variant.label.abi),
        delivered,
        extensible=variant.objects.plan.spec.extensible,
    )
    check_budget(variant, sizes_of(here, variant, delivered))
    levels = variant.objects.plan.spec.levels
    library = DeliveredLibrary(
        label=variant.label,
        app=variant.app,
        file=delivered.shared_library,
        runner=runner_path(here, variant.label),
        levels=levels,
        models=delivered.models,
        selection=delivered.manifest.selection_digest,
    )
    results = verify_library(here, library, variant.traces)
    require_verified(str(variant.label), results)
    check_memory(here, library)
    statuses = {result.status for result in results}
    ran, not_run = levels_of_all(levels, results)
    return _Proof(
        verified="ok" if statuses == {"ok"} else next(iter(statuses - {"ok"})),
        same_structure_as=_executed_twin(here, variant, variants, delivered)
        if statuses == {"not run here"}
        else None,
        levels_run=ran,
        levels_not_run=not_run,
        flat=tuple(f"{one.model} {place}" for one in results for place in one.flat),
    )


@contextmanager
def _noting_what_is_delivered(
    here: Invocation, label: VariantLabel, delivered: Delivered
) -> Iterator[None]:
    """Adds to an error about a delivery what dist/ contains afterwards."""
    folder = here.context.dist / label.delivered
    try:
        yield
    except OrchestratorError as error:
        shown = folder.relative_to(here.context.root).as_posix()
        if not delivered.changed:
            stays = f"{shown} already has this library, from an earlier build that passed"
        elif folder.is_dir():
            stays = f"{shown} still has the library of an earlier build that passed"
        else:
            stays = f"{shown} is not written"
        error.hint = f"{error.hint}; {stays}" if error.hint else stays
        raise


def _executed_twin(
    here: Invocation, variant: Variant, variants: Sequence[Variant], delivered: Delivered
) -> str | None:
    """The ABI of this app that ran and that the variant is made as; None where none ran here.

    Raises StructureDiffersError.
    """
    own = here.toolchains.own_abi
    if own is None or own not in variant.app.config.targets:
        return None
    ran = VariantLabel(variant.label.app, own)
    if not comparable(here, delivered, ran):
        return None
    host = next((v for v in variants if v.label == ran), None)
    if host is None:
        # its units and projections are compared, not what torchgen wrote for it
        (host,) = plan_variants(here, [ran], generate=False)
    require_same_structure(here, variant.label, delivered, variant.objects, ran, host.objects)
    return own
