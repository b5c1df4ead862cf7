"""The parts of models' code that their inputs ran, from the committed locks. Runs nothing."""

from __future__ import annotations

from collections.abc import Iterator

from orchestrator.build.workshop.invocation import Invocation
from orchestrator.build.workshop.traced import read_traces, with_traces
from orchestrator.load.declared import App
from orchestrator.models.coverage import (
    methods_covered,
    sites_unrun,
    unreachable_operators,
)
from orchestrator.report.coverage import ModelCoverage
from orchestrator.values.config.app import ModelConfig
from orchestrator.values.operators import OperatorName
from orchestrator.values.trace import Trace


def covered(here: Invocation, app: App) -> Iterator[ModelCoverage]:
    """Yield the coverage of each model of an app by its traced inputs, in the order of app.yaml.

    `methods` is None for a trace that has no coverage. Raises what `read_traces` raises.
    """
    for model, trace in with_traces(app, read_traces(here, app)):
        methods = None
        if trace.coverage is not None:
            listings = here.models.listings(app, model)
            methods = methods_covered(trace.coverage, listings)
        yield ModelCoverage(app.name, model.name, methods)


def unrun_calls(
    here: Invocation, app: App, model: ModelConfig, trace: Trace, operator: OperatorName
) -> tuple[str, ...]:
    """Sites at which a model calls an operator and no input reaches the call: `forward at
    net.py:13`. Empty if coverage was not recorded."""
    if trace.coverage is None or operator not in trace.root_operators:
        return ()
    return sites_unrun(trace.coverage, here.models.listings(app, model), operator)


def unreachable_calls(
    here: Invocation, app: App, model: ModelConfig, trace: Trace, operator: OperatorName
) -> tuple[str, ...]:
    """Sites at which a model calls an operator that is left out, since no input can reach any:
    `forward at net.py:13`."""
    if operator not in trace.unreachable_operators:
        return ()
    return unreachable_operators(here.models.listings(app, model)).get(operator, ())
