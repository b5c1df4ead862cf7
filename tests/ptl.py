"""Lite-interpreter models made by hand: pickles of protocol 2, opcode by opcode, and their archive.

Every piece is the bytes that push one value, so pieces nest: `tuple_of(text("a"), number(1))`.
"""

from __future__ import annotations

import io
import struct
import zipfile
from collections.abc import Mapping

START = b"\x80\x02"
EMPTY, NONE, TRUE, FALSE = b")", b"N", b"\x88", b"\x89"
MODULE = "__torch__.M"


def text(value: str | bytes) -> bytes:
    data = value if isinstance(value, bytes) else value.encode()
    return b"X" + struct.pack("<I", len(data)) + data


def number(value: int) -> bytes:
    return b"\x8a\x08" + struct.pack("<q", value)


def real(value: float) -> bytes:
    return b"G" + struct.pack(">d", value)


def tuple_of(*pieces: bytes) -> bytes:
    return b"(" + b"".join(pieces) + b"t"


def list_of(*pieces: bytes) -> bytes:
    return b"](" + b"".join(pieces) + b"e"


def put(piece: bytes, index: int) -> bytes:
    """The piece, remembered as `index`."""
    return piece + b"r" + struct.pack("<I", index)


def get(index: int, count: int = 1) -> bytes:
    """What was remembered, so many times."""
    return (b"j" + struct.pack("<I", index)) * count


def named(module: str, name: str) -> bytes:
    return f"c{module}\n{name}\n".encode()


def call(module: str, name: str, *arguments: bytes) -> bytes:
    return named(module, name) + tuple_of(*arguments) + b"R"


def pair(name: str, value: bytes) -> bytes:
    return tuple_of(text(name), value)


def instruction(name: str, x: int = 0, n: int = 0) -> bytes:
    return tuple_of(text(name), number(x), number(n))


def operator(name: str, overload: str = "", count: int = 1) -> bytes:
    return tuple_of(text(name), text(overload), number(count))


def argument(name: str, kind: str) -> bytes:
    return tuple_of(pair("name", text(name)), pair("type", text(kind)), pair("default_value", NONE))


def code(
    instructions: bytes = EMPTY,
    operators: bytes = EMPTY,
    constants: bytes = EMPTY,
    types: bytes = EMPTY,
    registers: bytes | None = None,
) -> bytes:
    """A function's tables, each a piece."""
    return tuple_of(
        pair("instructions", instructions),
        pair("operators", operators),
        pair("constants", constants),
        pair("types", types),
        pair("register_size", number(4) if registers is None else registers),
    )


def schema(arguments: bytes = EMPTY, returns: bytes = EMPTY) -> bytes:
    return tuple_of(pair("arguments", arguments), pair("returns", returns))


def function(
    name: str = f"{MODULE}.forward", tables: bytes | None = None, signature: bytes | None = None
) -> bytes:
    return tuple_of(text(name), tables or code(), signature or schema())


def pickled(piece: bytes) -> bytes:
    return START + piece + b"."


def bytecode(*functions: bytes, version: int = 8) -> bytes:
    return pickled(tuple_of(number(version), *functions))


def module(**attributes: bytes) -> bytes:
    """The record of a module's attributes."""
    pairs = b"".join(text(name) + value for name, value in attributes.items())
    return pickled(named("__torch__", "M") + b")\x81}(" + pairs + b"ub")


def storage(key: str = "0", kind: str = "Double", elements: int = 1, device: str = "cpu") -> bytes:
    return (
        tuple_of(
            text("storage"),
            named("torch", f"{kind}Storage"),
            text(key),
            text(device),
            number(elements),
        )
        + b"Q"
    )


def numbers(*values: int) -> bytes:
    return tuple_of(*(number(value) for value in values))


def tensor(held: bytes, sizes: bytes, strides: bytes, offset: int = 0) -> bytes:
    hooks = named("collections", "OrderedDict") + b")R"
    return call(
        "torch._utils", "_rebuild_tensor_v2", held, number(offset), sizes, strides, FALSE, hooks
    )


def archive(
    records: Mapping[str, bytes], method: int = zipfile.ZIP_DEFLATED, top: str = "m"
) -> bytes:
    """The records in a zip archive, below one folder; the same bytes each time."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as made:
        for path, data in records.items():
            info = zipfile.ZipInfo(f"{top}/{path}", (1980, 1, 1, 0, 0, 0))
            info.compress_type = method
            made.writestr(info, data)
    return out.getvalue()


def model(
    code_record: bytes | None = None, data_record: bytes | None = None, **records: bytes
) -> bytes:
    """A whole model; records besides the two pickles by name, with `__` for `/`."""
    return archive(
        {
            "data.pkl": module() if data_record is None else data_record,
            "bytecode.pkl": bytecode(function()) if code_record is None else code_record,
            "version": b"3\n",
            **{name.replace("__", "/"): data for name, data in records.items()},
        }
    )
