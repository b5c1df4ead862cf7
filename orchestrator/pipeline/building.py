"""Builds variants: locks -> selections -> one graph -> libraries -> delivery -> proof -> report."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import util
from pathlib import Path

from orchestrator.errors import OrchestratorError
from orchestrator.execute.folders import ensure_folder
from orchestrator.execute.ninja import failure_error
from orchestrator.load.declared import App
from orchestrator.package import elf
from orchestrator.package.deliver import Delivered, DeliverInputs, Licence, deliver
from orchestrator.package.manifest import ModelFact, RuntimeFact, SelectionFact, ToolchainFact
from orchestrator.pipeline.compile import Carried, ProgressSink, carry_out, names_of
from orchestrator.pipeline.headers import consumer_definitions, delivered_headers
from orchestrator.pipeline.prepare import NATIVE
from orchestrator.pipeline.session import Session
from orchestrator.pipeline.variants import (
    VariantLinks,
    Wanted,
    hot_units,
    library_name,
    plan_all,
    variant_links,
)
from orchestrator.pipeline.verifying import driver_path, read_traces, verify_library
from orchestrator.plan.graph import VariantObjects, action_graph
from orchestrator.report.table import BuildReport, VariantReport
from orchestrator.report.verify import require_verified
from orchestrator.select.policy import select
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
    links: VariantLinks


def plan_variants(session: Session, labels: Sequence[Label]) -> tuple[Variant, ...]:
    """Plan every label; all selections come from the committed traces.

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
            )
            for label in labels
        ],
    )
    return tuple(
        Variant(
            label=label,
            app=session.workspace.apps[label.app],
            traces=traces[label.app],
            selection=selections[label.app],
            objects=planned[str(label)],
            links=variant_links(session, label.app, str(label), planned[str(label)]),
        )
        for label in labels
    )


def _apps(labels: Iterable[Label]) -> list[str]:
    return sorted({label.app for label in labels})


def _abi(label: Label) -> str:
    assert label.abi is not None
    return label.abi


def build(
    session: Session, labels: Sequence[Label], *, jobs: int | None, view: View
) -> BuildReport:
    """Build, deliver and verify every label.

    Raises ActionFailedError, VerificationFailedError, OverBudgetError, and what planning and
    delivering raise.
    """
    started = time.monotonic()
    variants = plan_variants(session, labels)
    graph = action_graph(
        (v.objects for v in variants), (link for v in variants for link in v.links.all)
    )
    compiles = dict(graph.compiles)
    for variant in variants:
        compiles.update({c.object: c for c in variant.links.driver_compiles})
    graph = type(graph)({key: compiles[key] for key in sorted(compiles)}, graph.links)
    projections = {d: t for v in variants for d, t in v.objects.plan.projections.items()}
    carried = carry_out(
        session, graph, projections, name="build", jobs=jobs, keep_going=False, view=view
    )
    if carried.result.failures:
        raise failure_error(
            carried.result,
            names_of(session, graph),
            carried.result.actions,
            session.context.state / "failures.log",
        )
    ensure_folder(session.context.dist, "dist")
    reports = [_finish(session, variant, carried) for variant in variants]
    return BuildReport(
        variants=tuple(reports),
        actions_run=carried.result.actions,
        seconds=time.monotonic() - started,
    )


def _finish(session: Session, variant: Variant, carried: Carried) -> VariantReport:
    delivered = deliver(_deliver_inputs(session, variant), session.context.dist)
    check_library(session, variant, delivered)
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
    compiled = sum(c.object in carried.compiled for c in variant.objects.compiles)
    statuses = {result.status for result in results}
    return VariantReport(
        app=variant.label.app,
        abi=_abi(variant.label),
        operators=len(variant.selection.operators),
        units_compiled=compiled,
        units_reused=len(variant.objects.compiles) - compiled,
        stripped_bytes=delivered.stripped_bytes,
        all_operators_bytes=session.runtime.version.all_operators_bytes.get(_abi(variant.label)),
        verified="ok" if statuses == {"ok"} else next(iter(statuses - {"ok"})),
    )


def check_library(session: Session, variant: Variant, delivered: Delivered) -> None:
    """Raises the first rule of a shipped ELF library that the delivered one breaks."""
    config = session.toolchain(_abi(variant.label)).config
    if config.format != "elf" or config.system != "linux":
        return
    exports = frozenset(_EXPORTED.findall((NATIVE / "capi/libtorch_app.h").read_text()))
    rules = elf.ElfRules(
        soname=f"lib{library_name(variant.label.app)}.so",
        processor=config.processor,
        exports=exports,
        system_libraries=elf.SYSTEM_LIBRARIES["linux-gnu"],
    )
    elf.check(delivered.shared_library, rules)


# A declaration of the C API: `LTA_API lta_status lta_module_load(`
_EXPORTED = re.compile(r"LTA_API\s+[^;]*?\b(lta_\w+)\s*\(")


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
    return DeliverInputs(
        app=app.name,
        abi=abi,
        version=app.config.version,
        package_name=app.package_name,
        system=toolchain.config.system,
        processor=toolchain.config.processor,
        shared_library=Path(session.fill(links.shared.output)),
        registrations=Path(session.fill(links.registrations.output)),
        core=Path(session.fill(links.core.output)),
        c_header=NATIVE / "capi" / "libtorch_app.h",
        headers=delivered_headers(session, abi),
        definitions=consumer_definitions(session, abi),
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
            compiler="zig" if zig is not None else "command",
            version=toolchain.version,
            identity=toolchain.identity,
            cxx_library=toolchain.driver.cxx_library,
            target=None if zig is None else zig.target,
        ),
        licences=_licences(session),
    )


def _licences(session: Session) -> tuple[Licence, ...]:
    tree = session.runtime.fetched.tree
    licences = [
        Licence(
            "PyTorch",
            session.runtime.version.version,
            "BSD-3-Clause",
            {"LICENSE": tree / "LICENSE", "NOTICE": tree / "NOTICE"},
        ),
        Licence(
            "miniz",
            "2.1.0",
            "MIT",
            {"LICENSE": tree / "third_party/miniz-2.1.0/LICENSE"},
        ),
    ]
    spec = util.find_spec("ziglang")
    if spec is not None and spec.submodule_search_locations:
        library = Path(spec.submodule_search_locations[0]) / "lib"
        licences += [
            Licence(
                name,
                "22.1.8",
                "Apache-2.0 WITH LLVM-exception",
                {"LICENSE.TXT": library / name / "LICENSE.TXT"},
            )
            for name in ("libcxx", "libcxxabi", "libunwind")
        ]
    return tuple(licences)
