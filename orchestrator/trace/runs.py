"""Reads recorded runs. They are untrusted, even with a matching lock: anyone can propose both.

Contract: at most `LARGEST` bytes are decompressed, whatever a frame claims. The digest is checked
before the text is stored, and the text's parts are counted before they become objects. The result
can be compared (`orchestrator.verify.compare`; the format is native/driver/values.h).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import zstandard

from orchestrator.system.reading import open_file, parse_json

# One escaped character makes four bytes of each in its text.
LARGEST: Final = 2**26
# JSON values, each a Python object; a tensor is one text, whatever its size.
_MOST_VALUES: Final = 10**6
_AT_ONCE: Final = 2**20
# Comparing is recursive.
_DEEPEST: Final = 100
_WITHOUT_PARTS: Final = frozenset(("none", "bool", "int", "double", "string", "other", "unsteady"))


class RunsUnreadableError(Exception):
    """Why a file holds no recorded runs."""


def digest_of_runs(path: Path) -> str:
    """sha256 (hex) of the JSON text in a file. Raises OSError, RunsUnreadableError."""
    digest = hashlib.sha256()
    for chunk in _unpacked(path):
        digest.update(chunk)
    return digest.hexdigest()


def _unpacked(path: Path) -> Iterator[bytes]:
    size = 0
    try:
        with open_file(path) as file, zstandard.ZstdDecompressor().stream_reader(file) as reader:
            while chunk := reader.read(_AT_ONCE):
                size += len(chunk)
                if size > LARGEST:
                    raise RunsUnreadableError(f"more than {LARGEST:,} bytes")
                yield chunk
    except zstandard.ZstdError as error:
        raise RunsUnreadableError(str(error)) from None


def runs_in(path: Path) -> dict[str, Any]:
    """The model runner's result in a file. Raises OSError, RunsUnreadableError."""
    text = b"".join(_unpacked(path))
    if not text.isascii():  # as `pack_runs` writes it: other text takes four times the memory
        raise RunsUnreadableError("invalid JSON: a character that is not escaped")
    return parse_runs(text)


def parse_runs(text: bytes) -> dict[str, Any]:
    """The model runner's result in a JSON text. Raises RunsUnreadableError."""
    if len(text) > LARGEST:
        raise RunsUnreadableError(f"more than {LARGEST:,} bytes")
    if sum(map(text.count, (b",", b"[", b"{"))) > _MOST_VALUES:
        raise RunsUnreadableError(f"more than {_MOST_VALUES:,} values")
    try:
        value = parse_json(text)
    except ValueError as error:
        raise RunsUnreadableError(f"invalid JSON: {error}") from None
    if not _is_result(value):
        raise RunsUnreadableError(f"not a list of runs, or values of more than {_DEEPEST} levels")
    result: dict[str, Any] = value
    return result


def _is_result(value: object) -> bool:
    return (
        isinstance(value, dict)
        and isinstance(value.get("runs"), list)
        and all(isinstance(run, dict) and _is_run(run) for run in value["runs"])
    )


def _is_run(run: dict[str, Any]) -> bool:
    error, output = run.get("error"), run.get("output")
    return (
        isinstance(run.get("method"), str)
        and type(run.get("index")) is int
        and (error is None or (isinstance(error, dict) and isinstance(error.get("code"), str)))
        and (_is_value(output) if output is not None else error is not None)
    )


def _is_value(value: object) -> bool:
    """Without recursion, since JSON may nest to any depth."""
    left = [(value, 1)]
    while left:
        one, depth = left.pop()
        if not isinstance(one, dict) or not one or depth > _DEEPEST:
            return False
        kind, content = next(iter(one.items()))
        if kind in ("list", "tuple") and isinstance(content, list):
            left += [(part, depth + 1) for part in content]
        elif kind == "dict" and isinstance(content, list):
            if not all(isinstance(entry, list) and len(entry) == 2 for entry in content):
                return False
            left += [(part, depth + 1) for entry in content for part in entry]
        elif kind == "tensor" and isinstance(content, dict):
            if not _is_tensor(content):
                return False
        elif kind not in _WITHOUT_PARTS:
            return False
    return True


def _is_tensor(tensor: dict[str, Any]) -> bool:
    shape = tensor.get("shape")
    return (
        isinstance(tensor.get("dtype"), str)
        and isinstance(shape, list)
        and all(type(size) is int and size >= 0 for size in shape)
        and (isinstance(tensor.get("data"), str) or "unsteady" in tensor)
    )
