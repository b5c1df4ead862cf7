"""Arrays of NumPy as the model runner's tensors.

Format: numpy/lib/format.py, versions 1.0 to 3.0. A file is untrusted: its header, a Python literal,
is only parsed as one, and its sizes are compared with the file's size before anything is read.
"""

from __future__ import annotations

import ast
import base64
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from orchestrator.errors import OrchestratorError, Place
from orchestrator.values.config.app import MOST_ELEMENTS

_MAGIC: Final = b"\x93NUMPY"
_LONGEST_HEADER: Final = 2**16
LONGEST_NPY: Final = 8 * MOST_ELEMENTS + _LONGEST_HEADER
_MOST_DIMENSIONS: Final = 64
# `descr`: byte order (none for single bytes), kind, bytes of an element.
_DTYPES: Final = {
    "<f4": ("float32", 4),
    "<f8": ("float64", 8),
    "<f2": ("float16", 2),
    "<i8": ("int64", 8),
    "<i4": ("int32", 4),
    "<i2": ("int16", 2),
    "|i1": ("int8", 1),
    "|u1": ("uint8", 1),
    "|b1": ("bool", 1),
}


class ArrayUnreadableError(OrchestratorError):
    """A file that should hold a NumPy array holds none that a model takes."""


def read_npy(path: Path) -> dict[str, Any]:
    """The array in a file, as a value of native/driver/values.h. Raises ArrayUnreadableError."""
    try:
        with path.open("rb") as file:
            data = file.read(LONGEST_NPY + 1)
    except OSError as error:
        raise _unreadable(path, error.strerror or str(error)) from None
    return array_of(data, path)


def array_of(data: bytes, path: Path) -> dict[str, Any]:
    """The same of a file's bytes; `path` is for messages."""
    try:
        dtype, shape, start, size = _header(data)
    except (ValueError, SyntaxError, KeyError, TypeError, RecursionError, MemoryError) as error:
        raise _unreadable(path, str(error)[:200]) from None
    count = math.prod(shape)
    if count > MOST_ELEMENTS:
        raise _unreadable(path, f"{count:,} elements, of at most {MOST_ELEMENTS:,}")
    if len(data) - start != count * size:
        raise _unreadable(path, f"{len(data) - start:,} bytes for {count:,} elements of {dtype}")
    text = base64.b64encode(data[start:]).decode()
    return {"tensor": {"dtype": dtype, "shape": list(shape), "data": text}}


def array_bytes(tensor: Mapping[str, Any]) -> bytes | None:
    """A tensor of the model runner's as numpy.save writes it; None of a dtype that it has not."""
    descr = next((one for one, (name, _) in _DTYPES.items() if name == tensor["dtype"]), None)
    if descr is None:
        return None
    shape = tuple(tensor["shape"])
    text = repr({"descr": descr, "fortran_order": False, "shape": shape})
    # the elements begin at a multiple of 64 (numpy/lib/format.py, ARRAY_ALIGN)
    text += " " * (-(len(_MAGIC) + 4 + len(text) + 1) % 64) + "\n"
    head = _MAGIC + b"\x01\x00" + len(text).to_bytes(2, "little") + text.encode()
    return head + base64.b64decode(tensor["data"])


def _header(data: bytes) -> tuple[str, tuple[int, ...], int, int]:
    """dtype, shape, where the elements start, bytes of each."""
    if data[:6] != _MAGIC or len(data) < 12 or data[6] not in (1, 2, 3):
        raise ValueError("not an array that numpy.save wrote")
    width = 2 if data[6] == 1 else 4
    start = 8 + width
    length = int.from_bytes(data[8:start], "little")
    if length > _LONGEST_HEADER or start + length > len(data):
        raise ValueError(f"a header of {length:,} bytes")
    header = ast.literal_eval(data[start : start + length].decode().strip())
    if header["fortran_order"] is not False:
        raise ValueError("elements in Fortran's order: save numpy.ascontiguousarray(array)")
    if header["descr"] not in _DTYPES:
        raise ValueError(f"elements of type {header['descr']!r}")
    shape = header["shape"]
    sizes = isinstance(shape, tuple) and all(type(n) is int and 0 <= n < 2**40 for n in shape)
    if not sizes or len(shape) > _MOST_DIMENSIONS:
        raise ValueError("a shape that is none")
    dtype, size = _DTYPES[header["descr"]]
    return dtype, shape, start + length, size


def _unreadable(path: Path, seen: str) -> ArrayUnreadableError:
    return ArrayUnreadableError(
        "this array cannot be passed to a model",
        place=Place(str(path)),
        expected="a .npy file of numpy.save: " + ", ".join(name for name, _ in _DTYPES.values()),
        seen=seen,
    )
