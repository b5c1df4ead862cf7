"""Traces an app's models: runs every model in what records it, and writes the lock files.

That is the development library (`build/tracing/on_demand.py`), or else the app's tracer: a variant
for the host whose selection is the static closure of the models' root operators, all dtypes, with
recording compiled in. The locks are the same.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Callable, Collection, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import partial
from itertools import cycle, islice
from typing import Any, Literal, get_args

from orchestrator.build.development.development import Development
from orchestrator.build.executing.execute import execute_actions, require_success
from orchestrator.build.planning.links import executable_links
from orchestrator.build.planning.variants import VariantRequest, plan_all, plan_variant, scales
from orchestrator.build.tracing.on_demand import OnDemandTracer, UnsureRecordingError
from orchestrator.build.tracing.trace_changes import changes_in_lock
from orchestrator.build.workshop.fetch import is_fetched
from orchestrator.build.workshop.invocation import Invocation
from orchestrator.build.workshop.loadable import unreachable_in
from orchestrator.build.workshop.runtime import Runtime
from orchestrator.errors import OrchestratorError, Place
from orchestrator.execute.ninja_progress import Costs, ProgressSink
from orchestrator.load.declared import App
from orchestrator.models.checks import require_arguments, require_no_lapack
from orchestrator.models.coverage import (
    MisfitCoverageError,
    coverage_of,
    methods_covered,
)
from orchestrator.models.devices import foreign_devices
from orchestrator.models.info import ModelInfo
from orchestrator.models.listing import Listing
from orchestrator.plan.graph import VariantObjects, action_graph, texts_of
from orchestrator.plan.planner import entry_nodes
from orchestrator.select.backends import upgraded, upgraders
from orchestrator.select.closure import Registry
from orchestrator.select.policy import everything, recorded_selection
from orchestrator.trace.difference import Change
from orchestrator.trace.lock import UnfitRecordingError, pack_runs, write_lock
from orchestrator.trace.recording import reached_operators, trace_from_recording
from orchestrator.values.action import count_units
from orchestrator.values.config.app import ModelConfig
from orchestrator.values.config.workspace import Backend
from orchestrator.values.coverage import FunctionCoverage, MethodCoverage
from orchestrator.values.operators import OperatorName
from orchestrator.values.selection import Selection
from orchestrator.values.trace import Trace, TraceIdentity
from orchestrator.verify.flat import flat_outputs
from orchestrator.verify.model_runner import MEMORY_LIMIT, run_model
from orchestrator.verify.nondeterminism import deterministic_part, uncompared
from orchestrator.verify.verdict import OTHER_PROCESSOR, RunnerResult, ended

# How often a model is run to see which of its outputs differ from run to run: few numbers that are
# drawn at random may well be the same twice.
RUNS = 3
RUNS_AT_RANDOM = 8
# What fresh memory holds in the first run, and in all others by turns: a model that returns or asks
# what nothing has written is to give something else each time. As numbers of any type, the first of
# the two bytes is above 0 and the other below; 0 is what fresh memory mostly holds by itself.
_FILLS = (0x55, 0xAA)
# What the dispatcher says (native/capi/kept_dispatch.h) of an operator without a kernel.
_NO_KERNEL = re.compile(r"with arguments from the '(\w+)' backend: this library has no such kernel")
# What the interpreter says (native/capi/checked_interpreter.h).
_UNSAVED_METHOD = "an instruction calls a method that its object does not have"

View = Callable[[Costs, int], ProgressSink]
# What records models: `everything` is a tracer with all operators.
Recorder = Literal["development library", "tracer", "everything"]
# Runs a model in what records it; fresh memory is filled with the byte, see `run_model`.
Run = Callable[[ModelConfig, int | None], RunnerResult]


class ModelFailedError(OrchestratorError):
    """A model does not load or run on its own inputs."""


class ModelChangedError(OrchestratorError):
    """A model's file is not the one any more that was read when its tracing began."""


class IndexIncompleteError(OrchestratorError):
    """A model reached an operator outside of the static closure: an error in the index."""


@dataclass(frozen=True)
class TracedModel:
    """A model's new trace.

    changes     against the trace that it takes the place of; None where there was none to read
    uncompared  places in its outputs that differ from run to run, or that cannot be looked into
    misfits     its calls that the runtime cannot make, which no input reached
    methods     what of each method ran
    devices     those that its code names and no library has, wherever the inputs lead
    flat        places in its outputs whose numbers are all the same
    """

    trace: Trace
    changes: tuple[Change, ...] | None
    uncompared: tuple[str, ...]
    misfits: tuple[str, ...]
    methods: tuple[MethodCoverage, ...] = ()
    devices: tuple[str, ...] = ()
    flat: tuple[str, ...] = ()


@dataclass(frozen=True)
class TracedApp:
    """An app's traced models, and how many units their recorder has, and had to compile.

    recorder  in which they ran; None where all models were refused before
    errors    of the models that could not be traced; with one, no lock of the app was written
    """

    app: App
    models: tuple[TracedModel, ...]
    recorder: Literal["development library", "tracer"] | None
    units: int
    compiled: int
    errors: tuple[OrchestratorError, ...] = ()


def trace_apps(
    here: Invocation,
    apps: Sequence[App],
    *,
    recorder: Recorder = "development library",
    jobs: int | None,
    view: View,
    write: bool = True,
) -> tuple[TracedApp, ...]:
    """Trace every model of `apps`; all tracers are built in one graph.

    recorder: the development library gives way to an app's tracer where this machine has none, and
    where what was recorded may be less than the models use; `everything` cross-checks the index.
    Raises what planning and compiling raise. A model that is refused or does not run does not stop
    the others: what is wrong with it is in its app's `errors`. An app with a refused model gets no
    tracer.
    """
    refused = {app.name: errors for app in apps if (errors := _refusals(here, app))}
    able = [app for app in apps if app.name not in refused]
    traced = dict[str, TracedApp]()
    if recorder == "development library":
        for app in able:
            if one := _trace_on_demand(here, app, jobs, view, write):
                traced[app.name] = one
    if left := [app for app in able if app.name not in traced]:
        traced |= _trace_in_tracers(here, left, recorder == "everything", jobs, view, write)
    return tuple(
        traced.get(app.name) or TracedApp(app, (), None, 0, 0, refused[app.name]) for app in apps
    )


def _trace_in_tracers(
    here: Invocation,
    apps: Sequence[App],
    all_operators: bool,
    jobs: int | None,
    view: View,
    write: bool,
) -> dict[str, TracedApp]:
    """The traced apps by name; their models can be loaded."""
    variants = dict[str, VariantObjects]()
    for _name, names in here.runtimes.grouped(app.name for app in apps):
        runtime = here.runtimes.of(names[0])
        requests = {
            app.name: _request(here, runtime, app, all_operators)
            for app in apps
            if app.name in names
        }
        variants |= plan_all(here.prepare(runtime, [here.toolchains.host]), requests)
    links = {
        app: executable_links(f"$state/tracers/{app}", objects) for app, objects in variants.items()
    }
    graph = action_graph(variants.values(), (link for one in links.values() for link in one))
    texts = texts_of(variants.values())
    execution = execute_actions(
        here, graph, texts, name="trace", jobs=jobs, keep_going=False, view=view
    )
    require_success(here, graph, execution)
    traced = {}
    for app in apps:
        objects = variants[app.name]
        compiled = count_units(c for c in objects.compiles if c.object in execution.compiled)
        tracer = here.runtimes.fill(links[app.name][0].output)
        runtime = here.runtimes.of(app.name)
        models, errors = _trace_models(here, runtime, app, _in_tracer(here, app, tracer), write)
        units = count_units(objects.compiles)
        traced[app.name] = TracedApp(app, models, "tracer", units, compiled, errors)
    return traced


def _trace_on_demand(
    here: Invocation, app: App, jobs: int | None, view: View, write: bool
) -> TracedApp | None:
    """None where its tracer has to be built: there is no development library for this machine, or
    what was recorded in it is unsure."""
    runtime = here.runtimes.of(app.name)
    development = Development(here, runtime, jobs, view)
    if not development.available:
        return None
    tracer = OnDemandTracer(here, runtime, app, development, _request(here, runtime, app, False))
    tracer.complete(app.config.models)
    models, errors = _trace_models(here, runtime, app, tracer.run, write)
    for error in errors:
        if isinstance(error, UnsureRecordingError):
            here.log(f"{error.what} ({error.seen}): building its app's tracer")
            return None
        if isinstance(error, ModelFailedError):
            error.hint = f"{error.hint}; where it runs there, trace with --tracer"
    return TracedApp(app, models, "development library", tracer.units, tracer.compiled, errors)


def _in_tracer(here: Invocation, app: App, tracer: str) -> Run:
    """Runs models in the tracer at this path."""

    def run(model: ModelConfig, fill: int | None) -> RunnerResult:
        shipped, context = here.models.shipped(app, model), here.context
        return run_model(
            [tracer],
            shipped.path,
            model,
            context.env,
            recorded=shipped.inputs,
            fill=fill,
            runner=context.runner,
        )

    return run


def _refusals(here: Invocation, app: App) -> tuple[OrchestratorError, ...]:
    """Errors of the app's models that its runtime cannot load or run."""
    errors = list[OrchestratorError]()
    for model in app.config.models:
        try:
            here.models.info(app, model)
        except OrchestratorError as error:
            errors.append(error)
    return tuple(errors)


def _request(here: Invocation, runtime: Runtime, app: App, all_operators: bool) -> VariantRequest:
    models = app.config.models
    left_out = {name for model in models for name in here.models.left_out(app, model)}
    if all_operators:
        kernels, cut = runtime.kernels, frozenset[str]()
        selection = everything(runtime.index, kernels)
    else:
        infos = [here.models.info(app, model) for model in models]
        old = (_upgraded(runtime, info) for info in infos)
        named = frozenset[OperatorName]().union(
            *(info.root_operators for info in infos),
            *(upgraders(runtime.version, names) for names in old),
        )
        roots = named - left_out
        kernels, cut = runtime.kernels_for(roots), runtime.cut_units(roots)
        selection = tracer_selection(runtime, kernels, app.name, roots)
    selection = replace(selection, left_out=dict.fromkeys(sorted(left_out), frozenset({app.name})))
    return VariantRequest(
        here.toolchains.host, selection, kernels, "tracer", optimize="size", cut=cut
    )


def tracer_selection(
    runtime: Runtime, kernels: Registry, requester: str, roots: Set[OperatorName]
) -> Selection:
    """The static closure of `roots` and of the recorder's own set-up calls, with all dtypes."""
    index = runtime.index
    always, cut = runtime.facts.always_for("tracer"), runtime.cut_units(roots)
    always |= runtime.facts.app_units.keys()
    return recorded_selection(
        index,
        kernels,
        roots,
        requester,
        entry=entry_nodes(index, runtime.entry | runtime.tracer_entry, runtime.dialect.symbols),
        units=[n for n, unit in enumerate(index.units) if unit.path in always],
        cut=[n for n, unit in enumerate(index.units) if unit.path in cut],
    )


def estimated(here: Invocation, runtime: Runtime, roots: Collection[OperatorName]) -> int:
    """Bytes that a library for these root operators would have, with all dtypes, by the index.

    Compare two such numbers: as a library's size it is too large.
    """
    roots = frozenset(roots)
    prepared = here.prepare(runtime, [here.toolchains.host])
    kernels, cut = runtime.kernels_for(roots), runtime.cut_units(roots)
    selection = tracer_selection(runtime, kernels, "estimate", roots)
    request = VariantRequest(
        here.toolchains.host, selection, kernels, "release", optimize="size", cut=cut
    )
    return plan_variant(prepared, request).needed.bytes


def _bytes_in(here: Invocation, runtime: Runtime, tree: str, trace: Trace) -> int | None:
    """`estimated` for a trace of the runtime of another tree; None for one that is not pinned, or
    whose sources are not here."""
    name = here.runtimes.names.get(tree)
    if name is None or runtime.facts.app_units:
        return None
    pin = here.workspace.config.pins[name]
    if not is_fetched(here.context.cache, pin.pytorch, pin.tree):
        return None
    return estimated(here, here.runtimes.on(name), trace.root_operators)


def _trace_models(
    here: Invocation, runtime: Runtime, app: App, run: Run, write: bool
) -> tuple[tuple[TracedModel, ...], tuple[OrchestratorError, ...]]:
    """The traced models and the errors of the others; without an error, the locks are written."""
    traced, errors = list[tuple[TracedModel, bytes]](), list[OrchestratorError]()
    for model in app.config.models:
        here.log(f"tracing //apps/{app.name}: {model.name}")
        try:
            traced.append(_trace_model(here, runtime, app, model, run))
        except OrchestratorError as error:
            errors.append(error)
    if write and not errors:
        for one, packed in traced:
            write_lock(app.folder, one.trace, packed)
    return tuple(one for one, _ in traced), tuple(errors)


def _trace_model(
    here: Invocation, runtime: Runtime, app: App, model: ModelConfig, run: Run
) -> tuple[TracedModel, bytes]:
    """A model's trace, and its runs as the lock's companion has them.

    Raises ModelFailedError, ModelChangedError, IndexIncompleteError, ExtraArgumentsError,
    MissingArgumentsError, LapackMissingError, UnfitRecordingError.
    """
    results = _results(here, runtime, app, model, run)
    identity = _identity(here, app, model)
    runs = deterministic_part(results)
    recording, listings = runs.pop("trace"), here.models.listings(app, model)
    coverage = _coverage(app, model, runs.pop("coverage", None), listings)
    packed, digest = pack_runs(runs)
    trace = trace_from_recording(
        app.name,
        model.name,
        identity,
        recording,
        len(runs["runs"]),
        digest,
        scales(runtime),
        coverage,
        _unreachable(here, runtime, app, model, listings),
    )
    changes = changes_in_lock(
        app.folder,
        here.context.root,
        trace,
        runs,
        here.runtimes.names,
        partial(_bytes_in, here, runtime),
    )
    misfits = tuple(map(str, here.models.misfits(app, model)))
    methods = methods_covered(coverage, listings)
    devices = foreign_devices(here.models.info(app, model), listings)
    unsteady = uncompared(runs)
    flat = flat_outputs(runs)
    return TracedModel(trace, changes, unsteady, misfits, methods, devices, flat), packed


def _upgraded(runtime: Runtime, info: ModelInfo) -> frozenset[OperatorName]:
    return upgraded(runtime.version, info.root_operators, info.archive_version)


def _unreachable(
    here: Invocation,
    runtime: Runtime,
    app: App,
    model: ModelConfig,
    listings: Sequence[Listing],
) -> Collection[str]:
    """`unreachable_in`, without the interpreter's own operators, which every library has."""
    own = {name for unit in runtime.index.units for name, _ in unit.promoted}
    return unreachable_in(here.models.info(app, model), runtime.version, listings) - own


def _identity(here: Invocation, app: App, model: ModelConfig) -> TraceIdentity:
    """Identity of a trace that was recorded just now.

    A runner opens the file by its name, and it may have been saved again in between. Raises
    ModelChangedError.
    """
    read, identity = here.models.info(app, model).sha256, here.models.trace_identity(app, model)
    if identity.model != read:
        path = here.models.shipped(app, model).path
        raise ModelChangedError(
            f"the model {model.name} was saved while it was traced",
            place=Place(path.relative_to(here.context.root).as_posix()),
            expected=read,
            seen=identity.model,
            hint=f"run: ./orchestrate trace //apps/{app.name}",
        )
    return identity


def _coverage(
    app: App, model: ModelConfig, recorded: object, listings: Sequence[Listing]
) -> Mapping[str, FunctionCoverage]:
    try:
        return coverage_of(recorded, listings)
    except MisfitCoverageError as error:
        raise UnfitRecordingError(
            f"what was recorded of {model.name} does not fit the model",
            place=Place(app.place.file),
            expected="which instructions ran, of each function of its file",
            seen=str(error),
            hint="run the model in PyTorch on the same inputs; where it runs, report this",
        ) from None


def _results(
    here: Invocation, runtime: Runtime, app: App, model: ModelConfig, run: Run
) -> list[Mapping[str, Any]]:
    """Run the model several times and return the results; the first one's recording is the
    trace."""

    def checked(fill: int | None) -> Mapping[str, Any]:
        return _checked(here, runtime, app, model, run(model, fill), fill)

    first = checked(None)
    called = first["trace"]["called_operators"]
    at_random = any(OperatorName(name).qualified in runtime.version.random for name in called)
    more = (RUNS_AT_RANDOM if at_random else RUNS) - 1
    return [first, *map(checked, islice(cycle(_FILLS), more))]


def _checked(
    here: Invocation,
    runtime: Runtime,
    app: App,
    model: ModelConfig,
    run: RunnerResult,
    fill: int | None,
) -> Mapping[str, Any]:
    """Return the recorder's result if it is usable.

    Raises ModelFailedError, IndexIncompleteError, ExtraArgumentsError, MissingArgumentsError,
    LapackMissingError.
    """
    file = here.models.shipped(app, model).path
    place = Place(file.relative_to(here.context.root).as_posix())
    result = run.result
    if result is None:
        raise ModelFailedError(
            f"the model {model.name} crashed while it was traced",
            place=place,
            seen=f"it {ended(run)}",
            hint=OTHER_PROCESSOR
            if run.returncode == -signal.SIGILL
            else "run the model in PyTorch on the same inputs",
            details=run.stderr[-2000:],
        )
    # An operator that got too many arguments fails with what tells nobody that, or does not fail.
    require_arguments(
        here.models.misfits(app, model),
        reached_operators(result["trace"]),
        place,
        runtime.version.version,
    )
    require_no_lapack(
        result["trace"]["failed_in"],
        runtime.version.lapack,
        place,
        runtime.version.version,
    )
    _refuse_errors(model, place, result, fill, runtime)
    return result


def _raised_in(operators: Sequence[OperatorName]) -> str:
    """Clause that names the operators in which the recorder's error was raised: the text itself is
    stripped, as a release's is."""
    return f"raised in {', which called '.join(operators)}" if operators else ""


def _other_backend(text: str, declared: Collection[str]) -> str:
    """Hint for an operator that has no kernel for a backend outside of `declared`; empty if the
    error is another."""
    told = _NO_KERNEL.search(text)
    if told is None or told[1] in declared:
        return ""
    if told[1] in get_args(Backend):
        return (
            f"add {told[1]} to `backends` under `defaults` in WORKSPACE, which keeps kernels for"
            " such tensors, and trace all apps; or use dense tensors in the model"
        )
    if told[1].startswith("NestedTensor"):
        return (
            "libraries have no kernels for nested tensors: where the model has a"
            " torch.nn.TransformerEncoder, make it with enable_nested_tensor=False"
        )
    return "libraries have no kernels for such tensors: use dense ones in the model"


def _refuse_errors(
    model: ModelConfig,
    place: Place,
    result: Mapping[str, Any],
    fill: int | None,
    runtime: Runtime,
) -> None:
    runs = result.get("runs", [])
    errors = [result.get("error"), *(one.get("error") for one in runs)]
    error = next((one for one in errors if one), None)
    if error is not None:
        if error["code"] in ("MISSING_OPERATOR", "MISSING_DTYPE"):
            raise IndexIncompleteError(
                f"the model {model.name} reached what the runtime index does not expect",
                place=place,
                seen=str(error["text"]),
                hint="this is a fault of the index: report it, and trace with --all-operators",
            )
        hint = "run the model in PyTorch on the same inputs, and check declared shapes"
        if error["code"] == "OUT_OF_MEMORY":
            hint += f"; models are traced with at most {MEMORY_LIMIT // 2**30} GB of memory"
        elif fill is not None:
            hint = (
                "it ran with fresh memory as it is, and not with bytes in it: look for a"
                " torch.empty, or the like, whose values the model uses"
            )
        elif other := _other_backend(error["text"], runtime.backends):
            hint = other
        elif _UNSAVED_METHOD in error["text"]:
            hint = (
                "torch saves no methods that are called through a torch.jit.interface alone: call"
                " the modules themselves, such as with `if index == i: x = module(x)` in a loop"
                " over the ModuleList, and export the model again"
            )
        elif error["code"] == "RUN_FAILED":
            version = runtime.version.version
            hint += (
                f"; where a newer PyTorch runs it, PyTorch {version} may lack a kernel for a dtype,"
                " such as float16: compute that part in float32"
            )
        raise ModelFailedError(
            f"the model {model.name} does not run on its inputs",
            place=place,
            seen=f"{error['code']}: {error['text']}",
            hint=hint,
            details=_raised_in(result["trace"]["failed_in"]),
        )
    if not runs:
        raise ModelFailedError(
            f"the model {model.name} was loaded but not run",
            place=place,
            expected="at least one input",
            hint="bundle inputs in the model, or declare `inputs:` in app.yaml",
        )
