"""Adds an app to a workspace: its folder with the models and an app.yaml. All or nothing.

The models are read as a build reads them, and `app.yaml` is loaded before it is moved into place.
Of the names in a model, only valid method names reach that file.
"""

from __future__ import annotations

import errno
import re
import shlex
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from orchestrator.build.workshop.invocation import Invocation
from orchestrator.build.workshop.loadable import require_loadable
from orchestrator.build.workshop.offers import other_offers
from orchestrator.build.workshop.runtime_index import whole_index
from orchestrator.errors import OrchestratorError, Place
from orchestrator.load.checks import (
    AppNameError,
    DuplicateModelError,
    unknown_runtime,
    unknown_target,
)
from orchestrator.load.validate import raise_all
from orchestrator.load.workspace import check_new_app
from orchestrator.models.checks import file_operators, require_inputs, require_no_files
from orchestrator.models.devices import foreign_devices
from orchestrator.models.info import ModelInfo, UnreadableModelError, read_model
from orchestrator.models.listing import read_listings
from orchestrator.models.programs import ProgramInfo, read_program
from orchestrator.models.source_lines import operator_places
from orchestrator.pytorch.dialects import dialect_of
from orchestrator.select.closure import registry
from orchestrator.system.folders import ensure_folder
from orchestrator.system.locks import file_lock
from orchestrator.system.staging import sync_folder, sync_tree, write_bytes
from orchestrator.values.config.app import PROGRAM_SUFFIX, SHIPPED_OPERATORS
from orchestrator.values.config.forms import ABI, NAME, PATTERN_WORDS
from orchestrator.values.methods import Method
from orchestrator.values.versions import ModelVersions

_APPS: Final = "apps"
_SUFFIX: Final = ".ptl"
_UNREADABLE: Final = "check the path after --model, and the file's permissions"
# How a value of a type is written; a tensor's shape is in no file.
_VALUES: Final = {
    "Tensor": "{shape: [1], fill: uniform}",
    "int": "1",
    "float": "0.5",
    "bool": "true",
    "str": '"text"',
}


class AppExistsError(OrchestratorError):
    """The app to add already exists."""


class ModelFileNameError(OrchestratorError):
    """A model's file has a name that a model cannot have."""


@dataclass(frozen=True)
class AppRequest:
    """Request for a new app.

    targets    ABIs; empty for this machine's own
    runtime    None for the workspace's default
    canonical  whether the models' canonical files are to be traced and shipped
    exported   whether `export` made the models; else they are files of the user's
    inputs     model's name -> a file of its inputs, to copy beside it
    """

    name: str
    models: Sequence[Path]
    targets: Sequence[str] = ()
    runtime: str | None = None
    canonical: bool = False
    exported: bool = False
    inputs: Mapping[str, Path] = field(default_factory=dict)

    @property
    def file(self) -> str:
        """The path of the app.yaml that is to be written, relative to the workspace."""
        return f"{_APPS}/{self.name}/app.yaml"

    @property
    def command(self) -> str | None:
        """The `new-app` command of this request, quoted for a shell; hints append options to it.

        None for models that `export` made: the user did not type this command.
        """
        words = ["./orchestrate", "new-app", self.name]
        words += [word for path in self.models for word in ("--model", str(path))]
        words += [word for abi in self.targets for word in ("--target", abi)]
        words += ["--runtime", self.runtime] if self.runtime else []
        return None if self.exported else shlex.join(words)


@dataclass(frozen=True)
class NewModel:
    """A model of a new app.

    file     below the app's folder
    example  whether app.yaml has example inputs for it, whose shapes are not the model's
    devices  those that its code names and no library has
    inputs_file  that of its inputs, below the app's folder
    """

    file: str
    info: ModelInfo | ProgramInfo
    example: bool
    devices: tuple[str, ...] = ()
    inputs_file: str | None = None

    @property
    def is_program(self) -> bool:
        """True if it is a program of torch.export, from which a model is to be made."""
        return isinstance(self.info, ProgramInfo)

    @property
    def methods(self) -> tuple[str, ...]:
        """The names of the methods that callers can run, sorted, each once."""
        return tuple(sorted({method.name for method in _called(self.info)}))

    @property
    def inputs(self) -> dict[str, int | None]:
        """Method -> how many inputs are inside the file; None where code makes them."""
        if isinstance(self.info, ProgramInfo):
            return dict.fromkeys(self.methods, 1) if self.info.has_inputs else {}
        return {one.method: one.count for one in self.info.bundled_inputs}


@dataclass(frozen=True)
class NewApp:
    """An app that was added; `place` is its app.yaml; `canonical`: as asked."""

    name: str
    place: Place
    models: tuple[NewModel, ...]
    targets: tuple[str, ...]
    canonical: bool = False


def add_app(here: Invocation, asked: AppRequest, cwd: Path) -> NewApp:
    """Make `apps/<name>/` of copies of the models.

    Raises AppNameError, AppExistsError, UnknownTargetError, UnknownRuntimeError,
    ModelFileNameError, DuplicateModelError, what orchestrator.models raises, and the loader's
    faults.
    """
    name, models = asked.name, asked.models
    folder = here.context.root / _APPS / name
    _check_name(folder, name)
    config = here.workspace.config
    if asked.runtime is not None and asked.runtime not in config.pins:
        raise unknown_runtime(asked.runtime, config.pins)
    wanted = tuple(asked.targets) or (here.toolchains.host,)
    known = {*here.workspace.toolchains, *here.workspace.groups}
    raise_all([_unknown_target(abi, known) for abi in wanted if abi not in known])
    _check_file_names(models, cwd, dialect_of(config.pins[_runtime(here, asked)].pytorch).models)
    new = _read(here, asked, cwd)
    with _staging(here.context.state) as staging:
        staged = staging / _APPS / name
        for path, model in zip(models, new, strict=True):
            (staged / model.file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(cwd / path, staged / model.file)
            if model.inputs_file is not None:
                shutil.copyfile(cwd / asked.inputs[path.stem], staged / model.inputs_file)
        (staged / "app.yaml").write_text(app_text(asked, new, wanted), encoding="utf-8")
        check_new_app(staging, name, here.workspace)
        sync_tree(staged)
        folder.parent.mkdir(exist_ok=True)
        _move(staged, folder)
    sync_folder(folder.parent)
    return NewApp(name, Place(asked.file), new, wanted, asked.canonical)


def _unknown_target(text: str, known: Set[str]) -> OrchestratorError:
    """The fault of what stands behind --target; a label, or several ABIs in one, is told how it is
    written."""
    fault = unknown_target(text, known)
    words = re.sub("^//.*:", "", text).replace(",", " ").split()
    if [text] != words and words and all(word in known for word in words):
        fault.hint = "write " + " ".join(f"--target {word}" for word in words)
    elif not re.fullmatch(ABI, text):
        fault.hint = "use one of these, and repeat --target for another"
    return fault


def _move(staged: Path, folder: Path) -> None:
    """Put a staged app into its place; app.yaml, which makes it an app, comes last."""
    try:
        staged.rename(folder)
    except OSError as error:
        if error.errno != errno.EXDEV:  # apps/ is on a file system of its own
            raise
        try:
            shutil.copytree(staged, folder, ignore=shutil.ignore_patterns("app.yaml"))
            write_bytes(folder / "app.yaml", (staged / "app.yaml").read_bytes())
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        sync_tree(folder)


@contextmanager
def _staging(state: Path) -> Iterator[Path]:
    """An empty folder in the workspace's state, which is removed at the end.

    Only one process at a time uses it: previous contents were left by a killed one.
    """
    folder = state / "new-app"
    with file_lock(
        state / "new-app.lock",
        lambda descriptor: None,
        before=lambda: ensure_folder(state, "state"),
    ):
        if folder.exists():
            shutil.rmtree(folder)
        folder.mkdir()
        try:
            yield folder
        finally:
            shutil.rmtree(folder)


def app_text(asked: AppRequest, models: Sequence[NewModel], targets: Iterable[str]) -> str:
    """The text of an app.yaml with these models and targets, in order, and what the request sets;
    operators of other libraries that the models name are switched on.

    A model whose file brings no inputs gets an example of `inputs:` and a comment: its shapes are a
    guess that people correct. The text is not validated here.
    """
    lines = [f"runtime: {asked.runtime}"] if asked.runtime else []
    lines += ["canonical: static"] if asked.canonical else []
    lines.append("models:")
    for model in models:
        lines.append(f"  - file: {model.file}")
        if model.inputs_file is not None:
            lines.append(f"    inputs: {model.inputs_file}")
        if model.example:
            lines.append("    # the file has no inputs inside: give the shapes that it takes")
            lines.append("    inputs:")
            lines += _example(model.info)
    lines += ["targets:", *(f"  - {target}" for target in targets)]
    named = {name for model in models for name in model.info.root_operators}
    shipped = sorted(SHIPPED_OPERATORS & named)
    if shipped:
        lines += ["sources:", "  operators:", *(f"    - {name}" for name in shipped)]
    return "\n".join([*lines, ""])


def _called(info: ModelInfo | ProgramInfo) -> Iterator[Method]:
    """The methods that an app calls: not private ones."""
    return (method for method in info.own_methods if not method.name.startswith("_"))


def example_of(text: str) -> str | None:
    """A value of a type, as app.yaml writes it; None of a type that it cannot write."""
    if re.fullmatch(r"Optional\[.*\]|.*\?", text):
        return "null"
    match = re.fullmatch(r"List\[(\w+)\]|(\w+)\[\]", text)
    if match:
        item = _VALUES.get(match[1] or match[2])
        return item and f"[{item}]"
    return _VALUES.get(text)


def _example(info: ModelInfo | ProgramInfo) -> list[str]:
    """A call of each method that one can be written of."""
    lines = []
    for method in _called(info):
        if method.parameters is None:
            continue
        values = [example_of(parameter.type) for parameter in method.parameters]
        if None in values:
            continue
        lines.append(f"      - method: {method.name}")
        lines.append(f"        args:{'' if values else ' []'}")
        lines += [f"          - {value}" for value in values]
    return lines


def _check_name(folder: Path, name: str) -> None:
    if not re.fullmatch(NAME, name):
        likely = re.sub("[^A-Za-z0-9._-]+", "-", re.sub("^[./]*(apps/)?", "", name)).strip("-")
        raise AppNameError(
            "an app cannot have this name: it is not valid in a label",
            expected=PATTERN_WORDS[NAME],
            seen=name,
            hint=f"did you mean {likely}?" if re.fullmatch(NAME, likely) else None,
        )
    if folder.is_symlink() or folder.exists():
        raise AppExistsError(
            f"there is an app //apps/{name} already"
            if (folder / "app.yaml").exists()
            else "there is a folder of this name already",
            place=Place(f"{_APPS}/{name}"),
            hint="take another name, or edit its app.yaml"
            if (folder / "app.yaml").exists()
            else "take another name, or move the folder away; models are copied into a new one",
        )


def _check_file_names(models: Sequence[Path], cwd: Path, versions: ModelVersions) -> None:
    # another suffix is mostly another format, whose own error says how to get a .ptl of it
    raise_all(
        [
            fault
            for path in models
            if path.suffix != _SUFFIX and (fault := _unreadable(path, cwd, versions)) is not None
        ]
    )
    raise_all(
        [
            ModelFileNameError(
                "the name of this file is not valid for a model",
                place=Place(str(path)),
                expected=f"a file {_SUFFIX} or {PROGRAM_SUFFIX}; before that {PATTERN_WORDS[NAME]}",
                seen=path.name,
                hint="copy it under another name",
            )
            for path in models
            if path.suffix not in (_SUFFIX, PROGRAM_SUFFIX) or not re.fullmatch(NAME, path.stem)
        ]
    )
    counts = Counter(path.stem for path in models)
    raise_all(
        [
            DuplicateModelError(
                f"two models are called `{name}`", hint="copy one under another name"
            )
            for name, count in counts.items()
            if count > 1
        ]
    )


def _unreadable(path: Path, cwd: Path, versions: ModelVersions) -> OrchestratorError | None:
    """Return the error about the content of a model's file; None if it can be read."""
    try:
        if path.suffix == PROGRAM_SUFFIX:
            read_program(cwd / path, name=str(path))
        else:
            read_model(cwd / path, versions, name=str(path))
    except UnreadableModelError as error:
        error.hint = _UNREADABLE
        return error
    except OrchestratorError as error:
        return error
    return None


def _runtime(here: Invocation, asked: AppRequest) -> str:
    return asked.runtime or here.workspace.config.default_runtime


def _read(here: Invocation, asked: AppRequest, cwd: Path) -> tuple[NewModel, ...]:
    """The models, of which the runtime loads each, by what we ship: nothing is fetched."""
    name = _runtime(here, asked)
    pin = here.workspace.config.pins[name]
    dialect = dialect_of(pin.pytorch)
    kernels = registry(
        whole_index(dialect, pin.tree, name), here.workspace.config.defaults.backends, dialect.keys
    )
    read, faults = list[NewModel](), list[OrchestratorError]()
    for path in asked.models:
        try:
            if path.suffix == PROGRAM_SUFFIX:
                program = read_program(cwd / path, name=str(path))
                read.append(NewModel(f"models/{path.name}", program, not program.has_inputs))
                continue
            info = read_model(cwd / path, dialect.models, name=str(path))
            opening = file_operators(info)
            require_no_files(info, opening, operator_places(cwd / path, opening))
            beside = asked.inputs.get(path.stem)
            example = beside is None and not info.has_bundled_inputs
            declared = beside is not None or (example and bool(_example(info)))
            require_inputs(info, declared=declared)
            require_loadable(
                info,
                kernels,
                dialect.facts,
                other_offers(here.workspace, dialect.version),
                asked.file,
                canonical=asked.exported,
                to_be_canonical=asked.canonical,
                declarable=SHIPPED_OPERATORS,
                command=asked.command,
                path=cwd / path,
            )
        except UnreadableModelError as error:
            error.hint = _UNREADABLE
            faults.append(error)
        except OrchestratorError as error:
            faults.append(error)
        else:
            devices = foreign_devices(info, read_listings(cwd / path))
            its = None if beside is None else f"models/{beside.name}"
            read.append(NewModel(f"models/{path.name}", info, example, devices, its))
    raise_all(faults)
    return tuple(read)
