"""Faults of the calls that a user writes for the model runner.

Contract: pure. The runner refuses a call that it cannot read, but only after everything was
compiled, and with the place in the text. The format is that of `native/driver/values.h`.
"""

from __future__ import annotations

import base64
import binascii
import math
import struct
from collections.abc import Iterator
from typing import Any, Final

from orchestrator.values.elements import FORMATS

_DEEPEST: Final = 100
_PLAIN: Final = {
    "none": (bool,),
    "bool": (bool,),
    "int": (int,),
    "double": (float, int, str),
    "string": (str,),
}
_WORDS: Final = ("nan", "inf", "-inf")
KINDS: Final = (*_PLAIN, "tensor", "list", "tuple", "dict")


def fault_in_calls(value: object) -> str | None:
    """The first fault, with its place: `forward[1], argument 2: ...`; None where there is none."""
    if not isinstance(value, list):
        return "no list of calls"
    if not value:
        return "an empty list"
    counts: dict[str, int] = {}
    for number, call in enumerate(value):
        if not isinstance(call, dict):
            return f"call {number}: no object with `method` and `args`"
        method, args = call.get("method"), call.get("args")
        if not isinstance(method, str) or not isinstance(args, list):
            return f"call {number}: not a text as `method` and a list as `args`"
        index = counts[method] = counts.get(method, -1) + 1
        for at, one in enumerate(args, 1):
            fault = next(_faults(one, 1), None)
            if fault:
                return f"{method}[{index}], argument {at}: {fault}"
    return None


def _faults(value: object, depth: int) -> Iterator[str]:
    if depth > _DEEPEST:
        yield f"more than {_DEEPEST} levels"
    elif not isinstance(value, dict) or not value:
        yield f'{str(value)[:60]} is no object with a kind, as {{"int": 3}} is'
    else:
        kind, content = next(iter(value.items()))
        yield from _faults_of(kind, content, depth)


def _faults_of(kind: str, content: Any, depth: int) -> Iterator[str]:
    match kind, content:
        case (("list" | "tuple"), list()):
            for one in content:
                yield from _faults(one, depth + 1)
        case "dict", list():
            for entry in content:
                if not isinstance(entry, list) or len(entry) != 2:
                    yield "an entry of a dictionary that is no pair"
                else:
                    for one in entry:
                        yield from _faults(one, depth + 1)
        case "tensor", dict():
            yield from _faults_of_tensor(content)
        case _ if kind not in KINDS:
            yield f"{kind[:60]} is no kind: these are {', '.join(KINDS)}"
        case _ if kind not in _PLAIN or not _is_plain(kind, content):
            yield f"{str(content)[:60]} is no {kind}"


def _is_plain(kind: str, content: Any) -> bool:
    if isinstance(content, str) and kind == "double":
        return content in _WORDS
    is_bool = isinstance(content, bool)
    return isinstance(content, _PLAIN[kind]) and (is_bool == (bool in _PLAIN[kind]))


def _faults_of_tensor(tensor: dict[str, Any]) -> Iterator[str]:
    dtype, shape, data = (tensor.get(name) for name in ("dtype", "shape", "data"))
    if not isinstance(dtype, str) or dtype not in FORMATS:
        yield f"{str(dtype)[:60]} is no dtype: these are {', '.join(FORMATS)}"
        return
    if not isinstance(shape, list) or not all(type(n) is int and n >= 0 for n in shape):
        yield f"{str(shape)[:60]} is no shape"
        return
    try:
        there = len(base64.b64decode(data if isinstance(data, str) else "-", validate=True))
    except (binascii.Error, ValueError):
        yield "the data of a tensor are no base64"
        return
    code, numbers = FORMATS[dtype]
    wanted = math.prod(shape) * struct.calcsize(f"<{code}") * numbers
    if there != wanted:
        yield f"{dtype}{shape} has {wanted:,} bytes, and there are {there:,}"
