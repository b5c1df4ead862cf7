"""Makes apps' models canonical: converts, compares, checks and prices each model, and writes it.

The models of an app are priced together: a rewrite is applied only if, by the index, a library for
all of them does not grow.
"""

from __future__ import annotations

import hashlib
import math
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from orchestrator.build.session import RuntimeSession, Session, require_loadable
from orchestrator.build.trace import estimated
from orchestrator.canonical.convert import Converted, convert, worker_digest
from orchestrator.canonical.lock import (
    DECLARED,
    CanonicalLock,
    Operators,
    Rewrite,
    canonical_path,
    is_written,
    write_canonical,
)
from orchestrator.canonical.pricing import Candidate, affordable
from orchestrator.canonical.python import ExportPython, find_python
from orchestrator.errors import OrchestratorError, Place
from orchestrator.export.tolerances import TOLERANCES
from orchestrator.load.declared import App
from orchestrator.models.checks import misfits, require_arguments
from orchestrator.models.info import ModelInfo, read_model
from orchestrator.report.canonical import (
    CanonicalReport,
    CanonicalRow,
    OmittedRewrite,
    PricedApp,
    RewriteLine,
    Shared,
    State,
)
from orchestrator.values.config import ModelConfig
from orchestrator.verify.inputs import inputs_json

Kind = Literal["static", "traced"]


class CanonicalPlaceError(OrchestratorError):
    """Where a canonical model belongs there is a model that an app declares."""


@dataclass(frozen=True)
class _Made:
    """A model and what was made of it."""

    model: ModelConfig
    kind: Kind
    before: ModelInfo
    after: ModelInfo
    done: Converted
    left: Mapping[str, int]

    @property
    def candidate(self) -> Candidate:
        roots = (_names(self.before), _names(self.after))
        return Candidate(self.model.name, roots, self.done.rewrites, self.left)


def canonical_apps(
    session: Session,
    apps: Sequence[App],
    *,
    python: str | None,
    write: bool,
    kind: Kind = "static",
) -> CanonicalReport:
    """Convert every model of the apps that app.yaml has a canonical one of, and where nothing is
    written the others too.

    kind  how models are made canonical of which app.yaml does not say it
    Raises what finding a Python, converting, reading models and writing raise.
    """
    context = session.context
    for app in apps:
        for model in _chosen(app, write):
            _require_free(app, model, context.root)
    chosen = [app for app in apps if _chosen(app, write)]
    found = find_python(python, context.env, context.runner) if chosen else None
    rows, priced = list[CanonicalRow](), list[_Priced]()
    for app in chosen:
        assert found is not None
        one = _Pricing(session, app, found, write, kind).priced()
        rows += one.rows()
        priced.append(one)
    return CanonicalReport(tuple(rows), tuple(_shared(priced)))


def _chosen(app: App, write: bool) -> list[ModelConfig]:
    return [model for model in app.config.models if app.is_canonical(model) or not write]


@dataclass(frozen=True)
class _Priced:
    """An app whose models were converted.

    others  root operators of what was not converted, and of `extra`
    """

    session: RuntimeSession
    app: App
    made: tuple[_Made, ...]
    others: frozenset[str]
    write: bool

    def roots(self) -> tuple[frozenset[str], frozenset[str]]:
        """Of all models, before and after."""
        before = self.others.union(*(_names(one.before) for one in self.made))
        return before, self.others.union(*(_names(one.after) for one in self.made))

    def rows(self) -> Iterator[CanonicalRow]:
        for one in self.made:
            yield _row(self.session, self.app, one, self.write)


class _Pricing:
    """Converts the models of an app, and again without what costs bytes."""

    def __init__(
        self, session: Session, app: App, python: ExportPython, write: bool, kind: Kind
    ) -> None:
        self.all, self.session, self.app = session, session.of(app.name), app
        self.python, self.write, self.kind = python, write, kind
        self.models = {model.name: model for model in _chosen(app, write)}
        self.made: dict[tuple[str, frozenset[str]], _Made] = {}

    def priced(self) -> _Priced:
        others = frozenset(self.session.extra_operators(self.app)).union(
            *(
                _names(self.session.model(self.app, model))
                for model in self.app.config.models
                if model.name not in self.models
            )
        )
        first = [self._candidate(name, {}) for name in self.models]
        chosen = affordable(
            first, others, lambda roots: estimated(self.session, roots), self._candidate
        )
        made = tuple(
            replace(self.made[one.model, frozenset(one.left)], left=one.left) for one in chosen
        )
        return _Priced(self.session, self.app, made, others, self.write)

    def _candidate(self, name: str, left: Mapping[str, int]) -> Candidate:
        made = self._converted(self.models[name], left)
        self.made[name, frozenset(left)] = made
        return made.candidate

    def _converted(self, model: ModelConfig, left: Mapping[str, int]) -> _Made:
        app, context = self.app, self.session.context
        said = app.canonical_kind(model)
        kind = self.kind if said == "off" else said
        declared = app.model_path(model)
        shown = declared.relative_to(context.root).as_posix()
        again = f" without {', '.join(sorted(left))}" if left else ""
        self.all.log(f"converting //apps/{app.name}: {model.name}{again}")
        before = read_model(declared, self.session.runtime.dialect.models, name=shown)
        done = convert(
            declared,
            shown,
            model.name,
            None if model.inputs == "bundled" else inputs_json(model.inputs),
            self.session.runtime.version.version,
            TOLERANCES,
            self.python,
            context.env,
            context.runner,
            kind,
            left,
        )
        after = _looked_at(self.session, app, model, before, done.made)
        return _Made(model, kind, before, after, done, left)


def _names(info: ModelInfo) -> frozenset[str]:
    return frozenset(map(str, info.root_operators))


def _shared(priced: Sequence[_Priced]) -> Iterator[PricedApp]:
    """Of each app its library's estimate, and the apps that have more of its operators now."""
    for one in priced:
        before, after = one.roots()
        others = [
            Shared(
                other.app.name,
                _share(before, other.roots()[0]),
                _share(after, other.roots()[1]),
            )
            for other in priced
            if other is not one
            and other.session.runtime.version.version == one.session.runtime.version.version
        ]
        yield PricedApp(
            app=one.app.name,
            before=len(before),
            after=len(after),
            library_before=estimated(one.session, before),
            library_after=estimated(one.session, after),
            shares=tuple(its for its in others if its.after > its.before),
        )


def _share(own: frozenset[str], other: frozenset[str]) -> float:
    return len(own & other) / len(own) if own else 0.0


def _row(session: RuntimeSession, app: App, made: _Made, write: bool) -> CanonicalRow:
    root, model, done = session.context.root, made.model, made.done
    bundled = model.inputs == "bundled"
    lock = _lock(app, made)
    state = _state(app, model, lock, write, root)
    if state == "written":
        write_canonical(app, model, lock, done.made, done.inputs if bundled else None)
    return CanonicalRow(
        app=app.name,
        model=model.name,
        file=canonical_path(app, model).relative_to(root).as_posix(),
        kind=made.kind,
        state=state,
        torch=done.torch,
        before=lock.operators.before,
        after=lock.operators.after,
        bytes_before=made.before.size,
        bytes_after=made.after.size,
        library_before=estimated(session, _names(made.before)),
        library_after=estimated(session, _names(made.after)),
        largest=lock.largest,
        compared=sum(call.result == "same" for call in done.comparison),
        not_taken=sum(call.result == "not taken" for call in done.comparison),
        unsteady=sum(call.result == "differs by itself" for call in done.comparison),
        rewrites=tuple(map(_line, done.rewrites)),
        left=tuple(OmittedRewrite(name, size) for name, size in sorted(made.left.items())),
    )


def _line(row: Rewrite) -> RewriteLine:
    return RewriteLine(row.name, row.old, row.new, row.calls, row.why)


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
    require_loadable(
        info, session.kernels, version, others, app.place.file, session.own_classes, canonical=True
    )
    # calls that the runtime cannot make, and that were not there before
    there = {misfit.operator for misfit in misfits(before, session.arguments)}
    new = {str(operator) for operator in info.root_operators} - there
    require_arguments(misfits(info, session.arguments), new, info.place, version.version)
    return info


def _lock(app: App, made: _Made) -> CanonicalLock:
    model, done = made.model, made.done
    bundled = model.inputs == "bundled"
    return CanonicalLock(
        format=1,
        app=app.name,
        model=model.name,
        kind=made.kind,
        original=made.before.sha256,
        canonical=hashlib.sha256(done.made).hexdigest(),
        inputs=hashlib.sha256(done.inputs).hexdigest() if bundled else DECLARED,
        torch=done.torch,
        worker=worker_digest(),
        folded=done.folded,
        largest=rounded_up(done.largest),
        operators=Operators(
            before=tuple(map(str, made.before.root_operators)),
            after=tuple(map(str, made.after.root_operators)),
        ),
        rewrites=done.rewrites,
        left=tuple(sorted(made.left)) or None,
        comparison=tuple(
            call.model_copy(
                update={"largest": None if call.largest is None else rounded_up(call.largest)}
            )
            for call in done.comparison
        ),
    )


def rounded_up(number: float) -> float:
    """A difference rounded up to one significant digit: 0.00123 gives 0.002, and 0 stays 0.

    Further digits depend on the processor that compared, and a committed lock must not.
    """
    if number == 0:
        return 0.0
    power = math.floor(math.log10(number))
    return float(f"{math.ceil(number / 10.0**power)}e{power}")


def _state(app: App, model: ModelConfig, lock: CanonicalLock, write: bool, root: Path) -> State:
    """What becomes of what was made, by what is there."""
    if not app.is_canonical(model):
        return "unused"
    # whatever is wrong with what is there, it is written again
    if is_written(app, model, lock, root):
        return "current"
    return "written" if write else "differs"


def _require_free(app: App, model: ModelConfig, root: Path) -> None:
    path = canonical_path(app, model)
    if any(app.model_path(other) == path for other in app.config.models):
        raise CanonicalPlaceError(
            f"the canonical model of {model.name} would overwrite a declared one",
            place=Place(path.relative_to(root).as_posix()),
            hint="rename the declared file, or give the model another `name`",
        )
