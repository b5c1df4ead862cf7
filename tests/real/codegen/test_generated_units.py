"""Registrations that the pinned tree's torchgen writes, and stubs that a compiler takes."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
from codegen_toy import STUBS, files
from core_toy import GOLDEN, real_runtime, this_checkout
from golden_files import Golden

from orchestrator.codegen.registrations import generate_registrations
from orchestrator.codegen.requests import RegistrationRequest
from orchestrator.codegen.stubs import generate_stubs
from orchestrator.compilers.resolve import compiler_environment
from orchestrator.index.objects import read_object
from orchestrator.plan.flags import unit_flags
from orchestrator.pytorch.v1_13.dialect import DIALECT
from orchestrator.system.staging import write_if_changed
from orchestrator.values.operators import OperatorName as Op

pytestmark = pytest.mark.real


def test_a_stub_defines_the_symbol_that_it_stands_for(tmp_path: Path) -> None:
    here = this_checkout()
    runtime = here.runtimes.on("pytorch_1_13")
    (unit,) = generate_stubs(STUBS, tmp_path)
    assert unit.text is not None
    write_if_changed(unit.path, unit.text)
    flags = unit_flags(
        DIALECT.flags, language="c++", kernel=False, hot=False, optimize="size", purpose="release"
    )
    out, cxx = tmp_path / "stubs.o", here.toolchains.of(here.toolchains.host).cxx
    subprocess.run(
        [cxx, *map(runtime.fill, flags), "-c", unit.path, "-o", out],
        env=compiler_environment(here.context.cache, os.environ),
        check=True,
    )
    facts = read_object(out)
    # the index keeps one name of a constructor, and callers may use the other
    wanted = STUBS | {"_ZN2at11QTensorImplC1ENS_6TensorE"}
    assert wanted <= facts.global_symbols.keys()
    assert all(facts.sections[facts.global_symbols[s]].name.startswith(".text") for s in wanted)


def test_the_pinned_torchgen_registers_just_what_is_asked_for(tmp_path: Path) -> None:
    tree = real_runtime().fetched.tree
    request = RegistrationRequest(
        operators=(
            Op("aten::add.Tensor"),
            Op("aten::empty.memory_format"),
            Op("aten::linear"),
        ),
        calls=(Op("aten::relu"), Op("aten::t")),
        kernels=(
            ("CPU", (Op("aten::add.Tensor"), Op("aten::empty.memory_format"))),
            ("CompositeImplicitAutograd", (Op("aten::linear"),)),
            ("QuantizedCPU", (Op("aten::empty.memory_format"),)),
        ),
    )
    units = generate_registrations([request], DIALECT, tree, tmp_path, os.environ)[request]
    folder = units[0].path.parent
    text = {name: (folder / name).read_text() for name in files(folder)}
    implemented = re.compile(r'^ *m\.impl\("([\w.]+)"', re.MULTILINE)
    assert implemented.findall(text["RegisterCPU.cpp"]) == ["add.Tensor", "empty.memory_format"]
    assert implemented.findall(text["RegisterQuantizedCPU.cpp"]) == ["empty.memory_format"]
    assert implemented.findall(text["RegisterCompositeImplicitAutograd.cpp"]) == ["linear"]
    defined = re.findall(r'^ *m\.def\("(\w+\.?\w*)\(', text["RegisterSchema.cpp"], re.M)
    # the template itself defines the last one, in another namespace
    assert defined == ["add.Tensor", "empty.memory_format", "linear", "get_gradients"]
    # the template itself registers the two functions about pinned memory
    selected = re.findall(r'm\.impl\(.*?"aten::([\w.]+)"', text["RegisterBackendSelect.cpp"])
    assert selected == ["empty.memory_format", "is_pinned", "_pin_memory"]
    calls = re.findall(r"^(?:const )?at::Tensor (?:& )?(\w+)::call\(", text["Operators.cpp"], re.M)
    assert calls == ["relu", "t"]
    # what the shared unit renames is what torchgen writes into every file
    for helper in DIALECT.generated.helpers:
        assert re.search(rf"\b{helper}\(", text["RegisterCPU.cpp"])
    # no path of this machine: equal requests give equal objects everywhere
    assert not any(str(tree) in body or str(tmp_path) in body for body in text.values())


def test_the_pinned_torchgen_writes_kernels_that_are_only_called(tmp_path: Path) -> None:
    tree = real_runtime().fetched.tree
    request = RegistrationRequest(
        operators=(Op("aten::addmv"),),
        calls=(),
        kernels=(("CPU", (Op("aten::addmv"),)),),
        direct=(("CPU", (Op("aten::mul.out"),)),),
    )
    (unit, *_) = generate_registrations([request], DIALECT, tree, tmp_path, os.environ)[request]
    text = (unit.path.parent / "RegisterCPU.cpp").read_text()
    assert re.findall(r'^ *m\.impl\("([\w.]+)"', text, re.MULTILINE) == ["addmv"]
    called = re.findall(r"^at::Tensor & (mul_out)\(at::Tensor & out, ", text, re.MULTILINE)
    assert called == ["mul_out"]


def test_the_pinned_torchgen_writes_entry_points_that_call_a_kernel(
    tmp_path: Path, golden: Golden
) -> None:
    """One of each kind: a dense kernel, one for every backend, a factory, one in place."""
    tree = real_runtime().fetched.tree
    resolved = (
        (Op("aten::clamp.out"), "CPU"),
        (Op("aten::empty.memory_format"), "CPU"),
        (Op("aten::fill_.Scalar"), "CPU"),
        (Op("aten::new_empty_strided"), "CompositeExplicitAutogradNonFunctional"),
        (Op("aten::slice.Tensor"), "CompositeExplicitAutograd"),
        (Op("aten::t"), "CompositeExplicitAutograd"),
    )
    direct = {key: tuple(name for name, of in resolved if of == key) for _, key in resolved}
    request = RegistrationRequest(
        operators=(Op("aten::add.Tensor"),),
        calls=(
            Op("aten::add.Tensor"),
            Op("aten::relu"),
            *(name for name, _ in resolved),
        ),
        kernels=(("CPU", (Op("aten::add.Tensor"),)),),
        direct=tuple(sorted(direct.items())),
        resolved=resolved,
    )
    (unit, *_) = generate_registrations([request], DIALECT, tree, tmp_path, os.environ)[request]
    folder = unit.path.parent
    golden(GOLDEN / "Resolved.cpp", (folder / "Resolved.cpp").read_text())
    registered = (folder / "RegisterCPU.cpp").read_text()
    assert re.findall(r'^ *m\.impl\("([\w.]+)"', registered, re.MULTILINE) == ["add.Tensor"]
    text = (folder / "Operators.cpp").read_text()
    entries = re.findall(r"^at::Tensor &? ?(\w+)::call\(.*\{\n *(.*)$", text, re.MULTILINE)
    assert entries == [
        ("add_Tensor", ""),
        ("relu", 'lta_absent("aten::relu.");'),
    ]
    # the factory has no kernel of BackendSelect, which would call it again
    select = (folder / "RegisterBackendSelect.cpp").read_text()
    assert "empty" not in select
