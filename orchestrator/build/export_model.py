"""Exports a PyTorch module into an app: an existing one, or a new one with only that model."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from orchestrator.build.add_app import AppRequest, add_app
from orchestrator.build.session import Session, require_loadable
from orchestrator.canonical.exporting import ExportResult, ModuleRequest, export_module
from orchestrator.canonical.python import find_python
from orchestrator.errors import OrchestratorError, Place
from orchestrator.export.tolerances import TOLERANCES
from orchestrator.load.declared import App
from orchestrator.load.validate import raise_all
from orchestrator.models.info import ModelInfo, read_model
from orchestrator.system.staging import write_bytes
from orchestrator.values.config import NAME, PATTERN_WORDS, InputRun
from orchestrator.values.labels import Label
from orchestrator.verify.inputs import inputs_json

_MODULE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")


class ModuleNameError(OrchestratorError):
    """A text names no attribute of a Python module."""


class ExportedTwiceError(OrchestratorError):
    """A model that is to be made canonical of its TorchScript, which an exported one has not."""


class ModelNameError(OrchestratorError):
    """A model cannot have this name."""


@dataclass(frozen=True)
class ModelExport:
    """What a user asks for.

    name      of the model; None for the module's last word in lower case
    inputs    `package:attribute`, or None for `runs`
    paths     folders to import from, before the current one and the workspace's root
    """

    module: str
    name: str | None = None
    weights: Path | None = None
    inputs: str | None = None
    runs: Sequence[InputRun] = ()
    trace: bool = False
    fixed_sizes: bool = False
    canonical: bool = True
    paths: Sequence[Path] = ()
    python: str | None = None


@dataclass(frozen=True)
class ExportedModel:
    """What was written. `file` is relative to the workspace; `declared`: whether the app's app.yaml
    has the model; `created`: whether the app is new."""

    app: str
    file: str
    info: ModelInfo
    result: ExportResult
    created: bool
    declared: bool


def export_model(session: Session, app: str, asked: ModelExport, cwd: Path) -> ExportedModel:
    """Export a module to `apps/<app>/models/<name>.ptl`, where the app has its models.

    The model is what the runtime of the app loads, or nothing is written.
    Raises the errors of this module, of orchestrator.canonical, of reading models and `add_app`.
    """
    name = _name(asked)
    for text in filter(None, (asked.module, asked.inputs)):
        _require_name(text)
    workspace, context = session.workspace, session.context
    raise_all(workspace.broken.get(app, ()))
    there, config = workspace.apps.get(app), workspace.config
    runtime = config.default_runtime if there is None else there.runtime
    if there is not None:
        _require_off(there, name)
    python = find_python(asked.python, context.env, context.runner)
    session.log(f"exporting {asked.module} by torch {python.torch}")
    request = ModuleRequest(
        module=asked.module,
        name=name,
        weights=None if asked.weights is None else cwd / asked.weights,
        inputs=asked.inputs,
        declared=inputs_json(asked.runs),
        compiled="trace" if asked.trace else "script",
        canonical="static" if asked.canonical else "off",
        sizes="fixed" if asked.fixed_sizes else "any",
        pytorch=config.pins[runtime].pytorch,
        paths=[*(cwd / path for path in asked.paths), cwd, context.root],
    )
    with _places_below(context.root):
        data, result = export_module(request, TOLERANCES, python, context.env, context.runner)
    with tempfile.TemporaryDirectory(prefix="orchestrator-") as folder:
        staged = Path(folder, f"{name}.ptl")
        staged.write_bytes(data)
        if there is None:
            added = add_app(session, AppRequest(app, [staged], exported=True), Path(folder))
            file = f"apps/{app}/{added.models[0].file}"
            return ExportedModel(app, file, added.models[0].info, result, True, True)
        path, declared = _destination(there, name)
        shown = path.relative_to(context.root).as_posix()
        info = _checked(session, there, staged, shown)
    path.parent.mkdir(exist_ok=True)
    write_bytes(path, data)
    return ExportedModel(app, shown, info, result, False, declared)


def app_of(text: str) -> str:
    """The app that `//apps/x` or `apps/x` names. Raises LabelSyntaxError."""
    label = Label.parse(text if text.startswith("//") else f"//{text.rstrip('/')}")
    if label.abi is not None:
        return Label.parse(f"//apps/{label.app}/{label.abi}").app
    return label.app


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


def _destination(app: App, name: str) -> tuple[Path, bool]:
    """Where a model of this name is, or would be, and whether it is declared."""
    for model in app.config.models:
        if model.name == name:
            return app.model_path(model), True
    folder = app.model_path(app.config.models[0]).parent
    return folder / f"{name}.ptl", False


def _checked(session: Session, app: App, staged: Path, shown: str) -> ModelInfo:
    """The facts of a new model, which the app's runtime loads."""
    its = session.of(app.name)
    info = read_model(staged, its.runtime.dialect.models, name=shown)
    version = its.runtime.version
    others = session.other_offers(version.version)
    require_loadable(info, its.kernels, version, others, app.place.file, its.own_classes)
    return info


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
