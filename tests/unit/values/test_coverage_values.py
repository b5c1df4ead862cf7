"""Coverage as numbers, and ranges as text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.values.coverage import (
    CoverageSum,
    FunctionCoverage,
    count,
    numbers_in,
    parse_ranges,
    ranges_of,
    ranges_text,
    sum_of,
    total,
)


@given(st.sets(st.integers(0, 300)))
def test_ranges_are_their_numbers(numbers: set[int]) -> None:
    ranges = ranges_of(numbers)
    assert set(numbers_in(ranges)) == numbers
    assert count(ranges) == len(numbers)
    assert parse_ranges(ranges_text(ranges)) == ranges


def test_the_text() -> None:
    assert ranges_text(ranges_of([9, 3, 5, 4])) == "3-5 9"
    assert ranges_text(()) == ""


@pytest.mark.parametrize(
    "text",
    ["a", "3-", "-3", "5-3", "3-3", "3 3", "5 3", "3-5 6", "3-5 5-9", "03", "3  5", " 3", "3.",
     "1000000", "٣", "1-2-3"],
)  # fmt: skip
def test_another_text_is_none(text: str) -> None:
    assert parse_ranges(text) is None


def test_only_all_is_all() -> None:
    assert CoverageSum(1000, 1, 0, 0).percent == 99
    assert CoverageSum(1000, 0, 10, 1).percent == 99
    assert CoverageSum(1000, 0, 10, 0).percent == 100
    assert CoverageSum(0, 0, 0, 0).percent == 100
    assert CoverageSum(4, 4, 2, 2).percent == 0


def test_sums() -> None:
    one = sum_of(FunctionCoverage(10, 4, ((0, 2), (5, 5)), ((3, 3),), ((3, 4),)))
    assert one == CoverageSum(10, 4, 4, 3)
    assert total([one, one]) == CoverageSum(20, 8, 8, 6)
    assert total([]) == CoverageSum(0, 0, 0, 0)
