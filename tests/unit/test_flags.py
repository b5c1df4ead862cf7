"""Compiler flags: exact, the same on every machine."""

from __future__ import annotations

import pytest
from core_toy import GOLDEN

from orchestrator.plan.flags import LTO_FLAGS, optimisation, unit_flags
from orchestrator.values.config import Optimize


@pytest.mark.parametrize(
    ("optimize", "kernel", "hot", "computes", "flag"),
    [
        ("size", False, False, False, "-Oz"),
        ("size", True, True, True, "-Oz"),
        ("speed", False, False, False, "-O2"),
        ("speed", True, False, True, "-O3"),
        ("balanced", False, False, False, "-Oz"),
        ("balanced", False, False, True, "-Os"),
        ("balanced", True, False, True, "-Os"),
        ("balanced", False, True, True, "-O2"),
        ("balanced", True, True, True, "-O3"),
    ],
)
def test_optimisation(
    optimize: Optimize, kernel: bool, hot: bool, computes: bool, flag: str
) -> None:
    assert optimisation(kernel=kernel, hot=hot, optimize=optimize, computes=computes) == flag
    flags = unit_flags(
        language="c++",
        kernel=kernel,
        hot=hot,
        optimize=optimize,
        purpose="release",
        computes=computes,
    )
    assert [f for f in flags if f.startswith("-O")] == [flag]


@pytest.mark.parametrize("purpose", ["release", "tracer"])
@pytest.mark.parametrize("language", ["c", "c++"])
def test_the_exact_flags(language: str, purpose: str) -> None:
    flags = unit_flags(
        language=language,
        kernel=False,
        hot=False,
        optimize="size",
        purpose=purpose,  # type: ignore[arg-type]
    )
    name = "c" if language == "c" else f"cxx-{purpose}"
    assert "\n".join(flags) + "\n" == (GOLDEN / "flags" / f"{name}.txt").read_text()


def test_a_unit_that_is_optimised_at_the_link_has_code_and_bitcode() -> None:
    flags = {
        lto: unit_flags(
            language="c++", kernel=False, hot=False, optimize="size", purpose="release", lto=lto
        )
        for lto in (False, True)
    }
    assert flags[True] == (*flags[False], *LTO_FLAGS, "-mllvm", "-inline-threshold=5")
    # distcc would compile it here
    assert not any(flag.startswith("-flto") for flag in LTO_FLAGS[::2])


def test_no_flag_names_a_folder_of_this_machine() -> None:
    flags = unit_flags(language="c++", kernel=True, hot=True, optimize="speed", purpose="tracer")
    folders = [flag[2:] for flag in flags if flag.startswith("-I")]
    assert all(folder.startswith("$") for folder in folders)
    assert not any("/" in flag.partition("=$")[0] for flag in flags if not flag.startswith("-I"))
