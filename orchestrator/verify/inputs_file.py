"""Inputs of a model in a file beside it: `.npz` of NumPy, or the model runner's `.json`.

An `.npz` is a zip of `.npy` files (numpy/lib/npyio.py, `savez`), read without NumPy and without
pickles. Its arrays are the arguments of one call of `forward`: in order, as
`numpy.savez(path, a, b)` names them (`arr_0`, `arr_1`), or by name. Of several calls or other
methods, the names are `METHOD.CALL.ARGUMENT`: `forward.0.x`, `forward.1.x`, `encode.0.0`. An array
without dimensions is a number where the model takes one.

A file is untrusted: sizes are summed before anything is unpacked.
"""

from __future__ import annotations

import base64
import io
import json
import re
import struct
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from orchestrator.errors import OrchestratorError, Place
from orchestrator.system.reading import parse_json
from orchestrator.values.config.app import MOST_ELEMENTS
from orchestrator.values.elements import FORMATS
from orchestrator.values.methods import Method
from orchestrator.verify.given_calls import fault_in_calls
from orchestrator.verify.npy import LONGEST_NPY, array_bytes, array_of

LONGEST: Final = 2**28
_MOST_ARRAYS: Final = 10_000
_KEY: Final = re.compile(r"(?:([A-Za-z_]\w*)\.(\d{1,6})\.)?(\w+)", re.ASCII)
_ORDER: Final = re.compile(r"(?:arr_)?(\d{1,4})", re.ASCII)
_NUMBERS: Final[Mapping[str, tuple[str, tuple[str, ...]]]] = {
    "int": ("int", ("int64", "int32", "int16", "int8", "uint8")),
    "float": ("double", ("float64", "float32")),
    "bool": ("bool", ("bool",)),
}
_EPOCH: Final = (1980, 1, 1, 0, 0, 0)
_ZIP_ERRORS: Final = (
    *(zipfile.BadZipFile, zlib.error, struct.error, EOFError, NotImplementedError),
    *(RuntimeError, ValueError, IndexError),
)


class InputsFileError(OrchestratorError):
    """A file of a model's inputs cannot be read, or holds none of this model's."""


def read_inputs_file(path: Path, shown: str, methods: Sequence[Method]) -> bytes:
    """The model runner's inputs, JSON.

    shown    what messages call the file
    methods  of the model: their parameters' names and types
    Raises InputsFileError, ArrayUnreadableError.
    """
    try:
        size = path.stat().st_size
        if size > LONGEST:
            raise _unfit(shown, f"{size:,} bytes, of at most {LONGEST:,}")
        data = path.read_bytes()
    except OSError as error:
        raise _unfit(shown, error.strerror or str(error)) from None
    if path.suffix.lower() == ".json":
        _check_json(data, shown)
        return data
    try:
        arrays = dict(_arrays(data, shown))
    except _ZIP_ERRORS as error:
        raise _unfit(shown, str(error)[:200] or type(error).__name__) from None
    return json.dumps(list(_calls(arrays, shown, methods)), separators=(",", ":")).encode()


def inputs_file(calls: bytes, methods: Sequence[Method]) -> tuple[str, bytes]:
    """The suffix and the content of a file with the model runner's inputs: `.npz`, or `.json` where
    there are values that are no arrays."""
    names = {method.name: _names(method) for method in methods}
    arrays: dict[str, bytes] = {}
    counts: dict[str, int] = {}
    rows = parse_json(calls)
    for row in rows:
        method = row["method"]
        number = counts[method] = counts.get(method, -1) + 1
        own = names.get(method, ())
        if not row["args"]:
            return ".json", calls
        for at, value in enumerate(row["args"]):
            made = _array(value)
            if made is None:
                return ".json", calls
            name = own[at] if at < len(own) else str(at)
            plain = len(rows) == 1 and method == "forward" and at < len(own)
            arrays[name if plain else f"{method}.{number}.{name}"] = made
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in arrays.items():
            entry = zipfile.ZipInfo(f"{name}.npy", _EPOCH)
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, content)
    return ".npz", out.getvalue()


def _check_json(data: bytes, shown: str) -> None:
    try:
        fault = fault_in_calls(parse_json(data))
    except ValueError as error:
        fault = f"invalid JSON: {error}"
    if fault:
        raise _unfit(shown, fault)


def _arrays(data: bytes, shown: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Name -> value of the model runner's, in the file's order."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        entries = archive.infolist()
        if len(entries) > _MOST_ARRAYS:
            raise ValueError(f"{len(entries):,} arrays, of at most {_MOST_ARRAYS:,}")
        total = sum(entry.file_size for entry in entries)
        if total > LONGEST_NPY:
            raise ValueError(f"arrays of {total:,} bytes, of at most {LONGEST_NPY:,}")
        seen: set[str] = set()
        for entry in entries:
            name = entry.filename.removesuffix(".npy")
            if name == entry.filename or name in seen:
                raise ValueError(f"{entry.filename[:120]!r}, which is no array of its own")
            seen.add(name)
            with archive.open(entry) as file:
                content = file.read(entry.file_size + 1)
            yield name, array_of(content, Path(f"{shown}:{entry.filename}"))


def _calls(
    arrays: Mapping[str, dict[str, Any]], shown: str, methods: Sequence[Method]
) -> Iterator[dict[str, Any]]:
    known = {method.name: method for method in methods}
    calls: dict[tuple[str, int], dict[str, Any]] = {}
    for key, value in arrays.items():
        match = _KEY.fullmatch(key)
        if match is None:
            raise _unfit(shown, f"an array named {key[:120]!r}")
        calls.setdefault((match[1] or "forward", int(match[2] or 0)), {})[match[3]] = value
    if not calls:
        raise _unfit(shown, "no array")
    elements = 0
    for (name, _), given in sorted(calls.items(), key=lambda one: one[0]):
        method = known.get(name)
        if method is None:
            own = ", ".join(known) or "none"
            raise _unfit(shown, f"a call of {name[:60]}; the model has {own[:200]}")
        args = _ordered(given, method, shown)
        elements += sum(_count(one) for one in given.values())
        if elements > MOST_ELEMENTS:
            raise _unfit(shown, f"more than {MOST_ELEMENTS:,} elements")
        yield {"method": name, "args": args}


def _count(value: Mapping[str, Any]) -> int:
    made = 1
    for size in value["tensor"]["shape"]:
        made *= size
    return made


def _ordered(given: Mapping[str, Any], method: Method, shown: str) -> list[dict[str, Any]]:
    """A call's arguments, in the model's order."""
    names = _names(method)
    count = len(given)
    if all(name in names for name in given):
        order = [name for name in names if name in given]
        if order != list(names[:count]):
            lacking = next(name for name in names if name not in given)
            raise _unfit(shown, f"{method.name} without {lacking}")
    else:
        order = sorted(given, key=lambda name: int(match[1]) if (match := _number(name)) else -1)
        if [_numbered(name) for name in order] != list(range(count)):
            odd = next((name for name in given if name not in names and not _number(name)), None)
            takes = f"; {method.name} takes {', '.join(names)}" if names else ""
            what = f"an array named {odd[:60]}" if odd else "numbers that are not 0, 1, 2, ..."
            raise _unfit(shown, f"{what}{takes}")
    if names and count > len(names):
        raise _unfit(shown, f"{method.name} with {count} arguments; it takes {len(names)}")
    kinds = [one.type for one in method.parameters or ()]
    return [
        _plain(given[name], kinds[at] if at < len(kinds) else "Tensor")
        for at, name in enumerate(order)
    ]


def _number(name: str) -> re.Match[str] | None:
    return _ORDER.fullmatch(name)


def _numbered(name: str) -> int:
    match = _number(name)
    return int(match[1]) if match else -1


def _names(method: Method) -> tuple[str, ...]:
    return tuple(one.name for one in method.parameters or ())


def _plain(value: dict[str, Any], kind: str) -> dict[str, Any]:
    """A number, where the model takes one and the array has no dimensions."""
    word, dtypes = _NUMBERS.get(kind, ("", ()))
    tensor = value["tensor"]
    if tensor["shape"] or tensor["dtype"] not in dtypes:
        return value
    code, _ = FORMATS[tensor["dtype"]]
    (number,) = struct.unpack(f"<{code}", base64.b64decode(tensor["data"]))
    return {word: number}


def _array(value: Mapping[str, Any]) -> bytes | None:
    """A value as a .npy; None where it is no array."""
    kind, content = next(iter(value.items()))
    packs = {"int": ("int64", "<q"), "double": ("float64", "<d"), "bool": ("bool", "<?")}
    if kind == "tensor":
        return None if "scale" in content else array_bytes(content)
    if kind not in packs or isinstance(content, str):
        return None
    dtype, layout = packs[kind]
    data = base64.b64encode(struct.pack(layout, content)).decode()
    return array_bytes({"dtype": dtype, "shape": [], "data": data})


def _unfit(shown: str, seen: str) -> InputsFileError:
    return InputsFileError(
        "these are no inputs of this model",
        place=Place(shown),
        expected="a .npz with an array for each argument, or a .json with calls",
        seen=seen,
        hint="numpy.savez(path, x=..., mask=...) writes the arguments of forward by their names;"
        " of several calls, name them forward.0.x, forward.1.x",
    )
