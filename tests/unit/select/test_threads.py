"""Variants with threads: which of their objects are others than without, and which are shared."""

from __future__ import annotations

from dataclasses import replace

from shipped_index import app_traces, kernels_for, shipped, shipped_facts, shipped_spec
from toy_natives import natives

from orchestrator.build.workshop.native import own_header, own_native_files
from orchestrator.plan.graph import threads_compile
from orchestrator.plan.planner import Planner, parallel_units
from orchestrator.plan.variant import RuntimeFacts
from orchestrator.pytorch.v1_13.dialect import DIALECT
from orchestrator.select.policy import select
from orchestrator.values.action import Compile

PARALLEL = "threads/at_parallel.h"


def facts() -> RuntimeFacts:
    return replace(
        shipped_facts(),
        threading=own_header(own_native_files(), PARALLEL),
        threads=own_header(own_native_files(), "threads/parallel_unit.h"),
    )


def planned(app: str, *, threaded: bool) -> dict[str, Compile]:
    """Name -> compilation of all units of PyTorch's that an app's variant has."""
    traces = app_traces(app)
    roots = {operator for trace in traces for operator in trace.root_operators}
    kernels = kernels_for(roots)
    selection = select(shipped(), kernels, traces, "guarded")
    plan = Planner(shipped(), facts()).plan(
        kernels, selection, shipped_spec(roots, threaded=threaded)
    )
    return {one.unit: one for one in plan.compiles}


def units_in(compile: Compile) -> set[str]:
    return {member.unit for member in compile.members} or {compile.unit}


def test_the_units_that_compute_in_parallel() -> None:
    found = {shipped().units[number].path for number in parallel_units(shipped(), DIALECT)}
    assert {
        DIALECT.layout.threads,
        "aten/src/ATen/TensorIterator.cpp",
        "aten/src/ATen/native/cpu/SoftMaxKernel.cpp",
        "aten/src/ATen/native/cpu/layer_norm_kernel.cpp",
        # in functions alone that several units have
        "aten/src/ATen/native/cpu/UnaryOpsKernel.cpp",
    } <= found
    assert "torch/csrc/jit/mobile/interpreter.cpp" not in found
    assert len(found) < 100


def test_only_what_computes_in_parallel_differs() -> None:
    without, with_threads = (planned("camera", threaded=on) for on in (False, True))
    parallel = {shipped().units[number].path for number in parallel_units(shipped(), DIALECT)}
    everything = {unit for one in without.values() for unit in units_in(one)}
    assert everything == {unit for one in with_threads.values() for unit in units_in(one)}
    shared = {c.fingerprint for c in without.values()} & {
        c.fingerprint for c in with_threads.values()
    }
    for one in with_threads.values():
        header = one.flags[-1].removeprefix("$native/") if one.flags[-2] == "-include" else ""
        if one.unit == DIALECT.layout.threads:
            assert header == "threads/parallel_unit.h"
        elif parallel.isdisjoint(units_in(one)) and not (
            units_in(one) < units_in(without.get(one.unit, one))
        ):
            assert one.fingerprint in shared, one.unit
            assert header != PARALLEL
        elif not parallel.isdisjoint(units_in(one)):
            assert header == PARALLEL, one.unit
            assert one.fingerprint not in shared
    assert DIALECT.layout.threads in with_threads, (
        "it is compiled alone: it reads a header of its own"
    )


def test_two_apps_with_threads_share_their_objects() -> None:
    camera, reader = (
        {one.fingerprint for one in planned(app, threaded=True).values()}
        for app in ("camera", "reader")
    )
    plain_camera, plain_reader = (
        {one.fingerprint for one in planned(app, threaded=False).values()}
        for app in ("camera", "reader")
    )
    assert len(camera & reader) >= len(plain_camera & plain_reader)


def test_the_number_is_in_one_object() -> None:
    spec = shipped_spec(())
    one = threads_compile(spec, 1, natives())
    assert one.unit == "native/threads/one.cpp"
    assert one == threads_compile(spec, 1, natives())
    two, four = (threads_compile(replace(spec, threaded=True), n, natives()) for n in (2, 4))
    assert two.unit == four.unit == "native/threads/pool.cpp"
    assert two.flags[-1] == "-DLTA_THREADS=2"
    assert two.fingerprint != four.fingerprint
