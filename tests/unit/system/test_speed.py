"""How fast this machine is: from the times of a fixed piece of work, which a clock gives."""

from __future__ import annotations

from itertools import accumulate

import pytest

from orchestrator.system.speed import REFERENCE_SECONDS, core_speed


@pytest.mark.parametrize("factor", [0.5, 1.0, 4.0])
def test_the_fastest_try_counts(factor: float) -> None:
    shares = (9.0, 1.0, 3.0, 1.5, 2.0)
    # before and after each try
    gaps = [gap for share in shares for gap in (0.0, share * factor * REFERENCE_SECONDS)]
    clock = accumulate(gaps)
    assert core_speed(lambda: next(clock)) == pytest.approx(1 / factor)


def test_a_real_core_has_a_speed() -> None:
    assert 0.05 < core_speed() < 20


def test_a_clock_that_stands_still_gives_a_number() -> None:
    assert core_speed(lambda: 5.0) > 0
