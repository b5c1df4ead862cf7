"""Measures the memory that models take in delivered libraries, and checks it against limits.

The model runner for it is linked against the delivered library as the other one is, and counts what
the library asks the system for (native/memory/heap.h): the library itself is not changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from orchestrator.build.delivering.verify import (
    DeliveredLibrary,
    delivered_library,
    verified_threads,
)
from orchestrator.build.executing.execute import View, execute_actions, require_success
from orchestrator.build.planning.links import MEMORY_RUNNER, VariantLinks
from orchestrator.build.planning.plan import plan_variants
from orchestrator.build.workshop.invocation import Invocation
from orchestrator.canonical.lock import Shipped
from orchestrator.errors import OrchestratorError, Place
from orchestrator.load.declared import App
from orchestrator.models.archive import open_archive
from orchestrator.models.coverage import called_at
from orchestrator.models.listing import read_listings
from orchestrator.models.tensors import stored_bytes
from orchestrator.plan.graph import action_graph, texts_of
from orchestrator.report.memory import largest_text, peak_text
from orchestrator.values.config.app import ModelConfig
from orchestrator.values.labels import VariantLabel
from orchestrator.values.memory import ModelMemory
from orchestrator.verify.memory import MemoryUnreadableError, memory_of
from orchestrator.verify.model_runner import run_model, told_inputs
from orchestrator.verify.verdict import RunnerResult, ended

# Each method's first input runs once more, when layers are packed.
_AGAIN: Final = ("--time", "--warmup", "0", "--repeat", "1")


class NotMeasuredError(OrchestratorError):
    """A model's memory cannot be measured: it does not run, or not on this machine."""


class OverMemoryError(OrchestratorError):
    """A model takes more memory than its app allows."""


@dataclass(frozen=True)
class Measured:
    """A library's models; none where its binaries do not run here, for the reason `why_not`."""

    label: VariantLabel
    models: tuple[ModelMemory, ...]
    why_not: str = ""


def measured(
    here: Invocation, labels: Sequence[VariantLabel], *, jobs: int | None, view: View
) -> tuple[Measured, ...]:
    """Measure the delivered library of each label; the runner is linked first.

    Raises what `delivered_library`, planning and linking raise, and NotMeasuredError.
    """
    runs = [label for label in labels if here.toolchains.running(label.abi).prefix is not None]
    libraries = {label: delivered_library(here, label) for label in runs}
    if runs:
        _link_runners(here, runs, jobs, view)
    return tuple(
        Measured(label, memory_in(here, libraries[label]))
        if label in libraries
        else Measured(label, (), here.toolchains.running(label.abi).why_not)
        for label in labels
    )


def _link_runners(
    here: Invocation, labels: Sequence[VariantLabel], jobs: int | None, view: View
) -> None:
    variants = plan_variants(here, labels, memory=True)
    links = [variant.links for variant in variants if isinstance(variant.links, VariantLinks)]
    graph = action_graph(
        (variant.objects for variant in variants), (link for one in links for link in one.all)
    )
    runners = {c.object: c for one in links for c in one.runner_compiles}
    graph = replace(graph, compiles={**graph.compiles, **runners})
    execution = execute_actions(
        here,
        graph,
        texts_of(variant.objects for variant in variants),
        name="memory",
        targets=[one.output for each in links for one in (each.runner, each.memory) if one],
        jobs=jobs,
        keep_going=False,
        view=view,
    )
    require_success(here, graph, execution)


def memory_in(here: Invocation, library: DeliveredLibrary) -> tuple[ModelMemory, ...]:
    """Measure each of the app's models in a library that runs here, whose runner is linked.

    Raises NotMeasuredError.
    """
    program = library.runner.with_name(MEMORY_RUNNER)
    if not program.is_file():
        raise NotMeasuredError(
            f"the program that measures memory in {library.label} has not been built",
            seen=f"no {program.name}",
            hint=f"run: ./orchestrate build {library.label}",
        )
    return tuple(
        _model_memory(here, library, program, model) for model in library.app.config.models
    )


def _model_memory(
    here: Invocation, library: DeliveredLibrary, program: Path, model: ModelConfig
) -> ModelMemory:
    app = library.app
    shipped = here.models.shipped(app, model)
    file = library.models.get(model.name, shipped.path)
    inputs = shipped.inputs
    if file != shipped.path and not model.runs and inputs is None:
        # what is delivered has no inputs inside
        inputs = told_inputs(_run(here, library, library.runner, (), shipped, model, True))
    ran = _run(here, library, program, _AGAIN, replace(shipped, path=file, inputs=inputs), model)
    own = {one.qualified: one for one in here.models.listings(app, model)}
    listings = [own.get(one.qualified, one) for one in read_listings(file)]
    place = Place(str(file))
    with file.open("rb") as opened, open_archive(opened, place) as archive:
        stored = stored_bytes(archive.sizes)
    try:
        found = memory_of(
            model.name,
            stored,
            ran.result,
            lambda at: called_at(listings, at.function, at.instruction, at.operator),
        )
    except MemoryUnreadableError as error:
        seen = ended(ran) if ran.result is None else str(error)
        raise _unmeasured(library, model, seen, ran.stderr) from None
    if ran.result is not None and ran.result["error"]:
        raise _unmeasured(library, model, ran.result["error"]["text"], "")
    return found


def _run(
    here: Invocation,
    library: DeliveredLibrary,
    program: Path,
    options: Sequence[str],
    shipped: Shipped,
    model: ModelConfig,
    with_arguments: bool = False,
) -> RunnerResult:
    prefix = here.toolchains.running(library.label.abi).prefix or ()
    return run_model(
        [*prefix, str(program), *options],
        shipped.path,
        model,
        here.context.env,
        libraries=library.file.parent,
        recorded=shipped.inputs,
        threads=library.app.threads or verified_threads(library.app),
        with_arguments=with_arguments,
        runner=here.context.runner,
    )


def _unmeasured(
    library: DeliveredLibrary, model: ModelConfig, seen: str, details: str
) -> NotMeasuredError:
    return NotMeasuredError(
        f"the memory of {model.name} in {library.label} cannot be measured",
        expected="a model that runs in this library",
        seen=seen,
        hint=f"run: ./orchestrate verify {library.label}",
        details=details.strip() or None,
    )


def check_delivered_memory(here: Invocation, label: VariantLabel) -> None:
    """`check_memory` of the library in `dist/<app>/<abi>/`; raises what `delivered_library` does
    too."""
    if here.workspace.apps[label.app].config.memory is not None:
        check_memory(here, delivered_library(here, label))


def check_memory(here: Invocation, library: DeliveredLibrary) -> None:
    """Raises OverMemoryError for the first model that takes more than its app allows, and
    NotMeasuredError. Where nothing runs here, a line says where it is measured."""
    app = library.app
    if app.config.memory is None:
        return
    if here.toolchains.running(library.label.abi).prefix is None:
        here.log(f"{library.label}: memory is not measured here{_elsewhere(here, app)}")
        return
    for found in memory_in(here, library):
        for error in over(library.label, app, found):
            raise error


def _elsewhere(here: Invocation, app: App) -> str:
    """Say which targets of an app run here."""
    runs = [abi for abi in app.config.targets if here.toolchains.running(abi).prefix is not None]
    if not runs:
        return f", and none of its targets runs here: {here.toolchains.own_abi} would"
    return f", but for {', '.join(runs)}"


def over(label: VariantLabel, app: App, found: ModelMemory) -> Iterator[OverMemoryError]:
    """Yield the limits that a model passes in a library."""
    limits = app.config.memory
    assert limits is not None
    own = limits.models.get(found.model)
    key: tuple[str, ...] = ("memory",) if own is None else ("memory", "models", found.model)
    peak = limits.peak if own is None else own
    if peak is not None and found.peak > peak:
        yield _over(
            f"takes more memory in {label} than its budget",
            app.places.key(key),
            f"at most {peak:,} bytes at once",
            peak_text(found),
            largest_text(found),
            label,
            found,
            {"peak_bytes": found.peak, "budget_bytes": peak},
        )
    if limits.kept is not None and found.kept > limits.kept:
        yield _over(
            f"keeps more memory between runs in {label} than its budget",
            app.places.key(("memory",)),
            f"at most {limits.kept:,} bytes",
            f"{found.kept:,} bytes",
            None,
            label,
            found,
            {"kept_bytes": found.kept, "budget_bytes": limits.kept},
        )


def _over(
    what: str,
    place: Place,
    expected: str,
    seen: str,
    details: str | None,
    label: VariantLabel,
    found: ModelMemory,
    facts: Mapping[str, int],
) -> OverMemoryError:
    return OverMemoryError(
        f"{found.model} {what}",
        place=place,
        expected=expected,
        seen=seen,
        hint="raise the budget, or make the tensors smaller that are there at once:"
        f" ./orchestrate memory {label}",
        details=details,
        facts=dict(facts),
    )
