"""Compiler flags: exact, the same on every machine."""

from __future__ import annotations

import pytest
from core_toy import GOLDEN
from golden_files import Golden
from shipped_index import shipped

from orchestrator.compilers.flags import LTO_FLAGS, Hardening
from orchestrator.plan.flags import (
    RELOCATION_FLAGS,
    Canaries,
    Purpose,
    canaries_of,
    hardened,
    optimisation,
    unit_flags,
)
from orchestrator.pytorch.v1_13.dialect import DIALECT
from orchestrator.values.config.forms import Optimize


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
        DIALECT.flags,
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
def test_the_exact_flags(language: str, purpose: str, golden: Golden) -> None:
    flags = unit_flags(
        DIALECT.flags,
        language=language,
        kernel=False,
        hot=False,
        optimize="size",
        purpose=purpose,  # type: ignore[arg-type]
    )
    name = "c" if language == "c" else f"cxx-{purpose}"
    golden(GOLDEN / "flags" / f"{name}.txt", "\n".join(flags) + "\n")


def test_a_unit_that_is_optimised_at_the_link_has_code_and_bitcode() -> None:
    flags = {
        lto: unit_flags(
            DIALECT.flags,
            language="c++",
            kernel=False,
            hot=False,
            optimize="size",
            purpose="release",
            lto=lto,
        )
        for lto in (False, True)
    }
    assert flags[True] == (*flags[False], *LTO_FLAGS, "-mllvm", "-inline-threshold=5")
    # distcc would compile it here
    assert not any(flag.startswith("-flto") for flag in LTO_FLAGS[::2])


def test_no_flag_names_a_folder_of_this_machine() -> None:
    flags = unit_flags(
        DIALECT.flags, language="c++", kernel=True, hot=True, optimize="speed", purpose="tracer"
    )
    folders = [flag[2:] for flag in flags if flag.startswith("-I")]
    assert all(folder.startswith("$") for folder in folders)
    assert not any("/" in flag.partition("=$")[0] for flag in flags if not flag.startswith("-I"))


READERS = (
    "caffe2/serialize/inline_container.cc",
    "third_party/miniz-2.1.0/miniz.c",
    "torch/csrc/jit/serialization/import_read.cpp",
    "torch/csrc/jit/serialization/unpickler.cpp",
)
KERNEL = "aten/src/ATen/native/cpu/FillKernel.cpp"


def canaries(unit: str, *, kernel: bool = False, purpose: Purpose = "release") -> Canaries:
    return canaries_of(DIALECT.layout, unit, kernel=kernel, purpose=purpose)


CHECKED = ("-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=2")


def test_what_errors_in_memory_are_found_by() -> None:
    assert hardened(("-O1",), "linux") == ("-fstack-protector", *CHECKED, "-O1")
    assert hardened(("-O1",), "android") == ("-fstack-protector", *CHECKED, "-O1")
    # Apple's headers check by themselves
    assert hardened((), "ios") == ("-fstack-protector",)


@pytest.mark.parametrize("unit", READERS)
def test_what_reads_models_has_more_canaries(unit: str) -> None:
    assert unit in {one.path for one in shipped().units}
    assert hardened((), "linux", canaries(unit)) == ("-fstack-protector-strong", *CHECKED)
    assert hardened((), "ios-simulator", canaries(unit)) == ("-fstack-protector-strong",)


def test_what_computes_has_none() -> None:
    assert KERNEL in {one.path for one in shipped().units}
    assert hardened((), "linux", canaries(KERNEL)) == CHECKED
    assert (
        hardened((), "linux", canaries("generated/UfuncCPUKernel_add.cpp", kernel=True)) == CHECKED
    )


def test_all_units_of_a_tracer_have_as_many() -> None:
    # a precompiled header is for one level of canaries
    for unit in (*READERS, KERNEL, "aten/src/ATen/Context.cpp"):
        assert canaries(unit, purpose="tracer") == "more"


def test_a_toolchains_own_word_on_canaries_counts() -> None:
    own = ("-fno-stack-protector",)
    assert hardened(own, "linux", canaries(READERS[0])) == (*CHECKED, *own)


def test_a_compiler_is_told_what_it_does_not_do_by_itself() -> None:
    guards: list[Hardening] = ["canaries"]
    calls: list[Hardening] = ["checked_calls"]
    assert hardened((), "linux", canaries(READERS[0]), wanted=guards) == (
        "-fstack-protector-strong",
    )
    assert hardened((), "linux", canaries(READERS[0]), wanted=calls) == CHECKED
    assert hardened(("-O1",), "linux", canaries(READERS[0]), wanted=()) == ("-O1",)


def test_what_relocates_a_library_has_no_canaries() -> None:
    assert RELOCATION_FLAGS[-2:] == ("-fno-stack-protector", "-U_FORTIFY_SOURCE")
