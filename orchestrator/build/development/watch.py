"""Runs an app's models whenever one is saved, and says what differs from the run before.

A round loads the declarations anew, since they may change as models do. What fails in a round
is reported, and the next change is waited for: an exporter is a program that somebody is writing.
"""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from orchestrator.build.development.development import NoDevelopmentLibraryError
from orchestrator.build.development.run import RanModel
from orchestrator.build.development.subject import Subject, app_subject, file_subject, readable_lock
from orchestrator.build.workshop.invocation import Invocation
from orchestrator.build.workshop.runtime import Runtime
from orchestrator.canonical.lock import files_of
from orchestrator.errors import OrchestratorError
from orchestrator.load.declared import App
from orchestrator.load.sources import files_on_disk
from orchestrator.trace.lock import lock_path
from orchestrator.values.config.app import PROGRAM_SUFFIX, ModelConfig

# Runs a subject in the development library of a runtime.
Run = Callable[[Invocation, Runtime, Subject], RanModel]


@dataclass(frozen=True)
class Round:
    """Result of one model in a round: its run, or the error."""

    model: str
    ran: RanModel | None
    error: OrchestratorError | None = None


@dataclass(frozen=True)
class Watched:
    """Files whose change starts another round: fixed files, and those that an app's `sources` name.

    app: its last declaration; None for a model's file
    """

    fixed: frozenset[Path] = frozenset()
    app: App | None = None

    def files(self) -> frozenset[Path]:
        """The files, as far as they are there: a source that is added, and one that cannot be read
        as what it should be, are among them."""
        return self.fixed if self.app is None else self.fixed | files_on_disk(self.app)


def watched(
    here: Invocation, app: App | None, model: Path | None, inputs: Sequence[Path]
) -> Watched:
    """The files whose changes make another round: an app's declaration, the files of its models,
    canonical ones included, and its own sources; or one model; and those of the inputs."""
    given = frozenset(path.absolute() for path in inputs)
    if app is None:
        assert model is not None
        return Watched(given | {model})
    models = (path for one in app.config.models for path in files_of(app, one))
    return Watched(given | {here.context.root / app.place.file, *models}, app)


def is_traced(here: Invocation, app: App) -> bool:
    """True if an app has a current lock of each of its models. Raises what hashing a model's files
    raises."""
    for model in app.config.models:
        lock = readable_lock(lock_path(app.folder, model.name))
        if lock is None or lock.identity != here.models.trace_identity(app, model):
            return False
    return True


def is_whole(path: Path) -> bool:
    """True unless a file is still being written: a model is an archive, whose directory is at its
    end."""
    if path.suffix not in (".ptl", PROGRAM_SUFFIX):
        return True
    try:
        return zipfile.is_zipfile(path)
    except OSError:
        return False


def app_round(
    here: Invocation,
    app: App,
    changed: Collection[Path] | None,
    inputs: Sequence[Path],
    run: Run,
) -> Iterator[Round]:
    """Run an app's models: those whose files changed, or all where something else did.

    changed: None for the first round. Raises NoDevelopmentLibraryError.
    """
    files = {model.name: frozenset(files_of(app, model)) for model in app.config.models}
    theirs = frozenset[Path]().union(*files.values())
    one_by_one = changed is not None and theirs.issuperset(changed)
    for model in app.config.models:
        if changed is not None and one_by_one and files[model.name].isdisjoint(changed):
            continue
        yield _round(model.name, partial(_run_of_app, here, app, model, inputs, run))


def _run_of_app(
    here: Invocation, app: App, model: ModelConfig, inputs: Sequence[Path], run: Run
) -> RanModel:
    subject = app_subject(here, app, model, inputs)
    return run(here, here.runtimes.of(app.name), subject)


def file_round(
    here: Invocation,
    runtime: str,
    model: Path,
    inputs: Sequence[Path],
    run: Run,
) -> Iterator[Round]:
    """Run a model's file in a runtime, by its name. Raises NoDevelopmentLibraryError."""
    yield _round(model.stem, partial(_run_of_file, here, runtime, model, inputs, run))


def _run_of_file(
    here: Invocation, name: str, model: Path, inputs: Sequence[Path], run: Run
) -> RanModel:
    runtime = here.runtimes.on(name)
    subject = file_subject(here, runtime, model, inputs)
    return run(here, here.runtimes.with_shipped(runtime, subject.roots), subject)


def _round(name: str, run: Callable[[], RanModel]) -> Round:
    """Raises NoDevelopmentLibraryError; any other error is the round's."""
    try:
        return Round(name, run())
    except NoDevelopmentLibraryError:
        raise
    except OrchestratorError as error:
        return Round(name, None, error)
