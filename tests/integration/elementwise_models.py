"""Models that call elementwise operators on tensors of their own, in any dtype and any layout.

Their methods take nothing: a tensor that is not contiguous cannot be passed through JSON, and can
be in a model.
"""

from __future__ import annotations

import math
import shutil
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml
from crafted import NONE, Instruction, archive, bytecode, function, module, number, operator, row
from crafted import pickled as crafted_pickle
from crafted import tensor as crafted_tensor

from orchestrator.codegen.elementwise import SCALAR_TYPES
from orchestrator.values.elements import FORMATS

TWELVE = Path(__file__).parents[1] / "golden/elementwise"
# An operator of the twelve, and PyTorch's own: what stands before the tensors, and its name.
PYTORCHS: Mapping[str, tuple[tuple[int, ...], str]] = {
    "digamma": ((), "aten::digamma"),
    "erfcx": ((), "aten::special_erfcx"),
    "gcd": ((), "aten::gcd"),
    "i0": ((), "aten::i0"),
    "i0e": ((), "aten::special_i0e"),
    "i1": ((), "aten::special_i1"),
    "i1e": ((), "aten::special_i1e"),
    "lcm": ((), "aten::lcm"),
    "lgamma": ((), "aten::lgamma"),
    "ndtri": ((), "aten::special_ndtri"),
    "trigamma": ((1,), "aten::polygamma"),
    "zeta": ((), "aten::special_zeta"),
}
# Where random inputs of those of floats lie; zeta's second ones as well.
BETWEEN: Mapping[str, tuple[float, float]] = {
    "digamma": (-8.7, 40),
    "erfcx": (-5, 60),
    "i0": (-40, 40),
    "i0e": (-60, 60),
    "i1": (-40, 40),
    "i1e": (-60, 60),
    "lgamma": (-8.7, 40),
    "ndtri": (0, 1),
    "trigamma": (-8.7, 40),
    "zeta": (1.1, 9),
}


def packed(dtype: str, values: Iterable[float]) -> bytes:
    """Elements as they lie in memory; what is too large for a float dtype is infinite."""
    if dtype == "bfloat16":
        return b"".join(_bfloat16(value) for value in values)
    code = FORMATS[dtype][0]
    return b"".join(_element(code, value) for value in values)


def unpacked(dtype: str, data: bytes) -> list[float]:
    """The elements of a tensor's memory."""
    if dtype == "bfloat16":
        halves = [data[at : at + 2] for at in range(0, len(data), 2)]
        return [struct.unpack("<f", b"\0\0" + half)[0] for half in halves]
    code = FORMATS[dtype][0]
    return list(struct.unpack(f"<{len(data) // struct.calcsize(code)}{code}", data))


def rounded(dtype: str, values: Iterable[float]) -> list[float]:
    """Numbers as a dtype holds them."""
    return unpacked(dtype, packed(dtype, values))


def _element(code: str, value: float) -> bytes:
    try:
        return struct.pack(f"<{code}", value)
    except OverflowError:
        return struct.pack(f"<{code}", math.copysign(math.inf, value))


def _bfloat16(value: float) -> bytes:
    """The nearer half of a float32, of two as near the even one."""
    (bits,) = struct.unpack("<I", _element("f", value))
    if not math.isnan(value):
        bits += 0x7FFF + (bits >> 16 & 1)
    return struct.pack("<I", bits)[2:]


@dataclass(frozen=True)
class Strided:
    """A tensor: memory of a dtype, and how it is seen."""

    dtype: str
    data: bytes
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int = 0


Argument = Strided | bool | int | float


@dataclass(frozen=True)
class Calls:
    """A method that calls an operator and gives the tuple of what the calls give.

    operator  name and, after a point, overload: `ew::gcd.Scalar`
    kept      False: it gives None, so that a long result is not written
    results   of one call
    """

    method: str
    operator: str
    arguments: tuple[tuple[Argument, ...], ...]
    kept: bool = True
    results: int = 1


def model_of(methods: Sequence[Calls]) -> bytes:
    """A model's file."""
    tensors = {
        one: slot
        for slot, one in enumerate(
            dict.fromkeys(
                argument
                for method in methods
                for call in method.arguments
                for argument in call
                if isinstance(argument, Strided)
            )
        )
    }
    records = {data: f"{n}" for n, data in enumerate(dict.fromkeys(one.data for one in tensors))}
    attributes = (
        crafted_tensor(
            one.sizes,
            one.strides,
            offset=one.offset,
            numel=len(one.data) // struct.calcsize(FORMATS[one.dtype][0]),
            dtype=f"ctorch\n{SCALAR_TYPES[one.dtype]}Storage\n".encode(),
            record=records[one.data],
        )
        for one in tensors
    )
    return archive(
        {
            "data.pkl": module(*attributes),
            **{f"data/{name}": data for data, name in records.items()},
            "version": b"3\n",
            "bytecode.pkl": bytecode(*(_function(method, tensors) for method in methods)),
            "constants.pkl": crafted_pickle(b")"),
        }
    )


def _function(method: Calls, slots: Mapping[Strided, int]) -> bytes:
    constants = [NONE]
    code: list[Instruction] = [("STOREN", 1, 1)]
    for call in method.arguments:
        for argument in call:
            if isinstance(argument, Strided):
                code += [("LOAD", 1, 0), ("GET_ATTR", slots[argument], 0)]
            else:
                code.append(("LOADC", len(constants), 0))
                constants.append(_constant(argument))
        code.append(("OP", 0, 0))
        if not method.kept:
            code += [("DROP", 0, 0)] * method.results
    given = len(method.arguments) * method.results
    last = ("TUPLE_CONSTRUCT", given, 0) if method.kept else ("LOADC", 0, 0)
    name, _, overload = method.operator.partition(".")
    uses = operator(name, overload, len(method.arguments[0]))
    parts = function(
        method.method, [*code, last, ("RET", 0, 0)], operators=[uses], constants=constants
    )
    return row(*parts)


def _constant(value: float) -> bytes:
    if isinstance(value, bool):
        return b"\x88" if value else b"\x89"
    return number(value)


def write_app(
    root: Path,
    app: str,
    methods: Sequence[Calls],
    more: Mapping[str, str],
    runtime: str | None = None,
) -> None:
    """An app of the twelve, in the namespace `ew`, with a model; more: file -> another operator."""
    folder = root / "apps" / app
    (folder / "models").mkdir(parents=True)
    shutil.copytree(TWELVE, folder / "kernels", ignore=shutil.ignore_patterns("texts"))
    for name, text in more.items():
        (folder / "kernels" / f"{name}.elementwise").write_text(text)
    (folder / "models/calls.ptl").write_bytes(model_of(methods))
    inputs = [{"method": one.method, "args": list[object]()} for one in methods]
    config = {
        "models": [{"file": "models/calls.ptl", "inputs": inputs}],
        "targets": ["linux-x86_64"],
        **({} if runtime is None else {"runtime": runtime}),
        "sources": {"kernels": {"namespace": "ew", "files": ["kernels/*.elementwise"]}},
    }
    (folder / "app.yaml").write_text(yaml.safe_dump(config, sort_keys=False))
