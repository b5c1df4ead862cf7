"""Declared inputs (`inputs:` in app.yaml) as the model runner's JSON. Pure; every machine gets the
same.

Random fills come from Python's Mersenne Twister, whose sequence for a seed is guaranteed
(`random` module, "Notes on Reproducibility"), so that a trace can be repeated on any machine.
"""

from __future__ import annotations

import base64
import math
import random
import struct
from collections.abc import Iterable, Iterator
from itertools import islice, repeat
from typing import Any, Final

from orchestrator.errors import OrchestratorError
from orchestrator.values.config.app import InputRun, TensorSpec
from orchestrator.values.elements import FORMATS

# Values packed at a time: a list of all of them takes ten times the memory of the tensor.
_AT_ONCE: Final = 2**14


class InputOutOfRangeError(OrchestratorError):
    """A declared fill creates values that the declared dtype cannot represent."""


def inputs_json(runs: Iterable[InputRun]) -> list[dict[str, Any]]:
    """The model runner's `--inputs` list (native/driver/driver.h). Raises InputOutOfRangeError."""
    return [
        {"method": run.method, "args": [_argument(argument) for argument in run.args]}
        for run in runs
    ]


def _argument(argument: object) -> dict[str, Any]:
    match argument:
        case TensorSpec():
            return {"tensor": _tensor(argument)}
        case bool():
            return {"bool": argument}
        case int():
            return {"int": argument}
        case float():
            return {"double": argument}
        case str():
            return {"string": argument}
        case None:
            return {"none": True}
        case list() | tuple():
            return {"list": [_argument(item) for item in argument]}
    raise AssertionError(f"an argument of type {type(argument).__name__}")


def _tensor(spec: TensorSpec) -> dict[str, Any]:
    count = math.prod(spec.shape)
    data = bytearray()
    values = _fill(spec, count)
    try:
        while part := list(islice(values, _AT_ONCE)):
            data += struct.pack(f"<{len(part)}{FORMATS[spec.dtype][0]}", *part)
    except (struct.error, OverflowError):
        least, most = min(_fill(spec, count)), max(_fill(spec, count))
        raise InputOutOfRangeError(
            f"the fill `{spec.fill}` makes values that {spec.dtype} cannot hold",
            seen=f"{least} to {most}, in a tensor of {count} elements",
            hint="choose another dtype, smaller bounds or a smaller shape in app.yaml",
        ) from None
    return {
        "dtype": spec.dtype,
        "shape": list(spec.shape),
        "data": base64.b64encode(data).decode(),
    }


def _fill(spec: TensorSpec, count: int) -> Iterator[Any]:
    """The tensor's values, one after another."""
    source = random.Random(spec.seed)
    values: Iterable[float]
    match spec.fill:
        case "zeros":
            values = repeat(0, count)
        case "ones":
            values = repeat(1, count)
        case "arange":
            values = range(count)
        case "uniform":
            low = 0.0 if spec.low is None else float(spec.low)
            high = 1.0 if spec.high is None else float(spec.high)
            values = (source.uniform(low, high) for _ in range(count))
        case "normal":
            values = (source.gauss(0.0, 1.0) for _ in range(count))
        case "randint":
            first = 0 if spec.low is None else int(spec.low)
            last = (2 if spec.high is None else int(spec.high)) - 1
            values = (source.randint(first, last) for _ in range(count))
    if spec.dtype.startswith("float"):
        return iter(values)
    return (bool(v) if spec.dtype == "bool" else int(v) for v in values)
