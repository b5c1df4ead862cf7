"""Models written instruction by instruction: small ones, and such as no exporter writes.

The archive is that of `torch/csrc/jit/mobile/import.cpp`; instructions are those of
`torch/csrc/jit/runtime/instruction.h`, pickles those of `torch/csrc/jit/serialization/pickler.h`.
"""

from __future__ import annotations

import io
import struct
import zipfile
from collections.abc import Mapping, Sequence
from typing import Any

Instruction = tuple[str, int, int]

# What most models here are: the value of their only attribute.
GIVE_ATTRIBUTE: tuple[Instruction, ...] = (
    ("STOREN", 1, 1),
    ("MOVE", 1, 0),
    ("GET_ATTR", 0, 0),
    ("RET", 0, 0),
)


def text(value: str) -> bytes:
    data = value.encode()
    return b"X" + struct.pack("<I", len(data)) + data


def number(value: int | float) -> bytes:
    if isinstance(value, float):
        return b"G" + struct.pack(">d", value)
    return b"\x8a\x08" + struct.pack("<q", value)


def row(*items: bytes) -> bytes:
    return b"(" + b"".join(items) + b"t"


def named(**rows: bytes) -> bytes:
    """A tuple of pairs, as `expect_field` reads it."""
    return row(*(row(text(name), value) for name, value in rows.items()))


def pickled(value: bytes) -> bytes:
    return b"\x80\x02" + value + b"."


def tensor(
    sizes: Sequence[int],
    strides: Sequence[int],
    *,
    offset: int = 0,
    numel: int = 1,
    dtype: bytes = b"ctorch\nDoubleStorage\n",
    bits: bytes = b"",
    record: str = "0",
) -> bytes:
    """A tensor over a record, whose storage is said to have `numel` elements; `bits`: a dictionary
    of what else is true of it."""
    storage = row(text("storage"), dtype, text(record), text("cpu"), number(numel)) + b"Q"
    shape = [row(*map(number, values)) for values in (sizes, strides)]
    hooks = b"ccollections\nOrderedDict\n)R"
    rebuild = b"ctorch._utils\n_rebuild_tensor_v2\n"
    return rebuild + row(storage, number(offset), *shape, b"\x89", hooks, bits) + b"R"


def module(*attributes: bytes) -> bytes:
    """The pickle of an object with these attributes, in their order."""
    slots = (text(f"t{slot}") + value for slot, value in enumerate(attributes))
    return pickled(b"c__torch__\nM\n)\x81}(" + b"".join(slots) + b"ub")


NONE = b"N"


def argument(name: str, kind: str, default: bytes = NONE) -> bytes:
    """A row of a schema. The exporter writes None where there is no default."""
    return named(name=text(name), type=text(kind), default_value=default)


def method(instructions: Sequence[Instruction], *, version: int = 7, **parts: Any) -> bytes:
    """The pickle of the bytecode of a method `forward`; below version 5 it has no schema. parts:
    what `function` takes."""
    name, code, schema = function("forward", instructions, **parts)
    return bytecode(row(name, code, schema) if version > 4 else row(name, code), version=version)


def bytecode(*functions: bytes, version: int = 7) -> bytes:
    """The pickle of functions, each a row of what `function` gives."""
    return pickled(row(number(version), *functions))


def function(
    name: str,
    instructions: Sequence[Instruction],
    *,
    arguments: Sequence[bytes] = (),
    own: Sequence[bytes] = (argument("self", "__torch__.M"),),
    result: str = "Any",
    operators: Sequence[bytes] = (),
    constants: Sequence[bytes] = (),
    types: Sequence[bytes] = (),
    registers: int = 1,
) -> tuple[bytes, bytes, bytes]:
    """A method's name, code and schema."""
    code = named(
        instructions=row(*(row(text(op), number(x), number(n)) for op, x, n in instructions)),
        operators=row(*operators),
        constants=row(*constants),
        types=row(*types),
        register_size=number(registers),
    )
    schema = named(arguments=row(*own, *arguments), returns=row(argument("", result)))
    return text(f"__torch__.M.{name}"), code, schema


def operator(name: str, overload: str = "", arguments: int | None = None) -> bytes:
    """A row of the operator table; `arguments`: how many the file says are given."""
    counted = () if arguments is None else (number(arguments),)
    return row(text(name), text(overload), *counted)


def model(
    data: bytes | None = None, code: bytes | None = None, *, record: bytes = b"\x11" * 8
) -> bytes:
    """An archive of these pickles: by default a module that gives one number of eight bytes."""
    return archive(
        {
            "data.pkl": module(tensor([1], [1])) if data is None else data,
            "data/0": record,
            "version": b"3\n",
            "bytecode.pkl": method(GIVE_ATTRIBUTE) if code is None else code,
            "constants.pkl": pickled(b")"),
        }
    )


def archive(records: Mapping[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as written:
        for name, data in records.items():
            written.writestr(f"m/{name}", data)
    return out.getvalue()
