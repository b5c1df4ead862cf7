"""Compares the twelve operators of tests/golden/elementwise with PyTorch's own.

usage: elementwise_check.py FILE.cpp; run by a Python with torch. Prints a line for each operator.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[2] / "apps"))

from export_support.extension import load

INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
FLOATS = (torch.float32, torch.float64)
HALVES = (torch.float16, torch.bfloat16)
# Of float16 and bfloat16, one unit in the last place.
TOLERANCE = {
    torch.float32: 2e-6,
    torch.float64: 1e-12,
    torch.float16: 2**-10,
    torch.bfloat16: 2**-7,
}
# Poles, zeros, what is no number, and where a formula gives way to another.
SPECIAL = (
    *(float("nan"), float("inf"), -float("inf"), 0.0, -0.0, -1.0, -2.0, 1.0, 2.0, 10.0, 0.5, -0.5),
    *(-1.5, 1e-30, 8.0, -8.0, 8.5, 50.0, 51.0, 6e7, -6.2, -27.0, 0.25, 0.75, 1e-20, 89.0),
)


def integers(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    return torch.randint(0 if dtype is torch.uint8 else -11, 12, shape, dtype=dtype)


def between(least: float, most: float) -> Callable[..., torch.Tensor]:
    def made(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
        return (torch.rand(shape, dtype=torch.float64) * (most - least) + least).to(dtype)

    return made


# name -> PyTorch's own, the dtypes that it computes in, and what makes each of its inputs
OPERATORS = {
    "gcd": (torch.gcd, INTEGERS, (integers, integers)),
    "lcm": (torch.lcm, INTEGERS, (integers, integers)),
    "lgamma": (torch.lgamma, (*HALVES, *FLOATS), (between(-8.7, 40),)),
    "digamma": (torch.special.digamma, (*HALVES, *FLOATS), (between(-8.7, 40),)),
    "trigamma": (
        lambda x: torch.special.polygamma(1, x),
        (*HALVES, *FLOATS),
        (between(-8.7, 40),),
    ),
    "i0": (torch.special.i0, (*HALVES, *FLOATS), (between(-60, 60),)),
    "i0e": (torch.special.i0e, (*HALVES, *FLOATS), (between(-60, 60),)),
    "i1": (torch.special.i1, (*HALVES, *FLOATS), (between(-60, 60),)),
    "i1e": (torch.special.i1e, (*HALVES, *FLOATS), (between(-60, 60),)),
    "ndtri": (torch.special.ndtri, FLOATS, (between(1e-6, 1),)),
    "erfcx": (torch.special.erfcx, FLOATS, (between(-3, 30),)),
    "zeta": (torch.special.zeta, FLOATS, (between(1.1, 9), between(0.1, 20))),
}


def layouts(make: Callable[..., torch.Tensor], dtype: torch.dtype) -> Iterator[torch.Tensor]:
    """Contiguous, with steps, transposed, of one column, of one element, empty, with none."""
    yield make((7, 12), dtype)
    yield make((7, 24), dtype)[:, ::2]
    yield make((12, 7), dtype).t()
    yield make((7, 1), dtype)
    yield make((1,), dtype).expand(7, 12)
    yield make((0, 12), dtype)
    yield make((), dtype)


def compare(got: torch.Tensor, expected: torch.Tensor, what: str) -> None:
    assert (got.dtype, got.shape) == (expected.dtype, expected.shape), (what, got.dtype, got.shape)
    tolerance = TOLERANCE.get(got.dtype, 0)
    torch.testing.assert_close(
        got,
        expected,
        rtol=tolerance,
        atol=tolerance,
        equal_nan=True,
        msg=lambda text: f"{what}\n{text}",
    )


def check(name: str) -> int:
    """How many pairs of results are equal; raises AssertionError where one is not."""
    reference, dtypes, makers = OPERATORS[name]
    ours = getattr(torch.ops.ew, name)
    # integers become floats; others are promoted, one input at a time
    given = dtypes if dtypes is INTEGERS else (*dtypes, torch.int32)
    calls: list[tuple[torch.Tensor, ...]] = []
    for dtype in given:
        if len(makers) == 1:
            calls += [(x,) for x in layouts(makers[0], dtype)]
            if dtype.is_floating_point:
                calls.append((torch.tensor(SPECIAL, dtype=torch.float64).to(dtype),))
        else:
            second = given[(given.index(dtype) + 1) % len(given)]
            for other in (dtype, second):
                left, right = layouts(makers[0], dtype), layouts(makers[1], other)
                if dtype not in FLOATS or other not in FLOATS:
                    right = (one.clamp(min=1) for one in right)
                calls += [
                    pair
                    for pair in zip(left, reversed([*right]), strict=True)
                    if all(x.numel() == 0 for x in pair) or all(x.numel() for x in pair)
                ]
    for call in calls:
        what = f"{name} of {[(x.dtype, tuple(x.shape), x.stride()) for x in call]}"
        compare(ours(*call), reference(*call), what)
        shape = ours(*(x.to("meta") for x in call))
        assert shape.shape == reference(*call).shape, what
    if len(makers) == 2:
        x = makers[0]((5,), dtypes[-1])
        compare(ours(x, 6), reference(x, torch.tensor(6, dtype=dtypes[-1])), f"{name} of a scalar")
    return len(calls)


def main() -> None:
    torch.manual_seed(1)
    source = Path(sys.argv[1])
    load(source.parent, [source.name], [], [])
    for name in OPERATORS:
        print(name, check(name))
    refused = torch.ones(2, dtype=torch.float32)
    try:
        torch.ops.ew.gcd(refused, refused)
    except NotImplementedError as error:
        print(error)


if __name__ == "__main__":
    main()
