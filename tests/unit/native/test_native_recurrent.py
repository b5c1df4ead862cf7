"""Steps of recurrent layers, against double precision, at both CPU levels.

`native_maths/recurrent.cpp` beside this file holds the source of ours.
"""

from __future__ import annotations

import ctypes
import math
import random

import pytest
from rows import floats, has_wide_lanes, kernels_library

SIZES = (1, 7, 8, 9, 31, 32, 33, 48)
# What sums of numbers below 1 may differ by, for each number; and what functions add.
ROUNDING = 2e-7
# The shares' sigmoids and tanh: 2.4 and 1.4 units in the last place.
STEP = 1e-6


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    library = kernels_library("recurrent", tmp_path_factory.mktemp("recurrent"))
    library.padded.restype = library.packed_size.restype = ctypes.c_int64
    return library


@pytest.fixture(params=["every processor", "this processor"])
def library(request: pytest.FixtureRequest, compiled: ctypes.CDLL) -> ctypes.CDLL:
    """At the level of every processor, and at the highest of this one."""
    compiled.choose(request.param == "this processor" and has_wide_lanes())
    return compiled


def _random(count: int, spread: float = 1) -> list[float]:
    rng = random.Random(count)
    return list(floats([rng.uniform(-spread, spread) for _ in range(count)]))


def _whole(value: int) -> ctypes.c_int64:
    return ctypes.c_int64(value)


def _sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


@pytest.mark.parametrize("rows", [1, 2, 3, 4, 7])
@pytest.mark.parametrize(("columns", "depth"), [(1, 1), (32, 2), (33, 9), (100, 48), (64, 31)])
def test_products(library: ctypes.CDLL, rows: int, columns: int, depth: int) -> None:
    """Rows that lie apart, one start for all or each its own, in the place of the result."""
    width = library.padded(_whole(columns))
    assert width % 32 == 0
    assert 0 <= width - columns < 32
    weights = _random(columns * depth)
    packed = floats([math.nan] * library.packed_size(_whole(columns), _whole(depth)))
    library.pack_tiles(floats(weights), _whole(columns), _whole(depth), packed)
    stride = depth + 3
    source = _random(rows * stride)
    starts = _random(width * rows)
    for own in (0, width):
        to = floats([*starts, 7.0])
        start = to if own else floats(starts)
        numbers = (rows, depth, 0, width // 32)
        library.multiply(
            floats(source), _whole(stride), packed, start, _whole(own), to, _whole(width),
            *map(_whole, numbers),
        )  # fmt: skip
        assert to[width * rows] == 7
        for row in range(rows):
            given = source[row * stride : row * stride + depth]
            for column in range(columns):
                own_weights = weights[column * depth : (column + 1) * depth]
                terms = [a * b for a, b in zip(given, own_weights, strict=True)]
                exact = math.fsum([starts[row * own + column], *terms])
                assert to[row * width + column] == pytest.approx(exact, abs=ROUNDING * (depth + 1))


def test_a_part_of_the_tiles(library: ctypes.CDLL) -> None:
    """What one of several threads computes: the other tiles stay as they are."""
    packed = floats([1.0] * library.packed_size(_whole(96), _whole(2)))
    to = floats([5.0] * 96)
    library.multiply(
        floats([1, 2]), _whole(2), packed, floats([10] * 96), _whole(0), to, _whole(96),
        *map(_whole, (1, 2, 1, 2)),
    )  # fmt: skip
    assert list(to) == [5] * 32 + [13] * 32 + [5] * 32


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("spread", [1, 30])
def test_lstm_steps(library: ctypes.CDLL, size: int, spread: float) -> None:
    gates, cells = _random(4 * size, spread), _random(size)
    cell, hidden = floats([*cells, 7]), floats([7] * (size + 1))
    library.lstm_step(floats(gates), cell, hidden, _whole(size))
    assert (cell[size], hidden[size]) == (7, 7)
    for i in range(size):
        take, keep, fresh, out = (gates[gate * size + i] for gate in range(4))
        exact = _sigmoid(keep) * cells[i] + _sigmoid(take) * math.tanh(fresh)
        assert cell[i] == pytest.approx(exact, abs=STEP)
        assert hidden[i] == pytest.approx(_sigmoid(out) * math.tanh(exact), abs=STEP)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("spread", [1, 30])
def test_gru_steps(library: ctypes.CDLL, size: int, spread: float) -> None:
    given, own, before = _random(3 * size, spread), _random(3 * size + 1), _random(size)
    hidden = floats([7] * (size + 1))
    library.gru_step(floats(given), floats(own), floats(before), hidden, _whole(size))
    assert hidden[size] == 7
    for i in range(size):
        reset = _sigmoid(given[i] + own[i])
        keep = _sigmoid(given[size + i] + own[size + i])
        fresh = math.tanh(given[2 * size + i] + reset * own[2 * size + i])
        assert hidden[i] == pytest.approx((before[i] - fresh) * keep + fresh, abs=STEP * 3)


def test_what_is_no_number_stays_so(library: ctypes.CDLL) -> None:
    size = 9
    for gate in range(4):
        gates = [0.5] * (4 * size)
        gates[gate * size + 4] = math.nan
        cell, hidden = floats([1.0] * size), floats([0.0] * size)
        library.lstm_step(floats(gates), cell, hidden, _whole(size))
        assert [math.isnan(x) for x in hidden] == [i == 4 for i in range(size)]
    for gate in range(3):
        given = [0.5] * (3 * size)
        given[gate * size + 4] = math.nan
        hidden = floats([0.0] * size)
        zeros = floats([0.0] * (3 * size))
        hidden_sums = floats([1.0] * (3 * size))
        library.gru_step(floats(given), hidden_sums, zeros, hidden, _whole(size))
        assert [math.isnan(x) for x in hidden] == [i == 4 for i in range(size)]
