"""The contents of a `.ptl`, read without running it.

Contract: `read_model` returns a `ModelInfo`, or raises one of the errors of this package;
it never executes, imports or builds anything that the file names.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from io import BufferedReader
from itertools import chain
from pathlib import Path
from typing import Final

from orchestrator.errors import OrchestratorError, Place
from orchestrator.models.archive import Archive, DamagedModelError, open_archive
from orchestrator.models.bytecode import Function, check_version, parse_bytecode
from orchestrator.models.inert import Call, Pairs, Value
from orchestrator.models.instructions import handles_fit
from orchestrator.models.methods import bundled_call, methods_of
from orchestrator.models.pickles import MAX_STEPS, Pickle, Steps, read_pickle
from orchestrator.models.tensors import Tensors, constants_folder
from orchestrator.system.reading import open_file
from orchestrator.values.methods import Call as MethodCall
from orchestrator.values.methods import Method
from orchestrator.values.operators import OperatorName
from orchestrator.values.versions import ModelVersions

# Methods with bundled inputs that are looked at for an example of a call.
_TRIED: Final = 8

_BYTECODE: Final = "bytecode.pkl"
_DATA: Final = "data.pkl"
_HANDLES: Final = "mobile_debug_handles.pkl"
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
    """A model as data; two files with the same content are equal, whatever their paths.

    `place` is for messages. `size` is the file's, in bytes. `archive_version` decides whether the
    runtime rewrites old operators on loading. `custom_classes` are qualified names such as
    `__torch__.torch.classes.quantized.LinearPackedParamsBase`. All tuples are sorted, but
    `functions` and `own_methods`, which are in file order.

    enums         classes of enums that the model holds a member of
    list_types    type texts of the lists and dictionaries that it holds
    held_classes  custom classes of which the file holds objects
    packings      (custom class, version) of the formats in which weights are packed, as far as the
                  objects say it
    own_methods   what an app can call, without the methods that bundling of inputs added
    bundled_call  a call with the first of the inputs inside, where it is known
    held_devices  devices among its attributes
    has_torchscript  whether the file holds its TorchScript beside the bytecode (`code/`)
    """

    place: Place = field(compare=False)
    sha256: str
    size: int
    bytecode_version: int
    archive_version: int
    functions: tuple[Function, ...]
    bundled_inputs: tuple[BundledInputs, ...]
    custom_classes: tuple[str, ...]
    enums: tuple[str, ...]
    list_types: tuple[str, ...]
    held_classes: tuple[str, ...]
    packings: tuple[tuple[str, str], ...]
    own_methods: tuple[Method, ...]
    bundled_call: MethodCall | None
    has_torchscript: bool
    held_devices: tuple[str, ...] = ()

    @property
    def root_operators(self) -> tuple[OperatorName, ...]:
        """Every operator that the bytecode names, on branches that never run as well; sorted."""
        uses = set(chain.from_iterable(function.operators for function in self.functions))
        return tuple(sorted({use.operator for use in uses}))

    @property
    def methods(self) -> tuple[str, ...]:
        """The names of all functions, those that bundling added as well; sorted."""
        return tuple(sorted({function.name for function in self.functions}))

    @property
    def has_bundled_inputs(self) -> bool:
        """True if any method can be run on inputs from inside the model."""
        return bool(self.bundled_inputs)

    @property
    def named_tuples(self) -> tuple[tuple[str, str], ...]:
        """(function, class) where a function takes, makes or returns a NamedTuple; sorted.

        A model class may only be the type of `self`: the exporter refuses every other use of one,
        so any that is left names a NamedTuple, or an enum.
        """
        texts = {f.qualified: set(_types(f, skipped=1)) for f in self.functions}
        named = _found(_MODEL_CLASS, chain.from_iterable(texts.values()))
        return tuple(
            sorted(
                (function, name)
                for function, types in texts.items()
                for name in {name for text in types for name in named[text]}.difference(self.enums)
            )
        )


def read_model(
    path: Path,
    versions: ModelVersions,
    *,
    name: str | None = None,
) -> ModelInfo:
    """Read the `.ptl` at `path`; messages call it `name`, else its path."""
    place = Place(name or str(path))
    with opened(path, place) as file:
        return _read(file, place, versions)


@contextmanager
def opened(path: Path, place: Place, expected: str = "a .ptl file") -> Iterator[BufferedReader]:
    """A model's file. Raises UnreadableModelError where it cannot be read."""
    try:
        with open_file(path) as file:
            yield file
    except OSError as error:
        raise UnreadableModelError(
            "the model cannot be read",
            place=place,
            expected=expected,
            seen=error.strerror or type(error).__name__,
            hint="check the path under `models:` in app.yaml, and the file's permissions",
        ) from error


def _read(file: BufferedReader, place: Place, versions: ModelVersions) -> ModelInfo:
    with open_archive(file, place) as archive:
        if _BYTECODE not in archive.names:
            raise _no_bytecode(archive)
        archive_version = _archive_version(archive)
        check_version("archive version", archive_version, versions.archive, place)
        steps = Steps(MAX_STEPS)
        code, data = _pickle(archive, _BYTECODE, steps), _pickle(archive, _DATA, steps)
        handles = _pickle(archive, _HANDLES, steps) if _HANDLES in archive.names else None
        scripted = has_torchscript(archive)
    attributes = max(code.attributes, data.attributes)
    version, functions = parse_bytecode(code.value, versions.bytecode, place, attributes)
    if handles is not None and not handles_fit(handles.value, code.value):
        raise _damaged(place, f"{_HANDLES} for other instructions")
    bundled = _bundled_inputs(functions, data.value)
    # last: it reads all of a file, and what is no model may be of any size
    file.seek(0)
    digest = hashlib.file_digest(file, "sha256").hexdigest()
    size = file.tell()
    return ModelInfo(
        place=place,
        sha256=digest,
        size=size,
        bytecode_version=version,
        archive_version=archive_version,
        functions=functions,
        bundled_inputs=bundled,
        custom_classes=_custom_classes(functions, (*code.classes, *data.classes)),
        enums=tuple(sorted(code.enums | data.enums)),
        list_types=tuple(sorted(code.types | data.types)),
        held_classes=_held_classes((*code.classes, *data.classes)),
        packings=_packings(code.versions | data.versions),
        own_methods=methods_of(functions, _class_of(data.value)),
        bundled_call=_first_call(bundled, functions, data.value),
        has_torchscript=scripted,
        held_devices=tuple(sorted(data.devices)),
    )


def read_archive_version(path: Path, name: str | None = None) -> int:
    """The version of a model's archive, by which it says what its operators mean.

    name: what messages call the file. Raises UnreadableModelError, DamagedModelError.
    """
    place = Place(name or str(path))
    with opened(path, place) as file, open_archive(file, place) as archive:
        return _archive_version(archive)


def has_torchscript(archive: Archive) -> bool:
    """True if an archive holds TorchScript, as `module._save_for_lite_interpreter` writes it."""
    return any(name.startswith("code/") for name in archive.names)


def _pickle(archive: Archive, record: str, steps: Steps) -> Pickle:
    if record not in archive.names:
        raise _damaged(archive.place, f"no record {record}")
    folder = record.removesuffix(".pkl") + "/"
    if record == _BYTECODE:
        folder = constants_folder(archive.names)
    return read_pickle(
        archive.read(record),
        record,
        archive.place,
        tensors=Tensors(archive.sizes, folder),
        steps=steps,
    )


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
    counts = _counts(data)
    return tuple(BundledInputs(method, counts.get(method)) for method in sorted(methods))


def _counts(data: Value) -> Mapping[str, int]:
    """Method -> how many inputs the module has for it."""
    return {method: len(inputs) for method, inputs in _stored(data).items()}


def _stored(data: Value) -> Mapping[str, list[Value]]:
    """Method -> the inputs that the module has for it."""
    if not isinstance(data, Call) or not isinstance(data.argument, Pairs):
        return {}
    return {
        key.removeprefix(_BUNDLED_ATTRIBUTE): value
        for key, value in data.argument.entries
        # The list is there but empty where the model generates its inputs itself.
        if isinstance(key, str) and key.startswith(_BUNDLED_ATTRIBUTE) and isinstance(value, list)
        if value
    }


def _class_of(data: Value) -> str:
    return data.function.qualified if isinstance(data, Call) else ""


def _first_call(
    bundled: Iterable[BundledInputs], functions: Iterable[Function], data: Value
) -> MethodCall | None:
    """Return the first known call among the methods with bundled inputs; `forward` comes first."""
    stored = _stored(data)
    methods = sorted((one.method for one in bundled), key=lambda name: name != "forward")
    for method in methods[:_TRIED]:
        call = bundled_call(method, stored.get(method), functions)
        if call is not None:
            return call
    return None


def _custom_classes(functions: Iterable[Function], named: Iterable[str]) -> tuple[str, ...]:
    types = chain.from_iterable(_types(function) for function in functions)
    found = _found(_CUSTOM_CLASS, chain(named, types))
    return tuple(sorted(set(chain.from_iterable(found.values()))))


def _held_classes(named: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted({name for name in named if _CUSTOM_CLASS.fullmatch(name)}))


def _packings(versions: Iterable[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(one for one in versions if _CUSTOM_CLASS.fullmatch(one[0])))


def _types(function: Function, skipped: int = 0) -> Iterator[str]:
    """The types that a function names, without those of its first arguments."""
    yield from function.types
    yield from function.returns
    yield from (argument.type for argument in function.arguments[skipped:])


def _found(pattern: re.Pattern[str], texts: Iterable[str]) -> Mapping[str, frozenset[str]]:
    """Text -> what is found in it; each is searched once, however often it is there."""
    return {text: frozenset(pattern.findall(text)) for text in set(texts)}


def _no_bytecode(archive: Archive) -> NoBytecodeError:
    if _EXPORTED.intersection(archive.names):
        return NoBytecodeError(
            "this is a program of torch.export, and its suffix is not .pt2",
            place=archive.place,
            expected="a .ptl, with a record bytecode.pkl",
            seen="a .pt2 archive",
            hint="give it the suffix .pt2: a model is made of it then",
        )
    if _BEFORE_1_3 in archive.names:
        return NoBytecodeError(
            "this TorchScript is in a format that today's torch does not read either",
            place=archive.place,
            expected="a record bytecode.pkl",
            seen=f"a record {_BEFORE_1_3}, as torch 1.0 to 1.2 wrote",
            hint="torch.jit.load it with torch 1.9 (in Python 3.9 or older), and write it there"
            " with module._save_for_lite_interpreter(path)",
        )
    scripted = has_torchscript(archive)
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


# Records of torch.export.save (torch/export/pt2_archive/constants.py), now and before 2.8.
_EXPORTED = frozenset({"archive_format", "models/model.json", "serialized_exported_program.json"})
# The module of an archive of version 1; wheels of torch 1.11 and later are built without its reader
# (torch/csrc/jit/serialization/import.cpp, C10_DISABLE_LEGACY_IMPORT).
_BEFORE_1_3: Final = "model.json"


def _damaged(place: Place, seen: str) -> DamagedModelError:
    return DamagedModelError(
        "this model is truncated or damaged",
        place=place,
        expected="the records of a .ptl archive",
        seen=seen,
        hint="export it again",
    )
