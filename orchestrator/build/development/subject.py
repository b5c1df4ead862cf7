"""Subjects of runs in the development library: models, with their inputs."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from orchestrator.build.workshop.invocation import Invocation
from orchestrator.build.workshop.loadable import require_loadable
from orchestrator.build.workshop.offers import other_offers
from orchestrator.build.workshop.programs import is_program, loadable
from orchestrator.build.workshop.runtime import Runtime
from orchestrator.errors import OrchestratorError, Place
from orchestrator.load.declared import App
from orchestrator.load.inputs import parse_run
from orchestrator.load.workspace import FILE
from orchestrator.models.checks import file_operators, require_inputs, require_no_files
from orchestrator.models.info import ModelInfo, UnreadableModelError, read_model
from orchestrator.models.programs import read_program
from orchestrator.models.source_lines import operator_places
from orchestrator.system.reading import parse_json, read_text
from orchestrator.trace.lock import lock_path, parse_lock
from orchestrator.trace.reading import LONGEST
from orchestrator.values.config.app import MOST_ELEMENTS, SHIPPED_OPERATORS, ModelConfig
from orchestrator.values.methods import Method
from orchestrator.values.operators import OperatorName
from orchestrator.values.trace import Trace
from orchestrator.verify.given_calls import fault_in_calls
from orchestrator.verify.inputs import inputs_json
from orchestrator.verify.inputs_file import read_inputs_file
from orchestrator.verify.npy import read_npy
from orchestrator.verify.png import read_png

_LONGEST_INPUTS: Final = 2**28


class InputsUnfitError(OrchestratorError):
    """Files of inputs that are none, or that do not go together."""


@dataclass(frozen=True)
class Subject:
    """Model to run: its file, with inputs if the file has none.

    trace    lock of this very file, if the workspace has one
    earlier  lock of this or of an earlier file: it shows what this one probably calls
    left_out operators that it names, the runtime does not have, and no input reaches
    """

    name: str
    path: Path
    config: ModelConfig
    recorded: bytes | None
    info: ModelInfo
    app: App | None = None
    trace: Trace | None = None
    earlier: Trace | None = None
    left_out: frozenset[OperatorName] = frozenset()

    @property
    def roots(self) -> frozenset[OperatorName]:
        """The operators that the model's code names, of those that the runtime has:
        `aten::add.Tensor`."""
        return frozenset(self.info.root_operators) - self.left_out


def app_subjects(here: Invocation, app: App, inputs: Sequence[Path]) -> tuple[Subject, ...]:
    """An app's models. Raises InputsUnfitError, and what reading models raises."""
    return tuple(app_subject(here, app, model, inputs) for model in app.config.models)


def app_subject(here: Invocation, app: App, model: ModelConfig, inputs: Sequence[Path]) -> Subject:
    """One of an app's models, with the inputs of the files `inputs`, or else its own.

    A trace of another state of the model is kept apart from the current one. Raises
    InputsUnfitError, also where an app of several models gets inputs, and what reading models and
    locks raises.
    """
    if inputs and len(app.config.models) > 1:
        raise InputsUnfitError(
            f"//apps/{app.name} has several models, and --input is for one",
            expected="the path of one model",
            seen=", ".join(model.name for model in app.config.models),
        )
    shipped = here.models.shipped(app, model)
    info = here.models.info(app, model)
    given = read_inputs(inputs, info.own_methods)
    _require_methods(info, given, inputs)
    trace = readable_lock(lock_path(app.folder, model.name))
    current = trace is not None and trace.identity == here.models.trace_identity(app, model)
    return Subject(
        model.name,
        shipped.path,
        model if given is None else ModelConfig(file=model.file),
        shipped.inputs if given is None else given,
        info,
        app,
        trace if current else None,
        trace,
        here.models.left_out(app, model),
    )


def file_subject(here: Invocation, runtime: Runtime, path: Path, inputs: Sequence[Path]) -> Subject:
    """A model file, whether or not an app declares it; a trace of the same content is found by its
    digest. It runs in `here.runtimes.with_shipped(runtime, roots)`.

    Of a program of torch.export a model is made first. Raises InputsUnfitError, and what
    `loadable`, `read_model` and `require_loadable` raise.
    """
    named = path
    version = runtime.version
    given, raw = None, [one for one in inputs if one.suffix.lower() == ".npz"]
    if not raw:
        given = read_inputs(inputs)
    try:
        if is_program(named):
            if raw:
                given = read_inputs(inputs, read_program(named).own_methods)
            made = loadable(here, named, version.version, given)
            path, given = made.path, made.inputs
        info = read_model(path, runtime.dialect.models, name=str(named))
    except UnreadableModelError as error:
        error.hint = "check the path, and the file's permissions"
        raise
    if raw and given is None:
        given = read_inputs(inputs, info.own_methods)
    opening = file_operators(info)
    require_no_files(info, opening, operator_places(path, opening))
    require_inputs(info, declared=given is not None)
    _require_methods(info, given, inputs)
    others = other_offers(here.workspace, version.version)
    left_out = require_loadable(
        *(info, runtime.kernels, version, others, FILE),
        runtime.own_classes,
        declarable=SHIPPED_OPERATORS,
        path=path,
    )
    trace = next(
        (one for one in readable_locks(here, runtime) if one.identity.model == info.sha256), None
    )
    return Subject(
        named.stem, path, ModelConfig(file="model.ptl"), given, info, trace=trace, left_out=left_out
    )


def read_inputs(paths: Sequence[Path], methods: Sequence[Method] = ()) -> bytes | None:
    """The model runner's inputs: a list of calls in a .json file, the arrays of a .npz file, an
    array or a picture for each argument of `forward`, or calls as app.yaml has them, which begin
    with a bracket and are no path; None for none.

    methods: of the model, whose arguments a .npz names. Raises InputsUnfitError, InputsFileError,
    ArrayUnreadableError, PictureUnreadableError, and what `parse_run` and `inputs_json` raise.
    """
    if not paths:
        return None
    written = [str(path) for path in paths if str(path).startswith(("[", "{"))]
    if written:
        if len(written) != len(paths):
            raise _unfit(next(p for p in paths if str(p) not in written), "a file beside calls")
        runs = [parse_run(text, "--input") for text in written]
        return json.dumps(inputs_json(runs)).encode()
    if len(paths) == 1 and paths[0].suffix.lower() == ".npz":
        return read_inputs_file(paths[0], str(paths[0]), methods)
    if len(paths) == 1 and paths[0].suffix.lower() == ".json":
        try:
            with paths[0].open("rb") as file:
                text = file.read(_LONGEST_INPUTS + 1)
        except OSError as error:
            raise _unfit(paths[0], error.strerror or str(error)) from None
        if len(text) > _LONGEST_INPUTS or not text.lstrip().startswith(b"["):
            raise _unfit(paths[0], f"a file of {len(text):,} bytes that is no list")
        try:
            fault = fault_in_calls(parse_json(text))
        except ValueError as error:
            fault = f"invalid JSON: {error}"
        if fault:
            raise _unfit(paths[0], fault)
        return text
    arguments, elements = list[dict[str, Any]](), 0
    for path in paths:
        read = _READERS.get(path.suffix.lower())
        if read is None:
            suffix = f"the suffix {path.suffix}" if path.suffix else "no suffix"
            raise _unfit(path, f"a file with {suffix}")
        arguments.append(read(path))
        elements += math.prod(arguments[-1]["tensor"]["shape"])
        if elements > MOST_ELEMENTS:
            raise _unfit(path, f"more than {MOST_ELEMENTS:,} elements with those before it")
    return json.dumps([{"method": "forward", "args": arguments}]).encode()


def _require_methods(info: ModelInfo, given: bytes | None, inputs: Sequence[Path]) -> None:
    """Raises InputsUnfitError where calls are of no method of the model, or have more arguments."""
    functions = {function.name: function for function in info.functions}
    for call in parse_json(given) if given is not None else ():
        method, count = call["method"], len(call["args"])
        function = functions.get(method)
        if function is None:
            own = ", ".join(one.name for one in info.own_methods)
            raise _unfit(inputs[0], f"a call of {method[:60]}; the model has {own[:200]}")
        most = len(function.arguments) - 1
        if 0 <= most < count:
            raise _unfit(inputs[0], f"{method} with {count} arguments; it takes {most}")


# The files that are an argument each, by their suffixes.
_READERS: Final[Mapping[str, Callable[[Path], dict[str, Any]]]] = {
    ".npy": read_npy,
    ".png": read_png,
}


def _unfit(path: Path, seen: str) -> InputsUnfitError:
    return InputsUnfitError(
        "these are no inputs of a model",
        place=Place(str(path)),
        expected="one .npz or .json file, or a .npy or .png file for each argument of forward; or"
        " calls as in app.yaml",
        seen=seen,
        hint='in JSON: [{"method": "forward", "args": [{"int": 3}]}], with values as'
        " docs/guide/run-a-model.md has them",
    )


def readable_locks(here: Invocation, runtime: Runtime) -> Iterator[Trace]:
    """The workspace's locks of this runtime, as far as they can be read."""
    tree = here.workspace.config.pins[runtime.name].tree
    for app in here.workspace.apps.values():
        for model in app.config.models:
            lock = readable_lock(lock_path(app.folder, model.name))
            if lock is not None and lock.identity.runtime == tree:
                yield lock


def readable_lock(path: Path) -> Trace | None:
    try:
        return parse_lock(read_text(path, LONGEST), str(path))
    except (OSError, OrchestratorError):
        return None
