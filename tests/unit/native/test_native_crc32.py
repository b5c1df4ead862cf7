"""The checksum of a model's records is zip's: as Python's own zlib computes it."""

from __future__ import annotations

import ctypes
import platform
import random
import zlib

import package_toy as toy
import pytest
from zig_tool import zig

SOURCE = toy.ROOT / "orchestrator/native/archive/crc32.cpp"


@pytest.fixture(scope="module")
def crc32(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    out = tmp_path_factory.mktemp("crc") / "libcrc.so"
    warnings = ("-Wall", "-Wextra", "-Werror")
    target = ("-target", f"{platform.machine()}-linux-gnu.2.28")
    zig(
        "c++",
        *target,
        "-shared",
        "-fPIC",
        "-g0",
        "-O1",
        "-std=gnu++17",
        *warnings,
        SOURCE,
        "-o",
        out,
    )
    library = ctypes.CDLL(str(out))
    library.mz_crc32.restype = ctypes.c_ulong
    library.mz_crc32.argtypes = [ctypes.c_ulong, ctypes.c_char_p, ctypes.c_size_t]
    return library


def test_every_length_and_alignment(crc32: ctypes.CDLL) -> None:
    data = random.Random(1).randbytes(300)
    for begin in range(9):
        for end in range(begin, 300):
            part = data[begin:end]
            assert crc32.mz_crc32(0, part, len(part)) == zlib.crc32(part)


def test_in_parts(crc32: ctypes.CDLL) -> None:
    """As miniz reads a record piece by piece."""
    data = random.Random(2).randbytes(100_000)
    first = crc32.mz_crc32(0, data[:33_333], 33_333)
    assert crc32.mz_crc32(first, data[33_333:], 66_667) == zlib.crc32(data)


def test_of_nothing(crc32: ctypes.CDLL) -> None:
    assert crc32.mz_crc32(7, None, 0) == 0
    assert crc32.mz_crc32(7, b"", 0) == 7
