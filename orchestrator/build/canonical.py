"""Makes apps' models canonical: each is converted, compared, checked as any model, written."""

from __future__ import annotations

import hashlib
import math
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from orchestrator.build.session import RuntimeSession, Session, require_loadable
from orchestrator.build.trace import estimated
from orchestrator.canonical.convert import Converted, convert, worker_digest
from orchestrator.canonical.lock import (
    DECLARED,
    CanonicalLock,
    Operators,
    canonical_path,
    read_lock,
    shipped_model,
    write_canonical,
)
from orchestrator.canonical.python import ExportPython, find_python
from orchestrator.errors import OrchestratorError, Place
from orchestrator.load.declared import App
from orchestrator.models.checks import misfits, require_arguments
from orchestrator.models.info import ModelInfo, read_model
from orchestrator.report.canonical import CanonicalRow, RewriteLine, State
from orchestrator.values.config import ModelConfig
from orchestrator.verify.compare import tolerances
from orchestrator.verify.inputs import inputs_json


class CanonicalPlaceError(OrchestratorError):
    """Where a canonical model belongs there is a model that an app declares."""


def canonical_apps(
    session: Session, apps: Sequence[App], *, python: str | None, write: bool
) -> Iterator[CanonicalRow]:
    """Convert every model of the apps that `canonical: static` holds for, and of the others too
    where nothing is written.

    Raises what finding a Python, converting, reading models and writing raise.
    """
    context = session.context
    chosen = [
        (app, model)
        for app in apps
        for model in app.config.models
        if app.is_canonical(model) or not write
    ]
    found: ExportPython | None = None
    for app, model in chosen:
        _require_free(app, model, context.root)
        found = found or find_python(python, context.env, context.runner)
        session.say(f"converting //apps/{app.name}: {model.name}")
        yield _converted(session.of(app.name), app, model, found, write)


def _converted(
    session: RuntimeSession, app: App, model: ModelConfig, python: ExportPython, write: bool
) -> CanonicalRow:
    context, root = session.context, session.context.root
    declared = app.model_path(model)
    shown = declared.relative_to(root).as_posix()
    before = read_model(declared, session.runtime.dialect.models, name=shown)
    bundled = model.inputs == "bundled"
    done = convert(
        declared,
        shown,
        model.name,
        None if model.inputs == "bundled" else inputs_json(model.inputs),
        tolerances(),
        python,
        context.env,
        context.runner,
    )
    after = _looked_at(session, app, model, before, done.made)
    lock = _lock(app, model, before, after, done)
    state = _state(app, model, lock, write, root)
    if state == "written":
        write_canonical(app, model, lock, done.made, done.inputs if bundled else None)
    roots = [frozenset(map(str, info.root_operators)) for info in (before, after)]
    return CanonicalRow(
        app=app.name,
        model=model.name,
        file=canonical_path(app, model).relative_to(root).as_posix(),
        state=state,
        torch=done.torch,
        before=lock.operators.before,
        after=lock.operators.after,
        bytes_before=before.size,
        bytes_after=after.size,
        library_before=estimated(session, roots[0]),
        library_after=estimated(session, roots[1]),
        largest=lock.largest,
        compared=sum(call.result == "same" for call in done.comparison),
        not_taken=sum(call.result == "not taken" for call in done.comparison),
        unsteady=sum(call.result == "differs by itself" for call in done.comparison),
        rewrites=tuple(RewriteLine(r.name, r.old, r.new, r.calls, r.why) for r in done.rewrites),
    )


def _looked_at(
    session: RuntimeSession, app: App, model: ModelConfig, before: ModelInfo, made: bytes
) -> ModelInfo:
    """The new file's facts. Raises what orchestrator.models raises of it: torch is newer than the
    runtime."""
    version = session.runtime.version
    with tempfile.TemporaryDirectory(prefix="orchestrator-") as folder:
        file = Path(folder, "canonical.ptl")
        file.write_bytes(made)
        shown = canonical_path(app, model).relative_to(session.context.root).as_posix()
        info = read_model(file, session.runtime.dialect.models, name=shown)
    others = session.other_offers(version.version)
    own = session.own_classes
    require_loadable(info, session.kernels, version, others, app.place.file, own)
    # calls that the runtime cannot make, and that were not there before
    there = {misfit.operator for misfit in misfits(before, session.arguments)}
    new = {str(operator) for operator in info.root_operators} - there
    require_arguments(misfits(info, session.arguments), new, info.place, version.version)
    return info


def _lock(
    app: App, model: ModelConfig, before: ModelInfo, after: ModelInfo, done: Converted
) -> CanonicalLock:
    bundled = model.inputs == "bundled"
    return CanonicalLock(
        format=1,
        app=app.name,
        model=model.name,
        kind="static",
        original=before.sha256,
        canonical=hashlib.sha256(done.made).hexdigest(),
        inputs=hashlib.sha256(done.inputs).hexdigest() if bundled else DECLARED,
        torch=done.torch,
        worker=worker_digest(),
        folded=done.folded,
        largest=rounded_up(done.largest),
        operators=Operators(
            before=tuple(map(str, before.root_operators)),
            after=tuple(map(str, after.root_operators)),
        ),
        rewrites=done.rewrites,
        comparison=tuple(
            call.model_copy(
                update={"largest": None if call.largest is None else rounded_up(call.largest)}
            )
            for call in done.comparison
        ),
    )


def rounded_up(number: float) -> float:
    """To one digit: on another processor the last ones are others."""
    if number == 0:
        return 0.0
    power = math.floor(math.log10(number))
    return float(f"{math.ceil(number / 10.0**power)}e{power}")


def _state(app: App, model: ModelConfig, lock: CanonicalLock, write: bool, root: Path) -> State:
    """What becomes of what was made, by what is there."""
    if not app.is_canonical(model):
        return "unused"
    try:
        shipped_model(app, model, root)
        if read_lock(app, model, root) == lock:
            return "current"
    except OrchestratorError:
        # whatever is wrong with it, it is written again
        pass
    return "written" if write else "differs"


def _require_free(app: App, model: ModelConfig, root: Path) -> None:
    path = canonical_path(app, model)
    if any(app.model_path(other) == path for other in app.config.models):
        raise CanonicalPlaceError(
            f"the canonical model of {model.name} would take the place of a declared one",
            place=Place(path.relative_to(root).as_posix()),
            hint="rename the declared file, or give the model another `name`",
        )
