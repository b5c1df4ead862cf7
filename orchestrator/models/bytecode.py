"""`bytecode.pkl` as functions: what each names, takes and returns.

Contract: `parse_bytecode` takes the record's inert value and returns the bytecode version and the
functions in file order, or raises `UnsupportedVersionError` or `DamagedModelError`. The format is
the one of `torch/csrc/jit/mobile/import.cpp` (`parseMethods`) and
`torch/csrc/jit/serialization/export_module.cpp` (`getFunctionTuple`):

    (version, (name, (("instructions", ...), ("operators", ((name, overload, args), ...)),
     ("constants", ...), ("types", ...), ("register_size", n)), schema), ...)
"""

from __future__ import annotations

from dataclasses import dataclass

from orchestrator.errors import OrchestratorError, Place
from orchestrator.models.archive import DamagedModelError
from orchestrator.models.inert import Value
from orchestrator.values.operators import MalformedOperatorNameError, OperatorName

# Tables may be shared between functions, so a small file can hold many large ones.
MAX_ROWS = 1_000_000
# Before the version was written (import.cpp, default_version).
_UNWRITTEN_VERSION = 3


class UnsupportedVersionError(OrchestratorError):
    """The model's bytecode or archive version is one that the pinned runtime does not load."""


@dataclass(frozen=True, order=True)
class OperatorUse:
    """An operator that a function names, and how many arguments it passes.

    `arguments` is -1 where the file does not say (bytecode before 6, or variable arguments).
    """

    operator: OperatorName
    arguments: int


@dataclass(frozen=True)
class Argument:
    """An argument of a function: its name and its type as TorchScript writes it."""

    name: str
    type: str


@dataclass(frozen=True)
class Function:
    """One function of the bytecode; `qualified` is like `__torch__.net.Classifier.forward`.

    `arguments` has `self` first and, like `returns`, is empty where an old file has no schema.
    `types` are the type texts that its instructions refer to.
    """

    qualified: str
    operators: tuple[OperatorUse, ...]
    types: tuple[str, ...]
    arguments: tuple[Argument, ...]
    returns: tuple[str, ...]

    @property
    def name(self) -> str:
        """The method's name, such as `forward`."""
        return self.qualified.rpartition(".")[2]


def parse_bytecode(value: Value, versions: range, place: Place) -> tuple[int, tuple[Function, ...]]:
    """The bytecode version, which lies in `versions`, and the functions."""
    return _Parser(place).file(value, versions)


def check_version(kind: str, version: int, versions: range, place: Place) -> None:
    """Raises `UnsupportedVersionError` unless `versions` has `version`; `kind` names it."""
    if version in versions:
        return
    newer = version >= versions.stop
    raise UnsupportedVersionError(
        f"this model's {kind} is not one that the runtime loads",
        place=place,
        expected=f"{kind} {versions.start} to {versions.stop - 1}",
        seen=str(version),
        hint="export it with an older PyTorch, or pin a newer runtime in WORKSPACE"
        if newer
        else "export it again with PyTorch 1.8 or newer",
    )


class _Parser:
    """Walks the record by its fixed shape; whatever does not fit is damage."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._rows = 0

    def file(self, value: Value, versions: range) -> tuple[int, tuple[Function, ...]]:
        entries = self._tuple(value, "a record")
        version = _UNWRITTEN_VERSION
        if entries and isinstance(entries[0], int):
            version, entries = entries[0], entries[1:]
        check_version("bytecode version", version, versions, self._place)
        functions = tuple(self._function(entry) for entry in entries)
        names = {function.qualified for function in functions}
        if len(names) != len(functions):
            raise self._damaged("two functions of one name")
        return version, functions

    def _function(self, value: Value) -> Function:
        parts = self._tuple(value, "a function")
        if len(parts) not in (2, 3):
            raise self._damaged(f"a function of {len(parts)} parts")
        name = self._text(parts[0], "a function's name")
        code = self._tuple(parts[1], "a code table")
        schema = self._tuple(parts[2], "a schema") if len(parts) == 3 else ()
        self._field(code, 0, "instructions")
        self._field(code, 2, "constants")
        return Function(
            qualified=name,
            operators=tuple(self._operator(row) for row in self._field(code, 1, "operators")),
            types=tuple(self._text(row, "a type") for row in self._field(code, 3, "types")),
            arguments=self._arguments(schema, 0, "arguments"),
            returns=tuple(row.type for row in self._arguments(schema, 1, "returns")),
        )

    def _operator(self, value: Value) -> OperatorUse:
        row = self._tuple(value, "an operator")
        if len(row) not in (2, 3):
            raise self._damaged(f"an operator of {len(row)} parts")
        name = self._text(row[0], "an operator's name")
        overload = self._text(row[1], "an operator's overload")
        count = row[2] if len(row) == 3 else -1
        if not isinstance(count, int):
            raise self._damaged("a number of arguments that is not a number")
        try:
            return OperatorUse(OperatorName.of(name, overload), count)
        except MalformedOperatorNameError as error:
            raise self._damaged(f"the operator name {error.seen}") from error

    def _arguments(self, schema: tuple[Value, ...], index: int, name: str) -> tuple[Argument, ...]:
        if not schema:
            return ()
        arguments = []
        for value in self._field(schema, index, name):
            row = self._tuple(value, "an argument")
            arguments.append(
                Argument(
                    self._text(self._entry(row, 0, "name"), "an argument's name"),
                    self._text(self._entry(row, 1, "type"), "an argument's type"),
                )
            )
        return tuple(arguments)

    def _field(self, table: tuple[Value, ...], index: int, name: str) -> tuple[Value, ...]:
        rows = self._tuple(self._entry(table, index, name), f"a field {name}")
        self._rows += len(rows)
        if self._rows > MAX_ROWS:
            raise self._damaged(f"more than {MAX_ROWS} rows in its tables")
        return rows

    def _entry(self, table: tuple[Value, ...], index: int, name: str) -> Value:
        pair = table[index] if index < len(table) else ()
        if not isinstance(pair, tuple) or len(pair) != 2 or pair[0] != name:
            raise self._damaged(f"no field {name!r} where it belongs")
        return pair[1]

    def _tuple(self, value: Value, what: str) -> tuple[Value, ...]:
        if not isinstance(value, tuple):
            raise self._damaged(f"{what} that is not a tuple")
        return value

    def _text(self, value: Value, what: str) -> str:
        if not isinstance(value, str):
            raise self._damaged(f"{what} that is not a text")
        return value

    def _damaged(self, seen: str) -> DamagedModelError:
        return DamagedModelError(
            "this model is truncated or damaged",
            place=self._place,
            expected="bytecode.pkl in the format of the lite interpreter",
            seen=seen,
            hint="export it again",
        )
