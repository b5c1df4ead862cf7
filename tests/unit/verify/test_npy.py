"""NumPy's arrays as inputs. A file of anybody's."""

from __future__ import annotations

import base64
import struct
from pathlib import Path

import pytest

from orchestrator.verify.npy import ArrayUnreadableError, read_npy


def npy(header: str, data: bytes, version: int = 1) -> bytes:
    text = header.encode()
    size = struct.pack("<H" if version == 1 else "<I", len(text))
    return b"\x93NUMPY" + bytes((version, 0)) + size + text + data


def header(descr: str = "<f4", order: str = "False", shape: str = "(2,)") -> str:
    return f"{{'descr': {descr!r}, 'fortran_order': {order}, 'shape': {shape}, }}\n"


@pytest.mark.parametrize("version", [1, 2, 3])
def test_an_array_is_a_tensor(tmp_path: Path, version: int) -> None:
    data = struct.pack("<2f", 1.5, -2)
    (tmp_path / "x.npy").write_bytes(npy(header(), data, version))
    text = base64.b64encode(data).decode()
    assert read_npy(tmp_path / "x.npy") == {
        "tensor": {"dtype": "float32", "shape": [2], "data": text}
    }


def test_a_number_is_a_tensor_without_dimensions(tmp_path: Path) -> None:
    (tmp_path / "x.npy").write_bytes(npy(header("|u1", shape="()"), b"\7"))
    assert read_npy(tmp_path / "x.npy")["tensor"]["shape"] == []


@pytest.mark.parametrize(
    ("data", "seen"),
    [
        (b"", "not an array that numpy.save wrote"),
        (b"PK\3\4" + 40 * b"\0", "not an array that numpy.save wrote"),
        (b"\x93NUMPY\x04\0" + 9 * b"\0", "not an array that numpy.save wrote"),
        (b"\x93NUMPY\x01\0\xff\xff{}  ", "a header of 65,535 bytes"),
        (npy(header(), b"1234567"), "7 bytes for 2 elements of float32"),
        (npy(header(), 9 * b"1"), "9 bytes for 2 elements of float32"),
        (npy(header(">f4"), 8 * b"1"), "elements of type '>f4'"),
        (npy(header("|O"), 8 * b"1"), "elements of type '|O'"),
        (
            npy(header(order="True"), 8 * b"1"),
            "elements in Fortran's order: save numpy.ascontiguousarray(array)",
        ),
        (npy(header(shape="(-2,)"), 8 * b"1"), "a shape that is none"),
        (npy(header(shape="(True,)"), 8 * b"1"), "a shape that is none"),
        (npy(header(shape="[2]"), 8 * b"1"), "a shape that is none"),
        (npy(header(shape=f"({'1, ' * 65})"), 4 * b"1"), "a shape that is none"),
        (
            npy(header(shape="(1000000, 1000000)"), b""),
            "1,000,000,000,000 elements, of at most 33,554,432",
        ),
    ],
)
def test_anything_else_is_refused(tmp_path: Path, data: bytes, seen: str) -> None:
    path = tmp_path / "x.npy"
    path.write_bytes(data)
    with pytest.raises(ArrayUnreadableError) as caught:
        read_npy(path)
    assert caught.value.seen == seen


@pytest.mark.parametrize("text", ["__import__('os').abort()", "{", "[" * 3000, "{'descr': 1}", "1"])
def test_a_header_is_a_literal_and_never_run(tmp_path: Path, text: str) -> None:
    (tmp_path / "x.npy").write_bytes(npy(text, b""))
    with pytest.raises(ArrayUnreadableError):
        read_npy(tmp_path / "x.npy")


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ArrayUnreadableError) as caught:
        read_npy(tmp_path / "gone.npy")
    assert caught.value.seen == "No such file or directory"
