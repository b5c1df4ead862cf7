"""Our elementary functions and functions of rows, against double precision, at each CPU level.

`native_maths/maths.cpp` beside this file holds the sources of ours and the loop over the floats.
"""

from __future__ import annotations

import ctypes
import math
import random
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence

import pytest
from rows import floats, has_wide_lanes, kernels_library

from orchestrator.system.processor import processor_instructions

# in the order of `functions` in maths.cpp; of sin and cos in units of 2^-24, below 0.5 too
FUNCTIONS = {
    "exp": 1.5,
    "tanh": 1.4,
    "erf": 1.2,
    "sigmoid": 2.4,
    "log": 0.9,
    "sqrt": 0.5,
    "rsqrt": 1.5,
    "reciprocal": 0.5,
    "sin": 1.6,
    "cos": 1.6,
    "floor": 0.0,
    "ceil": 0.0,
    "round": 0.0,
    "trunc": 0.0,
    "softplus": 1.8,
    "mish": 4.0,
}
SIZES = (1, 2, 7, 8, 9, 16, 31, 40, 1024, 1025, 4100)
INF, NAN = math.inf, math.nan


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, ctypes.CDLL]]:
    """By level. Two are of a library with the CPU level avx512, each loaded for itself: it asks for
    its processor once."""
    folder = tmp_path_factory.mktemp("maths")
    eight = kernels_library("maths", folder)
    sixteen = kernels_library("maths", folder, "-DLTA_WITH_AVX512")
    copied = shutil.copy(sixteen._name, folder / "copied.so")
    found = {
        "every processor": eight,
        "AVX2": eight,
        "sixteen lanes, AVX2": sixteen,
        "AVX-512": ctypes.CDLL(str(copied)),
    }
    for library in found.values():
        library.largest_error.restype = ctypes.c_double
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LTA_CPU_LEVEL", "avx512")  # also where 512 bits are computed in halves
        yield found


@pytest.fixture(params=["every processor", "AVX2", "sixteen lanes, AVX2", "AVX-512"])
def library(request: pytest.FixtureRequest, libraries: Mapping[str, ctypes.CDLL]) -> ctypes.CDLL:
    """At each level, as far as this processor has it: else at the one below."""
    level: str = request.param
    wide = level != "every processor" and has_wide_lanes()
    libraries[level].choose(wide, level == "AVX-512" and "avx512f" in processor_instructions())
    return libraries[level]


def _run(call: Callable[..., object], values: Sequence[float], *more: object) -> list[float]:
    """What a function of a row writes into other memory, and into the same."""
    to = floats([NAN] * (len(values) + 1))
    call(floats(values), to, *more)
    assert math.isnan(to[len(values)])  # nothing is written behind the row
    same = floats(values)
    call(same, same, *more)
    found = list(to)[:-1]
    assert repr(list(same)) == repr(found)
    return found


def _row(size: int, spread: float = 4) -> list[float]:
    rng = random.Random(size)
    return list(floats([rng.gauss(0, spread) for _ in range(size)]))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_errors_over_allfloats(library: ctypes.CDLL, name: str) -> None:
    """Every 499th of the 2^32: negative ones, denormals, infinities and NaN among them."""
    at = ctypes.c_float()
    number = list(FUNCTIONS).index(name)
    largest = library.largest_error(number, ctypes.c_uint32(499), ctypes.byref(at))
    assert largest <= FUNCTIONS[name], f"{largest} at {at.value!r}"
    assert largest >= FUNCTIONS[name] * 0.6  # it does compare


@pytest.mark.parametrize("size", SIZES)
def test_softmax(library: ctypes.CDLL, size: int) -> None:
    row = _row(size)
    found = _run(library.softmax, row, 1, ctypes.c_int64(size))
    logs = _run(library.log_softmax, row, 1, ctypes.c_int64(size))
    most = max(row)
    exact = math.log(math.fsum(math.exp(x - most) for x in row)) + most
    assert found == pytest.approx([math.exp(x - exact) for x in row], rel=2e-6)
    assert logs == pytest.approx([x - exact for x in row], rel=1e-6, abs=2e-6)


def test_softmax_row_by_row(library: ctypes.CDLL) -> None:
    rows = [0.0, 1.0, 2.0, 1000.0, 1001.0, 1002.0, -104.0, -105.0, -1e30]
    found = _run(library.softmax, rows, 3, ctypes.c_int64(3))
    first = [math.exp(x) / sum(math.exp(y) for y in range(3)) for x in range(3)]
    last = [1 / (1 + math.exp(-1)), 1 / (1 + math.exp(1)), 0]
    assert found == pytest.approx([*first, *first, *last], rel=1e-6)


@pytest.mark.parametrize("count", [1, 7, 8, 19, 40])
@pytest.mark.parametrize("size", [1, 3, 70])
def test_softmax_of_columns(library: ctypes.CDLL, count: int, size: int) -> None:
    """Columns that lie one further apart than there are: what is between stays."""
    apart = count + 1
    columns = [
        _row(1000 * count + size + i)[:size] if size > 1 else [float(i)] for i in range(count)
    ]
    columns = [(column * size)[:size] for column in columns]
    columns[0][0] = -INF
    if count > 8:
        columns[8][-1], columns[-1][0] = NAN, INF
    lie = floats(
        [*(columns[c][r] if c < count else 7.0 for r in range(size) for c in range(apart))]
    )
    numbers = [ctypes.c_int64(one) for one in (count, size, apart)]
    for run, single in (
        (library.softmax_of_columns, library.softmax),
        (library.log_softmax_of_columns, library.log_softmax),
    ):
        to = floats([7.0] * len(lie))
        run(lie, to, *numbers)
        for c, column in enumerate(columns):
            expected = _run(single, column, 1, ctypes.c_int64(size))
            found = [to[r * apart + c] for r in range(size)]
            assert found == pytest.approx(expected, rel=2e-6, abs=2e-6, nan_ok=True)
        assert [to[r * apart + count] for r in range(size)] == [7.0] * size


@pytest.mark.parametrize("size", [3, 8, 11])
def test_softmax_of_what_is_no_number(library: ctypes.CDLL, size: int) -> None:
    """As PyTorch's: a NaN is in all of the row, infinities are its limits."""
    for place in (0, size - 1):
        for other in (NAN, INF):
            row = [1.0] * size
            row[place] = other
            assert all(map(math.isnan, _run(library.softmax, row, 1, ctypes.c_int64(size))))
        row = [1.0] * size
        row[place] = -INF
        found = _run(library.softmax, row, 1, ctypes.c_int64(size))
        expected = [0 if i == place else 1 / (size - 1) for i in range(size)]
        assert found == pytest.approx(expected, rel=1e-6)
        assert _run(library.log_softmax, row, 1, ctypes.c_int64(size))[place] == -INF
    nothing = [-INF] * size
    assert all(map(math.isnan, _run(library.softmax, nothing, 1, ctypes.c_int64(size))))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("shifted", [0.0, 300.0])
def test_layer_norm(library: ctypes.CDLL, size: int, shifted: float) -> None:
    row = list(floats([x + shifted for x in _row(size)]))
    scale, shift = _row(size + 1)[:size], _row(size + 2)[:size]
    mean = math.fsum(row) / size
    deviation = 1 / math.sqrt(math.fsum((x - mean) ** 2 for x in row) / size + 1e-5)
    plain = [(x - mean) * deviation for x in row]
    both = [x * a + b for x, a, b in zip(plain, scale, shift, strict=True)]
    means = ctypes.c_float(), ctypes.c_float()
    pointers = [ctypes.byref(one) for one in means]
    of = ctypes.c_int64(size)
    found = _run(library.layer_norm, row, of, floats(scale), floats(shift), *pointers)
    near = 1e-4 if shifted else 1e-5  # the mean is a float
    assert found == pytest.approx(both, abs=near)
    assert [one.value for one in means] == pytest.approx([mean, deviation], rel=1e-5, abs=1e-6)
    assert _run(library.layer_norm, row, of, None, None, None, None) == pytest.approx(
        plain, abs=near
    )


@pytest.mark.parametrize("size", SIZES)
def test_activations(library: ctypes.CDLL, size: int) -> None:
    row = _row(size)
    beta = math.sqrt(2 / math.pi)
    exact: list[Callable[[float], float]] = [
        lambda x: 0.5 * x * (1 + math.erf(x / math.sqrt(2))),
        lambda x: 0.5 * x * (1 + math.tanh(beta * (x + 0.044715 * x**3))),
        lambda x: x / (1 + math.exp(-x)),
    ]
    for which, function in enumerate(exact):
        found = _run(lambda *of, n=which: library.one_by_one(n, *of), row, ctypes.c_int64(size))
        near = 1e-6 if which else 4e-7 * max(map(abs, row))
        assert found == pytest.approx([function(x) for x in row], rel=3e-7, abs=near)


@pytest.mark.parametrize("size", SIZES)
def test_activations_with_parameters(library: ctypes.CDLL, size: int) -> None:
    row = _row(size)
    exact: list[Callable[[float], float]] = [
        lambda x: min(max(x + 3, 0), 6) / 6,
        lambda x: x * min(max(x + 3, 0), 6) / 6,
        lambda x: x if x > 0 else x * 0.125,
        lambda x: x if x > 1.5 else math.log1p(math.exp(2 * x)) / 2,
        lambda x: 1.5 * x if x > 0 else 3 * (math.exp(0.5 * x) - 1),
    ]
    for which, function in enumerate(exact):
        found = _run(lambda *of, n=which: library.given(n, *of), row, ctypes.c_int64(size))
        assert found == pytest.approx([function(x) for x in row], rel=5e-7, abs=4e-7)
    other = _row(size + 5)[:size]
    gated = [x / (1 + math.exp(-y)) for x, y in zip(row, other, strict=False)]
    to = floats([NAN] * (size + 1))
    library.glu(floats(row), floats(other), to, ctypes.c_int64(len(gated)))
    assert list(to)[: len(gated)] == pytest.approx(gated, rel=5e-7, abs=1e-30)
    assert math.isnan(to[len(gated)])


def test_activations_with_parameters_of_extremes(library: ctypes.CDLL) -> None:
    """As PyTorch's: what is no number stays none, and limits are exact."""
    given = [NAN, INF, -INF, 0.0, -3.0, 3.0, 1e38]
    nan = NAN
    for which, expected in enumerate(
        [
            [nan, 1.0, 0.0, 0.5, 0.0, 1.0, 1.0],
            [nan, INF, nan, 0.0, 0.0, 3.0, INF],
            [nan, INF, -INF, 0.0, -0.375, 3.0, 1e38],
            [nan, INF, 0.0, math.log(2) / 2, math.log1p(math.exp(-6)) / 2, 3.0, 1e38],
            [nan, INF, -3.0, 0.0, 3 * math.expm1(-1.5), 4.5, 1.5e38],
        ]
    ):
        found = _run(lambda *of, n=which: library.given(n, *of), given, ctypes.c_int64(7))
        assert found == pytest.approx(expected, rel=1e-6, nan_ok=True)


def test_signs_of_zero_stay(library: ctypes.CDLL) -> None:
    names = ["sqrt", "floor", "ceil", "round", "trunc"]
    for name in names:
        number = list(FUNCTIONS).index(name)
        found = _run(lambda *of, n=number: library.function(n, *of), [-0.0, 0.0], ctypes.c_int64(2))
        assert [math.copysign(1, x) for x in found] == [-1, 1], name
    for name, given in (("ceil", -0.25), ("round", -0.5), ("trunc", -0.75)):
        number = list(FUNCTIONS).index(name)
        found = _run(lambda *of, n=number: library.function(n, *of), [given], ctypes.c_int64(1))
        assert repr(found) == "[-0.0]", name


def test_gelu_close_by(library: ctypes.CDLL) -> None:
    """The distribution to 4e-7; from 5.4 on it is one, or zero."""
    row = list(floats([n / 1000 for n in range(-9000, 9001)]))
    found = _run(lambda *of: library.one_by_one(0, *of), row, ctypes.c_int64(len(row)))
    for x, y in zip(row, found, strict=True):
        assert y == pytest.approx(0.5 * x * math.erfc(-x / math.sqrt(2)), abs=4e-7 * abs(x))
        assert abs(x) <= 5.4 or y == max(x, 0)


def test_activations_of_extremes(library: ctypes.CDLL) -> None:
    for which in range(3):
        given = [0.0, 1e-40, 20.0, -20.0, INF, NAN]
        found = _run(lambda *of, n=which: library.one_by_one(n, *of), given, ctypes.c_int64(6))
        assert found[0] == 0
        assert 0 <= found[1] <= 1e-40
        assert found[2] == pytest.approx(20)
        assert found[3] == pytest.approx(0, abs=1e-7)
        assert found[4] == INF
        assert math.isnan(found[5])


def _weigh(
    library: ctypes.CDLL,
    scores: list[list[float]],
    before: list[tuple[float, float]],
    seen: int,
    mask: list[list[float]] | None = None,
) -> tuple[list[list[float]], list[tuple[float, float, float]]]:
    """The weights; of each row its largest score, the sum, and what it keeps of before."""
    keys = len(scores[0])
    lie = floats([score for row in scores for score in row] + [NAN])
    masks = None if mask is None else floats([one for row in mask for one in row])
    width = 0 if mask is None else len(mask[0])
    most, sums = (floats([row[i] for row in before]) for i in range(2))
    kept = floats([NAN] * len(scores))
    library.weigh(
        lie, ctypes.c_int64(len(scores)), ctypes.c_int64(keys), ctypes.c_int64(seen), masks,
        ctypes.c_int64(width), ctypes.c_int64(width > 1), most, sums, kept,
    )  # fmt: skip
    assert math.isnan(lie[keys * len(scores)])  # nothing is written behind the last row
    rows = [list(lie)[i * keys : (i + 1) * keys] for i in range(len(scores))]
    return rows, list(zip(most, sums, kept, strict=True))


@pytest.mark.parametrize("keys", [1, 7, 8, 9, 40])
@pytest.mark.parametrize("masked", ["not", "each", "one for all"])
def test_weights_of_attention(library: ctypes.CDLL, keys: int, masked: str) -> None:
    """After keys whose largest score was 0.5; the first query sees one key less than there are."""
    scores = [_row(keys + row)[:keys] for row in range(3)]
    each = keys if masked == "each" else 1
    mask = None if masked == "not" else [_row(each + 9 + row)[:each] for row in range(3)]
    rows, after = _weigh(library, scores, [(0.5, 2.0)] * 3, keys - 1, mask)
    for row, score in enumerate(scores):
        added = [0.0] * keys if mask is None else mask[row] * (keys // len(mask[row]))
        seen = min(keys, keys - 1 + row)
        whole = [a + b for a, b in zip(score, added, strict=True)][:seen]
        most = max([0.5, *whole])
        weights = [math.exp(one - most) for one in whole] + [0.0] * (keys - seen)
        kept = math.exp(0.5 - most)
        assert rows[row] == pytest.approx(weights, rel=2e-6, abs=1e-30)
        assert after[row] == pytest.approx((most, math.fsum(weights) + 2 * kept, kept), rel=2e-6)


def test_weights_of_what_is_no_number(library: ctypes.CDLL) -> None:
    """A NaN and +inf make the sum one; where no key is seen, or all are -inf, all weights are 0."""
    nothing = (-INF, 0.0)
    for other in (NAN, INF):
        for rest in (1.0, -INF):
            _, ((_, total, _),) = _weigh(library, [[rest, other] + [rest] * 9], [nothing], 11)
            assert math.isnan(total)
    (weights,), (after,) = _weigh(library, [[-INF] * 11], [nothing], 11)
    assert (weights, after) == ([0.0] * 11, (-INF, 0.0, 0.0))
    (weights,), (after,) = _weigh(library, [[NAN] * 11], [nothing], 0)
    assert (weights, after) == ([0.0] * 11, (-INF, 0.0, 0.0))
    (weights,), (after,) = _weigh(library, [[1.0] * 11], [nothing], 11, [[-INF]])
    assert (weights, after) == ([0.0] * 11, (-INF, 0.0, 0.0))
    (weights,), (after,) = _weigh(library, [[-INF, 2.0, -INF]], [(3.0, 1.5)], 3)
    assert weights == [0.0, pytest.approx(math.exp(-1), rel=1e-6), 0.0]
    assert after == pytest.approx((3.0, 1.5 + math.exp(-1), 1.0), rel=1e-6)


@pytest.mark.parametrize("size", [1, 8, 13])
def test_rows_by_their_factors(library: ctypes.CDLL, size: int) -> None:
    rows = [_row(size + row)[:size] for row in range(3)]
    lie = floats([number for row in rows for number in (*row, NAN)])
    factors = [2.0, 0.25, -1.0]
    numbers = map(ctypes.c_int64, (size + 1, 3, size))
    library.scale_rows(lie, *numbers, floats(factors))
    for row, factor in enumerate(factors):
        found = list(lie)[row * (size + 1) :][: size + 1]
        assert found[:-1] == [factor * number for number in rows[row]]
        assert math.isnan(found[-1])
