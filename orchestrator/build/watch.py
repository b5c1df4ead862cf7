"""Runs an app's models whenever one is saved, and says what differs from the run before.

A round has a session of its own, since declarations may change as models do. What fails in a round
is reported, and the next change is waited for: an exporter is a program that somebody is writing.
"""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from orchestrator.build.development import NoDevelopmentLibraryError
from orchestrator.build.elementwise import all_sources
from orchestrator.build.run import RanModel
from orchestrator.build.session import RuntimeSession, Session
from orchestrator.build.subject import Subject, app_subject, file_subject
from orchestrator.errors import OrchestratorError
from orchestrator.load.declared import App
from orchestrator.values.config import ModelConfig

# Runs a subject in a session.
Run = Callable[[RuntimeSession, Subject], RanModel]


@dataclass(frozen=True)
class Round:
    """What one model did in a round: how it ran, or why not."""

    model: str
    ran: RanModel | None
    error: OrchestratorError | None = None


def watched_files(session: Session, app: App | None, model: Path | None) -> tuple[Path, ...]:
    """The files whose changes make another round: an app's models, its declaration and its own
    sources; or one model."""
    if app is None:
        assert model is not None
        return (model,)
    files = {session.context.root / app.place.file, *map(app.model_path, app.config.models)}
    with suppress(OrchestratorError):
        sources = all_sources(app)
        if sources is not None:
            generated = sources.generated
            files |= {app.folder / generated.get(path, path) for path in sources.texts}
    return tuple(sorted(files))


def is_whole(path: Path) -> bool:
    """Whether a file is not one that is still being written: a model is an archive, whose end says
    so."""
    if path.suffix != ".ptl":
        return True
    try:
        return zipfile.is_zipfile(path)
    except OSError:
        return False


def app_round(
    session: Session,
    app: App,
    changed: Collection[Path] | None,
    inputs: Sequence[Path],
    run: Run,
) -> Iterator[Round]:
    """Run an app's models: those whose files changed, or all where something else did.

    changed: None for the first round. Raises NoDevelopmentLibraryError.
    """
    paths = {app.model_path(model): model for model in app.config.models}
    models = list(app.config.models)
    if changed is not None and paths.keys() >= frozenset(changed):
        models = [model for path, model in paths.items() if path in changed]
    for model in models:
        yield _round(model.name, partial(_run_of_app, session, app, model, inputs, run))


def _run_of_app(
    session: Session, app: App, model: ModelConfig, inputs: Sequence[Path], run: Run
) -> RanModel:
    return run(session.of(app.name), app_subject(session, app, model, inputs))


def file_round(
    on: RuntimeSession,
    model: Path,
    inputs: Sequence[Path],
    run: Run,
) -> Iterator[Round]:
    """Run a model's file. Raises NoDevelopmentLibraryError."""
    yield _round(model.stem, lambda: run(on, file_subject(on, model, inputs)))


def _round(name: str, run: Callable[[], RanModel]) -> Round:
    """Raises NoDevelopmentLibraryError; any other error is the round's."""
    try:
        return Round(name, run())
    except NoDevelopmentLibraryError:
        raise
    except OrchestratorError as error:
        return Round(name, None, error)
