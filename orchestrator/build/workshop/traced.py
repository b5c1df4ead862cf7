"""The committed traces of apps; whether there are any is known before anything is fetched."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from orchestrator.build.workshop.invocation import Invocation
from orchestrator.load.declared import App
from orchestrator.trace.lock import TraceMissingError, read_lock, require_lock
from orchestrator.values.config.app import ModelConfig
from orchestrator.values.labels import AppLabel, VariantLabel
from orchestrator.values.operators import OperatorName
from orchestrator.values.trace import Trace


@dataclass(frozen=True)
class ReadApp:
    """An app as plans are made of it: all that has to be read is read.

    traces    of its models; `run` may plan for some of them
    upgraded  operators by which its models mean what an earlier PyTorch did
    unrun     model -> own units with a class of which the model calls a method that its inputs
              never ran
    """

    app: App
    traces: tuple[Trace, ...]
    upgraded: frozenset[OperatorName]
    unrun: Mapping[str, frozenset[str]]


def read_app(here: Invocation, app: App, traces: Sequence[Trace]) -> ReadApp:
    """The app with these traces, and what planning needs of its models' files. Raises what reading
    the models raises."""
    models = here.models
    return ReadApp(app, (*traces,), models.upgraded(app, traces), models.unrun_units(app, traces))


def with_traces(app: App, traces: Iterable[Trace]) -> Iterator[tuple[ModelConfig, Trace]]:
    """The app's models, each with its trace."""
    named = {trace.model: trace for trace in traces}
    return ((model, named[model.name]) for model in app.config.models)


def require_traced(here: Invocation, labels: Iterable[VariantLabel]) -> None:
    """Raises TraceMissingError where models have no lock. A model whose canonical file is traced is
    left out: that file may be what is missing first."""
    root, missing, apps = here.context.root, list[TraceMissingError](), dict[AppLabel, None]()
    for app in here.workspace.apps_of(labels):
        label = AppLabel(app.name)
        for model in app.config.models:
            try:
                if not app.is_canonical(model):
                    require_lock(app.folder, model.name, label, root)
            except TraceMissingError as error:
                missing.append(error)
                apps[label] = None
    if len(missing) > 1:
        raise TraceMissingError(
            f"{len(missing)} models have not been traced",
            expected=f"{missing[0].expected} and {len(missing) - 1} more",
            hint=f"run: ./orchestrate trace {' '.join(map(str, apps))}",
        )
    if missing:
        raise missing[0]


def read_traces(here: Invocation, app: App) -> tuple[Trace, ...]:
    """The committed traces of an app, checked to be current and of what the runtime has.

    Raises TraceMissingError, TraceStaleError, TraceDamagedError, TraceMisplacedError,
    TraceUnknownError, of an app that forbids operators what `model` raises, and of one that adds
    some what `extra_operators` raises.
    """
    runtime = here.runtimes.of(app.name)
    runtime.extra_operators(app)
    if app.config.forbid:
        for model in app.config.models:
            here.models.info(app, model)
    return tuple(
        read_lock(
            app.folder,
            model.name,
            here.models.trace_identity(app, model),
            AppLabel(app.name),
            here.context.root,
            runtime.vocabulary,
            here.runtimes.names,
        )
        for model in app.config.models
    )
