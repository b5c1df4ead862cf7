"""A function's instructions: whether their operands are valid.

Contract: pure. `instruction_fault` returns a fault as text, or None. The runtime's
interpreter uses most operands unchecked (`torch/csrc/jit/mobile/interpreter.cpp`,
`InterpreterState::run` and `reg`; `Object::getSlot`). The depth of its stack is not
checked here: it depends on the operators' schemas, which the runtime has.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeGuard

from orchestrator.models.inert import Value

# The instructions of isOpSupportedInMobile, with their operands as FORALL_OPCODES has them
# (torch/csrc/jit/runtime/instruction.cpp and .h): O operator, R register, C constant, P jump,
# T type, S slot of an object, F function, I a number; the runtime takes an unknown name for OP.
_OPERANDS: Final = {
    **dict.fromkeys(["LOAD", "MOVE", "STORE", "STOREN", "DROPR"], "R"),
    **dict.fromkeys(["JF", "JMP", "LOOP"], "P"),
    **dict.fromkeys(["GET_ATTR", "SET_ATTR"], "S"),
    **dict.fromkeys(["LIST_CONSTRUCT", "DICT_CONSTRUCT", "NAMED_TUPLE_CONSTRUCT"], "T"),
    **dict.fromkeys(["CREATE_OBJECT", "ISINSTANCE"], "T"),
    **dict.fromkeys(["TUPLE_CONSTRUCT", "TUPLE_SLICE", "LIST_UNPACK", "FORMAT", "WARN"], "I"),
    **dict.fromkeys(["DROP", "RET", "RAISE_EXCEPTION", "UNCHECKED_CAST", "UN_INITIALIZED"], ""),
    **dict.fromkeys(["TUPLE_INDEX", "DICT_INDEX", "TO_LIST", "NUM_TO_TENSOR", "IS_CUDA"], ""),
    **dict.fromkeys(["__IS__", "__ISNOT__", "__NOT__", "DEVICE", "DTYPE", "DIM"], ""),
    **{"OP": "O", "OPN": "O", "LOADC": "C", "INTERFACE_CALL": "C", "CALL": "F"},
}
_WHAT: Final = {
    "O": "operator",
    "R": "register",
    "C": "constant",
    "P": "instruction",
    "T": "type",
    "S": "attribute",
    "F": "function",
    "I": "number",
}
# Setting an attribute creates all attributes before it.
MAX_SLOTS: Final = 2**16
# struct Instruction: int32_t X, uint16_t N
_NUMBERS: Final = range(2**31)
_COUNTS: Final = range(2**16)


@dataclass(frozen=True)
class Tables:
    """Number of entries in each table of a function; `slots`: number of attributes of any
    object."""

    operators: int
    constants: int
    types: int
    registers: int
    slots: int


def instruction_fault(rows: Sequence[Value], tables: Tables) -> str | None:
    """The first fault in the instructions of one function."""
    ranges = {
        "O": range(tables.operators),
        "R": range(1, tables.registers + 1),
        "C": range(tables.constants),
        "T": range(tables.types),
        "S": range(tables.slots),
        "F": _NUMBERS,
        "I": _NUMBERS,
    }
    for at, row in enumerate(rows):
        if not _is_instruction(row):
            return f"instruction {at}, which the interpreter does not have"
        name, x, n = row
        kind = _OPERANDS[name]
        # A jump is relative to its own index.
        within = range(-at, len(rows) - at) if kind == "P" else ranges.get(kind)
        if within is not None and x not in within:
            return f"instruction {at}, {name}, which refers to missing {_WHAT[kind]} {x}"
        if not _counts_well(name, x, n, tables):
            return f"instruction {at}, {name}, with invalid operand {n}"
    return None


def slots_set(rows: Sequence[Value]) -> int:
    """Number of attributes that these instructions can give an object."""
    slots = [row[1] for row in rows if _is_instruction(row) and row[0] == "SET_ATTR"]
    return 1 + max((slot for slot in slots if slot < MAX_SLOTS), default=-1)


def methods_called(
    rows: Sequence[Value], constants: Sequence[Value]
) -> tuple[tuple[int, str], ...]:
    """The methods that these instructions look up on an object, by name: (instruction, method)."""
    calls = [
        (at, row[1])
        for at, row in enumerate(rows)
        if _is_instruction(row) and row[0] == "INTERFACE_CALL" and row[1] in range(len(constants))
    ]
    named = [(at, constants[x]) for at, x in calls]
    return tuple((at, name) for at, name in named if isinstance(name, str))


def _is_instruction(row: Value) -> TypeGuard[tuple[str, int, int]]:
    return (
        isinstance(row, tuple)
        and len(row) == 3
        # and no bool, which the runtime does not take for a number
        and (type(row[0]), type(row[1]), type(row[2])) == (str, int, int)
        and row[0] in _OPERANDS
        and row[2] in _COUNTS
    )


def _counts_well(name: str, x: int, n: int, tables: Tables) -> bool:
    """True if the interpreter can handle the second operand."""
    match name:
        case "STOREN":
            return x + n <= tables.registers + 1
        case "ISINSTANCE":
            return x + n <= tables.types
        case "INTERFACE_CALL":
            # the object that is called is one of them
            return n >= 1
        case "LOOP":
            return n >= 2
        case "DICT_CONSTRUCT":
            return n % 2 == 0
        case "FORMAT":
            return x >= 1
    return True


def handles_fit(handles: Value, code: Value) -> bool:
    """True if there is one debug handle for each instruction: the runtime reads them too.

    handles, code: the values of `mobile_debug_handles.pkl` and `bytecode.pkl`; the second parsed.
    """
    if not isinstance(handles, tuple) or not isinstance(code, tuple) or len(handles) != len(code):
        return False
    return all(_handles_of(function, row) for function, row in zip(code, handles, strict=True))


def _handles_of(function: Any, handles: Value) -> bool:
    # The first entry of both is the version.
    if isinstance(function, int) or handles == ():
        return True
    match handles:
        case tuple((name, tuple((tuple(("function_debug_handles", tuple((list() as found,)))),)))):
            of, ((_, instructions), *_), *_ = function
            return bool(name == of and len(found) == len(instructions))
    return False
