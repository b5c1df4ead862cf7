"""Builds the library in which `run` times a model: the one that a build would deliver."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from orchestrator.build.executing.execute import View, execute_linked
from orchestrator.build.planning.estimate import estimated_library, selected_code
from orchestrator.build.planning.links import variant_links
from orchestrator.build.planning.plan import variant_requests
from orchestrator.build.planning.variants import VariantRequest, hot_units, plan_all
from orchestrator.build.workshop.invocation import Invocation, Prepared, parts_chosen
from orchestrator.build.workshop.runtime import Runtime
from orchestrator.build.workshop.traced import read_app
from orchestrator.load.declared import App
from orchestrator.plan.development import NAME, every_dtype, usual_dtypes
from orchestrator.select.backends import upgraded
from orchestrator.select.closure import Registry
from orchestrator.select.tag_code import UnselectedDtypes
from orchestrator.values.labels import VariantLabel
from orchestrator.values.operators import OperatorName
from orchestrator.values.selection import Selection
from orchestrator.values.trace import Trace

# What ninja's files and the folder of its links are called.
_TIMED = "timed"


@dataclass(frozen=True)
class Seen:
    """Observed needs of a model, from the development library or from a trace.

    roots      the operators that it names
    operators  at least the operators that it calls in addition
    wide       kernel tags that ran in an unusual dtype
    traces     its lock and those of its app's other models; empty if there is no lock of this file
    hot        kernel tags whose work is worth fast code; None if unknown: then all are
    multiply_adds  of one run, of the kernels for which they are known
    archive    the version of its archive
    """

    roots: frozenset[OperatorName]
    operators: frozenset[OperatorName]
    wide: frozenset[str]
    traces: tuple[Trace, ...]
    hot: tuple[str, ...] | None
    multiply_adds: int
    archive: int


@dataclass(frozen=True)
class TimedLibrary:
    """The library and its model runner. units: how many both are made of; compiled: which of them
    now."""

    folder: Path
    runner: Path
    units: int
    compiled: tuple[str, ...]


def timed_library(
    here: Invocation,
    runtime: Runtime,
    app: App | None,
    seen: Seen,
    *,
    jobs: int | None,
    view: View,
) -> TimedLibrary:
    """Plan, compile and link it for this machine, in the workspace's state folder.

    app: whose settings it has; None: those of an app that sets nothing.
    The caller holds the workspace's lock until the model has run: the next one has its place.
    Raises ActionFailedError, TorchgenFailedError, and what planning raises.
    """
    prepared = here.prepare(runtime, [here.toolchains.host])
    request = _request(here, prepared, app, seen)
    (objects,) = plan_all(prepared, {NAME: request}).values()
    folder = f"$state/{NAME}/{_TIMED}"
    links = variant_links(prepared, request.app or NAME, objects, folder)
    assert links.runner is not None, "a machine runs what is built for it"
    needed = (links.shared, links.runner, *links.cxx_library)
    made = execute_linked(
        here, objects, needed, links.runner_compiles, name=_TIMED, jobs=jobs, view=view
    )
    return TimedLibrary(
        Path(runtime.fill(folder)),
        Path(runtime.fill(links.runner.output)),
        made.units,
        made.compiled,
    )


def estimate_of(here: Invocation, runtime: Runtime, app: App | None, seen: Seen) -> int | None:
    """Estimate the size of that library, as `plan` does, without building it.

    Raises what planning raises.
    """
    prepared = here.prepare(runtime, [here.toolchains.host])
    request = _request(here, prepared, app, seen)
    (objects,) = plan_all(prepared, {NAME: request}, generate=False).values()
    code = selected_code(runtime, UnselectedDtypes(runtime.index), objects)
    return estimated_library(runtime, objects, code, prepared.config(request.abi))


def _request(here: Invocation, prepared: Prepared, app: App | None, seen: Seen) -> VariantRequest:
    if app is not None and seen.traces:
        label = VariantLabel(app.name, here.toolchains.host)
        read = {app.name: read_app(here, app, seen.traces)}
        (request,) = variant_requests(prepared, [label], read).values()
        # a delivery finishes a library that relocates itself, and a link alone does not
        return replace(request, self_relocation=False, extensible=False)
    runtime, defaults = prepared.runtime, here.workspace.config.defaults
    kernels = runtime.kernels_for(seen.roots)
    config = here.toolchains.config(here.toolchains.host)
    tags = runtime.tag_users if seen.hot is None else seen.hot
    parts = parts_chosen(defaults.kernels if app is None else app.kernels)
    return VariantRequest(
        config.abi,
        _selection(runtime, kernels, seen),
        kernels,
        "release",
        optimize=defaults.optimize if app is None else app.optimize,
        hot=hot_units(runtime, tags),
        lean=runtime.lean_units(upgraded(runtime.version, seen.roots, seen.archive)),
        cut=runtime.cut_units(seen.roots),
        app=None if app is None else app.name,
        self_relocation=False,
        features=runtime.features_of(config, parts, seen.roots, seen.operators),
        cpu=None if app is None else runtime.declared_levels(app, config),
        multiply_adds=seen.multiply_adds,
        parts=parts,
        threads=defaults.threads if app is None else app.threads,
        dispatch="direct" if app is None else app.config.dispatch,
    )


def _selection(runtime: Runtime, kernels: Registry, seen: Seen) -> Selection:
    """Selection of the operators that were seen, with all classes and features, and a shard's
    dtypes."""
    index, own = runtime.index, runtime.facts.app_units
    theirs = {tag for unit in index.units if unit.path in own for tag in unit.tags}
    usual = usual_dtypes(every_dtype(index, kernels), {*seen.wide, *theirs})
    operators = sorted(seen.roots | seen.operators)
    return replace(
        usual, operators=dict.fromkeys(operators, frozenset({NAME})), root_operators=seen.roots
    )
