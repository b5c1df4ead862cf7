"""The pure parts of the benchmarks: sampling, scaling, parsing and rendering, on hand values."""

from __future__ import annotations

import argparse
import copy
import json
import math
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from benchmarks import cut, scratch
from benchmarks.indexing import sample_of
from benchmarks.latency import Timing, read_timing, summary
from benchmarks.machine import instructions_of, machine_facts
from benchmarks.other_runtime import moved_workspace
from benchmarks.processes import CommandFailedError, run
from benchmarks.render import Row, render, rows
from benchmarks.run_orchestrator import peak_bytes
from benchmarks.sampling import SampleTooThinError, allocate, every_kth, scale
from benchmarks.steps import (
    ADDED,
    ADDED_TRACES,
    FIRST,
    STEPS,
    Bench,
    Options,
    called_operators,
    forecast,
    in_order,
    seconds,
    tracer_units,
)
from benchmarks.third_party import (
    FAMILIES,
    KERNELS,
    LEVELS,
    QNNPACK,
    REST,
    ThirdPartyUnit,
    all_kernels,
    choose_third_party,
    third_party_counts,
    third_party_units,
)
from benchmarks.upstream import choose, first_error, selected_operators, upstream_flags
from orchestrator.build.workshop.invocation import load
from orchestrator.cli import make_context
from orchestrator.libraries.declared import load_library
from orchestrator.pytorch.units import UpstreamUnit
from orchestrator.trace.lock import parse_lock
from orchestrator.values.operators import OperatorName as Op
from orchestrator.values.trace import TraceIdentity

ROOT = Path(__file__).parents[3]


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    context = make_context(argparse.Namespace(workspace=str(ROOT)), os.environ, ROOT)
    return Bench(load(context, print), tmp_path, tmp_path, Options(1, 1, 1, 1))


def test_the_runtime_of_each_app(bench: Bench) -> None:
    assert {bench.runtime_of(app) for app in bench.here.workspace.apps} == {
        "pytorch_1_13",
        "pytorch_2_6",
    }


def identity_of(app: Path) -> TraceIdentity:
    """That of an app's only trace."""
    (lock,) = (app / "traces").glob("*.yaml")
    return parse_lock(lock.read_text(), lock.name).identity


def test_the_other_runtime_is_not_the_first_apps(bench: Bench) -> None:
    assert bench.runtime_of(ADDED) != bench.runtime_of(FIRST)


def test_the_first_app_moves_to_the_other_runtime(bench: Bench) -> None:
    moved = moved_workspace(bench, FIRST, bench.runtime_of(ADDED), "moved") / "apps" / FIRST
    declared = yaml.safe_load((moved / "app.yaml").read_text())
    assert declared["runtime"] == bench.runtime_of(ADDED)
    # as the apps' own locks are, which other tests find stale; no step finds these
    own, other = identity_of(ROOT / "apps" / FIRST), identity_of(ROOT / "apps" / ADDED)
    assert identity_of(moved) == replace(own, runtime=other.runtime)


@pytest.mark.parametrize("moves", [False, True])
def test_an_operator_is_added_with_the_runtime_that_the_app_is_on(
    moves: bool, bench: Bench
) -> None:
    runtime = bench.runtime_of(ADDED if moves else FIRST)
    workspace = bench.new_workspace("workspace")
    changed = bench.with_operator(workspace, "changed", runtime if moves else "") / "apps" / FIRST
    assert yaml.safe_load((changed / "app.yaml").read_text())["runtime"] == runtime
    own, added = identity_of(ROOT / "apps" / FIRST), identity_of(ROOT / "apps" / ADDED)
    assert own.runtime != added.runtime
    expected = added if moves else replace(added, runtime=own.runtime)
    assert identity_of(changed) == expected
    assert called_operators(changed)[Op("aten::hardswish")] == 2


class TestSampling:
    def test_shares_are_in_proportion_and_remainders_go_to_the_largest(self) -> None:
        assert allocate({"a": 50, "b": 30, "c": 20}, 9, 1) == {"a": 4, "b": 3, "c": 2}

    def test_a_small_family_gets_the_least(self) -> None:
        assert allocate({"large": 97, "small": 3}, 10, 2) == {"large": 9, "small": 2}

    def test_no_family_gives_more_than_it_has(self) -> None:
        assert allocate({"a": 2, "b": 2}, 60, 4) == {"a": 2, "b": 2}

    def test_every_kth_is_the_middle_of_each_part(self) -> None:
        assert every_kth(range(10), 2) == (2, 7)
        assert every_kth(range(9), 3) == (1, 4, 7)
        assert every_kth("abc", 3) == ("a", "b", "c")
        assert every_kth("abc", 0) == ()

    def test_each_family_counts_at_its_mean(self) -> None:
        estimate = scale({"a": 10, "b": 3}, {"a": [1.0, 3.0], "b": [5.0, 5.0, 5.0]})
        assert [(f.family, f.units, f.measured) for f in estimate.families] == [
            ("a", 10, 2),
            ("b", 3, 3),
        ]
        assert [f.total_seconds for f in estimate.families] == [20.0, 15.0]
        assert estimate.seconds == 35.0
        # 10^2 * (1 - 2/10) * variance 2 / 2 = 80; the whole of b was measured
        assert estimate.error == math.sqrt(80)

    def test_a_family_without_a_measurement_cannot_be_scaled(self) -> None:
        with pytest.raises(SampleTooThinError) as caught:
            scale({"a": 1, "b": 2}, {"a": [1.0], "b": []})
        assert caught.value.seen == "b"


def unit(path: str, family: str = "native", flag: str = "-O2") -> UpstreamUnit:
    assert flag in ("-O2", "-O3")
    return UpstreamUnit(path, "c" if path.endswith(".c") else "c++", family, flag)  # type: ignore[arg-type]


class TestUpstream:
    def test_the_sample_spreads_over_sizes_and_holds_every_family(self) -> None:
        sizes = {f"native/{n}.cpp": 100 - n for n in range(40)} | {"c10/x.cpp": 1}
        units = [unit(path, path.split("/")[0]) for path in sizes]
        sample = choose(units, lambda u: sizes[u.path], 4)
        assert [u.path for u in sample] == [
            "c10/x.cpp",
            "native/33.cpp",
            "native/19.cpp",
            "native/6.cpp",
        ]

    def test_flags_by_family(self) -> None:
        native = upstream_flags(unit("a.cpp"))
        kernel = upstream_flags(unit("k.cpp", "kernels", "-O3"))
        c10 = upstream_flags(unit("c10/a.cpp", "c10"))
        assert native[0] == "-O2"
        assert kernel[0] == "-O3"
        assert set(kernel) - set(native) == {
            "-O3",
            "-DCPU_CAPABILITY=DEFAULT",
            "-DCPU_CAPABILITY_DEFAULT",
        }
        assert "-DTEMPLATE_SELECTIVE_BUILD" in native
        assert set(native) - set(c10) == {"-DTEMPLATE_SELECTIVE_BUILD", "-DAT_PER_OPERATOR_HEADERS"}
        assert not any("STRIP_ERROR_MESSAGES" in flag for flag in native + kernel + c10)

    def test_only_the_users_of_pthreadpool_ask_for_it(self) -> None:
        users = ("caffe2/utils/threadpool/pthreadpool-cpp.cc", "aten/src/ATen/ParallelNative.cpp")
        for path in users:
            assert "-DUSE_PTHREADPOOL" in upstream_flags(unit(path))
        assert "-DUSE_PTHREADPOOL" not in upstream_flags(unit("aten/src/ATen/Context.cpp"))

    def test_c_gets_no_flags_of_cxx(self) -> None:
        assert not any(
            flag.startswith("-std") for flag in upstream_flags(unit("miniz.c", "others"))
        )

    def test_the_first_error_has_no_path(self) -> None:
        text = "/home/u/a.h:8:10: error: 'pthreadpool.h' file not found\n/x: error: two\n"
        assert first_error(text) == "'pthreadpool.h' file not found"
        assert first_error("") == "the compiler failed without a word"

    def test_the_selection_of_a_lock_is_pytorchs_own_format(self) -> None:
        lock = "format: 1\nselected_operators:\n  operators: {}\n"
        assert selected_operators(lock) == {"operators": {}}


LIST = """# Description: filenames
SET(PROD_AVX_MICROKERNEL_SRCS
  src/f32-gemm/gen/a-avx.c
  src/qd8-f32-qc8w-gemm/gen/b-avx.c)

SET(NON_PROD_AVX_MICROKERNEL_SRCS
  src/f32-gemm/gen/a-avx.c
  src/x32-packw/gen/c-avx.c
  src/qs8-qc8w-gemm/gen/d-avx.c)

SET(ALL_AVX_MICROKERNEL_SRCS ${PROD_AVX_MICROKERNEL_SRCS} + ${NON_PROD_AVX_MICROKERNEL_SRCS})
"""
QNNPACK_TREE = "aten/src/ATen/native/quantized/cpu/qnnpack"


def write_files(folder: Path, *paths: str) -> None:
    for size, path in enumerate(paths):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text("x" * size)


@pytest.fixture
def others(tmp_path: Path) -> tuple[ThirdPartyUnit, ...]:
    """Those of trees that have a few units of each kind."""
    xnnpack = tmp_path / "xnnpack"
    write_files(xnnpack, *(f"cmake/gen/{level}_microkernels.cmake" for level in LEVELS))
    for level in LEVELS:
        text = LIST if level == "avx" else ""
        (xnnpack / f"cmake/gen/{level}_microkernels.cmake").write_text(text)
    write_files(xnnpack, "src/f32-gemm/gen/a-avx.c", "src/qs8-qc8w-gemm/gen/d-avx.c")
    write_files(xnnpack, "src/operators/o.c", "src/tables/t.c", "src/init.c", "src/subgraph.c")
    names = ("src/init.c", "src/fc-run.cc", "src/fc-prepack.cc", "src/q8conv/4x4c2-sse2.c")
    left = ("src/q8conv/8x8-neon.c", "src/requantization/q31-sse2.c", "src/sconv/6x8-psimd.c")
    write_files(tmp_path / "pytorch" / QNNPACK_TREE, *names, *left, "src/sgemm/6x8-psimd.c")
    trees = {"xnnpack": xnnpack, "pthreadpool": tmp_path / "pool", "fxdiv": tmp_path / "fxdiv"}
    return third_party_units(tmp_path / "pytorch", load_library(), trees, tmp_path / "native")


class TestThirdParty:
    def test_every_list_is_read_once_whether_for_production_or_not(self) -> None:
        assert all_kernels(LIST) == (
            "src/f32-gemm/gen/a-avx.c",
            "src/qd8-f32-qc8w-gemm/gen/b-avx.c",
            "src/x32-packw/gen/c-avx.c",
            "src/qs8-qc8w-gemm/gen/d-avx.c",
        )

    def test_units_and_their_optimisation(self, others: tuple[ThirdPartyUnit, ...]) -> None:
        assert [(one.family, one.path, one.flag, one.language) for one in others] == [
            (QNNPACK, f"{QNNPACK_TREE}/src/fc-prepack.cc", "-Os", "c++"),
            (QNNPACK, f"{QNNPACK_TREE}/src/fc-run.cc", "-O2", "c++"),
            (QNNPACK, f"{QNNPACK_TREE}/src/init.c", "-Os", "c"),
            (QNNPACK, f"{QNNPACK_TREE}/src/q8conv/4x4c2-sse2.c", "-O2", "c"),
            (QNNPACK, f"{QNNPACK_TREE}/src/sgemm/6x8-psimd.c", "-O2", "c"),
            # dynamic quantisation and packing came after the XNNPACK that upstream has
            (KERNELS, "xnnpack/src/f32-gemm/gen/a-avx.c", "-O2", "c"),
            (REST, "xnnpack/src/init.c", "-Os", "c"),
            (REST, "xnnpack/src/operators/o.c", "-Os", "c"),
            (KERNELS, "xnnpack/src/qs8-qc8w-gemm/gen/d-avx.c", "-O2", "c"),
            (REST, "xnnpack/src/tables/t.c", "-O2", "c"),
        ]
        assert all(one.source.is_file() for one in others)

    def test_flags_of_instructions_and_switches(self, others: tuple[ThirdPartyUnit, ...]) -> None:
        flags = {one.path.rpartition("/")[2]: one.flags for one in others}
        assert flags["a-avx.c"][-2:] == ("-fno-math-errno", "-mavx")
        assert "-DXNN_LOG_LEVEL=0" in flags["a-avx.c"]
        assert "-fno-math-errno" not in flags["o.c"]
        assert flags["4x4c2-sse2.c"][-2:] == ("-std=gnu11", "-msse2")
        assert flags["fc-run.cc"][-1] == "-std=gnu++14"
        assert not any(flag.startswith("-DXNN") for flag in flags["fc-run.cc"])

    def test_counts_are_upstreams_not_those_of_our_pin(
        self, others: tuple[ThirdPartyUnit, ...]
    ) -> None:
        assert third_party_counts(others) == {KERNELS: 3000, REST: 93, QNNPACK: 5}
        many = [replace(others[0], family=KERNELS)] * 4000
        assert third_party_counts(many)[KERNELS] == 3000

    def test_each_family_gives_as_many_by_size(self, others: tuple[ThirdPartyUnit, ...]) -> None:
        assert {one.family for one in choose_third_party(others, 1)} == set(FAMILIES)
        taken = [one.path for one in choose_third_party(others, 3) if one.family == REST]
        assert taken == [
            "xnnpack/src/operators/o.c",
            "xnnpack/src/tables/t.c",
            "xnnpack/src/init.c",
        ]
        assert len(choose_third_party(others, 99)) == len(others)


class TestProcesses:
    def test_a_command_costs_what_it_and_its_children_use(self) -> None:
        burn = "sum(range(10**7))"
        child = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {burn!r}])"
        idle = run([sys.executable, "-c", "pass"], env=os.environ)
        busy = run([sys.executable, "-c", child], env=os.environ)
        assert busy.code == 0
        assert busy.user_seconds > idle.user_seconds + 0.02

    def test_output_and_code_are_kept(self) -> None:
        done = run(["sh", "-c", "echo out; echo why >&2; exit 7"], env=os.environ)
        assert (done.code, done.stdout, done.stderr) == (7, "out\n", "why\n")
        with pytest.raises(CommandFailedError) as caught:
            done.require("the thing")
        assert caught.value.render() == (
            "error: the thing failed\n  seen:     exit code 7\n  | why"
        )

    def test_the_peak_is_the_processes_own(self) -> None:
        assert peak_bytes("Name:\tx\nVmPeak:\t9 kB\nVmHWM:\t  2048 kB\n") == 2 * 2**20


class TestScratch:
    def test_a_workspace_is_copied_without_budgets(self, tmp_path: Path) -> None:
        copied = scratch.copy_workspace(ROOT, tmp_path / "workspace")
        declared = yaml.safe_load((copied / "apps/camera/app.yaml").read_text())
        assert "budgets" not in declared
        assert (copied / "apps/camera/models/classifier.ptl").is_file()
        assert (copied / "WORKSPACE").read_text() == (ROOT / "WORKSPACE").read_text()

    def test_one_app_takes_the_place_of_another(self, tmp_path: Path) -> None:
        copied = scratch.copy_workspace(ROOT, tmp_path / "workspace")
        scratch.replace_app(copied, "camera", "scanner", ROOT / ADDED_TRACES, "pytorch_1_13")
        scratch.edit_app(copied / "apps/camera/app.yaml", {"optimize": "size"})
        declared = yaml.safe_load((copied / "apps/camera/app.yaml").read_text())
        assert (declared["optimize"], declared["runtime"]) == ("size", "pytorch_1_13")
        assert (copied / "apps/camera" / declared["models"][0]["file"]).is_file()
        assert (copied / "apps/scanner/app.yaml").is_file()
        lock = copied / "apps/camera/traces/pages.yaml"
        assert parse_lock(lock.read_text(), lock.name).app == "camera"

    def test_an_empty_cache_shares_sources_and_nothing_that_is_built(self, tmp_path: Path) -> None:
        user = tmp_path / "user"
        for name in ("runtime", "generated", "debian", "objects", "pch"):
            (user / name).mkdir(parents=True)
        cache = scratch.empty_cache(user, tmp_path / "cache")
        linked = sorted(p.name for p in cache.iterdir() if p.is_symlink())
        assert linked == ["debian", "generated", "runtime"]
        assert not (cache / "objects").exists()

    def test_what_a_step_has_made_is_forgotten(self, tmp_path: Path) -> None:
        old, new = tmp_path / "objects/old.o", tmp_path / "objects/deep/new.o"
        old.parent.mkdir()
        old.touch()
        known = scratch.made_files(tmp_path)
        new.parent.mkdir()
        new.touch()
        scratch.forget(tmp_path, known)
        assert scratch.made_files(tmp_path) == {old}


class TestSteps:
    def test_steps_bring_those_that_they_need_in_order(self) -> None:
        assert in_order(["latency", "operator"]) == ["first", "operator", "latency"]
        assert in_order(["tracer"]) == ["tracer"]
        assert in_order(["other-runtime"]) == ["first", "other-runtime"]

    def test_every_need_is_a_step_that_runs_before(self) -> None:
        names = list(STEPS)
        for name, step in STEPS.items():
            assert not step.needs or names.index(step.needs) < names.index(name)

    def test_the_index_is_sampled_evenly_by_cost_the_cheapest_first(self) -> None:
        costs = {f"unit{number}.cpp": float(number % 10) for number in range(10)}
        assert sample_of(costs, 3) == ("unit0.cpp", "unit2.cpp", "unit5.cpp", "unit8.cpp")
        assert sample_of({"b": 1.0, "a": 1.0}, 60) == ("a", "b")

    def test_the_tracers_units_are_read_from_its_report(self) -> None:
        told = "//apps/camera: tracer of 250 units, 249 compiled\n  classifier: 50 operators ran\n"
        assert tracer_units(told) == {"units": 250, "units_compiled": 249}
        with pytest.raises(CommandFailedError):
            tracer_units("nothing of the kind")

    def test_a_forecast_is_read_from_what_a_build_says(self) -> None:
        said = "160 actions to run, about 2 min\nclang: note\n160 actions run in 1 min 50 s\n"
        assert forecast(said) == {"said_seconds": 120.0, "took_seconds": 110.0}
        for assumed in (
            "with 2 jobs on 2 cores",
            "with 1 job on 2 cores, beside 8 processes",
        ):
            said = f"160 actions to run, about 1 h 5 min {assumed}\n160 actions run in 1 min 50 s\n"
            assert forecast(said) == {"said_seconds": 3900.0, "took_seconds": 110.0}
        assert forecast("checking for changes\n") is None
        assert seconds("1 h 20 min") == 4800.0

    def test_called_operators_are_those_of_the_traces(self) -> None:
        assert called_operators(ROOT / "apps/camera")[Op("aten::conv2d")] > 0


class TestLatency:
    def test_the_timed_call_is_read(self) -> None:
        runs = [
            {"microseconds": None, "microseconds_min": None},
            {"microseconds": 12.5, "microseconds_min": 11.0},
        ]
        assert read_timing({"runs": runs}) == Timing(12.5, 11.0)

    def test_both_ratios(self) -> None:
        ours = [Timing(10.0, 8.0), Timing(12.0, 9.0), Timing(90.0, 9.0)]
        upstream = [Timing(10.0, 10.0), Timing(10.0, 10.0), Timing(11.0, 10.0)]
        value = summary(ours, upstream)
        assert value["ratio_of_medians"] == 1.2
        assert value["ratio_of_least"] == 0.8
        assert value["median"] == {"default": 12.0, "upstream": 10.0}


V1 = "fpu cx8 cmov mmx fxsr sse sse2 lm"
V2 = f"{V1} pni ssse3 cx16 sse4_1 sse4_2 popcnt lahf_lm"
V3 = "fma movbe xsave avx f16c abm bmi1 avx2 bmi2"
V4 = "avx512f avx512dq avx512cd avx512bw avx512vl"


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (V1, "x86-64"),
        (V2, "x86-64-v2"),
        # a level is all of it, and all before
        (f"{V2} {V3.replace(' movbe', '')} {V4}", "x86-64-v2"),
        (f"{V2} {V3} avx_vnni", "x86-64-v3 with avx_vnni"),
        (f"{V2} {V3} {V4} avx512_vnni avx512_bf16", "x86-64-v4 with avx512_vnni"),
        ("fp asimd evtstrm aes", "arm64"),
        ("fp asimd asimdhp asimddp i8mm", "arm64 with asimddp, asimdhp, i8mm"),
        ("", "unknown"),
    ],
)
def test_what_a_processor_can(flags: str, told: str) -> None:
    assert instructions_of(flags.split()) == told


def test_the_machine_is_told(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    told = f"processor\t: 0\nmodel name\t: Some CPU\nflags\t\t: {V2} {V3}\n"
    (tmp_path / "proc/cpuinfo").write_text(told)
    (tmp_path / "proc/meminfo").write_text("MemTotal:       25165824 kB\n")
    facts = machine_facts("zig 1", tmp_path)
    assert [*facts][:3] == ["processor", "instructions", "cores"]
    assert (facts["processor"], facts["instructions"]) == ("Some CPU", "x86-64-v3")
    assert facts["memory"] == "24.0 GiB"
    assert facts["compiler, for both sides"] == "zig 1"


RESULTS: dict[str, Any] = {
    "format": 1,
    "first": "camera",
    "machine": {"cores": "2"},
    "all_operators_bytes": 20_000_000,
    "steps": {
        "upstream": {
            "measured": {
                "units": 553,
                "seconds": 2500.0,
                "standard_error": 50.0,
                "generation_seconds": 8.0,
                "families": [
                    {
                        "family": "c10",
                        "units": 67,
                        "measured": 2,
                        "mean_seconds": 0.5,
                        "total_seconds": 33.5,
                    }
                ],
                "flags": {"c10": "-O2"},
                "sample": [
                    {"unit": "c10/a.cpp", "family": "c10", "flag": "-O2", "seconds": 0.5, "why": ""}
                ],
                "not_compiled": [
                    {
                        "unit": "caffe2/t.cc",
                        "family": "others",
                        "flag": "-O2",
                        "seconds": 0.1,
                        "why": "'pthreadpool.h' file not found",
                    }
                ],
            }
        },
        "first": {
            "measured": {
                "user_seconds": 500.0,
                "units_compiled": 150,
                "stripped_bytes": 1_300_001,
                "peak_bytes": 100_000_000,
                "forecast": {"said_seconds": 120.0, "took_seconds": 180.0},
            }
        },
        "further": {
            "measured": {
                "apps": [
                    {
                        "app": "reader",
                        "user_seconds": 101.0,
                        "units_compiled": 30,
                        "units_reused": 120,
                        "peak_bytes": 310_000_000,
                    }
                ],
                "other_runtimes": [
                    {
                        "app": "translator",
                        "runtime": "pytorch_2_6",
                        "user_seconds": 300.1,
                        "units_compiled": 180,
                        "units_reused": 12,
                        "peak_bytes": 100_000_000,
                    }
                ],
            }
        },
        "operator": {
            "measured": {
                "user_seconds": 12.0,
                "units_compiled": 4,
                "verified": "ok",
                "added_operators": {"aten::hardswish": 8},
                "peak_bytes": 90_000_000,
            }
        },
        "tracer": {"measured": {"user_seconds": 450.0, "units": 250, "units_of_runtime": 520}},
        "nothing": {"measured": {"wall_seconds": [0.6, 0.09], "actions_run": 0}},
        "size": {"measured": {"stripped_bytes": 1_000_000}},
        "development": {
            "measured": {
                "user_seconds": 119.0,
                "peak_bytes": 100_000_000,
                "base_units": 80,
                "shard_units": 45,
                "again": {
                    "user_seconds": 2.0,
                    "process_seconds": 0.081,
                    "delivered_process_seconds": 0.03,
                },
                "operator": {"user_seconds": 9.0, "wall_seconds": 5.0},
                "latency": {"ratio_of_medians": 1.1, "ratio_of_least": 1.05},
            }
        },
        "addon": {
            "measured": {
                "stripped_bytes": 1_365_001,
                "addon_bytes": 40_000,
                "operators": ["aten::hardswish"],
            }
        },
        "everywhere": {
            "measured": {
                "variants": 20,
                "user_seconds": 2000.0,
                "peak_bytes": 120_000_000,
                "operator": [
                    {"abi": "linux-x86_64", "user_seconds": 11.0},
                    {"abi": "ios-arm64", "user_seconds": 12.5},
                ],
                "nothing": [0.9, 1.2],
                "other_runtime": {
                    "runtime": "pytorch_2_6",
                    "operator": [
                        {"abi": "linux-x86_64", "user_seconds": 8.0},
                        {"abi": "ios-arm64", "user_seconds": 12.0},
                    ],
                },
            }
        },
        "hardening": {
            "measured": {"stripped_bytes": 1_280_000, "ratio_of_medians": 1.01, "ratio_of_least": 1}
        },
        "other-runtime": {
            "measured": {
                "runtime": "pytorch_2_6",
                "user_seconds": 300.0,
                "units_compiled": 290,
                "stripped_bytes": 1_495_002,
                "peak_bytes": 100_000_000,
                "operator": {
                    "user_seconds": 12.1,
                    "units_compiled": 4,
                    "verified": "ok",
                    "added_operators": {"aten::hardswish": 2},
                },
                "latency": {
                    "median": {"default": 102.0, "own_runtime": 100.0},
                    "least": {"default": 99.0, "own_runtime": 99.0},
                    "ratio_of_medians": 1.02,
                    "ratio_of_least": 1.0,
                },
            }
        },
        "index": {
            "measured": {
                "runtime": "pytorch_2_6",
                "units": 628,
                "sample": 60,
                "all_user_seconds": 3600.0,
                "bytes": 1_500_000,
            }
        },
        "checkout": {
            "measured": {
                "variants": 16,
                "user_seconds": 60.0,
                "units_compiled": 0,
                "checking": {"objects": 1_800, "bytes": 180_000_000, "cpu_seconds": 1.9},
            }
        },
        "latency": {"failed": "error: it broke\n  seen: x"},
    },
}


def changed(step: str, **values: object) -> dict[str, Any]:
    results = copy.deepcopy(RESULTS)
    results["steps"][step]["measured"].update(values)
    return results


def row(results: dict[str, Any], begin: str) -> Row:
    (found,) = [one for one in rows(results) if one.measure.startswith(begin)]
    return found


class TestRender:
    def test_rows(self) -> None:
        told = [(one.measured, one.met) for one in rows(RESULTS)]
        assert told == [
            ("500.0 s: 1/5.0 of 2,500.0 s of upstream's; 150 units", False),
            ("101.0 s: 1/24.8 of 2,500.0 s; 30 units compiled, 120 reused", False),
            ("300.1 s; 180 units compiled, 12 reused", False),
            (
                "12.0 s: 1/208.3 of 2,500.0 s of upstream's; 4 units compiled;"
                " `aten::hardswish` (8 calls) ran, outputs equal the trace's",
                True,
            ),
            ("450.0 s; 250 units of 520", True),
            ("120 s; it took 180 s: 1.50", True),
            ("0.09 s (least of 2); 0 actions run", True),
            ("1,000,000 bytes", True),
            ("95.0 % of 20,000,000 bytes", True),
            ("1,300,001 bytes", False),
            ("failed: error: it broke", None),
            ("20,001 bytes (1.56 %); latency: medians 1.010, least times 1.000", False),
            ("`pytorch_2_6`: 300.0 s; 290 units", True),
            (
                "12.1 s; 4 units compiled; `aten::hardswish` (2 calls) ran,"
                " outputs equal the trace's",
                False,
            ),
            ("1.150: 1,495,002 bytes against 1,300,001", False),
            (
                "medians 1.020 (102 us against 100 us), least times 1.000 (99 us against 99 us)",
                True,
            ),
            (
                "`pytorch_2_6`: 60.0 CPU minutes, scaled from 60 of 628 units; 1,500,000 bytes",
                True,
            ),
            ("119.0 s; 80 units of the base, 45 of the shard; the tracer has 250", False),
            ("81 ms against 30 ms (least times); all of `run` takes 2.0 s", False),
            ("5.0 s", True),
            ("medians 1.100, least times 1.050", True),
            ("5.0 %: 1,365,001 bytes", True),
            ("40,000 bytes: `aten::hardswish`", True),
            ("20 variants: 2,000.0 s: 1/25.0 of 50,000.0 s", True),
            ("linux-x86_64 11.0 s, ios-arm64 12.5 s", False),
            ("`pytorch_2_6`: linux-x86_64 8.0 s, ios-arm64 12.0 s", True),
            ("0.90 s (least of 2), 20 variants", True),
            ("16 variants: 60.0 s; 0 units compiled", True),
            ("3.2 %: 1.90 s, user and system, for 1,800 files of 180 MB", False),
            ("310 MB (step `further`)", False),
        ]

    def test_an_added_operator_must_work(self) -> None:
        wrong = row(changed("operator", verified="failed"), "one operator")
        assert wrong.met is False
        assert wrong.measured.endswith("ran, verified: failed")
        assert row(changed("operator", added_operators={}), "one operator").met is False
        assert row(changed("operator", user_seconds=12.1), "one operator").met is False

    def test_nothing_must_run_nothing(self) -> None:
        assert row(changed("nothing", actions_run=1), "nothing").met is False
        assert row(changed("nothing", wall_seconds=[0.11]), "nothing").met is False

    def test_as_many_of_upstreams_variants_are_compared(self) -> None:
        results = changed("everywhere", variants=16)
        assert row(results, "every app for every ABI, from").met is False

    def test_an_added_operator_on_the_other_runtime_for_each_abi(self) -> None:
        assert row(
            RESULTS, "for each ABI, one operator added to an app, on the other runtime"
        ) == Row(
            "for each ABI, one operator added to an app, on the other runtime",
            "at most 12 CPU s",
            "`pytorch_2_6`: linux-x86_64 8.0 s, ios-arm64 12.0 s",
            True,
        )
        older = changed("everywhere", other_runtime=None)
        assert (
            row(older, "for each ABI, one operator added to an app, on the other runtime").measured
            == "not measured"
        )

    def test_both_ratios_of_the_latency_must_be_met(self) -> None:
        results = copy.deepcopy(RESULTS)
        sides = {"default": 105.0, "upstream": 100.0}
        latency = {
            "median": sides,
            "least": sides,
            "ratio_of_medians": 1.05,
            "ratio_of_least": 1.06,
        }
        results["steps"]["latency"] = {"measured": latency}
        assert row(results, "latency").met is False
        latency["ratio_of_least"] = 1.05
        assert row(results, "latency") == Row(
            "latency of `camera`, default, against upstream's optimisation",
            "at most 1.05 times",
            "medians 1.050 (105 us against 100 us), least times 1.050 (105 us against 100 us)",
            True,
        )

    def test_the_first_app_on_the_other_runtime(self) -> None:
        other = "`camera` on the other runtime: "
        assert [one for one in rows(RESULTS) if one.measure.startswith(other)] == [
            Row(
                f"{other}first variant, from an empty object cache",
                "at most 300 CPU s",
                "`pytorch_2_6`: 300.0 s; 290 units",
                True,
            ),
            Row(
                f"{other}one operator added, and it works",
                "at most 12 CPU s",
                "12.1 s; 4 units compiled; `aten::hardswish` (2 calls) ran, outputs equal the"
                " trace's",
                False,
            ),
            Row(
                f"{other}stripped shared library, against its own runtime's",
                "at most 1.15 times",
                "1.150: 1,495,002 bytes against 1,300,001",
                False,
            ),
            Row(
                f"{other}latency, against its own runtime's",
                "at most 1.02 times (2 % for noise)",
                "medians 1.020 (102 us against 100 us), least times 1.000 (99 us against 99 us)",
                True,
            ),
        ]
        step = RESULTS["steps"]["other-runtime"]["measured"]
        assert row(changed("other-runtime", stripped_bytes=1_495_001), f"{other}str").met is True
        assert row(changed("other-runtime", user_seconds=300.1), f"{other}first").met is False
        failed = step["operator"] | {"user_seconds": 12.0, "verified": "failed"}
        assert row(changed("other-runtime", operator=failed), f"{other}one").met is False
        slower = step["latency"] | {"ratio_of_least": 1.021}
        assert row(changed("other-runtime", latency=slower), f"{other}latency").met is False

    def test_the_other_runtimes_index(self) -> None:
        measure = "the index of the other runtime, from an empty object cache"
        assert row(RESULTS, measure) == Row(
            measure,
            "at most 60 CPU minutes, 1,500,000 bytes",
            "`pytorch_2_6`: 60.0 CPU minutes, scaled from 60 of 628 units; 1,500,000 bytes",
            True,
        )
        assert row(changed("index", all_user_seconds=3600.1), measure).met is False
        assert row(changed("index", bytes=1_500_001), measure).met is False

    def test_a_measured_library_of_all_operators_comes_before_the_data(self) -> None:
        results = copy.deepcopy(RESULTS)
        results["steps"]["all-operators"] = {"measured": {"stripped_bytes": 12_400_000}}
        assert row(results, "the same").measured == "91.9 % of 12,400,000 bytes"
        assert row(results, "the same").met is False

    def test_what_was_not_measured_is_open(self) -> None:
        empty = {**RESULTS, "steps": {}, "all_operators_bytes": None}
        assert {(one.measured, one.met) for one in rows(empty)} == {("not measured", None)}
        assert "## Upstream's cost\n\nnot measured.\n" in render(empty)

    def test_a_ratio_needs_upstream(self) -> None:
        results = copy.deepcopy(RESULTS)
        del results["steps"]["upstream"]
        first = row(results, "first variant of the first app")
        assert first.measured == "500.0 s; upstream's: not measured; 150 units"
        assert first.met is False

    def test_the_text(self) -> None:
        text = render(RESULTS)
        assert (
            "| `camera`, default, stripped shared library | at most 1,300,000 bytes"
            " | 1,300,001 bytes | **no** |\n"
        ) in text
        assert "1 of them were compiled in this run" in text
        assert "**" not in text.partition("| measure |")[0]
        noted = render({**RESULTS, "note": "Another job ran."})
        assert ".\n\n**Another job ran.**\n\n| measure |" in noted
        assert "**Fewer than 60 of PyTorch's own: a trial only.**" in text
        assert "| c10 | 67 | 2 | 0.50 | 33.5 |\n" in text
        assert "- `caffe2/t.cc`: 'pthreadpool.h' file not found\n" in text

    def test_only_pytorchs_own_units_make_the_sample_large_enough(self) -> None:
        results = copy.deepcopy(RESULTS)
        upstream = results["steps"]["upstream"]["measured"]
        (one,) = upstream["sample"]
        upstream["sample"] = 59 * [one] + 9 * [{**one, "family": KERNELS}]
        assert "a trial only" in render(results)
        upstream["sample"] += [one]
        assert "a trial only" not in render(results)

    def test_deviations_are_told(self) -> None:
        assert "deviates" not in render(RESULTS)
        results = copy.deepcopy(RESULTS)
        results["steps"]["upstream"]["measured"]["deviations"] = ["no Eigen", "no warnings"]
        assert (
            "this deviates from upstream's build, which makes upstream cheaper, or neither:\n\n"
            "- no Eigen\n- no warnings\n"
        ) in render(results)

    def test_both_files_are_written_and_agree(self, tmp_path: Path) -> None:
        cut.write(tmp_path / "out", RESULTS)
        stored = json.loads((tmp_path / "out/results.json").read_text())
        assert stored == RESULTS
        assert (tmp_path / "out/RESULTS.md").read_text() == render(stored)

    def test_the_committed_text_is_that_of_the_committed_results(self) -> None:
        for results in (ROOT / "benchmarks").glob("results.json"):
            text = results.with_name("RESULTS.md").read_text()
            assert text == render(json.loads(results.read_text()))
