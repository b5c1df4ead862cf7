"""Products of a matrix and a vector, and of two vectors, against double precision, at both levels.

`native_maths/products.cpp` beside this file holds the source of ours.
"""

from __future__ import annotations

import ctypes
import math
import random

import pytest
from rows import floats, has_wide_lanes, kernels_library

# What a sum of products of numbers below 1 may differ by, for each of them.
ROUNDING = 2e-7
INF, NAN = math.inf, math.nan
SIZES = [(1, 1), (1, 7), (5, 1), (8, 4), (9, 3), (31, 33), (64, 5), (1030, 6), (3, 1030)]


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    library = kernels_library("products", tmp_path_factory.mktemp("products"))
    library.sdot.restype = ctypes.c_float
    return library


@pytest.fixture(params=["every processor", "this processor"])
def library(request: pytest.FixtureRequest, compiled: ctypes.CDLL) -> ctypes.CDLL:
    """At the level of every processor, and at the highest of this one."""
    compiled.choose(request.param == "this processor" and has_wide_lanes())
    return compiled


def _random(count: int, seed: int = 0) -> list[float]:
    rng = random.Random(count + seed)
    return list(floats([rng.uniform(-1, 1) for _ in range(count)]))


def _dot(library: ctypes.CDLL, x: list[float], y: list[float], apart: tuple[int, int]) -> float:
    """Of vectors that lie apart: what lies between is no number."""
    given = [_apart(numbers, gap) for numbers, gap in zip((x, y), apart, strict=True)]
    one, other = (ctypes.c_int64(gap) for gap in apart)
    return float(library.sdot(ctypes.c_int64(len(x)), given[0], one, given[1], other))


def _apart(numbers: list[float], apart: int) -> ctypes.Array[ctypes.c_float]:
    spread = [NAN] * (len(numbers) * apart + 1)
    spread[: len(numbers) * apart : apart] = numbers
    return floats(spread)


def _product(
    library: ctypes.CDLL,
    matrix: list[list[float]],
    x: list[float],
    y: list[float],
    factors: tuple[float, float],
    apart: tuple[int, int],
    transpose: bool,
) -> list[float]:
    """alpha matrix x + beta y by BLAS's interface; `transpose`: the matrix lies row by row.

    Its rows or columns lie three numbers apart. Nothing is written between the numbers of y.
    """
    lines = matrix if transpose else [list(line) for line in zip(*matrix, strict=True)]
    lie = floats([number for line in lines for number in (*line, NAN, NAN, NAN)])
    m, n = len(lines[0]), len(lines)
    to = _apart(y, apart[1])
    library.sgemv(
        int(transpose), ctypes.c_int64(m), ctypes.c_int64(n), ctypes.c_float(factors[0]),
        lie, ctypes.c_int64(m + 3), _apart(x, apart[0]), ctypes.c_int64(apart[0]),
        ctypes.c_float(factors[1]), to, ctypes.c_int64(apart[1]),
    )  # fmt: skip
    assert all(math.isnan(to[i]) for i in range(len(to)) if i % apart[1] or i == len(to) - 1)
    return list(to)[: -1 : apart[1]]


@pytest.mark.parametrize("transpose", [True, False], ids=["by rows", "by columns"])
@pytest.mark.parametrize(("rows", "columns"), SIZES)
def test_products(library: ctypes.CDLL, rows: int, columns: int, transpose: bool) -> None:
    """Vectors side by side and apart; a y that is not read, added to, and scaled."""
    matrix = [_random(columns, row) for row in range(rows)]
    x, y = _random(columns, -1), _random(rows, -2)
    for factors in ((1.0, 0.0), (-0.5, 1.0), (2.0, 0.25)):
        for apart in ((1, 1), (2, 1), (1, 3), (5, 2)):
            before = y if factors[1] else [NAN] * rows
            found = _product(library, matrix, x, before, factors, apart, transpose)
            alpha, beta = factors
            for row in range(rows):
                terms = [alpha * a * b for a, b in zip(matrix[row], x, strict=True)]
                exact = math.fsum([beta * y[row] if beta else 0.0, *terms])
                assert found[row] == pytest.approx(exact, abs=2 * ROUNDING * (columns + 1))


@pytest.mark.parametrize("transpose", [True, False], ids=["by rows", "by columns"])
def test_what_is_no_number_is_in_its_rows_alone(library: ctypes.CDLL, transpose: bool) -> None:
    for wrong in (NAN, INF):
        matrix = [[1.0] * 11 for _ in range(9)]
        matrix[4][10] = wrong
        ones, nothing = [1.0] * 11, [NAN] * 9
        found = _product(library, matrix, ones, nothing, (1.0, 0.0), (1, 1), transpose)
        assert [f for i, f in enumerate(found) if i != 4] == [11.0] * 8
        assert repr(found[4]) == repr(wrong)
        every = _product(
            library, [[1.0] * 11] * 9, [*ones[1:], wrong], nothing, (1.0, 0.0), (1, 1), transpose
        )
        assert {repr(one) for one in every} == {repr(wrong)}


@pytest.mark.parametrize("count", [0, 1, 7, 8, 33, 1024, 1025, 4100])
def test_dot(library: ctypes.CDLL, count: int) -> None:
    x, y = _random(count), _random(count, 1)
    exact = math.fsum(a * b for a, b in zip(x, y, strict=True))
    for apart in ((1, 1), (1, 2), (3, 1), (2, 4)):
        found = _dot(library, x, y, apart)
        assert found == pytest.approx(exact, abs=ROUNDING * (count + 1))
