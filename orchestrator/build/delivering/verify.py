"""Verifies the contents of dist/: runs every model of an app in its delivered library."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, get_args

from orchestrator.build.planning.selected import require_selection
from orchestrator.build.workshop.invocation import Invocation
from orchestrator.build.workshop.traced import read_traces, with_traces
from orchestrator.canonical.lock import Shipped
from orchestrator.context import Context
from orchestrator.deliver.delivered import read_delivery
from orchestrator.deliver.variant import models_in
from orchestrator.errors import OrchestratorError, Place
from orchestrator.libraries.levels import chosen_level
from orchestrator.load.declared import App
from orchestrator.system.limits import usable_cores
from orchestrator.trace.lock import read_runs
from orchestrator.values.config.app import BASELINE, ModelConfig
from orchestrator.values.config.forms import CORES
from orchestrator.values.labels import VariantLabel
from orchestrator.values.packages import library_name
from orchestrator.values.trace import Trace
from orchestrator.verify.model_runner import Layout, Nudged, run_model, told_inputs
from orchestrator.verify.verdict import (
    Judge,
    RunnerResult,
    VerifyResult,
    as_delivered,
    at_levels,
    in_layouts,
    lacking_in_layouts,
    not_run,
    with_threads,
)


class NotBuiltError(OrchestratorError):
    """A variant has not been built here."""


class OtherDeliveryError(OrchestratorError):
    """A whole delivery, right in itself, lies in another variant's folder."""


@dataclass(frozen=True)
class DeliveredLibrary:
    """A library in a delivered folder, as its manifest tells it.

    runner  the model runner that is linked against it
    levels  CPU levels above the ABI's baseline that it chooses from, lowest first
    models  its app's models that are delivered with it, by name
    selection  digest of what it was made for, where that is known
    """

    label: VariantLabel
    app: App
    file: Path
    runner: Path
    levels: tuple[str, ...]
    models: Mapping[str, Path]
    selection: str | None


def delivered_library(here: Invocation, label: VariantLabel) -> DeliveredLibrary:
    """The library in `dist/<app>/<abi>/`, whose files are those of its manifest.

    The app's runtime is prepared once there is something to verify. Raises NotBuiltError where
    there is not, UnreadableManifestError, ChangedDeliveryError, OtherDeliveryError.
    """
    app = here.workspace.apps[label.app]
    toolchain = here.toolchains.of(label.abi)
    name = f"lib{library_name(label.app)}.{'so' if toolchain.links_shared else 'a'}"
    folder = here.context.dist / label.delivered
    library = folder / "lib" / name
    _require_built(label, library)
    manifest = read_delivery(folder).manifest
    if manifest.label != label:
        raise OtherDeliveryError(
            "the delivered folder is of another variant",
            place=Place(str(folder)),
            expected=str(label),
            seen=str(manifest.label),
            hint=f"build the variant again: ./orchestrate build {label}",
        )
    kernels = manifest.kernels
    return DeliveredLibrary(
        label,
        app,
        library,
        runner_path(here, label),
        () if kernels is None else _levels(here, label, kernels.levels),
        models_in(folder, manifest),
        manifest.selection_digest,
    )


def _require_built(label: VariantLabel, path: Path) -> None:
    if not path.is_file():
        raise NotBuiltError(
            f"{label} has not been built in this workspace",
            seen=f"no {path.name}",
            hint=f"run: ./orchestrate build {label}",
        )


def verify_delivered(here: Invocation, label: VariantLabel) -> tuple[VerifyResult, ...]:
    """Verify `dist/<app>/<abi>/`: that its files are those of its manifest, then that models run.

    Raises what `delivered_library`, `read_traces` and `verify_library` raise, and NotBuiltError
    where there is nothing to run them with.
    """
    library = delivered_library(here, label)
    if here.toolchains.config(label.abi).run != "none":
        _require_built(label, library.runner)
    return verify_library(here, library, read_traces(here, library.app))


def _levels(
    here: Invocation, label: VariantLabel, named: tuple[str, ...] | None
) -> tuple[str, ...]:
    """A delivered library's CPU levels, of those that the manifest names, lowest first."""
    known = here.runtimes.of(label.app).cpu_levels(here.toolchains.config(label.abi))
    # before there was a choice, libraries had what every one has
    return tuple(
        one.name for one in known if (one.uses is None if named is None else one.name in named)
    )


def runner_path(here: Invocation, label: VariantLabel) -> Path:
    """The model runner that is linked against a variant's shared library; it exists once it was
    built for an ABI that can run here."""
    return here.context.state / label.linked / "driver"


def verify_library(
    here: Invocation, found: DeliveredLibrary, traces: Iterable[Trace]
) -> tuple[VerifyResult, ...]:
    """Run every model of the app in its library and compare with the traces' recorded runs: with
    what the processor has that runs it, and at all other CPU levels; with one thread, and with
    several where the app has them; and with inputs that are parts of larger tensors. Delivered
    files of its models are run too. Raises OtherSelectionError.
    """
    app, library, levels, models = found.app, found.file, found.levels, found.models
    threads = verified_threads(app)
    running = here.toolchains.running(found.label.abi)
    results = []
    for model, trace in with_traces(app, traces):
        if running.prefix is None:
            results.append(not_run(model.name, running.why_not))
            continue
        expected = read_runs(app.folder, trace, here.context.root)
        argv = [*running.prefix, str(found.runner)]
        shipped = here.models.shipped(app, model)
        runner = _Runner(argv, library.parent, shipped, model, here.context)
        # what is delivered has no inputs inside: it gets those that this run had
        inside = model.name in models and not model.runs and shipped.inputs is None
        ran = runner.run(threads=1, with_arguments=inside)
        require_selection(found.selection, ran, Place(str(library)))
        verdict = Judge(model.name, expected, ran.result, cache(runner.nudged)).verdict
        others = {level: verdict(again) for level, again in _at_other_levels(runner, levels, ran)}
        result = at_levels(verdict(ran), others, _lacking(levels, ran, others))
        if result.status != "failed":
            laid_out = {
                layout: verdict(runner.run(threads=1, layout=layout)) for layout in get_args(Layout)
            }
            result = in_layouts(result, laid_out)
            for line in lacking_in_layouts(laid_out):
                here.log(f"{found.label}: {line}")
        if threads > 1:
            result = with_threads(result, threads, verdict(runner.run(threads=threads)))
        if model.name in models:
            inputs = told_inputs(ran) if inside else shipped.inputs
            file = replace(shipped, path=models[model.name], inputs=inputs)
            delivered = replace(runner, shipped=file).run(threads=1)
            result = as_delivered(result, verdict(delivered))
        results.append(result)
    return tuple(results)


@dataclass(frozen=True)
class _Runner:
    """The model runner with one model."""

    argv: Sequence[str]
    libraries: Path
    shipped: Shipped
    model: ModelConfig
    context: Context

    def run(
        self,
        *,
        level: str | None = None,
        threads: int | None = None,
        layout: Layout | Nudged | None = None,
        with_arguments: bool = False,
    ) -> RunnerResult:
        return run_model(
            self.argv,
            self.shipped.path,
            self.model,
            self.context.env,
            libraries=self.libraries,
            recorded=self.shipped.inputs,
            level=level,
            threads=threads,
            layout=layout,
            with_arguments=with_arguments,
            runner=self.context.runner,
        )

    def nudged(self) -> Mapping[str, Any] | None:
        """The result where each float of the inputs is the next one."""
        return self.run(threads=1, layout="nudged").result


def _at_other_levels(
    runner: _Runner, levels: Sequence[str], ran: RunnerResult
) -> Iterator[tuple[str, RunnerResult]]:
    """Runs at each of the library's CPU levels but the one of `ran`, which was told none.

    A run is left out that says that it was at another level: what starts the program may drop the
    variable, or be another processor.
    """
    if not levels:
        return
    own = None if ran.levels is None else chosen_level(levels, ran.levels)
    others = [level for level in levels if own is not None and level != own]
    for level in (BASELINE, *others):
        again = runner.run(level=level, threads=1)
        if again.levels is None or chosen_level(levels, again.levels) == level:
            yield level, again


def _lacking(levels: Sequence[str], ran: RunnerResult, others: Collection[str]) -> tuple[str, ...]:
    """CPU levels of a library at which nothing ran."""
    if not levels:
        return ()
    at = {chosen_level(levels, ran.levels or ()), *others}
    return tuple(level for level in (BASELINE, *levels) if level not in at)


def verified_threads(app: App) -> int:
    """With how many threads an app's models are run besides one: its own number, or 2 where this
    machine has fewer cores than that."""
    if app.threads == 1:
        return 1
    cores = usable_cores()
    wanted = cores if app.threads == CORES else app.threads
    return wanted if 2 <= wanted <= cores else 2
