"""The models that cost a reader most for their size, among all that are read, or refused last.

Each comes close to one of the bounds of `orchestrator/models`: most are small, and stand for much
by referring to one thing again and again.
"""

from __future__ import annotations

import struct
import zipfile
from collections.abc import Callable, Mapping
from typing import Final

from tests import ptl


def index(number: int) -> bytes:
    return b"r" + struct.pack("<I", number)


def code(**tables: bytes) -> bytes:
    return ptl.model(ptl.bytecode(ptl.function(tables=ptl.code(**tables))))


def data(*pieces: bytes, **records: bytes) -> bytes:
    return ptl.model(None, ptl.pickled(ptl.tuple_of(*pieces)), **records)


def functions(count: int, tables: bytes, signature: bytes | None = None) -> bytes:
    """A record of functions that share their tables and their schema."""
    held = ptl.put(tables, 8), ptl.put(signature or ptl.schema(), 9)
    first = ptl.tuple_of(ptl.text("__torch__.M.get_all_bundled_inputs_for_f"), *held)
    rest = (
        ptl.tuple_of(
            ptl.text(f"__torch__.M.get_all_bundled_inputs_for_f{n}"), ptl.get(8), ptl.get(9)
        )
        for n in range(1, count)
    )
    return ptl.bytecode(first, *rest)


def layers() -> bytes:
    """A tuple of 5,000 times the one before, 190 times."""
    first = ptl.put(ptl.tuple_of(ptl.number(1)), 0)
    rest = (ptl.tuple_of(ptl.get(n, 5_000)) + index(n + 1) for n in range(190))
    return data(first, *rest)


def tensors(count: int) -> bytes:
    """Tensors of 64 dimensions."""
    parts = (ptl.storage(), ptl.numbers(*[1] * 64), ptl.numbers(*[2**62] * 64))
    held = [ptl.put(part, n) for n, part in enumerate(parts)]
    one = ptl.tensor(ptl.get(0), ptl.get(1), ptl.get(2))
    return data(*held, one * count, data__0=bytes(8))


def typed_lists(text: str, count: int) -> bytes:
    tag = ptl.put(ptl.named("torch.jit._pickle", "restore_type_tag"), 1), ptl.put(ptl.text(text), 2)
    return data(*tag, (ptl.get(1) + b"]" + ptl.get(2) + b"\x86R") * count)


def many_records(count: int) -> bytes:
    records = {f"data/{n}": b"" for n in range(count)}
    rest = {"data.pkl": ptl.module(), "bytecode.pkl": ptl.bytecode(ptl.function())}
    return ptl.archive({"version": b"3", **records, **rest}, zipfile.ZIP_STORED)


# The short form takes the first ones.
WORST: Final[Mapping[str, Callable[[], bytes]]] = {
    "dictionaries": lambda: data(b"}" * 999_000),
    "deep tuples": lambda: data((b"K\x01" + b"\x85" * 150) * 1_600),
    "called": lambda: data((ptl.named("collections", "OrderedDict") + b")R") * 240_000),
    "tagged lists": lambda: typed_lists("List[" * 60 + "int" + "]" * 60 + " " * 60_000, 190_000),
    "records": lambda: many_records(49_990),
    "unknown operators": lambda: code(
        operators=ptl.tuple_of(*(ptl.operator(f"aten::q{n}") for n in range(9_990)))
    ),
    "tensors": lambda: tensors(19_900),
    "texts": lambda: data(*(ptl.text(f"{n:06}") for n in range(998_000))),
    "a row": lambda: code(
        operators=ptl.tuple_of(ptl.put(ptl.operator("aten::" + "a" * 250), 7), ptl.get(7, 249_000))
    ),
    "instructions": lambda: code(
        instructions=ptl.tuple_of(ptl.put(ptl.instruction("LOAD", 1), 7), ptl.get(7, 249_000))
    ),
    "layers": layers,
    "small tuples": lambda: data(b"K\x01\x85" * 249_000),
    "pairs of tuples": lambda: data(b"K\x01\x85\x85" * 124_000),
    "lists": lambda: data(b"]" * 999_000),
    "one list in itself": lambda: data(b"]" + index(0) + b"(j\0\0\0\0e" * 300_000),
    "numbers": lambda: data(*(ptl.number(n * 10**9) for n in range(998_000))),
    "real numbers": lambda: data(ptl.real(0.5) * 998_000),
    "classes": lambda: data(*(ptl.named("__torch__", f"A{n}") for n in range(9_990))),
    "a class": lambda: data(ptl.named("__torch__", "A") * 998_000),
    "remembered": lambda: data(b"K\x01\x85" + b"".join(map(index, range(998_000)))),
    "a vocabulary": lambda: ptl.model(
        None,
        ptl.module(
            words=b"}("
            + b"".join(ptl.text(f"{n:07}") + index(n) + b"K\x01" for n in range(320_000))
            + b"u"
        ),
    ),
    "a long text": lambda: data(ptl.text(b"\xff" * 16_000_000)),
    "wide texts": lambda: ptl.model(
        ptl.bytecode(
            ptl.function(tables=ptl.code(constants=ptl.tuple_of(ptl.text(b"\xff" * 15_900_000))))
        ),
        ptl.pickled(ptl.tuple_of(ptl.text("\U0001f600" * 3_900_000))),
    ),
    "long types": lambda: code(
        types=ptl.tuple_of(ptl.put(ptl.text("__torch__." + "a" * 65_000), 7), ptl.get(7, 120))
    ),
    "types of many names": lambda: code(
        types=ptl.tuple_of(
            *(
                ptl.text("".join(f"__torch__.A{k * 3000 + n:06} " for n in range(3000)))
                for k in range(140)
            )
        )
    ),
    "arguments": lambda: ptl.model(
        ptl.bytecode(
            ptl.function(
                signature=ptl.schema(
                    ptl.tuple_of(
                        ptl.put(ptl.argument("x", "Dict[str, int]" * 3000), 7), ptl.get(7, 249_000)
                    )
                )
            )
        )
    ),
    "functions": lambda: ptl.model(
        functions(9_990, ptl.code()),
        ptl.module(**dict.fromkeys(map("a{}".format, range(240_000)), b")")),
    ),
    "functions of one code": lambda: ptl.model(
        functions(
            1_240,
            ptl.code(
                operators=ptl.tuple_of(*(ptl.operator(f"aten::q{n}", "", 9) for n in range(200)))
            ),
        )
    ),
    "functions of long types": lambda: ptl.model(
        functions(
            9_990,
            ptl.code(types=ptl.tuple_of(ptl.text("__torch__." + "b" * 60_000))),
            ptl.schema(ptl.tuple_of(ptl.argument("x", "__torch__." + "c" * 60_000))),
        )
    ),
    "tagged lists of brackets": lambda: typed_lists("[]" * 32_000, 190_000),
    "zeros": lambda: ptl.model(**{f"data__{n}": bytes(25 * 2**20) for n in range(10)}),
    "a version": lambda: ptl.archive({"version": b"3" + b" " * 16_000_000, "data.pkl": b""}),
}
