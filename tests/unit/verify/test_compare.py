from __future__ import annotations

import base64
import math
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.verify.compare import (
    MalformedResultError,
    compare_results,
    needs_rounding,
    rounding_of,
)

CODES = {
    "float32": "f",
    "float64": "d",
    "float16": "e",
    "int64": "q",
    "int32": "i",
    "uint8": "B",
    "bool": "?",
    "quint8": "B",
    "qint8": "b",
    "complex64": "f",
    "bfloat16": "H",
}


def tensor(dtype: str, shape: list[int], *numbers: float, **more: Any) -> dict[str, Any]:
    data = struct.pack(f"<{len(numbers)}{CODES[dtype]}", *numbers)
    return {
        "tensor": {
            "dtype": dtype,
            "shape": shape,
            "data": base64.b64encode(data).decode(),
            **more,
        }
    }


def result(*outputs: dict[str, Any]) -> dict[str, Any]:
    return {
        "error": None,
        "runs": [
            {"method": "forward", "index": index, "output": output, "error": None}
            for index, output in enumerate(outputs)
        ],
    }


def differences(expected: dict[str, Any], seen: dict[str, Any]) -> list[str]:
    return [str(difference) for difference in compare_results(result(expected), result(seen))]


@pytest.mark.parametrize(
    ("dtype", "expected", "seen"),
    [
        ("float32", 1000.0, 1000.09),
        ("float32", 0.0, 9e-6),
        ("float64", 1.0, 1.0 + 5e-10),
        ("float16", 1.0, 1.009765625),
        ("quint8", 17, 18),
        ("int64", 2**62, 2**62),
    ],
)
def test_within_tolerance(dtype: str, expected: float, seen: float) -> None:
    assert differences(tensor(dtype, [1], expected), tensor(dtype, [1], seen)) == []


@pytest.mark.parametrize(
    ("dtype", "expected", "seen", "text"),
    [
        ("float32", 1.0, 1.5, "expected 1.0, seen 1.5, at most 0.5 apart"),
        ("float64", 1.0, 1.0 + 1e-6, "expected 1.0, seen 1.000001, at most 1e-06 apart"),
        ("float16", 1.0, 1.125, "expected 1.0, seen 1.125, at most 0.125 apart"),
        ("int64", 2**62, 2**62 + 1, f"expected {2**62}, seen {2**62 + 1}, at most 1 apart"),
        ("uint8", 1, 2, "expected 1, seen 2, at most 1 apart"),
        ("bool", True, False, "expected True, seen False, at most 1 apart"),
    ],
)
def test_outside_tolerance(dtype: str, expected: float, seen: float, text: str) -> None:
    assert differences(tensor(dtype, [1], expected), tensor(dtype, [1], seen)) == [
        f"forward[0] output[0]: value: {text}"
    ]


SMALL = (2e-5, 1e-5, 3e-6)


@pytest.mark.parametrize(
    ("seen", "moved", "told"),
    [
        # rounding errors are far smaller: what is 5e-6 beside it is wrong
        ((2e-5, 1.5e-5, 3e-6), (2e-5, 1.500001e-5, 3e-6), 1),
        # a hundredth of the largest number is none of the kernels' business
        ((2e-5, 1.01e-5, 3e-6), (2e-5, 1.010001e-5, 3e-6), 0),
        # all of it is rounding, as of x - x.mean()
        ((2e-5, 1.5e-5, 3e-6), (2.05e-5, 1.45e-5, 3e-6), 0),
        # the inputs are whole numbers, or not what the outputs depend on
        ((2e-5, 1.5e-5, 3e-6), (2e-5, 1.5e-5, 3e-6), 0),
    ],
)
def test_small_numbers_are_compared_by_their_rounding_error(
    seen: tuple[float, ...], moved: tuple[float, ...], told: int
) -> None:
    expected, ran, nudged = (
        result(tensor("float32", [3], *numbers)) for numbers in (SMALL, seen, moved)
    )
    assert compare_results(expected, ran) == []
    rounding = rounding_of(ran, nudged)
    assert len(compare_results(expected, ran, rounding=rounding)) == told
    if told:
        assert needs_rounding(expected, ran)


def test_usual_numbers_need_no_rounding_error() -> None:
    expected, ran = result(tensor("float32", [2], 1, 2)), result(tensor("float32", [2], 1, 2.00001))
    assert not needs_rounding(expected, ran)
    assert not needs_rounding(expected, None)
    assert rounding_of(ran, None) is None
    numbers = [result(tensor("int64", [2], *each)) for each in ((1, 2), (1, 2))]
    assert not needs_rounding(*numbers)


def test_a_small_element_has_the_error_of_its_tensors_large_ones() -> None:
    """As the difference of two large numbers has; infinities count for nothing."""
    expected = tensor("float32", [3], 20.0, 0.0, math.inf)
    # 1e-5 and 20 / 10 * 1e-4
    assert differences(expected, tensor("float32", [3], 20.0, 2.0e-4, math.inf)) == []
    assert differences(expected, tensor("float32", [3], 20.0, 2.5e-4, math.inf)) == [
        "forward[0] output[1]: value: expected 0.0, seen 0.0002500000118743628,"
        " at most 0.00025 apart"
    ]
    numbers = tensor("int32", [2], 10**6, 0)
    assert len(differences(numbers, tensor("int32", [2], 10**6, 1))) == 1


def test_numbers_below_every_tolerance_are_compared_by_their_own_scale() -> None:
    expected = tensor("float32", [2], 3e-10, 1e-10)
    assert differences(expected, tensor("float32", [2], 3.01e-10, 1e-10)) == []
    assert differences(expected, tensor("float32", [2], 3.1e-10, 1e-10)) == [
        "forward[0] output[0]: value: expected 2.999999970665357e-10,"
        " seen 3.099999978939394e-10, at most 1e-11 apart"
    ]
    assert len(differences(expected, tensor("float32", [2], 0.0, 0.0))) == 1
    # a rounding error where PyTorch had none, and one of usual numbers
    assert differences(tensor("float32", [1], 0.0), tensor("float32", [1], 6e-8)) == []
    assert differences(tensor("float32", [1], 6e-8), tensor("float32", [1], 1.2e-7)) == []


def test_rounding_errors_below_every_tolerance_are_known_by_the_nudged_run() -> None:
    """As of x - x.mean() where all of x are 0.1."""
    expected, ran = (result(tensor("float32", [1], one)) for one in (7.45e-9, 0.0))
    assert len(compare_results(expected, ran)) == 1
    assert needs_rounding(expected, ran)
    for moved, told in ((7.45e-9, 0), (1e-13, 1)):
        rounding = rounding_of(ran, result(tensor("float32", [1], moved)))
        assert len(compare_results(expected, ran, rounding=rounding)) == told


def test_bfloat16_is_the_upper_half_of_a_float() -> None:
    # 1.0, 1.0078125 (the next one), 1.125
    assert differences(tensor("bfloat16", [1], 0x3F80), tensor("bfloat16", [1], 0x3F81)) == []
    assert differences(tensor("bfloat16", [1], 0x3F80), tensor("bfloat16", [1], 0x3F90)) == [
        "forward[0] output[0]: value: expected 1.0, seen 1.125, at most 0.125 apart"
    ]


def test_the_worst_element_is_named_with_its_index() -> None:
    expected = tensor("float32", [2, 3], 0, 1, 2, 3, 4, 5)
    seen = tensor("float32", [2, 3], 0, 1.5, 2, 3, 8, 5)
    (difference,) = compare_results(result(expected), result(seen))
    assert (difference.path, difference.expected, difference.seen) == ("output[1, 1]", "4.0", "8.0")
    assert difference.max_abs == 4.0


def test_index_of_a_complex_element() -> None:
    expected = tensor("complex64", [2], 1, 0, 2, 0)
    seen = tensor("complex64", [2], 1, 0, 2, 3)
    (difference,) = compare_results(result(expected), result(seen))
    assert difference.path == "output[1]"


def test_nan_and_infinities_equal_themselves_only() -> None:
    values = (math.nan, math.inf, -math.inf)
    assert differences(tensor("float32", [3], *values), tensor("float32", [3], *values)) == []
    assert differences(tensor("float32", [1], math.nan), tensor("float32", [1], 0)) == [
        "forward[0] output[0]: value: expected nan, seen 0.0, at most inf apart"
    ]
    assert differences(tensor("float32", [1], math.inf), tensor("float32", [1], -math.inf)) == [
        "forward[0] output[0]: value: expected inf, seen -inf, at most inf apart"
    ]


def test_other_bits_of_nan_are_equal() -> None:
    one = {"tensor": {"dtype": "float32", "shape": [1], "data": "AADAfw=="}}
    two = {"tensor": {"dtype": "float32", "shape": [1], "data": "AQDAfw=="}}
    assert differences(one, two) == []


@pytest.mark.parametrize(
    ("expected", "seen", "text"),
    [
        ({"int": 1}, {"int": 2}, "value: expected 1, seen 2"),
        ({"int": 1}, {"double": 1.0}, "kind: expected int, seen double"),
        ({"string": "a"}, {"string": "b"}, "value: expected a, seen b"),
        ({"double": 1.0}, {"double": 2.0}, "value: expected 1.0, seen 2.0"),
        ({"double": "nan"}, {"double": 0.0}, "value: expected nan, seen 0.0"),
        ({"none": True}, {"int": 0}, "kind: expected none, seen int"),
        ({"list": [{"int": 1}]}, {"list": []}, "length: expected 1, seen 0"),
        (
            tensor("float32", [1], 1.0),
            tensor("float64", [1], 1.0),
            "dtype: expected float32, seen float64",
        ),
        (
            tensor("float32", [2], 1.0, 1.0),
            tensor("float32", [2, 1], 1.0, 1.0),
            "shape: expected [2], seen [2, 1]",
        ),
        (
            tensor("quint8", [1], 1, scale=0.5, zero_point=0),
            tensor("quint8", [1], 1, scale=0.25, zero_point=0),
            "scale: expected scale 0.5, seen scale 0.25",
        ),
        (
            tensor("quint8", [1], 1, scale=0.5, zero_point=0),
            tensor("quint8", [1], 1, scale=0.5, zero_point=1),
            "scale: expected zero_point 0, seen zero_point 1",
        ),
    ],
)
def test_structure(expected: dict[str, Any], seen: dict[str, Any], text: str) -> None:
    assert differences(expected, seen) == [f"forward[0] output: {text}"]


def test_doubles_may_differ_a_little_and_infinities_are_words() -> None:
    assert differences({"double": 1.0}, {"double": 1.00001}) == []
    assert differences({"double": "-inf"}, {"double": "-inf"}) == []


def test_without_tolerances() -> None:
    def exactly(expected: dict[str, Any], seen: dict[str, Any]) -> list[str]:
        return [str(d) for d in compare_results(result(expected), result(seen), exact=True)]

    near = tensor("float32", [3], 1.0, 2.0, math.nan), tensor("float32", [3], 1.0, 2.0001, math.nan)
    assert differences(*near) == []
    assert exactly(*near) == [
        "forward[0] output[1]: value: expected 2.0, seen 2.0000998973846436, at most 9.99e-05 apart"
    ]
    assert exactly(near[0], near[0]) == []
    assert exactly({"list": [{"double": 1.0}]}, {"list": [{"double": 1.00001}]}) == [
        "forward[0] output[0]: value: expected 1.0, seen 1.00001"
    ]
    steps = [tensor("quint8", [1], 4, scale=0.5), tensor("quint8", [1], 4, scale=0.500001)]
    assert differences(*steps) == []
    assert exactly(*steps) == ["forward[0] output: scale: expected scale 0.5, seen scale 0.500001"]


def test_inner_places_are_named() -> None:
    expected = {"tuple": [{"dict": [[{"string": "a"}, {"list": [{"int": 1}, {"int": 2}]}]]}]}
    seen = {"tuple": [{"dict": [[{"string": "a"}, {"list": [{"int": 1}, {"int": 3}]}]]}]}
    assert differences(expected, seen) == [
        'forward[0] output[0]["a"][1]: value: expected 2, seen 3'
    ]


def test_keys_and_their_order_count() -> None:
    one = {"dict": [[{"int": 1}, {"none": True}], [{"int": 2}, {"none": True}]]}
    two = {"dict": [[{"int": 2}, {"none": True}], [{"int": 1}, {"none": True}]]}
    assert differences(one, two) == [
        "forward[0] output: key: expected 1, seen 2",
        "forward[0] output: key: expected 2, seen 1",
    ]


def test_quantised_numbers_are_steps() -> None:
    one, other = (tensor("quint8", [1], at, scale=0.5, zero_point=0) for at in (17, 19))
    assert differences(one, other) == [
        "forward[0] output[0]: value: expected 17, seen 19, at most 2 steps of 0.5 apart"
    ]
    scales = {"axis": 0, "scales": tensor("float64", [1], 0.5)}
    one, other = (tensor("qint8", [1], at, **scales) for at in (-1, 1))
    assert differences(one, other) == [
        "forward[0] output[0]: value: expected -1, seen 1,"
        " at most 2 steps of its channel's scale apart"
    ]


def test_per_channel_scales() -> None:
    def quantised(scale: float) -> dict[str, Any]:
        return tensor(
            "quint8",
            [1],
            1,
            axis=0,
            scales=tensor("float64", [1], scale),
            zero_points=tensor("int64", [1], 0),
        )

    assert differences(quantised(0.5), quantised(0.5)) == []
    (text,) = differences(quantised(0.5), quantised(0.75))
    assert text.startswith("forward[0] output: scale: expected scales ")


def test_packed_elements_must_be_the_same() -> None:
    one = {"tensor": {"dtype": "quint4x2", "shape": [2], "data": "AA=="}}
    two = {"tensor": {"dtype": "quint4x2", "shape": [2], "data": "AQ=="}}
    assert differences(one, one) == []
    assert differences(one, two) == [
        "forward[0] output: value: expected 1 bytes of quint4x2, seen other bytes"
    ]


def test_missing_runs_are_told_and_the_others_compared() -> None:
    found = compare_results(result({"int": 1}, {"int": 2}), result({"int": 5}))
    assert [str(difference) for difference in found] == [
        "runs: expected forward[0], forward[1], seen forward[0]",
        "forward[0] output: value: expected 1, seen 5",
    ]


def test_errors_are_compared_by_code() -> None:
    good, bad = result({"int": 1}), result({"int": 1})
    bad["runs"][0].update(output=None, error={"code": "MISSING_DTYPE", "text": "x"})
    assert [str(d) for d in compare_results(good, bad)] == [
        "forward[0] error: expected none, seen MISSING_DTYPE"
    ]
    assert compare_results(bad, bad) == []


@pytest.mark.parametrize(
    "seen",
    [
        {},
        {"runs": [{"method": "forward"}]},
        result({}),
        result({"tensor": {"dtype": "float32", "shape": [1], "data": "not base64"}}),
        result({"tensor": {"dtype": "float32", "shape": [1], "data": "AAA="}}),
        result({"tensor": {"dtype": "float32", "shape": [1], "data": "AAAAAAAAAAA="}}),
    ],
)
def test_what_is_not_a_result_is_refused(seen: dict[str, Any]) -> None:
    with pytest.raises(MalformedResultError, match="this is not a result of the model runner"):
        compare_results(result(tensor("float32", [1], 1.0)), seen)


VALUES = st.recursive(
    st.one_of(
        st.just({"none": True}),
        st.builds(lambda x: {"int": x}, st.integers()),
        st.builds(lambda x: {"double": x}, st.floats(allow_nan=False, allow_infinity=False)),
        st.builds(lambda x: {"string": x}, st.text()),
        st.builds(lambda x: tensor("float32", [len(x)], *x), st.lists(st.floats(width=32))),
    ),
    lambda inner: st.one_of(
        st.builds(lambda x: {"list": x}, st.lists(inner)),
        st.builds(lambda x: {"tuple": x}, st.lists(inner)),
        st.builds(lambda x: {"dict": [[{"int": i}, v] for i, v in enumerate(x)]}, st.lists(inner)),
    ),
    max_leaves=8,
)


@given(VALUES)
def test_everything_equals_itself(value: dict[str, Any]) -> None:
    assert differences(value, value) == []
