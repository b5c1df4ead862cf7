"""What a `.ptl` names and holds, known without running it.

Contract: `read_model(path)` returns a `ModelInfo`, or raises one of the errors of this package;
it never executes, imports or builds anything that the file asks for. Versions that a runtime loads
are parameters; the defaults are those of PyTorch 1.13.1 (`caffe2/serialize/versions.h`).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from io import BufferedReader
from pathlib import Path
from typing import Final

from orchestrator.errors import OrchestratorError, Place
from orchestrator.models.archive import Archive, DamagedModelError, open_archive
from orchestrator.models.bytecode import Function, check_version, parse_bytecode
from orchestrator.models.inert import Call, Pairs, Value
from orchestrator.models.pickles import Pickle, read_pickle
from orchestrator.values.operators import OperatorName

BYTECODE_VERSIONS: Final = range(4, 10)
ARCHIVE_VERSIONS: Final = range(1, 11)

_BYTECODE: Final = "bytecode.pkl"
_DATA: Final = "data.pkl"
# Names that torch/utils/bundled_inputs.py gives to what it adds to a model.
_BUNDLED_METHOD: Final = "get_all_bundled_inputs_for_"
_BUNDLED_FORWARD: Final = "get_all_bundled_inputs"
_BUNDLED_ATTRIBUTE: Final = "_bundled_inputs_deflated_"
_CUSTOM_CLASS: Final = re.compile(r"__torch__\.torch\.classes\.\w+\.\w+")
_MODEL_CLASS: Final = re.compile(r"__torch__\.(?!torch\.classes\.)[\w.]+")


class UnreadableModelError(OrchestratorError):
    """The model's file is missing or cannot be read."""


class NoBytecodeError(OrchestratorError):
    """A PyTorch file without bytecode: plain TorchScript, or a checkpoint of weights."""


@dataclass(frozen=True)
class BundledInputs:
    """A method with inputs inside the model; `count` is None where code generates them."""

    method: str
    count: int | None


@dataclass(frozen=True)
class ModelInfo:
    """A model as data; two files with the same content are equal, wherever they lie.

    `place` is for messages. `size` is the file's, in bytes. `archive_version` decides whether the
    runtime rewrites old operators on loading. `custom_classes` are qualified names such as
    `__torch__.torch.classes.quantized.LinearPackedParamsBase`. All tuples are sorted, but
    `functions`, which are in file order.
    """

    place: Place = field(compare=False)
    sha256: str
    size: int
    bytecode_version: int
    archive_version: int
    functions: tuple[Function, ...]
    bundled_inputs: tuple[BundledInputs, ...]
    custom_classes: tuple[str, ...]

    @property
    def root_operators(self) -> tuple[OperatorName, ...]:
        """Every operator that the bytecode names, on branches that never run as well; sorted."""
        return tuple(sorted({use.operator for f in self.functions for use in f.operators}))

    @property
    def methods(self) -> tuple[str, ...]:
        """The names of all functions, those that bundling added as well; sorted."""
        return tuple(sorted({function.name for function in self.functions}))

    @property
    def has_bundled_inputs(self) -> bool:
        """Whether any method can be run on inputs from inside the model."""
        return bool(self.bundled_inputs)

    @property
    def named_tuples(self) -> tuple[tuple[str, str], ...]:
        """(function, class) where a function takes, makes or returns a NamedTuple; sorted.

        A model class may only be the type of `self`: the exporter refuses every other use of one,
        so any that is left names a NamedTuple.
        """
        found: set[tuple[str, str]] = set()
        for function in self.functions:
            texts = [*function.types, *function.returns, *(a.type for a in function.arguments[1:])]
            found.update((function.qualified, name) for name in _found(_MODEL_CLASS, texts))
        return tuple(sorted(found))


def read_model(
    path: Path,
    *,
    name: str | None = None,
    bytecode_versions: range = BYTECODE_VERSIONS,
    archive_versions: range = ARCHIVE_VERSIONS,
) -> ModelInfo:
    """What the `.ptl` at `path` names and holds; messages call it `name`, else its path."""
    place = Place(name or str(path))
    try:
        with path.open("rb") as file:
            return _read(file, place, bytecode_versions, archive_versions)
    except OSError as error:
        raise UnreadableModelError(
            "the model cannot be read",
            place=place,
            expected="a .ptl file",
            seen=error.strerror or type(error).__name__,
            hint="check the path under `models:` in app.yaml, and the file's permissions",
        ) from error


def _read(
    file: BufferedReader, place: Place, bytecode_versions: range, archive_versions: range
) -> ModelInfo:
    digest = hashlib.file_digest(file, "sha256").hexdigest()
    size = file.tell()
    file.seek(0)
    with open_archive(file, place) as archive:
        if _BYTECODE not in archive.names:
            raise _no_bytecode(archive)
        archive_version = _archive_version(archive)
        check_version("archive version", archive_version, archive_versions, place)
        code, data = _pickle(archive, _BYTECODE), _pickle(archive, _DATA)
    version, functions = parse_bytecode(code.value, bytecode_versions, place)
    return ModelInfo(
        place=place,
        sha256=digest,
        size=size,
        bytecode_version=version,
        archive_version=archive_version,
        functions=functions,
        bundled_inputs=_bundled_inputs(functions, data.value),
        custom_classes=_custom_classes(functions, (*code.classes, *data.classes)),
    )


def _pickle(archive: Archive, record: str) -> Pickle:
    if record not in archive.names:
        raise _damaged(archive.place, f"no record {record}")
    return read_pickle(archive.read(record), record, archive.place)


def _archive_version(archive: Archive) -> int:
    # PyTorchStreamReader::init looks in these two places, in this order.
    for record in (".data/version", "version"):
        if record in archive.names:
            text = archive.read(record).strip()
            if not re.fullmatch(rb"[0-9]{1,9}", text):
                raise _damaged(archive.place, f"record {record} is not a number")
            return int(text)
    raise _damaged(archive.place, "no record version")


def _bundled_inputs(functions: Iterable[Function], data: Value) -> tuple[BundledInputs, ...]:
    names = {function.name for function in functions}
    methods = {n.removeprefix(_BUNDLED_METHOD) for n in names if n.startswith(_BUNDLED_METHOD)}
    if _BUNDLED_FORWARD in names:
        # All that PyTorch before 1.8 adds.
        methods.add("forward")
    return tuple(BundledInputs(method, _count(data, method)) for method in sorted(methods))


def _count(data: Value, method: str) -> int | None:
    if not isinstance(data, Call) or not isinstance(data.argument, Pairs):
        return None
    for key, value in data.argument.entries:
        if key == _BUNDLED_ATTRIBUTE + method and isinstance(value, list):
            # The list is there but empty where the model generates its inputs itself.
            return len(value) or None
    return None


def _custom_classes(functions: Iterable[Function], named: Iterable[str]) -> tuple[str, ...]:
    texts = list(named)
    for function in functions:
        texts += [*function.types, *function.returns, *(a.type for a in function.arguments)]
    return tuple(sorted(_found(_CUSTOM_CLASS, texts)))


def _found(pattern: re.Pattern[str], texts: Iterable[str]) -> set[str]:
    return {name for text in texts for name in pattern.findall(text)}


def _no_bytecode(archive: Archive) -> NoBytecodeError:
    scripted = any(name.startswith("code/") for name in archive.names)
    return NoBytecodeError(
        "this PyTorch file has no bytecode for the lite interpreter",
        place=archive.place,
        expected="a record bytecode.pkl",
        seen="TorchScript saved with torch.jit.save" if scripted else "weights or another archive",
        hint="torch.jit.load it and write it with module._save_for_lite_interpreter(path)"
        if scripted
        else "build the model, torch.jit.script or trace it, and write it with "
        "module._save_for_lite_interpreter(path)",
    )


def _damaged(place: Place, seen: str) -> DamagedModelError:
    return DamagedModelError(
        "this model is truncated or damaged",
        place=place,
        expected="the records of a .ptl archive",
        seen=seen,
        hint="export it again",
    )
