"""Exports a PyTorch module into an app: an existing one, or a new one with only that model."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Literal

from orchestrator.build.authoring.add_app import AppRequest, add_app
from orchestrator.build.authoring.canonical import Attempt, omitted, permitted, rewrite_line
from orchestrator.build.tracing.trace import estimated
from orchestrator.build.workshop.invocation import Invocation
from orchestrator.build.workshop.loadable import require_loadable
from orchestrator.build.workshop.offers import other_offers
from orchestrator.build.workshop.runtime import Runtime
from orchestrator.canonical.exporting import ExportResult, ModuleRequest, export_module
from orchestrator.canonical.pricing import Candidate, affordable
from orchestrator.canonical.python import ExportPython, find_python
from orchestrator.errors import OrchestratorError, Place
from orchestrator.export.tolerances import TOLERANCES
from orchestrator.load.declared import App
from orchestrator.load.validate import raise_all
from orchestrator.models.info import ModelInfo, read_model
from orchestrator.report.canonical import OmittedRewrite, RewriteLine
from orchestrator.system.staging import write_bytes
from orchestrator.system.workspace_lock import workspace_lock
from orchestrator.values.config.app import InputRun, ModelConfig
from orchestrator.values.config.forms import NAME, PATTERN_WORDS
from orchestrator.values.labels import AppLabel
from orchestrator.values.operators import OperatorName
from orchestrator.verify.inputs import inputs_json
from orchestrator.verify.inputs_file import inputs_file

# How often a module is exported so that its app's PyTorch has all operators.
_MOST_ROUNDS = 3
_MODULE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")


class ModuleNameError(OrchestratorError):
    """A text names no attribute of a Python module."""


class ExportedTwiceError(OrchestratorError):
    """A model that is to be made canonical of its TorchScript, which an exported one has not."""


class ModelNameError(OrchestratorError):
    """A model cannot have this name."""


@dataclass(frozen=True)
class ModelExport:
    """Request for an export of a module.

    name      of the model; None for the module's last word in lower case
    inputs    `package:attribute`, or None for `runs`
    via       the way that the module takes: `any` is torch.export, or a script where that refuses
    methods   method -> `package:attribute` of its calls
    dynamic, fixed  dimensions: `tokens:1=2..512`
    paths     folders to import from, before the current one and the workspace's root
    """

    module: str
    name: str | None = None
    weights: Path | None = None
    inputs: str | None = None
    runs: Sequence[InputRun] = ()
    via: Literal["export", "script", "trace", "any"] = "any"
    fixed_sizes: bool = False
    methods: Mapping[str, str] = field(default_factory=dict)
    dynamic: Sequence[str] = ()
    fixed: Sequence[str] = ()
    canonical: bool = True
    paths: Sequence[Path] = ()
    python: str | None = None


@dataclass(frozen=True)
class ExportedModel:
    """Result of an export. `file` and `inputs` are relative to the workspace; `declared`, `fed`:
    whether the app's app.yaml has the model, and inputs for it; `created`: whether the app is new;
    `rewrites`, `left`: rewrites that were applied, and those that were not."""

    app: str
    file: str
    inputs: str
    info: ModelInfo
    result: ExportResult
    created: bool
    declared: bool
    fed: bool
    rewrites: tuple[RewriteLine, ...]
    left: tuple[OmittedRewrite, ...]


@dataclass(frozen=True)
class _Exported:
    """left, forbidden: rewrites that were left out -> bytes that each would cost, or the operator
    that the app forbids."""

    data: bytes
    inputs: bytes
    info: ModelInfo
    result: ExportResult
    left: Mapping[str, int]
    forbidden: Mapping[str, str]


def export_model(here: Invocation, app: str, asked: ModelExport, cwd: Path) -> ExportedModel:
    """Export a module to `apps/<app>/models/<name>.ptl`, where the app has its models.

    The model is what the runtime of the app loads, or nothing is written. It is made canonical as
    `canonical_apps` does it: without the rewrites that make the app's library larger, and without
    those that bring an operator which the app forbids.
    Raises the errors of this module, of orchestrator.canonical, of reading models and `add_app`.
    """
    name = _name(asked)
    for text in filter(None, (asked.module, asked.inputs, *asked.methods.values())):
        _require_name(text)
    workspace, context = here.workspace, here.context
    raise_all(workspace.broken.get(app, ()))
    there, config = workspace.apps.get(app), workspace.config
    chosen = config.default_runtime if there is None else there.runtime
    if there is not None:
        _require_off(there, name)
    python = find_python(asked.python, context.env, context.runner)
    here.log(f"exporting {asked.module} by torch {python.torch}")
    request = ModuleRequest(
        module=asked.module,
        name=name,
        weights=None if asked.weights is None else cwd / asked.weights,
        inputs=asked.inputs,
        declared=inputs_json(asked.runs),
        compiled=asked.via,
        canonical="static" if asked.canonical else "off",
        sizes="fixed" if asked.fixed_sizes else "any",
        pytorch=config.pins[chosen].pytorch,
        paths=[*(cwd / path for path in asked.paths), cwd, context.root],
        methods=asked.methods,
        dynamic=asked.dynamic,
        fixed=asked.fixed,
    )
    with _places_below(context.root):
        made = _Exporting(here, chosen, there, request, python).priced()
    its = (made.result, there is None)
    suffix, inputs = inputs_file(made.inputs, made.info.own_methods)
    rows = (tuple(map(rewrite_line, made.result.rewrites)), omitted(made.left, made.forbidden))
    if there is None:
        with tempfile.TemporaryDirectory(prefix="orchestrator-") as folder:
            staged = Path(folder, f"{name}.ptl")
            staged.write_bytes(made.data)
            beside = staged.with_suffix(suffix)
            beside.write_bytes(inputs)
            new_app = AppRequest(app, [staged], exported=True, inputs={name: beside})
            (new,) = add_app(here, new_app, Path(folder)).models
        files = (f"apps/{app}/{new.file}", f"apps/{app}/{new.inputs_file}")
        return ExportedModel(app, *files, made.info, *its, True, True, *rows)
    path, known = _destination(there, name)
    path.parent.mkdir(exist_ok=True)
    beside = path.with_suffix(suffix)
    # a build may be reading what is declared; it knows nothing of other files, nor of a new app
    alone = workspace_lock(context.state, True, here.log, "export") if known else nullcontext()
    with alone:
        write_bytes(beside, inputs)
        write_bytes(path, made.data)
    shown, fed_by = (one.relative_to(context.root).as_posix() for one in (path, beside))
    fed = known is not None and (bool(known.runs) or there.inputs_path(known) == beside)
    return ExportedModel(app, shown, fed_by, made.info, *its, known is not None, fed, *rows)


@dataclass
class _Exporting:
    """Exports a module, and again without the rewrites that its app does not want.

    name: of the runtime, for a new app
    """

    here: Invocation
    name: str
    app: App | None
    request: ModuleRequest
    python: ExportPython
    made: dict[frozenset[str], _Exported] = field(default_factory=dict)

    @cached_property
    def runtime(self) -> Runtime:
        """The app's, or that of the name: not before there is something to read with it."""
        runtimes = self.here.runtimes
        return runtimes.on(self.name) if self.app is None else runtimes.of(self.app.name)

    def priced(self) -> _Exported:
        first = self._candidate(self.request.name, {})
        size = partial(estimated, self.here, self.runtime)
        (kept,) = affordable([first], self._others(), size, self._candidate)
        return replace(self.made[frozenset(kept.left)], left=kept.left)

    def _others(self) -> frozenset[OperatorName]:
        """Root operators that the app's library has without this model."""
        if self.app is None:
            return frozenset()
        models = (one for one in self.app.config.models if one.name != self.request.name)
        infos = (self.here.models.info(self.app, one) for one in models)
        return frozenset(self.runtime.extra_operators(self.app)).union(
            *(info.root_operators for info in infos)
        )

    def _candidate(self, name: str, left: Mapping[str, int]) -> Candidate:
        made = self._exported(left)
        self.made[frozenset(left)] = made
        after = frozenset(made.info.root_operators)
        # what the module named before its rewrites decides nothing
        return Candidate(name, (after, after), made.result.rewrites, left)

    def _exported(self, left: Mapping[str, int]) -> _Exported:
        def attempt(forbidden: Mapping[str, str]) -> Attempt[_Exported]:
            without = sorted({*left, *forbidden})
            if without:
                self.here.log(f"exporting again without {', '.join(without)}")
            data, inputs, result = self._in_operators_of_the_runtime(without)
            info = self._checked(data)
            return _Exported(data, inputs, info, result, left, forbidden), info, result.rewrites

        return permitted(attempt, left, {} if self.app is None else self.app.config.forbid)

    def _in_operators_of_the_runtime(
        self, without: Sequence[str]
    ) -> tuple[bytes, bytes, ExportResult]:
        """A model and its inputs, without operators that the runtime lacks as far as torch writes
        them in others. What is left is told by whoever checks it."""
        for _ in range(_MOST_ROUNDS):
            data, inputs, result = export_module(
                replace(self.request, without=without),
                TOLERANCES,
                self.python,
                self.here.context.env,
                self.here.context.runner,
            )
            lacking = self._lacking(data) if result.via == "export" else frozenset()
            lacking -= {*self.request.decomposed}
            if not lacking:
                break
            self.here.log(f"exporting again, without operators that {self.name} lacks")
            decomposed = sorted({*self.request.decomposed, *lacking})
            self.request = replace(self.request, decomposed=decomposed)
        return data, inputs, result

    def _lacking(self, data: bytes) -> frozenset[str]:
        """The operators of a model that the runtime does not have."""
        with tempfile.TemporaryDirectory(prefix="orchestrator-") as folder:
            staged = Path(folder, f"{self.request.name}.ptl")
            staged.write_bytes(data)
            info = read_model(staged, self.runtime.dialect.models, name=staged.name)
        known = self.runtime.kernels.by_operator
        return frozenset(
            str(one) for one in info.root_operators if one not in known and one.namespace == "aten"
        )

    def _checked(self, data: bytes) -> ModelInfo:
        """The facts of a new model; of an app that is there, its runtime loads it."""
        name = self.request.name
        with tempfile.TemporaryDirectory(prefix="orchestrator-") as folder:
            staged = Path(folder, f"{name}.ptl")
            staged.write_bytes(data)
            if self.app is None:
                # `add_app` looks at it
                return read_model(staged, self.runtime.dialect.models, name=staged.name)
            path, _ = _destination(self.app, name)
            shown = path.relative_to(self.here.context.root).as_posix()
            info = read_model(staged, self.runtime.dialect.models, name=shown)
        version, declared = self.runtime.version, self.app.place.file
        others = other_offers(self.here.workspace, version.version)
        require_loadable(
            info, self.runtime.kernels, version, others, declared, self.runtime.own_classes
        )
        return info


def app_of(text: str) -> str:
    """The app that `//apps/x` or `apps/x` names. Raises LabelSyntaxError."""
    return AppLabel.parse(text if text.startswith("//") else f"//{text.rstrip('/')}").app


@contextmanager
def _places_below(root: Path) -> Iterator[None]:
    """Names the file of an error as other errors do, relative to the workspace: torch gives its
    path."""
    try:
        yield
    except OrchestratorError as error:
        if error.place and Path(error.place.file).is_relative_to(root):
            file = Path(error.place.file).relative_to(root).as_posix()
            error.place = replace(error.place, file=file)
        raise


def _require_off(app: App, name: str) -> None:
    if any(one.name == name and app.is_canonical(one) for one in app.config.models):
        raise ExportedTwiceError(
            f"app.yaml says `canonical: static` for {name}, but what is exported is canonical"
            " already, without TorchScript",
            place=Place(app.place.file),
            hint=f"declare `canonical: off` for {name}",
        )


def _destination(app: App, name: str) -> tuple[Path, ModelConfig | None]:
    """Path of a model of this name, existing or not, and its declaration; None if it has none."""
    for model in app.config.models:
        if model.name == name:
            return app.model_path(model), model
    folder = app.model_path(app.config.models[0]).parent
    return folder / f"{name}.ptl", None


def _name(asked: ModelExport) -> str:
    name = asked.name or asked.module.rpartition(":")[2].rpartition(".")[2].lower()
    if not re.fullmatch(NAME, name):
        raise ModelNameError(
            "a model cannot have this name", expected=PATTERN_WORDS[NAME], seen=name
        )
    return name


def _require_name(text: str) -> None:
    if not _MODULE.fullmatch(text):
        raise ModuleNameError(
            "Python cannot import this name",
            place=Place(text),
            expected="package:attribute, such as `models.vad:Detector`",
        )
