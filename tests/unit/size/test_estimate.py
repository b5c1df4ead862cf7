"""Sizes before a build: how kinds of code and platforms weigh."""

from __future__ import annotations

import pytest

from orchestrator.platforms import PLATFORMS
from orchestrator.size.estimate import Code, estimated_bytes

NOTHING = Code(plain=0, switched=0, hot=0, library=0, version=0)
CAMERA = Code(plain=946_885, switched=150_000, hot=10_880, library=63_007, version=0)


def estimated(code: Code, scale: float = 1.0, more: int = 0) -> int:
    return estimated_bytes(code, scale, more, lto=False, extensible=False)


def test_what_is_compiled_for_speed_takes_more() -> None:
    base = estimated(NOTHING)
    grown = [
        estimated(code) - base
        for code in (
            Code(plain=1000, switched=0, hot=0, library=0, version=0),
            Code(plain=0, switched=1000, hot=0, library=0, version=0),
            Code(plain=0, switched=0, hot=1000, library=0, version=0),
            Code(plain=0, switched=0, hot=0, library=1000, version=0),
        )
    ]
    assert grown == sorted(grown)
    assert grown[2] == pytest.approx(2232, abs=1)


def test_options_and_platforms() -> None:
    whole = estimated(CAMERA)
    assert 1_300_000 < whole < 1_400_000
    assert estimated_bytes(CAMERA, 1.0, 0, lto=True, extensible=False) == pytest.approx(
        0.735 * whole, abs=1
    )
    assert estimated_bytes(CAMERA, 1.0, 0, lto=False, extensible=True) == whole + 72_592
    sizes = {
        (name, processor): estimated(CAMERA, one.scale, one.more)
        for name, platform in PLATFORMS.items()
        for processor, one in platform.sizes.items()
    }
    assert sizes["linux", "x86_64"] == whole
    assert sizes["ios", "arm64"] < whole < sizes["linux", "arm64"] < sizes["android", "arm64"]
    assert not any(processor == "armv7" for _, processor in sizes)
