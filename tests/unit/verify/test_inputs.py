"""Declared inputs as the driver's JSON: exact bytes, the same on every machine."""

from __future__ import annotations

import base64
import json
import struct
from typing import Any

import pytest
from pydantic import TypeAdapter

from orchestrator.values.config.app import InputRun
from orchestrator.verify.inputs import InputOutOfRangeError, inputs_json

RUN = TypeAdapter(InputRun)


def run(*args: object, **more: object) -> list[dict[str, Any]]:
    return inputs_json([RUN.validate_python({"args": list(args), **more})])


def tensor(**spec: object) -> tuple[list[int], str]:
    """The shape, and the bytes in hex."""
    (one,) = run(spec)[0]["args"]
    assert list(one) == ["tensor"]
    value = one["tensor"]
    assert value["dtype"] == spec.get("dtype", "float32")
    return value["shape"], base64.b64decode(value["data"]).hex()


@pytest.mark.parametrize(
    ("dtype", "zero", "one", "two"),
    [
        ("float32", "00000000", "0000803f", "00000040"),
        ("float64", "0" * 16, "000000000000f03f", "0000000000000040"),
        ("float16", "0000", "003c", "0040"),
        ("int64", "0" * 16, "0100000000000000", "0200000000000000"),
        ("int32", "00000000", "01000000", "02000000"),
        ("int16", "0000", "0100", "0200"),
        ("int8", "00", "01", "02"),
        ("uint8", "00", "01", "02"),
        ("bool", "00", "01", "01"),
    ],
)
def test_every_dtype(dtype: str, zero: str, one: str, two: str) -> None:
    assert tensor(shape=[1, 2], dtype=dtype, fill="zeros") == ([1, 2], zero + zero)
    assert tensor(shape=[2], dtype=dtype, fill="ones") == ([2], one + one)
    assert tensor(shape=[3], dtype=dtype, fill="arange") == ([3], zero + one + two)


def test_shapes_without_elements_and_without_dimensions() -> None:
    assert tensor(shape=[0, 3], fill="uniform") == ([0, 3], "")
    assert tensor(shape=[], fill="ones") == ([], "0000803f")


# What CPython's generator gives for these seeds; another version of Python must give the same.
@pytest.mark.parametrize(
    ("spec", "values"),
    [
        ({"fill": "uniform"}, [0.8444218515250481, 0.7579544029403025]),
        ({"fill": "uniform", "seed": 7}, [0.32383276483316237, 0.15084917392450192]),
        ({"fill": "uniform", "low": -2, "high": 2}, [1.3776874061001925, 1.03181761176121]),
        ({"fill": "normal", "seed": 3}, [0.09470803828730423, 1.2500243810835503]),
    ],
)
def test_random_floats(spec: dict[str, object], values: list[float]) -> None:
    expected = struct.pack("<2d", *values).hex()
    assert tensor(shape=[2], dtype="float64", **spec) == ([2], expected)


@pytest.mark.parametrize(
    ("dtype", "low", "high", "values"),
    [
        ("int64", None, 100, [49, 97, 53, 5]),
        ("int64", -(2**63), 2**63, None),
        ("uint8", 0, 256, [197, 215, 20, 132]),
        ("int8", -128, 128, None),
        ("bool", 0, 2, [1, 1, 0, 1]),
    ],
)
def test_random_integers(dtype: str, low: int | None, high: int, values: list[int] | None) -> None:
    spec = {"shape": [4], "dtype": dtype, "fill": "randint", "high": high}
    _, data = tensor(**spec, **({} if low is None else {"low": low}))
    code = {"int64": "q", "uint8": "B", "int8": "b", "bool": "?"}[dtype]
    seen = struct.unpack(f"<4{code}", bytes.fromhex(data))
    assert all((low or 0) <= value < high for value in seen)
    assert values is None or list(seen) == values
    assert len(set(seen)) > 1


def test_integers_beyond_doubles_are_exact() -> None:
    spec = {"shape": [1], "dtype": "int64", "fill": "randint"}
    _, data = tensor(**spec, low=2**53 + 1, high=2**53 + 2)
    assert struct.unpack("<q", bytes.fromhex(data)) == (2**53 + 1,)


@pytest.mark.parametrize(
    ("spec", "what", "seen"),
    [
        (
            {"shape": [300], "dtype": "uint8", "fill": "arange"},
            "the fill `arange` makes values that uint8 cannot hold",
            "0 to 299, in a tensor of 300 elements",
        ),
        (
            {"shape": [2], "dtype": "float16", "fill": "uniform", "low": 1e6, "high": 1e6 + 1},
            "the fill `uniform` makes values that float16 cannot hold",
            "1000000.757954403 to 1000000.8444218516, in a tensor of 2 elements",
        ),
        (
            {"shape": [1], "fill": "uniform", "low": 1e300, "high": 1e301},
            "the fill `uniform` makes values that float32 cannot hold",
            "8.599796663725435e+300 to 8.599796663725435e+300, in a tensor of 1 elements",
        ),
    ],
)
def test_values_that_do_not_fit(spec: dict[str, object], what: str, seen: str) -> None:
    with pytest.raises(InputOutOfRangeError) as caught:
        run(spec)
    assert caught.value.render() == (
        f"error: {what}\n"
        f"  seen:     {seen}\n"
        "  do:       choose another dtype, smaller bounds or a smaller shape in app.yaml"
    )


def test_plain_arguments_and_methods() -> None:
    seen = run(True, 1, 2.5, "text", 0, False, method="encode")
    assert seen == [
        {
            "method": "encode",
            "args": [
                {"bool": True},
                {"int": 1},
                {"double": 2.5},
                {"string": "text"},
                {"int": 0},
                {"bool": False},
            ],
        }
    ]
    assert json.loads(json.dumps(seen)) == seen


def test_none_and_lists() -> None:
    one = {"shape": [1], "fill": "ones"}
    value = run(one)[0]["args"][0]
    assert run(None, [1, 2], [], [one, None])[0]["args"] == [
        {"none": True},
        {"list": [{"int": 1}, {"int": 2}]},
        {"list": []},
        {"list": [value, {"none": True}]},
    ]


def test_a_run_without_arguments() -> None:
    assert run() == [{"method": "forward", "args": []}]


def test_each_tensor_has_its_own_seed() -> None:
    spec = {"shape": [2], "fill": "uniform"}
    first, second, other = run(spec, spec, {**spec, "seed": 1})[0]["args"]
    assert first == second != other
