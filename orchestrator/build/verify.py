"""Verifies what lies in dist/: every model of an app in its delivered library."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from orchestrator.build.links import library_name
from orchestrator.build.session import Session
from orchestrator.deliver.delivered import read_delivery
from orchestrator.errors import OrchestratorError, Place
from orchestrator.load.declared import App
from orchestrator.trace.lock import read_lock, read_runs
from orchestrator.values.config import CORES, ModelConfig
from orchestrator.values.labels import Label
from orchestrator.values.trace import Trace
from orchestrator.verify.model_runner import run_driver
from orchestrator.verify.verdict import (
    DriverRun,
    VerifyResult,
    at_levels,
    not_run,
    verify,
    with_threads,
)


class NotBuiltError(OrchestratorError):
    """A variant has not been built here."""


class OtherDeliveryError(OrchestratorError):
    """A whole delivery, right in itself, lies in another variant's folder."""


def read_traces(session: Session, app: App) -> tuple[Trace, ...]:
    """The committed traces of an app, checked to be current and of what the runtime has.

    Raises TraceMissingError, TraceStaleError, TraceDamagedError, TraceMisplacedError,
    TraceUnknownError.
    """
    on = session.of(app.name)
    runtimes = {pin.tree: name for name, pin in session.workspace.config.pins.items()}
    return tuple(
        read_lock(
            app.folder,
            model.name,
            on.trace_identity(app, model),
            f"//apps/{app.name}",
            session.context.root,
            on.vocabulary,
            runtimes,
        )
        for model in app.config.models
    )


def verify_delivered(session: Session, label: Label) -> tuple[VerifyResult, ...]:
    """Verify `dist/<app>/<abi>/`: that its files are those of its manifest, then that models run.

    Raises NotBuiltError where there is nothing to verify, UnreadableManifestError,
    ChangedDeliveryError, OtherDeliveryError.
    """
    assert label.abi is not None
    app = session.workspace.apps[label.app]
    toolchain = session.toolchain(label.abi)
    name = f"lib{library_name(label.app)}.{'so' if toolchain.links_shared else 'a'}"
    folder = session.context.dist / label.app / label.abi
    library = folder / "lib" / name
    driver = driver_path(session, label)
    for path in (library,) if toolchain.config.run == "none" else (library, driver):
        if not path.is_file():
            raise NotBuiltError(
                f"{label} has not been built in this workspace",
                seen=f"no {path.name}",
                hint=f"run: ./orchestrate build {label}",
            )
    manifest = read_delivery(folder).manifest
    if (manifest.app, manifest.abi) != (label.app, label.abi):
        raise OtherDeliveryError(
            "the delivered folder is of another variant",
            place=Place(str(folder)),
            expected=str(label),
            seen=f"//apps/{manifest.app}:{manifest.abi}",
            hint=f"build the variant again: ./orchestrate build {label}",
        )
    levels = session.of(label.app).cpu_levels(label.abi) if manifest.kernels is not None else ()
    traces = read_traces(session, app)
    return verify_library(session, app, label.abi, traces, driver, library, levels)


def driver_path(session: Session, label: Label) -> Path:
    """The driver that was linked against a variant's shared library."""
    return session.context.state / "variants" / label.app / str(label.abi) / "driver"


def verify_library(
    session: Session,
    app: App,
    abi: str,
    traces: Iterable[Trace],
    driver: Path,
    library: Path,
    levels: Iterable[str],
) -> tuple[VerifyResult, ...]:
    """Run every model of the app in `library` and compare with the traces' recorded runs: with what
    this processor has, and at the lower `levels` that the library can choose; with one thread, and
    with several where the app has them."""
    threads = verified_threads(app)
    running = session.running(abi)
    results = []
    for model, trace in zip(app.config.models, traces, strict=True):
        if running.prefix is None:
            results.append(not_run(model.name, running.why_not))
            continue
        expected = read_runs(app.folder, trace, session.context.root)
        env = {**session.context.env, "LD_LIBRARY_PATH": str(library.parent)}
        runner = _Runner([*running.prefix, str(driver)], app.model_path(model), model, env)
        one = verify(model.name, expected, runner.run(threads=1))
        others = {
            level: verify(model.name, expected, runner.run(level=level, threads=1))
            for level in levels
        }
        result = at_levels(one, others)
        if threads > 1:
            several = verify(model.name, expected, runner.run(threads=threads))
            result = with_threads(result, threads, several)
        results.append(result)
    return tuple(results)


@dataclass(frozen=True)
class _Runner:
    """The driver with one model."""

    argv: Sequence[str]
    file: Path
    model: ModelConfig
    env: Mapping[str, str]

    def run(self, *, level: str | None = None, threads: int | None = None) -> DriverRun:
        return run_driver(self.argv, self.file, self.model, self.env, level=level, threads=threads)


def verified_threads(app: App) -> int:
    """With how many threads an app's models are run besides one: its own number, or 2 where this
    machine has fewer cores than that."""
    if app.threads == 1:
        return 1
    cores = len(os.sched_getaffinity(0))
    wanted = cores if app.threads == CORES else app.threads
    return wanted if 2 <= wanted <= cores else 2
