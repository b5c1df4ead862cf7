"""`bytecode.pkl` as functions: what each names, takes and returns.

Contract: `parse_bytecode` takes the record's inert value and returns the bytecode version and the
functions in file order, or raises `UnsupportedVersionError` or `DamagedModelError`. The format is
the one of `torch/csrc/jit/mobile/import.cpp` (`parseMethods`) and
`torch/csrc/jit/serialization/export_module.cpp` (`getFunctionTuple`):

    (version, (name, (("instructions", ...), ("operators", ((name, overload, args), ...)),
     ("constants", ...), ("types", ...), ("register_size", n)), schema), ...)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from orchestrator.errors import OrchestratorError, Place
from orchestrator.models.archive import DamagedModelError
from orchestrator.models.inert import Value, device_of
from orchestrator.models.instructions import (
    Tables,
    instruction_fault,
    methods_called,
    slots_set,
)
from orchestrator.models.typetexts import MAX_TYPE, type_fault
from orchestrator.values.coverage import MOST_INSTRUCTIONS
from orchestrator.values.operators import MalformedOperatorNameError, OperatorName

# Tables, rows and texts may be shared, so a small file can hold many large ones. The largest
# detectors have 20,000 rows.
MAX_ROWS = MOST_INSTRUCTIONS
MAX_FUNCTIONS = 10_000
# PyTorch has about 3,000, overloads included.
MAX_OPERATORS = 10_000
MAX_NAME = 256
MAX_TEXT = 8 * 2**20
# Before the version was written (import.cpp, default_version).
_UNWRITTEN_VERSION = 3
# The last version whose functions may be without a schema (import.cpp, parseMethods).
_WITHOUT_SCHEMA = 4


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
    `types` are the type texts that its instructions refer to, `methods` what they look up on an
    object, by name: (instruction, method). `devices` are constants that they load: (instruction,
    device).
    """

    qualified: str
    operators: tuple[OperatorUse, ...]
    types: tuple[str, ...]
    arguments: tuple[Argument, ...]
    returns: tuple[str, ...]
    methods: tuple[tuple[int, str], ...] = ()
    devices: tuple[tuple[int, str], ...] = ()

    @property
    def name(self) -> str:
        """The method's name, such as `forward`."""
        return self.qualified.rpartition(".")[2]


def parse_bytecode(
    value: Value, versions: range, place: Place, attributes: int = 0
) -> tuple[int, tuple[Function, ...]]:
    """The bytecode version, which lies in `versions`, and the functions.

    attributes: the most that any object of the model has.
    """
    return _Parser(place).file(value, versions, attributes)


def check_version(kind: str, version: int, versions: range, place: Place) -> None:
    """Raises `UnsupportedVersionError` unless `versions` has `version`; `kind` names it."""
    if version in versions:
        return
    newer = version >= versions.stop
    raise UnsupportedVersionError(
        f"the runtime does not support this model's {kind}",
        place=place,
        expected=f"{kind} {versions.start} to {versions.stop - 1}",
        seen=str(version),
        hint="export it with an older PyTorch, or pin a newer runtime in WORKSPACE"
        if newer
        else "export it again with PyTorch 1.8 or newer",
    )


@dataclass(frozen=True)
class _Code:
    """A function's code: its used parts, its instructions, and the lengths of its tables."""

    operators: tuple[OperatorUse, ...]
    types: tuple[str, ...]
    instructions: tuple[Value, ...]
    methods: tuple[tuple[int, str], ...]
    devices: tuple[tuple[int, str], ...]
    constants: int
    registers: int


def _devices_loaded(
    instructions: tuple[Value, ...], constants: tuple[Value, ...]
) -> Iterator[tuple[int, str]]:
    """Yield the instructions that load a device from the constants: number, device."""
    devices = {number: device_of(value) for number, value in enumerate(constants)}
    if not any(devices.values()):
        return
    for number, instruction in enumerate(instructions):
        match instruction:
            case ("LOADC", int() as index, *_) if devices.get(index):
                yield number, str(devices[index])


class _Parser:
    """Walks the record by its fixed shape; anything else is damage.

    Parsed values are cached by identity; the record keeps them alive.
    """

    def __init__(self, place: Place) -> None:
        self._place = place
        self._rows = 0
        self._text_length = 0
        self._codes: dict[int, _Code] = {}
        self._uses: dict[int, OperatorUse] = {}
        self._operators: set[OperatorName] = set()
        self._parsed_arguments: dict[int, Argument] = {}

    def file(
        self, value: Value, versions: range, attributes: int
    ) -> tuple[int, tuple[Function, ...]]:
        entries = self._tuple(value, "a record")
        version = _UNWRITTEN_VERSION
        if entries and isinstance(entries[0], int):
            version, entries = entries[0], entries[1:]
        check_version("bytecode version", version, versions, self._place)
        if len(entries) > MAX_FUNCTIONS:
            raise self._damaged(f"more than {MAX_FUNCTIONS} functions")
        functions = tuple(self._function(entry, version) for entry in entries)
        names = {function.qualified for function in functions}
        if len(names) != len(functions):
            raise self._damaged("two functions with the same name")
        self._check_instructions(attributes)
        return version, functions

    def _function(self, value: Value, version: int) -> Function:
        parts = self._tuple(value, "a function")
        if len(parts) not in (2, 3) or (len(parts) == 2 and version > _WITHOUT_SCHEMA):
            raise self._damaged(f"a function of {len(parts)} parts")
        name = self._text(parts[0], "a function's name", MAX_TYPE)
        code = self._code(parts[1])
        schema = self._tuple(parts[2], "a schema") if len(parts) == 3 else None
        return Function(
            qualified=name,
            operators=code.operators,
            types=code.types,
            arguments=self._arguments(schema, 0, "arguments"),
            returns=tuple(row.type for row in self._arguments(schema, 1, "returns")),
            methods=code.methods,
            devices=code.devices,
        )

    def _code(self, value: Value) -> _Code:
        table = self._tuple(value, "a code table")
        instructions = self._field(table, 0, "instructions")
        operators = self._field(table, 1, "operators")
        constants = self._field(table, 2, "constants")
        types = self._field(table, 3, "types")
        registers = self._entry(table, 4, "register_size")
        if type(registers) is not int or not 0 <= registers <= MAX_ROWS:
            raise self._damaged(f"an invalid register count: {str(registers)[:40]}")
        code = self._codes.get(id(value))
        if code is None:
            code = self._codes[id(value)] = _Code(
                operators=tuple(self._operator(row) for row in operators),
                types=tuple(self._type(row) for row in types),
                instructions=instructions,
                methods=methods_called(instructions, constants),
                devices=tuple(_devices_loaded(instructions, constants)),
                constants=len(constants),
                registers=registers,
            )
        return code

    def _operator(self, value: Value) -> OperatorUse:
        use = self._uses.get(id(value))
        if use is None:
            use = self._uses[id(value)] = self._parse_operator(value)
            self._operators.add(use.operator)
            if len(self._operators) > MAX_OPERATORS:
                raise self._damaged(f"more than {MAX_OPERATORS} operators")
        return use

    def _parse_operator(self, value: Value) -> OperatorUse:
        row = self._tuple(value, "an operator")
        if len(row) not in (2, 3):
            raise self._damaged(f"an operator of {len(row)} parts")
        name = self._text(row[0], "an operator's name", MAX_NAME)
        overload = self._text(row[1], "an operator's overload", MAX_NAME)
        count = row[2] if len(row) == 3 else -1
        if type(count) is not int:
            raise self._damaged("an argument count that is not a number")
        try:
            return OperatorUse(OperatorName.of(name, overload), count)
        except MalformedOperatorNameError as error:
            raise self._damaged(f"the operator name {error.seen}") from error

    def _arguments(
        self, schema: tuple[Value, ...] | None, index: int, name: str
    ) -> tuple[Argument, ...]:
        if schema is None:
            return ()
        return tuple(self._argument(row) for row in self._field(schema, index, name))

    def _argument(self, value: Value) -> Argument:
        argument = self._parsed_arguments.get(id(value))
        if argument is None:
            row = self._tuple(value, "an argument")
            name = self._text(self._entry(row, 0, "name"), "an argument's name", MAX_NAME)
            argument = Argument(name, self._type(self._entry(row, 1, "type")))
            self._entry(row, 2, "default_value")
            self._parsed_arguments[id(value)] = argument
        return argument

    def _check_instructions(self, attributes: int) -> None:
        codes = self._codes.values()
        slots = max([attributes, *(slots_set(code.instructions) for code in codes)])
        for code in codes:
            fault = instruction_fault(
                code.instructions,
                Tables(
                    operators=len(code.operators),
                    constants=code.constants,
                    types=len(code.types),
                    registers=code.registers,
                    slots=slots,
                ),
            )
            if fault:
                raise self._damaged(fault)

    def _field(self, table: tuple[Value, ...], index: int, name: str) -> tuple[Value, ...]:
        rows = self._tuple(self._entry(table, index, name), f"a field {name}")
        self._rows += len(rows)
        if self._rows > MAX_ROWS:
            raise self._damaged(f"more than {MAX_ROWS} rows in its tables")
        return rows

    def _entry(self, table: tuple[Value, ...], index: int, name: str) -> Value:
        pair = table[index] if index < len(table) else ()
        if not isinstance(pair, tuple) or len(pair) != 2 or pair[0] != name:
            raise self._damaged(f"field {name!r} is missing or out of order")
        return pair[1]

    def _tuple(self, value: Value, what: str) -> tuple[Value, ...]:
        if not isinstance(value, tuple):
            raise self._damaged(f"{what} that is not a tuple")
        return value

    def _type(self, value: Value) -> str:
        text = self._text(value, "a type", MAX_TYPE)
        fault = type_fault(text)
        if fault:
            raise self._damaged(fault)
        return text

    def _text(self, value: Value, what: str, limit: int) -> str:
        if not isinstance(value, str):
            raise self._damaged(f"{what} that is not text")
        if len(value) > limit:
            raise self._damaged(f"{what} of {len(value)} characters")
        self._text_length += len(value)
        if self._text_length > MAX_TEXT:
            raise self._damaged(f"more than {MAX_TEXT} characters in its tables")
        return value

    def _damaged(self, seen: str) -> DamagedModelError:
        return DamagedModelError(
            "this model is truncated or damaged",
            place=self._place,
            expected="bytecode.pkl in the format of the lite interpreter",
            seen=seen,
            hint="export it again",
        )
