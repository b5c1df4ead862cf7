"""The twelve elementwise operators of tests/golden/elementwise, cut from each runtime as an app's
are, against that runtime's own kernels: dtypes, layouts, scalars, special values.

What is compared was computed twice: in the development library, and in what a build delivers.
"""

from __future__ import annotations

import base64
import json
import math
import os
import random
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import yaml
from elementwise_models import (
    BETWEEN,
    PYTORCHS,
    Argument,
    Calls,
    Strided,
    packed,
    rounded,
    unpacked,
    write_app,
)
from real import V1_13, V2_6, orchestrator, workspace_copy

pytestmark = [pytest.mark.real, pytest.mark.ci_only]

APP = "twelve"
LABEL = "linux-x86_64"
INTEGERS = ("uint8", "int8", "int16", "int32", "int64")
FLOATS = ("float32", "float64")
HALVES = ("float16", "bfloat16")
# The twelve whose dtypes are HALVES too, and those of them that a runtime's own kernels compute in
# float32. What they lack is compared with their float32, rounded; so is i0e, of which PyTorch
# rounds each step.
WITH_HALVES = ("digamma", "i0", "i0e", "i1", "i1e", "lgamma", "trigamma")
THEIRS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    V1_13: dict.fromkeys(("digamma", "i0", "lgamma", "trigamma"), ("bfloat16",)),
    V2_6: dict.fromkeys(("digamma", "i0", "i1", "i1e", "lgamma", "trigamma"), HALVES),
}
# Largest difference, relative to the number if it is more than 1: the same bits, but for i0 and i0e
# of float32, which leave out what is too small for it. Of float16 and bfloat16, one unit in the
# last place; gcd and lcm are exact.
TOLERANCE = {"float32": 4e-7, "float64": 1e-15, "float16": 2**-10, "bfloat16": 2**-7}
# Poles, zeros, what is no number, and where a formula gives way to another.
SPECIAL = (
    *(math.nan, math.inf, -math.inf, 0.0, -0.0, -1.0, -2.0, -8.0, 1.0, 2.0, 10.0, 0.5, -0.5, -1.5),
    *(-2.5, -100.25, 1e-30, -1e-30, 1e30, -1e30, 1e17, 2e17, 8.0, -8.0, 8.5, 50.0, 51.0, 6e7, -6.2),
    *(-26.5, -27.0, 0.25, 0.75, 1e-20, 1 - 2**-24, 170.0, 89.0, -89.0),
)
PAIRS = tuple(
    product(
        (math.nan, math.inf, 1.0, 0.5, 2.0, 2.5, 3.0, 60.0),
        (math.nan, math.inf, -math.inf, 0.0, -0.0, -1.0, -1.5, 0.25, 2.0, 9.5, 1e10),
    )
)
# Further operators: dtypes and arities that none of the twelve has. `tests` computes them again.
BLEND = """\
name: blend
arity: 3
dtypes: [float16, bfloat16, float32]
functor: |
  template <typename T>
  T blend(T a, T b, T weight) {
    return a + weight * (b - a);
  }
"""
DIFFER = """\
name: differ
arity: 2
dtypes: [bool, int32]
functor: |
  template <typename T>
  T differ(T a, T b) {
    return a != b;
  }
"""


@dataclass(frozen=True)
class Case:
    """Two methods whose results are alike. dtype: of which both are, if the second's is another."""

    ours: Calls
    theirs: Calls
    tolerance: float
    dtype: str | None = None


Fill = Callable[[int], list[float]]


def uniform(name: str, source: random.Random) -> Fill:
    least, most = BETWEEN[name]
    return lambda count: [source.uniform(least, most) for _ in range(count)]


def whole(dtype: str, source: random.Random) -> Fill:
    least = 0 if dtype == "uint8" else -100
    return lambda count: [source.randint(least, 100) for _ in range(count)]


def layouts(dtype: str, fill: Fill) -> dict[str, Strided]:
    """Of which more than one block (elementwise_cpu.cpp.j2, kBlockSize) is copied, and less."""

    def of(
        count: int, sizes: tuple[int, ...], strides: tuple[int, ...], offset: int = 0
    ) -> Strided:
        return Strided(dtype, packed(dtype, fill(count)), sizes, strides, offset)

    return {
        "contiguous": of(300, (4, 75), (75, 1)),
        "transposed": of(300, (4, 75), (1, 4)),
        "with steps": of(600, (4, 75), (150, 2)),
        "a row": of(75, (75,), (1,)),
        "a column": of(4, (4, 1), (1, 1)),
        "expanded": of(4, (4, 75), (1, 0)),
        "one": of(1, (1,), (1,)),
        "a scalar": of(1, (), ()),
        "from the middle": of(301, (4, 75), (75, 1), 1),
        "in one long row": of(9000, (4500,), (2,)),
        "empty": of(1, (0, 75), (75, 1)),
    }


# Operands' layouts; of a unary operator each layout.
TOGETHER = (
    ("contiguous", "contiguous"),
    ("contiguous", "transposed"),
    ("contiguous", "a scalar"),
    ("a scalar", "contiguous"),
    ("with steps", "contiguous"),
    ("with steps", "a scalar"),
    ("a column", "a row"),
    ("expanded", "transposed"),
    ("from the middle", "one"),
    ("in one long row", "a scalar"),
    ("in one long row", "in one long row"),
    ("a scalar", "a scalar"),
    ("a row", "a row"),
    ("empty", "a row"),
    ("empty", "a scalar"),
)


def _case(
    name: str,
    what: str,
    calls: Iterable[tuple[Argument, ...]],
    tolerance: float,
    *,
    overload: str = "",
    theirs: str = "",
    reference: Iterable[tuple[Argument, ...]] | None = None,
    dtype: str | None = None,
) -> Case:
    """Ours and PyTorch's on the same arguments, or PyTorch's on those of `reference`."""
    first, known = PYTORCHS[name]
    given = tuple(calls)
    other = given if reference is None else tuple(reference)
    return Case(
        Calls(f"ours_{name}_{what}", f"ew::{name}{overload}", given),
        Calls(f"theirs_{name}_{what}", f"{known}{theirs}", tuple((*first, *one) for one in other)),
        tolerance,
        dtype,
    )


def of_one(runtime: str, source: random.Random) -> Iterator[Case]:
    """The unary ones: all layouts in each dtype, and of integers, which become float32."""
    for name in sorted(BETWEEN.keys() - {"zeta"}):
        fill = uniform(name, source)
        for dtype in (*FLOATS, *(HALVES if name in WITH_HALVES else ())):
            seen = layouts(dtype, fill)
            special = packed(dtype, SPECIAL)
            calls = [*seen.values(), Strided(dtype, special, (len(SPECIAL),), (1,))]
            has = dtype in (*FLOATS, *THEIRS[runtime].get(name, ()))
            yield _case(
                name,
                dtype,
                ((one,) for one in calls),
                TOLERANCE[dtype],
                reference=None if has else ((_as_float(one),) for one in calls),
                dtype=dtype,
            )
        integers = layouts("int32", lambda count: [source.randint(-6, 30) for _ in range(count)])
        yield _case(name, "int32", ((one,) for one in integers.values()), TOLERANCE["float32"])


def _as_float(one: Strided) -> Strided:
    """The same numbers as float32."""
    data = packed("float32", unpacked(one.dtype, one.data))
    return Strided("float32", data, one.sizes, one.strides, one.offset)


def of_two(source: random.Random) -> Iterator[Case]:
    """The binary ones: pairs of layouts and of dtypes, numbers, and special values."""
    for dtype in FLOATS:
        seen = layouts(dtype, uniform("zeta", source))
        columns = [[pair[at] for pair in PAIRS] for at in (0, 1)]
        special = [Strided(dtype, packed(dtype, one), (len(PAIRS),), (1,)) for one in columns]
        pairs = [*((seen[a], seen[b]) for a, b in TOGETHER), (special[0], special[1])]
        yield _case("zeta", dtype, pairs, TOLERANCE[dtype])
        numbers = [(one, value) for one in seen.values() for value in (2, 2.5)]
        yield _case(
            "zeta",
            f"number_{dtype}",
            numbers,
            TOLERANCE[dtype],
            overload=".Scalar",
            theirs=".other_scalar",
        )
    one, other = (layouts(dtype, uniform("zeta", source)) for dtype in FLOATS)
    few = layouts("int32", lambda count: [source.randint(2, 9) for _ in range(count)])
    for what, left, right in (("wider", one, other), ("int32", one, few), ("integers", few, few)):
        pairs = [(left[a], right[b]) for a, b in TOGETHER]
        yield _case("zeta", what, pairs, TOLERANCE["float32"])
    for name, dtype in product(("gcd", "lcm"), INTEGERS):
        yield from of_integers(name, dtype, source)


def of_integers(name: str, dtype: str, source: random.Random) -> Iterator[Case]:
    seen = layouts(dtype, whole(dtype, source))
    pairs = [(seen[a], seen[b]) for a, b in TOGETHER]
    pairs.append(_extremes(dtype))
    if name == "lcm":
        # the least number has no absolute value
        pairs.pop()
    yield _case(name, dtype, pairs, 0)
    wider = INTEGERS[(INTEGERS.index(dtype) + 1) % len(INTEGERS)]
    others = layouts(wider, whole(wider, source))
    yield _case(name, f"{dtype}_wider", ((seen[a], others[b]) for a, b in TOGETHER), 0)
    six = Strided("int64", packed("int64", [6]), (), ())
    # PyTorch's take no number; beside other tensors, one of no dimension has no more to say
    beside = [one for one in seen.values() if one.sizes]
    yield _case(
        name,
        f"number_{dtype}",
        ((one, 6) for one in beside),
        0,
        overload=".Scalar",
        reference=((one, six) for one in beside),
    )


def _extremes(dtype: str) -> tuple[Strided, Strided]:
    """Those by which a processor cannot divide, among them."""
    bits = 8 * len(packed(dtype, [0]))
    least, most = (
        (0, 2**bits - 1) if dtype == "uint8" else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    )
    minus = most if dtype == "uint8" else -1
    pairs = [(least, minus), (least, 1), (least, 0), (most, most), (most, minus), (0, 0), (0, most)]
    columns = [[pair[at] for pair in pairs] for at in (0, 1)]
    left, right = (Strided(dtype, packed(dtype, one), (len(pairs),), (1,)) for one in columns)
    return left, right


def blends(source: random.Random) -> tuple[list[Calls], dict[str, list[list[float]]]]:
    """Calls of `blend`, and what they give: computed in float32, then rounded."""
    made, expected = [], {}
    for dtype in (*HALVES, "float32"):
        values = layouts(dtype, lambda count: [source.uniform(-3, 3) for _ in range(count)])
        flat = {name: unpacked(dtype, one.data) for name, one in values.items()}
        a, b, w = "contiguous", "from the middle", "a scalar"
        calls = ((values[a], values[b], values[w]), (values[w], values[a], values[a]))
        made.append(Calls(f"blend_{dtype}", "ew::blend", calls))
        expected[f"blend_{dtype}"] = [
            rounded(dtype, map(_blend, *numbers))
            for numbers in (
                (flat[a], flat[b][1:], flat[w] * 300),
                (flat[w] * 300, flat[a], flat[a]),
            )
        ]
    return made, expected


def _blend(a: float, b: float, weight: float) -> float:
    def single(value: float) -> float:
        return rounded("float32", [value])[0]

    return single(a + single(weight * single(b - a)))


def differences(source: random.Random) -> tuple[list[Calls], dict[str, list[list[float]]]]:
    """Calls of `differ` on bools in several layouts, with int32, and with a number."""
    bools = layouts("bool", lambda count: [source.randint(0, 1) for _ in range(count)])
    ints = layouts("int32", lambda count: [source.randint(0, 2) for _ in range(count)])
    row, steps, one = bools["contiguous"], bools["with steps"], bools["a scalar"]
    a = unpacked("bool", row.data)
    every = unpacked("bool", steps.data)
    b = [every[150 * line + 2 * column] for line in range(4) for column in range(75)]
    (c,), d = unpacked("bool", one.data), unpacked("int32", ints["contiguous"].data)
    made = [
        Calls("differ_bool", "ew::differ", ((row, steps), (row, one), (one, steps))),
        Calls("differ_int32", "ew::differ", ((row, ints["contiguous"]),)),
        Calls("differ_number", "ew::differ.Scalar", ((ints["contiguous"], 1),)),
    ]
    pairs = {
        "differ_bool": [(a, b), (a, [c] * 300), ([c] * 300, b)],
        "differ_int32": [(a, d)],
        "differ_number": [(d, [1.0] * 300)],
    }
    expected = {
        name: [[float(x != y) for x, y in zip(*pair, strict=True)] for pair in found]
        for name, found in pairs.items()
    }
    return made, expected


Result = tuple[str, tuple[int, ...], list[float]]


def results(runs: Iterable[Mapping[str, Any]]) -> dict[str, list[Result]]:
    """By method: dtype, shape and elements of each of the results."""
    found = {}
    for run in runs:
        assert run["error"] is None, (run["method"], run["error"])
        tensors = [one["tensor"] for one in run["output"]["tuple"]]
        found[run["method"]] = [
            (
                one["dtype"],
                tuple(one["shape"]),
                unpacked(one["dtype"], base64.b64decode(one["data"])),
            )
            for one in tensors
        ]
    return found


def alike(ours: float, theirs: float, tolerance: float) -> bool:
    if math.isnan(ours) or math.isnan(theirs) or math.isinf(ours) or math.isinf(theirs):
        return ours == theirs or (math.isnan(ours) and math.isnan(theirs))
    return abs(ours - theirs) <= tolerance * max(1.0, abs(theirs))


def compare(case: Case, found: Mapping[str, list[Result]]) -> list[str]:
    """What is not alike."""
    faults = []
    for ours, theirs, call in zip(
        found[case.ours.method], found[case.theirs.method], case.ours.arguments, strict=True
    ):
        dtype, shape, expected = theirs
        if case.dtype is not None and case.dtype != dtype:
            dtype, expected = case.dtype, rounded(case.dtype, expected)
        what = f"{case.ours.method} of {[_told(one) for one in call]}"
        if ours[:2] != (dtype, shape):
            faults.append(f"{what}: {ours[:2]} instead of {(dtype, shape)}")
            continue
        for at, (one, other) in enumerate(zip(ours[2], expected, strict=True)):
            if not alike(one, other, case.tolerance):
                faults.append(f"{what}, {at}: {one!r} instead of {other!r}")
    return faults


def _told(argument: Argument) -> object:
    if not isinstance(argument, Strided):
        return argument
    return argument.dtype, argument.sizes, argument.strides, argument.offset


def in_delivered(root: Path) -> list[dict[str, Any]]:
    """The runs of the app's model in its delivered library."""
    app = root / "apps" / APP
    inputs, output = root / "inputs.json", root / "output.json"
    (model,) = yaml.safe_load((app / "app.yaml").read_text())["models"]
    inputs.write_text(json.dumps(model["inputs"]))
    driver = root / ".orchestrator/variants" / APP / LABEL / "driver"
    argv = [str(driver), "--model", str(app / model["file"])]
    argv += ["--inputs", str(inputs), "--output", str(output)]
    library = root / "dist" / APP / LABEL / "lib"
    subprocess.run(argv, env={**os.environ, "LD_LIBRARY_PATH": str(library)}, check=True)
    return list(json.loads(output.read_text())["runs"])


@pytest.mark.parametrize("runtime", [V1_13, V2_6])
def test_they_compute_what_the_runtimes_own_kernels_do(runtime: str, tmp_path: Path) -> None:
    source = random.Random(7)
    cases = [*of_one(runtime, source), *of_two(source)]
    blended, expected = blends(source)
    differing, more = differences(source)
    expected |= more
    methods = [
        *(method for case in cases for method in (case.ours, case.theirs)),
        *blended,
        *differing,
    ]
    root = workspace_copy(tmp_path, runtime=runtime)
    write_app(root, APP, methods, {"blend": BLEND, "differ": DIFFER})
    ran = orchestrator("run", f"//apps/{APP}", "--json", "--quiet", cwd=root)
    assert ran.code == 0, ran.err
    (model,) = json.loads(ran.out)["models"]
    for arguments in (("trace", "--quiet"), ("build", "--json", "--quiet")):
        verb, *options = arguments
        ran = orchestrator(verb, f"//apps/{APP}", *options, cwd=root)
        assert ran.code == 0, ran.err
    (variant,) = json.loads(ran.out)["variants"]
    assert variant["verified"] == "ok"
    for runs in (model["runs"], in_delivered(root)):
        found = results(runs)
        assert [fault for case in cases for fault in compare(case, found)] == []
        own = {name: [values for _, _, values in found[name]] for name in expected}
        assert own == expected
        assert [found[f"differ_{what}"][0][0] for what in ("bool", "int32", "number")] == [
            *("bool", "int32", "int32")
        ]
    manifest = json.loads((root / "dist" / APP / LABEL / "manifest.json").read_text())
    cut = manifest["selection"]["kernel_dtypes"]
    assert cut["ew_gcd"] == ["Byte", "Char", "Int", "Long", "Short"]
    assert cut["ew_i0"] == ["BFloat16", "Double", "Float", "Half"]
    assert cut["ew_zeta"] == ["Double", "Float"]
    assert cut["ew_differ"] == ["Bool", "Int"]
