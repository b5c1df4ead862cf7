"""The contents of a `.pt2`, which `torch.export.save` wrote, checked before torch reads it.

Contract: `read_program` returns a `ProgramInfo`, or raises one of the errors of this package; it
executes, imports and builds nothing that the file names.

torch's own reader (`torch/export/pt2_archive/_package.py`, `torch/_export/serde/serialize.py`)
trusts its file. It unpickles whatever a pickle calls, evaluates the text of sizes and guards as
Python, looks operators up by any dotted name below `torch`, writes names of values into source that
it compiles, imports modules for enums, and loads compiled libraries. So all of this is read here
first, by what an honest file has: pickles of tensors, arithmetic, identifiers, operators of known
kinds; anything else is refused.
"""

from __future__ import annotations

import hashlib
import io
import keyword
import pickletools
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from io import BufferedReader
from pathlib import Path
from typing import Any, Final

from orchestrator.errors import OrchestratorError, Place
from orchestrator.models.archive import (
    Archive,
    DamagedModelError,
    NotAModelError,
    damaged,
    open_archive,
)
from orchestrator.models.info import opened
from orchestrator.models.pickles import UnsafePickleError
from orchestrator.models.program_text import (
    expression_fault,
    guard_fault,
    spec_fault,
)
from orchestrator.system.reading import parse_json
from orchestrator.values.methods import Method, Parameter
from orchestrator.values.operators import OperatorName

# What `torch.export.save` calls the program; other names are those of methods.
_MODEL: Final = "model"
FORWARD: Final = "forward"
_LEGACY: Final = "serialized_exported_program.json"
_PROGRAM: Final = re.compile(r"models/(.+)\.json")
# The records of a program, since 2.8 and before (torch/export/pt2_archive/constants.py).
_RECORDS: Final = re.compile(
    r"archive_(format|version)|byteorder|version|\.data/[\w.]+|\.format_version|\.storage_alignment"
    r"|models/[^/]+\.json|data/(weights|constants|sample_inputs)/[^/]+|extra(_files)?/.+"
    r"|serialized_(exported_program\.json|(state_dict|constants|example_inputs)\.pt)",
    re.ASCII,
)
_SAVE: Final = "save the result of torch.export.export with torch.export.save"
_COMPLETE: Final = "a complete .pt2 archive"
# Empty where the program has none.
_INPUTS: Final = re.compile(r"data/sample_inputs/.*|serialized_example_inputs\.pt")
# Objects of C++ and of Python, which only a pickle can make.
_OBJECTS: Final = re.compile(r"data/constants/(custom|opaque)_obj_.*")
_NAME: Final = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_PATH: Final = re.compile(r"[\w.:\-]*", re.ASCII)
_VERSION: Final = re.compile(r"<?=?\d+(\.\d+)+[\w.+\-]{0,60}", re.ASCII)
_OPERATOR: Final = re.compile(r"torch\.ops\.([a-z]\w*)\.(\w+)\.(\w+)", re.ASCII)
_ARITHMETIC: Final = re.compile(r"_operator\.(\w+)|math\.(\w+)|torch\.(sym_\w+|_sym_\w+)", re.ASCII)
_ORDINARY: Final = frozenset(
    {
        *("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "neg", "pos", "abs"),
        *("eq", "ne", "lt", "le", "gt", "ge", "and_", "or_", "xor", "not_", "inv", "invert"),
        *("lshift", "rshift", "getitem", "index"),
    }
)
_MATHS: Final = frozenset({"ceil", "floor", "trunc", "sqrt"})
_HIGHER: Final = frozenset(
    {
        *("cond", "while_loop", "scan", "map", "map_impl", "wrap_with_set_grad_enabled"),
        *("wrap_with_autocast", "associative_scan"),
    }
)
# Namespaces of operators that this project has kernels or rules for.
_NAMESPACES: Final = frozenset(
    {"aten", "prim", "prims", "quantized_decomposed", "torchao", "torchvision", "quantized"}
)
# They open files.
_FILES: Final = frozenset({"from_file"})
# What pickles of tensors name (torch/_utils.py, torch/_tensor.py).
_BUILDERS: Final = frozenset(
    {
        *("torch._utils _rebuild_tensor_v2", "torch._utils _rebuild_parameter"),
        *("collections OrderedDict", "torch.storage UntypedStorage", "torch Size", "torch device"),
        *("torch.serialization _get_layout", "torch.nn.parameter Parameter"),
    }
)
_STORAGE: Final = re.compile(r"torch [A-Z]\w*Storage|torch (float|u?int|bfloat|bool|complex)\d*")
_BAD_OPCODES: Final = frozenset(
    {"STACK_GLOBAL", "INST", "OBJ", "NEWOBJ_EX", "EXT1", "EXT2", "EXT4", "PERSID", "BUILD"}
)
# A graph of 50,000 nodes with its stack traces.
_LONGEST_JSON: Final = 2**26
# Values by the names of a graph, or of a module's tensors.
_NAMES_OF_VALUES: Final = ("tensor_values", "sym_int_values", "sym_bool_values", "sym_float_values")
_TABLES: Final = frozenset(
    {
        *(*_NAMES_OF_VALUES, "custom_obj_values", "config", "range_constraints", "opset_version"),
        "treespec_namedtuple_fields",
    }
)
_MOST_OPCODES: Final = 2_000_000
_MOST_DEEP: Final = 200


class UnsafeProgramError(OrchestratorError):
    """A program of torch.export has a text that torch would run, and that no program needs."""


class ForeignOperatorError(OrchestratorError):
    """A program of torch.export names an operator of a library that is not known."""


class NotAProgramError(OrchestratorError):
    """A file with the suffix .pt2 holds no program of torch.export."""


@dataclass(frozen=True)
class ProgramInfo:
    """A `.pt2` as data.

    torch      the version that wrote it, as the file says
    own_methods  the programs in it, `forward` of what `torch.export.save` wrote, with the names of
               their arguments where the file says them
    operators  those of PyTorch and other libraries that it calls, sorted
    has_inputs whether the file holds the inputs that it was exported with
    """

    place: Place = field(compare=False)
    sha256: str
    size: int
    torch: str
    own_methods: tuple[Method, ...]
    operators: tuple[OperatorName, ...]
    has_inputs: bool

    # what reports ask of a model
    @property
    def root_operators(self) -> tuple[OperatorName, ...]:
        return self.operators


def read_program(path: Path, *, name: str | None = None) -> ProgramInfo:
    """Read the `.pt2` at `path`; messages call it `name`, else its path."""
    place = Place(name or str(path))
    with opened(path, place, "a .pt2 file") as file:
        return _read(file, place)


def _read(file: BufferedReader, place: Place) -> ProgramInfo:
    digest = hashlib.file_digest(file, "sha256").hexdigest()
    size = file.seek(0, io.SEEK_END)
    file.seek(0)
    with _opened(file, place) as archive:
        programs = _programs(archive)
        _check_records(archive)
        checked, methods = list[_Checked](), list[Method]()
        for method, record in sorted(programs.items()):
            program = _json(archive, record)
            checked.append(_Checked(place, record))
            checked[-1].program(program)
            methods.append(_method(method, program))
        pickled = {name for name in archive.names if name.endswith(".pt")}
        for record in archive.names:
            if record.startswith("data/") and record.endswith("_config.json"):
                config = _json(archive, record)
                _Checked(place, record).program(config)
                pickled |= _pickled(config, record.rpartition("/")[0])
        for record in sorted(pickled.intersection(archive.names)):
            _check_pickle(archive, record)
        sizes = archive.sizes
    return ProgramInfo(
        place=place,
        sha256=digest,
        size=size,
        torch=checked[0].torch,
        own_methods=tuple(methods),
        operators=tuple(sorted({operator for one in checked for operator in one.operators})),
        has_inputs=any(size for record, size in sizes.items() if _INPUTS.fullmatch(record)),
    )


@contextmanager
def _opened(file: BufferedReader, place: Place) -> Iterator[Archive]:
    try:
        with open_archive(file, place, rooted=False) as archive:
            yield archive
    except NotAModelError as error:
        raise NotAProgramError(
            "this is not a program of torch.export",
            place=place,
            expected="a zip archive, as torch.export.save writes it",
            seen=error.seen,
            hint=_SAVE,
        ) from None
    except DamagedModelError as error:
        error.expected = _COMPLETE
        raise


def _programs(archive: Archive) -> Mapping[str, str]:
    """Method -> the record of its program."""
    found = {m[1]: m[0] for name in archive.names if (m := _PROGRAM.fullmatch(name))}
    if not found and _LEGACY in archive.names:
        found = {_MODEL: _LEGACY}
    made = {FORWARD if name == _MODEL else name: record for name, record in found.items()}
    bad = next((name for name in made if not _is_name(name)), None)
    if not made or bad is not None or len(made) < len(found):
        raise NotAProgramError(
            "this is not a program of torch.export",
            place=archive.place,
            expected="what torch.export.save(program, path) writes: a record models/model.json",
            seen="a .ptl model"
            if "bytecode.pkl" in archive.names
            else "an archive without one"
            if not made
            else f"a program named {str(bad)[:60]!r}",
            hint="give it the suffix .ptl" if "bytecode.pkl" in archive.names else _SAVE,
        )
    return made


def _method(name: str, program: Any) -> Method:
    """A method of a program that was checked; what it takes is not told by its type."""
    try:
        names = program["graph_module"]["module_call_graph"][0]["signature"]["forward_arg_names"]
        parameters = tuple(Parameter(name=one, type="Tensor") for one in names)
    except (KeyError, IndexError, TypeError, ValueError):
        return Method(name=name, parameters=None)
    return Method(name=name, parameters=parameters)


def _check_records(archive: Archive) -> None:
    for name in archive.names:
        if _OBJECTS.fullmatch(name):
            raise _unsafe(archive.place, name, "an object of C++ or Python, which a pickle makes")
        if not _RECORDS.fullmatch(name):
            raise _unsafe(archive.place, name[:120], "no record of a program")


def _pickled(config: Any, folder: str) -> set[str]:
    """The records that torch unpickles, by the table of a folder's tensors."""
    rows = config.get("config") if isinstance(config, dict) else None
    return {
        f"{folder}/{row.get('path_name')}"
        for row in (rows.values() if isinstance(rows, dict) else ())
        if isinstance(row, dict) and row.get("use_pickle") is not False
    }


def _json(archive: Archive, record: str) -> Any:
    try:
        return parse_json(archive.read(record, _LONGEST_JSON))
    except (ValueError, RecursionError) as error:
        raise damaged(archive.place, f"{record}: {str(error)[:200]}", _COMPLETE) from None


# --- pickles ---


def _check_pickle(archive: Archive, record: str) -> None:
    """Raises UnsafePickleError where a file of torch.save makes anything but tensors."""
    place = archive.place
    if archive.sizes[record] == 0:
        return
    with archive.open(record) as file, open_archive(file, place) as inner:
        if "data.pkl" not in inner.names:
            raise _unsafe_pickle(place, record, "an archive that torch.save did not write")
        data = inner.read("data.pkl")
    try:
        for number, (opcode, argument, _) in enumerate(pickletools.genops(data)):
            if number > _MOST_OPCODES:
                raise _unsafe_pickle(place, record, f"more than {_MOST_OPCODES:,} steps")
            if opcode.name == "GLOBAL" and not _builds_tensors(str(argument)):
                named = str(argument).replace(" ", ".")
                raise _unsafe_pickle(place, record, f"the Python object {named[:120]!r}")
            if opcode.name in _BAD_OPCODES:
                raise _unsafe_pickle(place, record, f"the pickle opcode {opcode.name}")
    except (ValueError, IndexError, OverflowError) as error:
        raise damaged(place, f"{record}: {str(error)[:200]}", _COMPLETE) from None


def _builds_tensors(name: str) -> bool:
    return name in _BUILDERS or _STORAGE.fullmatch(name) is not None


# --- programs ---


class _Checked:
    """A JSON record, read key by key; whatever torch turns into code is one of `_RULES`."""

    def __init__(self, place: Place, record: str) -> None:
        self.place, self.record = place, record
        self.torch = "?"
        self.operators: set[OperatorName] = set()
        self._rules: Mapping[str, Callable[[Any], None]] = {
            **dict.fromkeys(("name", "as_name"), self._name),
            **dict.fromkeys(_NAMES_OF_VALUES, self._names),
            **dict.fromkeys(("custom_obj_values", "as_custom_obj", "custom_obj"), self._object),
            **dict.fromkeys(("target", "as_operator"), self._target),
            **dict.fromkeys(("in_spec", "out_spec"), self._spec),
            **dict.fromkeys(("parameter_name", "buffer_name", "tensor_constant_name"), self._path),
            **dict.fromkeys(("user_input_name", "fqn", "path_name"), self._path),
            "forward_arg_names": self._list_of_names,
            "expr_str": self._expression,
            "guards_code": self._guards,
            "torch_version": self._version,
        }

    def program(self, value: Any) -> None:
        """Raises UnsafeProgramError, ForeignOperatorError."""
        left = [(value, 0)]
        while left:
            one, depth = left.pop()
            if depth > _MOST_DEEP:
                raise self.unsafe(f"more than {_MOST_DEEP} levels")
            if isinstance(one, list):
                left += [(item, depth + 1) for item in one]
            elif isinstance(one, dict):
                left += [(item, depth + 1) for item in self._values(one)]

    def _values(self, record: dict[str, Any]) -> Iterator[Any]:
        """Check an object's texts by their keys; yield the values that are left to read."""
        for key, item in record.items():
            rule = self._rules.get(key)
            if rule is not None and item is not None:
                rule(item)
            if key in _TABLES and isinstance(item, dict):
                yield from item.values()
            elif key != "metadata" or not _is_texts(item):
                yield item

    def unsafe(self, seen: str) -> UnsafeProgramError:
        return _unsafe(self.place, self.record, seen)

    def _text(self, value: Any, what: str) -> str:
        if not isinstance(value, str):
            raise self.unsafe(f"{what} that is no text")
        return value

    def _name(self, value: Any) -> None:
        text = self._text(value, "a name")
        if text and not _is_name(text):
            raise self.unsafe(f"the name {text[:120]!r}")

    def _names(self, value: Any) -> None:
        for one in value if isinstance(value, dict) else ():
            self._name(one)

    def _list_of_names(self, value: Any) -> None:
        for one in value if isinstance(value, list) else (value,):
            self._name(one)

    def _path(self, value: Any) -> None:
        text = self._text(value, "a name")
        if not _PATH.fullmatch(text):
            raise self.unsafe(f"the name {text[:120]!r}")

    def _object(self, value: Any) -> None:
        if value:
            raise self.unsafe("an object of C++, such as packed weights")

    def _spec(self, value: Any) -> None:
        fault = spec_fault(self._text(value, "a tree of arguments"))
        if fault:
            raise self.unsafe(fault)

    def _expression(self, value: Any) -> None:
        fault = expression_fault(self._text(value, "a size"))
        if fault:
            raise self.unsafe(fault)

    def _guards(self, value: Any) -> None:
        for one in value if isinstance(value, list) else (value,):
            fault = guard_fault(self._text(one, "a guard"))
            if fault:
                raise self.unsafe(fault)

    def _version(self, value: Any) -> None:
        text = self._text(value, "a version")
        if not _VERSION.fullmatch(text):
            raise self.unsafe(f"the version {text[:60]!r}")
        self.torch = text

    def _target(self, value: Any) -> None:
        text = self._text(value, "an operator")
        match = _OPERATOR.fullmatch(text)
        if match is None:
            arithmetic = _ARITHMETIC.fullmatch(text)
            if arithmetic is not None and _is_ordinary(arithmetic):
                return
            higher = re.fullmatch(r"torch\.ops\.higher_order\.(\w+)", text, re.ASCII)
            if higher is None or higher[1] not in _HIGHER:
                raise self.unsafe(f"the operator {text[:120]!r}")
            return
        namespace, name, overload = match.groups()
        shown = f"{namespace}::{name}" + ("" if overload == "default" else f".{overload}")
        if namespace not in _NAMESPACES:
            raise ForeignOperatorError(
                f"this program calls {shown}, an operator that nobody here has",
                place=self.place,
                expected=f"operators of {', '.join(sorted(_NAMESPACES))}",
                seen=shown,
                hint="write that part of the module in operators of PyTorch, or export it with"
                " `export model --via script` from an app with the operator's sources",
            )
        if name in _FILES:
            raise self.unsafe(f"{shown}, which opens files")
        self.operators.add(OperatorName.parse(shown))


def _is_texts(value: Any) -> bool:
    """Stack traces and the like, of which torch makes no code."""
    return isinstance(value, dict) and all(isinstance(one, str) for one in value.values())


def _is_ordinary(match: re.Match[str]) -> bool:
    plain, maths, symbolic = match.groups()
    return plain in _ORDINARY or maths in _MATHS or symbolic is not None


def _is_name(text: str) -> bool:
    return _NAME.fullmatch(text) is not None and not keyword.iskeyword(text)


# --- errors ---


def _unsafe(place: Place, record: str, seen: str) -> UnsafeProgramError:
    return UnsafeProgramError(
        "this program of torch.export is not safe to load",
        place=place,
        expected="operators, arithmetic on sizes, and names, as torch.export.save writes them",
        seen=f"{record}: {seen}",
        hint="do not load this file anywhere, unless you exported it: then report it",
    )


def _unsafe_pickle(place: Place, record: str, seen: str) -> UnsafePickleError:
    return UnsafePickleError(
        "this model's pickle is not safe to load",
        place=place,
        expected=f"only tensors in {record}",
        seen=seen,
        hint="do not load this file anywhere; get the model from its author again",
    )
