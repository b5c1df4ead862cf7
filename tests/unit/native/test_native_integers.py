"""Kernels of 8-bit integers: depthwise convolutions by AVX-512 VNNI, and floats made integers.

`native_maths/integers.cpp` beside this file holds the sources of ours.
"""

from __future__ import annotations

import ctypes
import math
import random
from collections.abc import Sequence

import pytest
from rows import floats, kernels_library

from orchestrator.system.processor import processor_instructions

# a processor without would end at the first instruction: it refuses the layer, as a library does
HAS_VNNI = "avx512_vnni" in processor_instructions()
INF, NAN = math.inf, math.nan


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    found = kernels_library("integers", tmp_path_factory.mktemp("integers"))
    found.depthwise.restype = ctypes.c_bool
    return found


def _signed(values: Sequence[int]) -> ctypes.Array[ctypes.c_int8]:
    return (ctypes.c_int8 * len(values))(*values)


def _float(value: float) -> float:
    return ctypes.c_float(value).value


class Layer:
    """A layer with random numbers, the outermost ones among them, and what comes out."""

    def __init__(
        self,
        channels: int,
        size: tuple[int, int] = (3, 3),
        stride: tuple[int, int] = (1, 1),
        padding: tuple[int, int] = (1, 1),
        dilation: tuple[int, int] = (1, 1),
        image: tuple[int, int] = (5, 6),
    ) -> None:
        rng = random.Random(f"{channels} {size} {stride} {padding} {dilation} {image}")
        self.channels, self.size, self.stride = channels, size, stride
        self.padding, self.dilation, self.image = padding, dilation, image
        rows, columns = (
            (image[i] + 2 * padding[i] - (size[i] - 1) * dilation[i] - 1) // stride[i] + 1
            for i in (0, 1)
        )
        self.out = (rows, columns)

        def numbers(count: int) -> list[int]:
            return [rng.choice((-128, 127, rng.randint(-128, 127))) for _ in range(count)]

        self.batch = 2
        self.given = numbers(self.batch * image[0] * image[1] * channels)
        self.kernel = numbers(channels * size[0] * size[1])
        self.factors = list(floats([rng.uniform(1e-4, 4e-3) for _ in range(channels)]))
        self.bias = [rng.randint(-30000, 30000) for _ in range(channels)]
        self.input_zero, self.output_zero = rng.randint(-128, 127), rng.randint(-128, 127)
        self.least = rng.choice((-128, self.output_zero))

    def run(self, library: ctypes.CDLL, *, vnni: bool) -> list[int] | None:
        count = self.batch * self.out[0] * self.out[1] * self.channels
        to = _signed([77] * (count + 1))
        pairs = (self.image, self.size, self.stride, self.padding, self.dilation, self.out)
        flat = [number for pair in pairs for number in pair]
        ran = library.depthwise(
            vnni,
            ctypes.c_int64(self.batch),
            ctypes.c_int64(self.channels),
            (ctypes.c_int64 * 12)(*flat),
            _signed(self.given),
            _signed(self.kernel),
            floats(self.factors),
            (ctypes.c_int32 * self.channels)(*self.bias),
            self.input_zero,
            self.output_zero,
            self.least,
            to,
        )
        assert to[count] == 77  # nothing is written behind the result
        return list(to)[:count] if ran else None

    def expected(self) -> list[int]:
        return [
            self._one(n, y, x, channel)
            for n in range(self.batch)
            for y in range(self.out[0])
            for x in range(self.out[1])
            for channel in range(self.channels)
        ]

    def _one(self, n: int, y: int, x: int, channel: int) -> int:
        (height, width), total = self.image, self.bias[channel]
        for i in range(self.size[0]):
            for j in range(self.size[1]):
                row = y * self.stride[0] - self.padding[0] + i * self.dilation[0]
                column = x * self.stride[1] - self.padding[1] + j * self.dilation[1]
                if 0 <= row < height and 0 <= column < width:
                    place = (n * height + row) * width + column
                    number = self.given[place * self.channels + channel] - self.input_zero
                    weight = self.kernel[(channel * self.size[0] + i) * self.size[1] + j]
                    total += number * weight
        rounded = round(_float(_float(total) * self.factors[channel]))  # half to even
        return max(min(rounded + self.output_zero, 127), self.least)


LAYERS = {
    **{f"{channels} channels": Layer(channels) for channels in (16, 17, 31, 32, 33, 47, 48, 49)},
    **{f"{channels} channels": Layer(channels) for channels in (63, 64, 65, 80, 96, 113, 144)},
    "stride": Layer(32, stride=(2, 2)),
    "stride of rows": Layer(64, stride=(3, 1), image=(9, 5)),
    "valid": Layer(20, padding=(0, 0)),
    "much around": Layer(16, padding=(4, 5), image=(2, 1)),
    "dilated": Layer(64, dilation=(2, 3), padding=(2, 3)),
    "one": Layer(40, size=(1, 1), padding=(0, 0)),
    "row": Layer(24, size=(1, 5), padding=(0, 2), image=(1, 20)),
    "column": Layer(24, size=(4, 1), padding=(2, 0)),
    "five": Layer(72, size=(5, 5), padding=(2, 2), stride=(2, 2)),
    "sixteen rows": Layer(16, size=(16, 2), padding=(8, 1)),
    # more than the columns that have room at a time
    "as many columns as have room": Layer(64, size=(1, 64), padding=(0, 32), image=(1, 9)),
    "wide": Layer(64, image=(2, 200)),
    "wide, stride": Layer(96, image=(1, 150), stride=(1, 2)),
    "wide, five": Layer(16, size=(5, 5), padding=(2, 2), image=(1, 300)),
}


@pytest.mark.parametrize("layer", LAYERS.values(), ids=LAYERS)
def test_depthwise(library: ctypes.CDLL, layer: Layer) -> None:
    found = layer.run(library, vnni=HAS_VNNI)
    assert found == (layer.expected() if HAS_VNNI else None)


@pytest.mark.parametrize(
    "layer",
    [
        Layer(15),
        Layer(16, size=(17, 1), padding=(8, 0)),
        Layer(16, size=(1, 65), padding=(0, 32)),
        Layer(16, size=(1, 2), padding=(0, 100), dilation=(1, 64)),
    ],
    ids=["few channels", "many rows", "many columns", "far columns"],
)
def test_layers_for_xnnpack(library: ctypes.CDLL, layer: Layer) -> None:
    assert layer.run(library, vnni=HAS_VNNI) is None


def test_other_processors_have_xnnpacks(library: ctypes.CDLL) -> None:
    assert Layer(64).run(library, vnni=False) is None


def _quantised(value: float, inverse: float, zero: int) -> int:
    """What PyTorch computes: in float, rounded half to even, then as a 64-bit integer."""
    product = _float(_float(value) * _float(inverse))
    if math.isnan(product) or not -(2.0**63) <= product < 2.0**63:
        return 0  # of x86-64: the least integer there is, and zero added
    return max(0, min(255, zero + round(product)))


# infinities, halves, and what is near to the largest 64-bit integer
NUMBERS = [
    *(INF, -INF, NAN, 0.0, -0.0, 1e-40, 3.4e38, -3.4e38, 9.2e18, 9.3e18, -9.3e18, 2.0**63, 2.0**62),
    *(n / 2 for n in range(-600, 600)),
    *(n / 7 for n in range(-900, 900)),
]


@pytest.mark.parametrize("zero", [0, 1, 128, 255])
@pytest.mark.parametrize("inverse", [1.0, 0.37, 40.0])
def test_floats_become_integers(library: ctypes.CDLL, zero: int, inverse: float) -> None:
    expected = [_quantised(value, inverse, zero) for value in NUMBERS]
    for flip in (0, 128):
        to = (ctypes.c_uint8 * (len(NUMBERS) + 1))(*[77] * (len(NUMBERS) + 1))
        count = ctypes.c_int64(len(NUMBERS))
        library.quantise_row(floats(NUMBERS), to, count, ctypes.c_float(inverse), zero, flip)
        assert list(to) == [*(one ^ flip for one in expected), 77]


@pytest.mark.parametrize(("channels", "area"), [(1, 1), (3, 63), (3, 200), (16, 64), (35, 70)])
def test_images_have_their_channels_last(library: ctypes.CDLL, channels: int, area: int) -> None:
    rng = random.Random(area)
    values = [float(rng.randint(-20, 280)) for _ in range(channels * area)]
    to = (ctypes.c_uint8 * (len(values) + 1))(*[77] * (len(values) + 1))
    sizes = (ctypes.c_int64(channels), ctypes.c_int64(area))
    library.quantise_image(floats(values), to, *sizes, ctypes.c_float(1), 3, 128)
    each = [max(0, min(255, int(value) + 3)) ^ 128 for value in values]
    assert list(to) == [*(each[c * area + at] for at in range(area) for c in range(channels)), 77]
