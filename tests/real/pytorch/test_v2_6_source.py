"""PyTorch 2.6.0: facts, generators and overlay against its source."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from core_toy import real_runtime
from real_units import OPEN, RealUnits
from zig_tool import zig

from orchestrator.build.workshop.fetch import FetchedRuntime
from orchestrator.build.workshop.native import NATIVE, own_native_files
from orchestrator.build.workshop.prepare import own_flags_of
from orchestrator.plan.native_files import variable_path
from orchestrator.plan.variant import index_unit
from orchestrator.pytorch.configure import configured_headers
from orchestrator.pytorch.units import runtime_units, upstream_units
from orchestrator.pytorch.v2_6.dialect import DIALECT

pytestmark = pytest.mark.real

FACTS = DIALECT.facts
RUNTIME = "pytorch_2_6"
# Units that read a header of the overlay.
OVERLAID = (
    "aten/src/ATen/EmptyTensor.cpp",
    "aten/src/ATen/MapAllocator.cpp",
    "aten/src/ATen/core/VariableHooksInterface.cpp",
    "aten/src/ATen/core/op_registration/infer_schema.cpp",
    "aten/src/ATen/cpu/Utils.cpp",
    "aten/src/ATen/native/quantized/cpu/qlinear_dynamic.cpp",
    "c10/core/thread_pool.cpp",
    "c10/util/StringUtil.cpp",
    "caffe2/serialize/inline_container.cc",
    "generated/RegisterZeroTensor.cpp",
    "torch/csrc/jit/mobile/import.cpp",
    "torch/csrc/jit/mobile/promoted_prim_ops.cpp",
    "torch/csrc/jit/serialization/unpickler.cpp",
)


@pytest.fixture(scope="module")
def fetched() -> FetchedRuntime:
    """Its source, in the user's cache."""
    return real_runtime(RUNTIME).fetched


@pytest.fixture(scope="module")
def generated() -> Path:
    return real_runtime(RUNTIME).generated


def test_every_unit_is_there_and_has_a_kind(fetched: FetchedRuntime, generated: Path) -> None:
    units = runtime_units(fetched.tree, FACTS)
    written = {unit.path.removeprefix("generated/") for unit in units if unit.generated}
    assert len(units) == 628
    assert [path for path in sorted(written) if not (generated / "ATen" / path).is_file()] == []
    assert upstream_units(fetched.tree, FACTS)
    named = [rule.unit for rule in FACTS.always]
    named += [rule.unit for rule in FACTS.include]
    named += [rule.unit for rule in FACTS.cuts]
    named += [rule.unit for rule in FACTS.fallbacks]
    named += [*FACTS.making, *FACTS.without_pch, *FACTS.computed_tags]
    assert set(named) <= {unit.path for unit in units}


def test_generators_leave_the_pinned_tree_as_it_is(
    fetched: FetchedRuntime, generated: Path
) -> None:
    assert list((generated / "ATen/aoti").iterdir())
    assert not (fetched.tree / "torch/csrc/inductor").exists()


def test_every_value_of_the_configured_headers_is_known(fetched: FetchedRuntime) -> None:
    for header, text in configured_headers(fetched.tree, FACTS).items():
        lines = [line for line in text.splitlines() if line.startswith("#define")]
        assert all(len(line.split()) > 2 for line in lines if "()" in line), header
    used = "".join(
        (fetched.tree / source).read_text() for source in FACTS.configure.headers.values()
    )
    assert [name for name in FACTS.configure.values if name not in used] == []


def test_every_licence_has_its_text(fetched: FetchedRuntime) -> None:
    folders = {None: fetched.tree, "fmt": fetched.third_party["fmt"].parent}
    begins = {
        (rule.component, name): text.read(folders[rule.third_party]).decode()[:20]
        for rule in FACTS.licences
        for name, text in rule.texts.items()
    }
    assert begins["boost-hash", "LICENSE_1_0.txt"] == "// NOTE: hash_combin"
    assert begins["boost-lanczos", "NOTICE"] == "// SciPy's lanczos i"
    assert begins["faddeeva", "NOTICE"] == "/* The next function"
    assert begins["musl-nextafter", "NOTICE"] == "/*\n  The following f"
    assert begins["cpython-sliceobject", "NOTICE"] == "// Copyright (c) 200"
    assert begins["ggml-dot", "NOTICE"] == "/*\n * NOTE [ GGML Co"
    assert begins["tensorflow-denormal", "NOTICE"] == "// Imported from Ten"


def test_the_worker_runs_its_torchgen(fetched: FetchedRuntime, tmp_path: Path) -> None:
    request = {
        "operators": ["aten::add.Tensor", "aten::native_layer_norm"],
        "calls": ["aten::add.Tensor", "aten::mul.Tensor"],
        "kernels": {
            "CPU": ["aten::add.Tensor", "aten::native_layer_norm"],
            "CompositeExplicitAutograd": ["aten::native_layer_norm"],
        },
        "direct": {"CPU": ["aten::mul.Tensor"]},
        "resolved": {"aten::mul.Tensor": "CPU"},
        "output": str(tmp_path / "out"),
    }
    (tmp_path / "request.json").write_text(json.dumps([request]))
    worker = [sys.executable, "-P", str(DIALECT.generated.worker)]
    subprocess.run([*worker, str(fetched.tree), str(tmp_path / "request.json")], check=True)
    cpu = (tmp_path / "out/RegisterCPU.cpp").read_text()
    assert 'm.impl("add.Tensor", TORCH_FN(wrapper_CPU_add_Tensor));' in cpu
    assert "wrapper_CPU_mul_Tensor" in cpu
    assert 'm.impl("mul.Tensor"' not in cpu
    composite = (tmp_path / "out/RegisterCompositeExplicitAutograd.cpp").read_text()
    assert "TORCH_FN(wrapper_CompositeExplicitAutograd__native_layer_norm)" in composite
    assert "return at::cpu::mul(self, other);" in (tmp_path / "out/Resolved.cpp").read_text()


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> RealUnits:
    return RealUnits(tmp_path_factory.mktemp("state"), RUNTIME)


@pytest.fixture(scope="module")
def compiled(real: RealUnits) -> Mapping[str, Path]:
    """The units that read a header of the overlay, as objects; the user's cache has those whose
    source, headers and flags are as they were."""
    return real.units(OVERLAID)


@pytest.mark.parametrize("unit", OVERLAID)
def test_units_compile_with_the_overlay(
    unit: str, real: RealUnits, compiled: Mapping[str, Path]
) -> None:
    assert compiled[unit].is_file()
    facts = real.runtime.facts
    flags = index_unit(facts, real.spec("release"), replace(OPEN, path=unit)).flags
    header = " ".join(included(unit))
    assert header in " ".join(flags)


@pytest.mark.parametrize("target", ["x86_64-linux-gnu", "aarch64-linux-gnu", "arm-linux-gnueabihf"])
def test_every_kernel_that_qnnpack_names_is_compiled_with_it(
    target: str, fetched: FetchedRuntime, tmp_path: Path
) -> None:
    unit = "aten/src/ATen/native/quantized/cpu/qnnpack/src/init.c"
    own = own_flags_of(FACTS, [unit], own_native_files(DIALECT.overlay))[unit].flags
    flags = [
        flag.replace("$native", str(NATIVE))
        .replace("$overlay", str(DIALECT.overlay))
        .replace("$tree", str(fetched.tree))
        for flag in [*own, *included(unit)]
    ]
    shared = ["-shared", "-fPIC", "-Wl,-z,defs", "-o", str(tmp_path / "init.so")]
    # with an optimisation, without which zig compiles a runtime for UBSan for each target
    zig(
        "cc",
        "-target",
        target,
        "-w",
        "-O2",
        f"-iquote{NATIVE}",
        *flags,
        fetched.tree / unit,
        *shared,
    )


def included(unit: str) -> Iterable[str]:
    """The header of ours that a unit reads first."""
    for rule in FACTS.include:
        if rule.unit == unit:
            yield from ("-include", variable_path(rule.header))
