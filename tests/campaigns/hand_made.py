"""Models made without torch: bytecode that names operators, and runs one of them or none.

The format is `torch/csrc/jit/serialization/export_module.cpp`'s (`getFunctionTuple`); opcodes and
their operands are those of `torch/csrc/jit/runtime/instruction.h`.  The loader wants every operator
that a file names, on branches that never run as well.
"""

from __future__ import annotations

import io
import pickle
import zipfile
from collections.abc import Sequence

from orchestrator.values.operators import OperatorName

_CLASS = "__torch__.Made"
# An object of the class without attributes.
_DATA = b"\x80\x02c__torch__\nMade\n)\x81}b."
_NO_CONSTANTS = b"\x80\x02)."
_BYTECODE, _ARCHIVE = 7, b"10\n"


def model(names: Sequence[str], *, takes: int = 1, runs: str | None = None) -> bytes:
    """A `.ptl` whose `forward` takes so many tensors, and gives its first argument back; or what
    the operator `runs` gives for all of them."""
    operators = [*([runs] if runs else []), *names]
    registers = range(2, 2 + takes)  # the first is the module itself
    body: list[tuple[str, int, int]] = [("STOREN", 1, 1 + takes)]
    if runs is None:
        body.append(("LOAD", registers[0], 0))
    else:
        body += [*(("MOVE", register, 0) for register in registers), ("OP", 0, 0)]
    body.append(("RET", 0, 0))
    code = (
        ("instructions", tuple(body)),
        ("operators", tuple(map(_row, operators))),
        ("constants", ()),
        ("types", ()),
        ("register_size", 1 + takes),
    )
    given = [_argument("self", _CLASS), *(_argument(f"x{n}", "Tensor") for n in range(takes))]
    schema = (("arguments", tuple(given)), ("returns", (_argument("", "Tensor"),)))
    bytecode = (_BYTECODE, (f"{_CLASS}.forward", code, schema))
    records = {
        "data.pkl": _DATA,
        "version": _ARCHIVE,
        "bytecode.pkl": pickle.dumps(bytecode, protocol=2),
        "constants.pkl": _NO_CONSTANTS,
    }
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, data in records.items():
            archive.writestr(zipfile.ZipInfo(f"made/{name}"), data)
    return out.getvalue()


def _row(operator: str) -> tuple[str, str]:
    name = OperatorName.parse(operator)
    return f"{name.namespace}::{name.name}", name.overload


def _argument(name: str, kind: str) -> tuple[tuple[str, object], ...]:
    return ("name", name), ("type", kind), ("default_value", None)
