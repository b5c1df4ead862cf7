"""Inputs in a file beside a model."""

from __future__ import annotations

import base64
import io
import json
import struct
import zipfile
from pathlib import Path
from typing import Any

import pytest

from orchestrator.errors import OrchestratorError
from orchestrator.values.methods import Method, Parameter
from orchestrator.verify.inputs_file import InputsFileError, inputs_file, read_inputs_file
from orchestrator.verify.npy import ArrayUnreadableError, array_bytes

FORWARD = Method(
    name="forward",
    parameters=(
        Parameter(name="x", type="Tensor"),
        Parameter(name="mask", type="Tensor"),
        Parameter(name="n", type="int"),
    ),
)
ENCODE = Method(name="encode", parameters=(Parameter(name="text", type="Tensor"),))
METHODS = (FORWARD, ENCODE)


def tensor(*values: float, shape: list[int] | None = None) -> dict[str, Any]:
    data = base64.b64encode(struct.pack(f"<{len(values)}f", *values)).decode()
    size = [len(values)] if shape is None else shape
    return {"tensor": {"dtype": "float32", "shape": size, "data": data}}


def array(value: dict[str, Any]) -> bytes:
    made = array_bytes(value["tensor"])
    assert made is not None
    return made


def npz(path: Path, **arrays: bytes) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in arrays.items():
            archive.writestr(name.replace("__", ".") + ".npy", content)
    return path


INT = array_bytes({"dtype": "int64", "shape": [], "data": base64.b64encode(bytes(8)).decode()})
X, MASK = tensor(1, 2), tensor(3)


def calls(path: Path, methods: tuple[Method, ...] = METHODS) -> Any:
    return json.loads(read_inputs_file(path, "models/x.npz", methods))


def seen(path: Path) -> str:
    with pytest.raises(InputsFileError) as caught:
        calls(path)
    return str(caught.value.seen)


def test_names_and_order(tmp_path: Path) -> None:
    file, expected = tmp_path / "x.npz", [{"method": "forward", "args": [X, MASK, {"int": 0}]}]
    assert INT is not None
    assert calls(npz(file, mask=array(MASK), n=INT, x=array(X))) == expected
    assert calls(npz(file, arr_0=array(X), arr_1=array(MASK), arr_2=INT)) == expected
    # of a model that does not say what it takes, a number stays an array
    unknown = (Method(name="forward", parameters=None),)
    assert "tensor" in calls(npz(file, arr_0=INT), unknown)[0]["args"][0]


def test_several_calls(tmp_path: Path) -> None:
    arrays = {
        "forward__1__x": array(MASK),
        "encode__0__0": array(X),
        "forward__0__x": array(X),
    }
    assert calls(npz(tmp_path / "x.npz", **arrays)) == [
        {"method": "encode", "args": [X]},
        {"method": "forward", "args": [X]},
        {"method": "forward", "args": [MASK]},
    ]


@pytest.mark.parametrize(
    ("rows", "suffix"),
    [
        ([{"method": "forward", "args": [X, MASK, {"int": 3}]}], ".npz"),
        ([{"method": "encode", "args": [X]}, {"method": "forward", "args": [X]}], ".npz"),
        ([{"method": "forward", "args": [{"list": [X]}]}], ".json"),
        ([{"method": "forward", "args": [{"tensor": {**X["tensor"], "dtype": "bf"}}]}], ".json"),
        ([{"method": "forward", "args": []}], ".json"),
        ([{"method": "forward", "args": [{"none": True}]}], ".json"),
    ],
)
def test_it_reads_what_it_writes(tmp_path: Path, rows: Any, suffix: str) -> None:
    made, content = inputs_file(json.dumps(rows).encode(), METHODS)
    assert made == suffix
    if made == ".npz":
        file = tmp_path / "x.npz"
        file.write_bytes(content)
        assert calls(file) == rows
        assert inputs_file(json.dumps(rows).encode(), METHODS)[1] == content
    else:
        assert json.loads(content) == rows


def test_json(tmp_path: Path) -> None:
    file = tmp_path / "x.json"
    file.write_text('[{"method": "forward", "args": [{"int": 1}]}]')
    assert calls(file) == [{"method": "forward", "args": [{"int": 1}]}]
    file.write_text("{}")
    assert seen(file) == "no list of calls"
    file.write_text("[")
    assert seen(file).startswith("invalid JSON: ")


def test_what_is_none(tmp_path: Path) -> None:
    file = tmp_path / "x.npz"
    assert seen(file) == "No such file or directory"
    file.write_bytes(b"PK")
    assert seen(file) == "File is not a zip file"
    assert seen(npz(file)) == "no array"
    assert seen(npz(file, y=array(X))) == "an array named y; forward takes x, mask, n"
    assert seen(npz(file, mask=array(X))) == "forward without x"
    assert seen(npz(file, arr_1=array(X))) == (
        "numbers that are not 0, 1, 2, ...; forward takes x, mask, n"
    )
    assert seen(npz(file, **{f"arr_{n}": array(X) for n in range(4)})) == (
        "forward with 4 arguments; it takes 3"
    )
    assert (
        seen(npz(file, decode__0__x=array(X))) == "a call of decode; the model has forward, encode"
    )
    assert seen(npz(file, **{"a b": array(X)})) == "an array named 'a b'"
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("x.txt", b"")
    assert seen(file) == "'x.txt', which is no array of its own"


def test_hostile_sizes(tmp_path: Path) -> None:
    """A small file that unpacks to gigabytes is refused before it is unpacked."""
    file, out = tmp_path / "x.npz", io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in ("x", "mask"):
            archive.writestr(f"{name}.npy", bytes(150 * 10**6))
    file.write_bytes(out.getvalue())
    assert seen(file).startswith("arrays of 300,000,000 bytes")
    pickled = array(X).replace(b"<f4", b"|O8")
    with pytest.raises(ArrayUnreadableError) as caught:
        calls(npz(file, x=pickled))
    assert "elements of type '|O8'" in caught.value.render()
    assert isinstance(caught.value, OrchestratorError)
