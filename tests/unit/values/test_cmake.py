"""CMake's words for what toolchains declare."""

from __future__ import annotations

from typing import get_args

import pytest

from orchestrator.values.cmake import cmake_processor, cmake_system
from orchestrator.values.config import Processor


@pytest.mark.parametrize(
    ("system", "word", "processors"),
    [
        ("linux", "Linux", ["x86_64", "aarch64", "armv7l"]),
        ("android", "Android", ["x86_64", "aarch64", "armv7-a"]),
    ],
)
def test_words(system: str, word: str, processors: list[str]) -> None:
    assert cmake_system(system) == word
    assert [cmake_processor(system, name) for name in get_args(Processor)] == processors


@pytest.mark.parametrize("system", ["ios", "ios-simulator"])
def test_words_of_apple(system: str) -> None:
    assert cmake_system(system) == "iOS"
    assert [cmake_processor(system, name) for name in ("x86_64", "arm64")] == ["x86_64", "arm64"]
