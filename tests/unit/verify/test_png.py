"""Pictures as inputs. A file of anybody's."""

from __future__ import annotations

import base64
import io
import struct
import zlib
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from orchestrator.verify.png import PictureUnreadableError, read_png


def chunk(kind: bytes, data: bytes) -> bytes:
    body = kind + data
    return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))


def png(
    width: int,
    height: int,
    depth: int,
    colour: int,
    rows: bytes,
    *more: bytes,
    after: tuple[bytes, ...] = (),
) -> bytes:
    """A picture without a filter; `rows` has a byte 0 before each row; more, after: chunks before
    its data, and behind."""
    header = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0)
    data = chunk(b"IDAT", zlib.compress(rows))
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + b"".join(more)
        + data
        + b"".join(after)
        + chunk(b"IEND", b"")
    )


def read(tmp_path: Path, data: bytes) -> tuple[list[int], list[float]]:
    """Its shape and bytes of pixels."""
    (tmp_path / "x.png").write_bytes(data)
    tensor = read_png(tmp_path / "x.png")["tensor"]
    assert tensor["dtype"] == "float32"
    found = base64.b64decode(tensor["data"])
    return tensor["shape"], [255 * one for one in struct.unpack(f"<{len(found) // 4}f", found)]


@pytest.mark.parametrize(
    ("data", "shape", "pixels"),
    [
        (png(2, 1, 8, 0, bytes([0, 7, 255])), [1, 1, 1, 2], [7, 255]),
        (png(2, 1, 1, 0, bytes([0, 0b01000000])), [1, 1, 1, 2], [0, 255]),
        # one colour after the other, rows from the top
        (
            png(1, 2, 8, 2, bytes([0, 1, 2, 3, 0, 4, 5, 6])),
            [1, 3, 2, 1],
            [1, 4, 2, 5, 3, 6],
        ),
        (png(1, 1, 8, 6, bytes([0, 1, 2, 3, 9])), [1, 3, 1, 1], [1, 2, 3]),
        (png(1, 1, 8, 4, bytes([0, 5, 9])), [1, 1, 1, 1], [5]),
        (
            png(1, 1, 8, 3, bytes([0, 1]), chunk(b"PLTE", bytes([0, 0, 0, 7, 8, 9]))),
            [1, 3, 1, 1],
            [7, 8, 9],
        ),
        # Pillow warns of this one
        (
            png(
                *(1, 1, 8, 3, bytes([0, 0])),
                chunk(b"PLTE", bytes([4, 5, 6, 7, 8, 9])),
                chunk(b"tRNS", bytes([1, 2])),
            ),
            [1, 3, 1, 1],
            [4, 5, 6],
        ),
    ],
    ids=[
        "grey",
        "black and white",
        "colours",
        "transparent",
        "transparent grey",
        "palette",
        "transparent palette",
    ],
)
def test_a_picture_is_a_batch_of_one(
    tmp_path: Path, data: bytes, shape: list[int], pixels: list[int]
) -> None:
    seen = read(tmp_path, data)
    assert seen[0] == shape
    assert seen[1] == pytest.approx(pixels)


def written(form: str) -> bytes:
    out = io.BytesIO()
    Image.new("RGB", (2, 2)).save(out, form)
    return out.getvalue()


@pytest.mark.parametrize(
    ("data", "seen"),
    [
        (b"", "no PNG file"),
        (written("BMP"), "no PNG file"),
        (png(2, 1, 16, 0, bytes([0, 1, 2, 3, 4])), "pixels that Pillow calls I;16B"),
        (png(1, 1, 16, 2, bytes(7)), "pixels that Pillow calls RGB;16B"),
        (png(1, 1, 16, 6, bytes(9)), "pixels that Pillow calls RGBA;16B"),
        (png(1, 1, 16, 4, bytes(5)), "pixels that Pillow calls LA;16B"),
        # what Pillow's readers trip over
        (png(1, 1, 8, 0, bytes(2), after=(chunk(b"iCCP", b""),)), "index out of range"),
        (png(1, 1, 8, 0, bytes(2), chunk(b"tEXt", b"bbox\0abc")), ""),
        (png(1, 1, 8, 3, bytes(2), chunk(b"tRNS", b"\0")), ""),
        (
            png(
                *(1, 1, 8, 3, bytes(2)),
                chunk(b"PLTE", bytes(6)),
                chunk(b"tEXt", b"transparency\0x"),
            ),
            "",
        ),
        (png(5000, 5000, 8, 2, b""), "5,000 x 5,000 pixels"),
        (png(2**31 - 1, 2**31 - 1, 8, 2, b""), "exceeds limit"),
        (png(20_000, 10_000, 8, 0, b""), "exceeds limit"),
        (png(10_000, 10_000, 8, 0, b""), "exceeds limit"),
        (png(9, 9, 8, 0, bytes([0, 7])), "image file is truncated"),
        (png(2, 1, 8, 0, bytes([0, 7, 255]))[:-30], "no PNG file"),
    ],
)
def test_other_files_are_no_pictures(tmp_path: Path, data: bytes, seen: str) -> None:
    (tmp_path / "x.png").write_bytes(data)
    with pytest.raises(PictureUnreadableError) as caught:
        read_png(tmp_path / "x.png")
    assert seen in str(caught.value.seen)
    assert caught.value.place is not None


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(PictureUnreadableError) as caught:
        read_png(tmp_path / "gone.png")
    assert caught.value.seen == "No such file or directory"


@given(at=st.integers(8, 60), byte=st.integers(0, 255))
def test_a_damaged_picture_is_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, at: int, byte: int
) -> None:
    data = bytearray(png(3, 2, 8, 2, bytes(20)))
    data[min(at, len(data) - 1)] = byte
    path = tmp_path_factory.mktemp("png") / "x.png"
    path.write_bytes(data)
    with suppress(PictureUnreadableError):
        assert read_png(path)["tensor"]["shape"][0] == 1
