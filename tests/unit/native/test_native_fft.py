"""Our Fourier transforms, against sums in extended precision; `native_fft/fft.cpp` has the sums."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from pathlib import Path

import package_toy as toy
import pytest
from zig_tool import zig

HERE = Path(__file__).parent / "native_fft"
HEADER = toy.ROOT / "orchestrator/native/fft"
# The largest part of the largest number that a transform is wrong by, in steps of the type's least
# difference from 1.
BOUND = 6.0
EPSILON = {"float": 2.0**-23, "double": 2.0**-52}
C2C, R2C, C2R = range(3)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    out = tmp_path_factory.mktemp("fft") / "libfft.so"
    flags = ("-shared", "-fPIC", "-g0", "-O2", "-std=gnu++17", "-Wall", "-Wextra", "-Werror")
    zig("c++", *flags, f"-I{HEADER}", HERE / "fft.cpp", "-o", out)
    library = ctypes.CDLL(str(out))
    library.error_of.restype = ctypes.c_double
    return library


def steps(
    library: ctypes.CDLL,
    type_: str,
    kind: int,
    shape: Sequence[int],
    axes: Sequence[int],
    *,
    forward: bool = True,
    by: float = 1.0,
) -> float:
    """How many steps the result is wrong by."""
    error = library.error_of(
        type_ == "double",
        kind,
        (ctypes.c_size_t * 3)(*shape),
        (ctypes.c_size_t * len(axes))(*axes),
        ctypes.c_size_t(len(axes)),
        forward,
        ctypes.c_double(by),
    )
    return float(error) / EPSILON[type_]


@pytest.mark.parametrize("type_", ["float", "double"])
@pytest.mark.parametrize("kind", [C2C, R2C, C2R])
@pytest.mark.parametrize("forward", [True, False])
def test_lines_of_every_length(library: ctypes.CDLL, type_: str, kind: int, forward: bool) -> None:
    """One line more than a vector has lanes; primes and their products take the long way."""
    for n in (*range(1, 70), 97, 127, 200, 256, 400, 441, 512, 997, 1000, 1023, 1024, 2 * 1009):
        seen = steps(library, type_, kind, (1, 5, n), (2,), forward=forward, by=0.25)
        assert seen < BOUND, (n, seen)


@pytest.mark.parametrize("type_", ["float", "double"])
@pytest.mark.parametrize("kind", [C2C, R2C, C2R])
@pytest.mark.parametrize("axes", [(0,), (1,), (0, 1), (2, 0), (1, 2), (0, 1, 2), (2, 1, 0)])
def test_some_axes_of_an_array(
    library: ctypes.CDLL, type_: str, kind: int, axes: tuple[int, ...]
) -> None:
    for shape in ((3, 4, 5), (8, 1, 6), (7, 37, 2)):
        assert steps(library, type_, kind, shape, axes) < BOUND


def test_nothing_is_transformed_to_nothing(library: ctypes.CDLL) -> None:
    # of no numbers none is the largest
    assert math.isnan(steps(library, "float", C2C, (0, 3, 4), (2,)))
