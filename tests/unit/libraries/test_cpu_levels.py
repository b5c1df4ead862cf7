"""CPU levels: the table, what an ABI has of it, what a library gets, what its units are told."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_args

import pytest

from orchestrator.build.workshop.native import NATIVE
from orchestrator.errors import OrchestratorError, Place
from orchestrator.libraries.declared import load_library
from orchestrator.libraries.features import at_levels, load_features
from orchestrator.libraries.levels import (
    CpuLevelMissingError,
    CpuLevelUnknownError,
    chosen_level,
    levels_for,
    levels_of,
    require_levels,
)
from orchestrator.libraries.units import LibraryUnit
from orchestrator.plan.libraries import LevelFlags, level_flags, library_compiles, library_facts
from orchestrator.system.processor import processor_instructions
from orchestrator.values.config.app import BASELINE, CpuLevel
from orchestrator.values.config.toolchain import Processor, System

DATA = load_library()
HERE = Place("apps/camera/app.yaml", 5, 11)
INT8 = {"quantised_convolution", "rewrite"}
FLOAT = {"convolution", "rewrite"}
LINUX = levels_of(DATA, "x86_64", "linux")
USUAL: tuple[CpuLevel, ...] = ("avx2",)
VNNI: tuple[CpuLevel, ...] = ("avx2", "avxvnni")
ARM: tuple[CpuLevel, ...] = ("dotprod",)


def names(processor: Processor, system: System) -> tuple[str, ...]:
    return tuple(level.name for level in levels_of(DATA, processor, system))


def test_the_table() -> None:
    every = [level for levels in DATA.levels.values() for level in levels]
    assert {*(level.name for level in every), BASELINE} == {*get_args(CpuLevel)}
    features = {one.name for one in load_features()}
    assert all({*(level.uses or ())} <= features for level in every)
    for levels in DATA.levels.values():
        for number, level in enumerate(levels):
            assert {*level.needs} <= {one.name for one in levels[:number]}, "the lower one first"
    for processor, kernels in DATA.kernels.items():
        of_lists = {one.level for one in kernels} - {None}
        assert of_lists <= {level.name for level in DATA.levels.get(processor, ())}


def test_what_abis_have() -> None:
    assert names("x86_64", "linux") == ("avx2", "avxvnni", "avx512", "avx512vnni")
    assert names("x86_64", "android") == names("x86_64", "ios-simulator") == ("avx2",)
    assert names("arm64", "android") == names("arm64", "linux") == ("dotprod",)
    assert names("arm64", "ios") == ()
    assert names("armv7", "android") == ("vfpv4",)


@pytest.mark.parametrize(
    ("wanted", "features", "multiply_adds", "found"),
    [
        (None, FLOAT, 0, ("avx2",)),
        (None, INT8, 0, ("avx2", "avxvnni", "avx512vnni")),
        (None, set(), 10**9, ()),
        # 16 kB are for models that take some time
        (None, FLOAT, 19_999_999, ("avx2",)),
        (None, FLOAT, 20_000_000, ("avx2", "avx512")),
        (None, INT8, 10**9, ("avx2", "avxvnni", "avx512vnni")),
        # what brings nothing is left out
        (("avx2", "avx512vnni"), FLOAT, 0, ("avx2",)),
        (("avx2", "avx512"), FLOAT, 0, ("avx2", "avx512")),
        (("avx512vnni", "avx2"), INT8, 0, ("avx2", "avx512vnni")),
        (("avx2",), FLOAT, 10**9, ("avx2",)),
        (("baseline",), INT8, 10**9, ()),
    ],
)
def test_what_a_library_gets(
    wanted: tuple[CpuLevel, ...] | None,
    features: set[str],
    multiply_adds: int,
    found: tuple[str, ...],
) -> None:
    assert levels_for(LINUX, wanted, features, multiply_adds) == found


def test_features_of_a_level() -> None:
    """A kernel of ours that only a level's processors run is in libraries with that level alone."""
    asked = {*INT8, "depthwise_vnni", "quantise"}
    assert at_levels(asked, ("avx2", "avxvnni", "avx512vnni")) == asked
    assert at_levels(asked, VNNI) == {*INT8, "quantise"}
    assert at_levels(asked, ARM) == at_levels(asked, ()) == INT8
    of_features = {one.level for one in load_features()} - {None}
    assert of_features <= {level.name for levels in DATA.levels.values() for level in levels}


def refused(kind: type[OrchestratorError], abi: str, *wanted: CpuLevel) -> str:
    system: System = "android" if abi.startswith("android") else "linux"
    processor: Processor = "armv7" if abi.endswith("v7a") else "x86_64"
    with pytest.raises(kind) as caught:
        require_levels(abi, levels_of(DATA, processor, system), wanted, HERE)
    return caught.value.render()


def test_a_level_that_an_abi_does_not_have() -> None:
    assert refused(CpuLevelUnknownError, "android-x86_64", "avx2", "avxvnni") == (
        "apps/camera/app.yaml:5:11: error: android-x86_64 has no CPU level avxvnni\n"
        "  expected: baseline, avx2\n"
        "  seen:     avxvnni\n"
        "  do:       leave it out for android-x86_64; `cpu:` takes levels by ABI, too"
    )
    assert "linux-x86_64 has no CPU level dotprod" in refused(
        CpuLevelUnknownError, "linux-x86_64", "dotprod"
    )


def test_a_level_without_what_it_is_built_on() -> None:
    assert refused(CpuLevelMissingError, "linux-x86_64", "avx512vnni") == (
        "apps/camera/app.yaml:5:11: error: CPU level avx512vnni is without avx2, which it is built"
        " on\n"
        "  expected: avx2 in the list\n"
        "  do:       add avx2, or take avx512vnni away"
    )


def test_a_level_that_no_library_is_without() -> None:
    assert refused(CpuLevelMissingError, "android-armeabi-v7a", "baseline") == (
        "apps/camera/app.yaml:5:11: error: a library for android-armeabi-v7a cannot be without"
        " vfpv4\n"
        "  expected: vfpv4 in the list\n"
        "  do:       add it, or leave android-armeabi-v7a out of `cpu:`"
    )
    require_levels("x", levels_of(DATA, "armv7", "android"), ("vfpv4",), HERE)
    require_levels("x", LINUX, ("baseline",), HERE)


def test_what_units_are_told() -> None:
    facts = library_facts(DATA, "digest")
    spec: Any = SimpleNamespace(
        optimize="balanced", abi="x", toolchain="t", flags_before=lambda canaries: ()
    )
    levels_header = "libraries/xnnpack_levels.h"
    gemm = LibraryUnit("xnnpack", "src/configs/gemm-config.c", header=levels_header)
    other = LibraryUnit("xnnpack", "src/init.c")
    usual = level_flags("xnnpack", LINUX, USUAL)
    assert usual == LevelFlags()
    vnni = level_flags("xnnpack", LINUX, VNNI)
    (one, rest) = library_compiles(facts, spec, (gemm, other), vnni)
    (before, rest_before) = library_compiles(facts, spec, (gemm, other), usual)
    assert {*one.flags} - {*before.flags} == {"-DXNN_ENABLE_AVXVNNI=1"}
    assert {*before.flags} - {*one.flags} == {"-DXNN_ENABLE_AVXVNNI=0"}
    assert rest == rest_before, "units that choose nothing are one object"
    least = level_flags("xnnpack", LINUX, ())
    (narrow, rest) = library_compiles(facts, spec, (gemm, other), least)
    assert {*narrow.flags} - {*before.flags} == {"-DLTA_WITHOUT_AVX2"}
    assert rest == rest_before


@pytest.mark.parametrize("processor", sorted(DATA.levels))
def test_every_macro_of_a_level_is_a_flag_of_all_units(processor: Processor) -> None:
    levels = DATA.levels[processor]
    flags = level_flags("xnnpack", levels, [level.name for level in levels])
    assert {f"-D{macro}=0" for of in flags.macros.values() for macro in of} <= {*DATA.flags}


def test_a_library_runs_at_the_highest_of_its_levels_that_is_usable() -> None:
    int8 = ("avx2", "avxvnni", "avx512vnni")
    assert chosen_level(int8, ("avx2", "avx512", "avx512vnni")) == "avx512vnni"
    assert chosen_level(int8, ("avx2", "avx512")) == "avx2"
    assert chosen_level(int8, ("avx2", "avxvnni")) == "avxvnni"
    assert chosen_level(int8, ()) == chosen_level((), ("avx2",)) == BASELINE


def test_the_model_runner_tells_of_each_level_in_the_order_of_the_table() -> None:
    text = (NATIVE / "driver/cpu_levels.h").read_text()
    told = re.findall(r'\{"(\w+)", \w+\}', text)
    assert told == [level.name for levels in DATA.levels.values() for level in levels]


def test_what_the_kernel_says_of_a_processor(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    told = tmp_path / "proc/cpuinfo"
    assert processor_instructions(tmp_path) == frozenset()
    told.write_text("processor\t: 0\nflags\t\t: fpu fma avx2\n\nflags\t: none\n")
    assert processor_instructions(tmp_path) == {"fpu", "fma", "avx2"}
    told.write_text("processor\t: 0\nFeatures\t: fp asimd asimddp\n")
    assert processor_instructions(tmp_path) == {"fp", "asimd", "asimddp"}
