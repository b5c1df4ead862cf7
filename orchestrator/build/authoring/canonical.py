"""Makes apps' models canonical: converts, compares, checks and prices each model, and writes them.

The models of an app are priced together: a rewrite is applied only if, by the index, a library for
all of them does not grow. A model that is refused does not stop the others: it stays as it is, and
its operators count for its app. Nothing is written before all models are converted.
"""

from __future__ import annotations

import hashlib
import math
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeVar

from orchestrator.build.tracing.trace import estimated
from orchestrator.build.workshop.invocation import Invocation
from orchestrator.build.workshop.loadable import require_loadable
from orchestrator.build.workshop.offers import other_offers
from orchestrator.build.workshop.runtime import Runtime
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
from orchestrator.canonical.pricing import Candidate, affordable, bringing
from orchestrator.canonical.programs import convert_program
from orchestrator.canonical.python import ExportPython, find_python
from orchestrator.errors import OrchestratorError, Place
from orchestrator.export.tolerances import TOLERANCES
from orchestrator.load.declared import App
from orchestrator.models.checks import (
    forbidden_operators,
    misfits,
    require_allowed,
    require_arguments,
)
from orchestrator.models.info import ModelInfo, read_model
from orchestrator.models.programs import ProgramInfo, read_program
from orchestrator.report.canonical import (
    CanonicalReport,
    CanonicalRow,
    OmittedRewrite,
    PricedApp,
    RefusedModel,
    RewriteLine,
    Shared,
    State,
)
from orchestrator.system.reading import parse_json
from orchestrator.values.config.app import ModelConfig
from orchestrator.values.operators import OperatorName
from orchestrator.verify.inputs import inputs_json
from orchestrator.verify.inputs_file import read_inputs_file

Kind = Literal["static", "traced", "exported"]
T = TypeVar("T")
# What was made, what the new model names, and the rewrites that were applied.
Attempt = tuple[T, ModelInfo, Sequence[Rewrite]]


class CanonicalPlaceError(OrchestratorError):
    """A canonical model's path is that of a model that an app declares."""


@dataclass(frozen=True)
class _Made:
    """A model and what was made of it.

    left       names of rewrites that were left out -> bytes that each would have cost
    forbidden  names of rewrites that were left out -> the operator that the app forbids
    """

    model: ModelConfig
    kind: Kind
    before: ModelInfo | ProgramInfo
    after: ModelInfo
    done: Converted
    left: Mapping[str, int]
    forbidden: Mapping[str, str]

    @property
    def roots(self) -> tuple[frozenset[OperatorName], frozenset[OperatorName]]:
        """Root operators of a library with the model, before and after: what a program named
        decides nothing, since no library loads it."""
        after = _names(self.after)
        return (_names(self.before) if isinstance(self.before, ModelInfo) else after), after

    @property
    def candidate(self) -> Candidate:
        return Candidate(self.model.name, self.roots, self.done.rewrites, self.left)


def canonical_apps(
    here: Invocation,
    apps: Sequence[App],
    *,
    python: str | None,
    write: bool,
    kind: Kind = "static",
) -> CanonicalReport:
    """Convert every model of the apps that app.yaml has a canonical one of, and where nothing is
    written those of which it says nothing, too.

    kind  how models are made canonical of which app.yaml does not say it
    Raises what finding a Python, pricing and writing raise. What is wrong with a model is in the
    report: the errors of converting, reading and checking it.
    """
    context = here.context
    for app in apps:
        for model in _chosen(app, write):
            _require_free(app, model, context.root)
    chosen = [app for app in apps if _chosen(app, write)]
    found = find_python(python, context.env, context.runner) if chosen else None
    priced = list[_Priced]()
    for app in chosen:
        assert found is not None
        priced.append(_Pricing(here, app, found, write, kind).priced())
    return CanonicalReport(
        rows=tuple(row for one in priced for row in one.rows()),
        apps=tuple(_shared(priced)),
        refused=tuple(refused for one in priced for refused in one.refused),
    )


def _chosen(app: App, write: bool) -> list[ModelConfig]:
    return [
        model
        for model in app.config.models
        if app.is_canonical(model) or not (write or app.declines_canonical(model))
    ]


@dataclass(frozen=True)
class _Priced:
    """An app whose models were converted.

    others   root operators of what was not converted, and of `extra`
    refused  models that stay as they are
    """

    here: Invocation
    runtime: Runtime
    app: App
    made: tuple[_Made, ...]
    others: frozenset[OperatorName]
    refused: tuple[RefusedModel, ...]
    write: bool

    def roots(self) -> tuple[frozenset[OperatorName], frozenset[OperatorName]]:
        """Root operators of all the app's models, before and after."""
        before = self.others.union(*(one.roots[0] for one in self.made))
        return before, self.others.union(*(one.roots[1] for one in self.made))

    def rows(self) -> Iterator[CanonicalRow]:
        """Yield the row of each converted model; write the model if `write` is set."""
        for one in self.made:
            yield _row(self.here, self.runtime, self.app, one, self.write)


class _Pricing:
    """Converts the models of an app, and again without what costs bytes."""

    def __init__(
        self, here: Invocation, app: App, python: ExportPython, write: bool, kind: Kind
    ) -> None:
        self.here, self.runtime, self.app = here, here.runtimes.of(app.name), app
        self.python, self.write, self.kind = python, write, kind
        self.models = {model.name: model for model in app.config.models}
        self.made: dict[tuple[str, frozenset[str]], _Made] = {}
        self.refused: list[RefusedModel] = []

    def priced(self) -> _Priced:
        chosen = _chosen(self.app, self.write)
        first = [one for model in chosen if (one := self._first(model)) is not None]
        converted = {one.model for one in first}
        others = frozenset(self.runtime.extra_operators(self.app)).union(
            *(
                _names(self._read(m))
                for m in self.models.values()
                if m.name not in converted and not m.is_program
            )
        )
        # What --write writes depends on what app.yaml declares alone; what it might declare as
        # well is priced beside that.
        declared = [one for one in first if self.app.is_canonical(self.models[one.model])]
        rest = [one for one in first if one not in declared]
        kept = self._affordable(declared, others.union(*(one.roots[0] for one in rest)))
        kept += self._affordable(rest, others.union(*(one.roots[1] for one in kept)))
        made = {one.model: self._left(one) for one in kept}
        return _Priced(
            here=self.here,
            runtime=self.runtime,
            app=self.app,
            made=tuple(made[model.name] for model in chosen if model.name in made),
            others=others,
            refused=tuple(self.refused),
            write=self.write,
        )

    def _first(self, model: ModelConfig) -> Candidate | None:
        """With all rewrites; None where the model is refused."""
        try:
            return self._candidate(model.name, {})
        except OrchestratorError as error:
            # without its operators its app cannot be priced
            if not model.is_program:
                self._read(model)
            self.refused.append(RefusedModel(self.app.name, model.name, error))
            return None

    def _affordable(
        self, candidates: Sequence[Candidate], others: frozenset[OperatorName]
    ) -> tuple[Candidate, ...]:
        return affordable(
            candidates, others, partial(estimated, self.here, self.runtime), self._candidate
        )

    def _left(self, one: Candidate) -> _Made:
        return replace(self.made[one.model, frozenset(one.left)], left=one.left)

    def _candidate(self, name: str, left: Mapping[str, int]) -> Candidate:
        made = self._converted(self.models[name], left)
        self.made[name, frozenset(left)] = made
        return made.candidate

    def _before(self, model: ModelConfig) -> ModelInfo | ProgramInfo:
        declared = self.app.model_path(model)
        if model.is_program:
            return read_program(declared, name=self._shown(declared))
        return self._read(model)

    def _read(self, model: ModelConfig) -> ModelInfo:
        declared = self.app.model_path(model)
        return read_model(declared, self.runtime.dialect.models, name=self._shown(declared))

    def _shown(self, path: Path) -> str:
        return path.relative_to(self.here.context.root).as_posix()

    def _converted(self, model: ModelConfig, left: Mapping[str, int]) -> _Made:
        """Without the rewrites in `left`, and those that bring an operator which the app forbids.

        Raises what converting, reading and checking raise.
        """
        said = self.app.canonical_kind(model)
        kind = self.kind if said == "off" else said
        before = self._before(model)

        def attempt(forbidden: Mapping[str, str]) -> Attempt[_Made]:
            done = self._convert(model, kind, {*left, *forbidden})
            after = _looked_at(self.here, self.runtime, self.app, model, before, done.made)
            made = _Made(model, kind, before, after, done, left, forbidden)
            return made, after, done.rewrites

        return permitted(attempt, left, self.app.config.forbid)

    def _convert(self, model: ModelConfig, kind: Kind, without: Collection[str]) -> Converted:
        app, context = self.app, self.here.context
        declared = app.model_path(model)
        again = f" without {', '.join(sorted(without))}" if without else ""
        self.here.log(f"converting //apps/{app.name}: {model.name}{again}")
        asked = (
            declared,
            self._shown(declared),
            model.name,
            self._inputs(model),
            self.runtime.version.version,
            TOLERANCES,
            self.python,
            context.env,
            context.runner,
        )
        if kind == "exported":
            return convert_program(*asked, without)
        return convert(*asked, kind, without, timed=True)

    def _inputs(self, model: ModelConfig) -> Sequence[Mapping[str, Any]] | None:
        """Read the declared inputs of a model; None if they are bundled in its file."""
        path = self.app.inputs_path(model)
        if path is None:
            return inputs_json(model.runs) or None
        methods = self._before(model).own_methods
        text = read_inputs_file(path, self._shown(path), methods)
        made: Sequence[Mapping[str, Any]] = parse_json(text)
        return made


def permitted(
    attempt: Callable[[Mapping[str, str]], Attempt[T]],
    left: Collection[str],
    forbid: Mapping[str, str],
) -> T:
    """Return the result of `attempt` without the rewrites that bring an operator which the app
    forbids.

    attempt  converts without the rewrites in `left` and in its argument: name -> operator
    Raises what an attempt raises, and ForbiddenOperatorError if no more rewrites can be left out.
    """
    forbidden: Mapping[str, str] = {}
    while True:
        made, info, rewrites = attempt(forbidden)
        found = forbidden_operators(info, forbid)
        # One that was applied although it is left out already would be left out for ever.
        applied = [row for row in rewrites if row.name not in {*left, *forbidden}]
        bring = bringing(applied, found.keys())
        if not bring:
            require_allowed(info, found, {})
            return made
        forbidden = {**forbidden, **bring}


def _names(info: ModelInfo | ProgramInfo) -> frozenset[OperatorName]:
    return frozenset(info.root_operators)


def _shared(priced: Sequence[_Priced]) -> Iterator[PricedApp]:
    """Yield each app's estimates of its library's size, and the apps with which it has more
    operators in common than before."""
    for one in priced:
        before, after = one.roots()
        others = [
            Shared(
                other.app.name,
                _share(before, other.roots()[0]),
                _share(after, other.roots()[1]),
            )
            for other in priced
            if other is not one and other.runtime.version.version == one.runtime.version.version
        ]
        yield PricedApp(
            app=one.app.name,
            before=len(before),
            after=len(after),
            library_before=estimated(one.here, one.runtime, before),
            library_after=estimated(one.here, one.runtime, after),
            shares=tuple(its for its in others if its.after > its.before),
        )


def _share(own: frozenset[str], other: frozenset[str]) -> float:
    return len(own & other) / len(own) if own else 0.0


def _row(here: Invocation, runtime: Runtime, app: App, made: _Made, write: bool) -> CanonicalRow:
    root, model, done = here.context.root, made.model, made.done
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
        library_before=estimated(here, runtime, made.roots[0]),
        library_after=estimated(here, runtime, _names(made.after)),
        largest=lock.largest,
        compared=sum(call.result in ("same", "flat", "too small") for call in done.comparison),
        proving_little=sum(call.result in ("flat", "too small") for call in done.comparison),
        not_taken=sum(call.result == "not taken" for call in done.comparison),
        unsteady=sum(call.result == "differs by itself" for call in done.comparison),
        rewrites=tuple(map(rewrite_line, done.rewrites)),
        left=omitted(made.left, made.forbidden),
        microseconds=done.microseconds,
        notes=done.notes,
    )


def rewrite_line(row: Rewrite) -> RewriteLine:
    """A rewrite as reports have it."""
    return RewriteLine(row.name, row.old, row.new, row.calls, row.why)


def omitted(left: Mapping[str, int], forbidden: Mapping[str, str]) -> tuple[OmittedRewrite, ...]:
    """Rewrites that were left out, for their bytes or for an operator; by name."""
    return tuple(
        OmittedRewrite(name, left.get(name, 0), forbidden.get(name))
        for name in sorted({*left, *forbidden})
    )


def _looked_at(
    here: Invocation,
    runtime: Runtime,
    app: App,
    model: ModelConfig,
    before: ModelInfo | ProgramInfo,
    made: bytes,
) -> ModelInfo:
    """The new file's facts. Raises what orchestrator.models raises of it: torch is newer than the
    runtime."""
    version = runtime.version
    with tempfile.TemporaryDirectory(prefix="orchestrator-") as folder:
        file = Path(folder, "canonical.ptl")
        file.write_bytes(made)
        shown = canonical_path(app, model).relative_to(here.context.root).as_posix()
        info = read_model(file, runtime.dialect.models, name=shown)
    others = other_offers(here.workspace, version.version)
    require_loadable(
        info, runtime.kernels, version, others, app.place.file, runtime.own_classes, canonical=True
    )
    # calls that the runtime cannot make, and that were not there before
    there = set()
    if isinstance(before, ModelInfo):
        there = {misfit.operator for misfit in misfits(before, runtime.arguments)}
    new = {*info.root_operators} - there
    require_arguments(misfits(info, runtime.arguments), new, info.place, version.version)
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
        exporter=made.before.torch if isinstance(made.before, ProgramInfo) else None,
        worker=worker_digest(programs=made.kind == "exported"),
        folded=done.folded,
        largest=rounded_up(done.largest),
        operators=Operators(
            before=made.before.root_operators,
            after=made.after.root_operators,
        ),
        rewrites=done.rewrites,
        left=tuple(sorted({*made.left, *made.forbidden})) or None,
        notes=done.notes or None,
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
    """Compare a converted model with the file at its path, and return what the command does with
    it."""
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
