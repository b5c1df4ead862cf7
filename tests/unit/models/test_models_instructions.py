"""A function's instructions refer to what is there: registers, constants, operators, places."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.models.archive import DamagedModelError
from orchestrator.models.info import ModelInfo, read_model
from orchestrator.pytorch.v1_13.dialect import DIALECT
from tests.ptl import (
    EMPTY,
    MODULE,
    TRUE,
    argument,
    bytecode,
    call,
    code,
    function,
    instruction,
    list_of,
    model,
    module,
    number,
    operator,
    pair,
    pickled,
    schema,
    text,
    tuple_of,
)

RET = instruction("RET")
TABLES = {
    "operators": tuple_of(operator("aten::relu"), operator("aten::neg")),
    "constants": tuple_of(number(5)),
    "types": tuple_of(text("Tensor"), text("List[int]"), text("int")),
    "registers": number(4),
}


def with_instructions(*rows: bytes) -> bytes:
    """A model with these instructions, two operators, one constant, three types and four registers;
    its only object has two attributes."""
    tables = code(tuple_of(*rows), **TABLES)
    return model(bytecode(function(tables=tables)), module(a=number(1), b=number(2)))


def read(file: bytes, folder: Path) -> ModelInfo:
    path = folder / "model.ptl"
    path.write_bytes(file)
    return read_model(path, DIALECT.models, name="model.ptl")


@pytest.mark.parametrize(
    "rows",
    [
        [instruction("STOREN", 1, 4), instruction("MOVE", 4), RET],
        [instruction("LOADC", 0), instruction("JF", 2), instruction("OP", 1), RET],
        [instruction("LOADC", 0), instruction("LOOP", 2, 2), instruction("JMP", -1), RET],
        [instruction("GET_ATTR", 1), instruction("ISINSTANCE", 1, 2), RET],
        [instruction("DICT_CONSTRUCT", 2, 4), instruction("LIST_CONSTRUCT", 1, 0), RET],
        [instruction("OPN", 0, 7), instruction("FORMAT", 1), instruction("TUPLE_SLICE", 0, 2)],
        # an attribute may be set before there is one, and read then
        [instruction("SET_ATTR", 9), instruction("GET_ATTR", 9), RET],
    ],
)
def test_what_the_exporter_writes_is_read(rows: list[bytes], tmp_path: Path) -> None:
    assert read(with_instructions(*rows), tmp_path).methods == ("forward",)


@pytest.mark.parametrize(
    ("row", "seen"),
    [
        (instruction("OP", 2), "an instruction 1, OP, that refers to operator 2"),
        (instruction("OP", -1), "an instruction 1, OP, that refers to operator -1"),
        (instruction("OPN", 2, 3), "an instruction 1, OPN, that refers to operator 2"),
        (instruction("LOAD", 0), "an instruction 1, LOAD, that refers to register 0"),
        (instruction("MOVE", 5), "an instruction 1, MOVE, that refers to register 5"),
        (instruction("STORE", -3), "an instruction 1, STORE, that refers to register -3"),
        (instruction("DROPR", 5), "an instruction 1, DROPR, that refers to register 5"),
        (instruction("STOREN", 2, 4), "an instruction 1, STOREN, that asks for 4"),
        (instruction("LOADC", 1), "an instruction 1, LOADC, that refers to constant 1"),
        (instruction("INTERFACE_CALL", 1, 1),
         "an instruction 1, INTERFACE_CALL, that refers to constant 1"),
        (instruction("INTERFACE_CALL", 0, 0), "an instruction 1, INTERFACE_CALL, that asks for 0"),
        # from its own place: 0 to 2 are there
        (instruction("JMP", 2), "an instruction 1, JMP, that refers to instruction 2"),
        (instruction("JF", -2), "an instruction 1, JF, that refers to instruction -2"),
        (instruction("LOOP", 2, 2), "an instruction 1, LOOP, that refers to instruction 2"),
        (instruction("LOOP", 1, 1), "an instruction 1, LOOP, that asks for 1"),
        (instruction("LIST_CONSTRUCT", 3, 1),
         "an instruction 1, LIST_CONSTRUCT, that refers to type 3"),
        (instruction("ISINSTANCE", 1, 3), "an instruction 1, ISINSTANCE, that asks for 3"),
        (instruction("DICT_CONSTRUCT", 2, 3), "an instruction 1, DICT_CONSTRUCT, that asks for 3"),
        (instruction("TUPLE_CONSTRUCT", -1),
         "an instruction 1, TUPLE_CONSTRUCT, that refers to number -1"),
        (instruction("FORMAT", 0), "an instruction 1, FORMAT, that asks for 0"),
        (instruction("GET_ATTR", 2), "an instruction 1, GET_ATTR, that refers to attribute 2"),
        (instruction("SET_ATTR", 2**16),
         "an instruction 1, SET_ATTR, that refers to attribute 65536"),
        # the runtime takes what it does not know for OP
        (instruction("op", 0), "an instruction 1 that the interpreter does not have"),
        (instruction("FORK", 0), "an instruction 1 that the interpreter does not have"),
        (instruction("LOAD", 1, 2**16), "an instruction 1 that the interpreter does not have"),
        (instruction("LOAD", 1, -1), "an instruction 1 that the interpreter does not have"),
        (tuple_of(text("LOAD"), TRUE, number(0)),
         "an instruction 1 that the interpreter does not have"),
        (tuple_of(text("LOAD"), number(1)), "an instruction 1 that the interpreter does not have"),
        (list_of(text("LOAD"), number(1), number(0)),
         "an instruction 1 that the interpreter does not have"),
        (tuple_of(number(0), number(1), number(0)),
         "an instruction 1 that the interpreter does not have"),
    ],
)  # fmt: skip
def test_what_is_not_there_is_refused(row: bytes, seen: str, tmp_path: Path) -> None:
    with pytest.raises(DamagedModelError) as caught:
        read(with_instructions(RET, row, RET), tmp_path)
    assert caught.value.render() == (
        "model.ptl: error: this model is truncated or damaged\n"
        "  expected: bytecode.pkl in the format of the lite interpreter\n"
        f"  seen:     {seen}\n"
        "  do:       export it again"
    )


def test_the_first_and_the_last_place_are_there(tmp_path: Path) -> None:
    rows = [RET, instruction("JMP", -1), instruction("JMP", 1), RET]
    assert read(with_instructions(*rows), tmp_path).methods == ("forward",)


@pytest.mark.parametrize(
    ("registers", "seen"),
    [(number(-1), "-1"), (text("4"), "4"), (TRUE, "True"), (number(250_001), "250001")],
)
def test_registers(registers: bytes, seen: str, tmp_path: Path) -> None:
    with pytest.raises(DamagedModelError) as caught:
        read(model(bytecode(function(tables=code(registers=registers)))), tmp_path)
    assert caught.value.seen == f"a number of registers that is none: {seen}"


def test_an_argument_has_a_default_value(tmp_path: Path) -> None:
    short = tuple_of(pair("name", text("x")), pair("type", text("Tensor")))
    assert read(
        model(bytecode(function(signature=schema(tuple_of(argument("x", "Tensor")))))), tmp_path
    )
    with pytest.raises(DamagedModelError) as caught:
        read(model(bytecode(function(signature=schema(tuple_of(short))))), tmp_path)
    assert caught.value.seen == "no field 'default_value' where it belongs"


def handles(*numbers: int, name: str = f"{MODULE}.forward") -> bytes:
    lines = call("torch.jit._pickle", "build_intlist", list_of(*map(number, numbers)))
    return pickled(tuple_of(number(8), tuple_of(text(name), tuple_of(pair(
        "function_debug_handles", tuple_of(lines)
    )))))  # fmt: skip


@pytest.mark.parametrize(
    "record",
    [
        pickled(number(8)),
        pickled(tuple_of(number(8))),
        handles(1),
        handles(1, 2, 3),
        handles(1, 2, name=f"{MODULE}.other"),
        # the runtime takes the second part of one unlooked
        pickled(tuple_of(number(8), tuple_of(text(f"{MODULE}.forward")))),
    ],
)
def test_debug_handles_are_those_of_the_instructions(record: bytes, tmp_path: Path) -> None:
    tables = code(tuple_of(RET, RET))
    file = bytecode(function(tables=tables))
    for good in (handles(1, 2), pickled(tuple_of(number(8), EMPTY))):
        assert read(model(file, **{"mobile_debug_handles.pkl": good}), tmp_path).functions
    with pytest.raises(DamagedModelError) as caught:
        read(model(file, **{"mobile_debug_handles.pkl": record}), tmp_path)
    assert caught.value.seen == "mobile_debug_handles.pkl for other instructions"
