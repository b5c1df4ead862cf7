"""Registrations that the pinned tree's torchgen writes, and the units that are made of them."""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import replace
from pathlib import Path

import jinja2
import pytest
from core_toy import GOLDEN, real_runtime, this_checkout
from golden_files import Golden

from orchestrator.codegen.registrations import (
    TorchgenFailedError,
    generate_registrations,
)
from orchestrator.codegen.render import render
from orchestrator.codegen.requests import RegistrationRequest
from orchestrator.codegen.stubs import elsewhere_spelled, generate_stubs
from orchestrator.compilers.resolve import compiler_environment
from orchestrator.index.objects import read_object
from orchestrator.plan.flags import unit_flags
from orchestrator.pytorch.dialect import Dialect
from orchestrator.pytorch.v1_13.dialect import DIALECT
from orchestrator.system.staging import write_if_changed
from orchestrator.values.fingerprint import text_digest
from orchestrator.values.operators import OperatorName as Op

REQUEST = RegistrationRequest(
    operators=(Op("aten::add.Tensor"), Op("aten::empty.memory_format")),
    calls=(Op("aten::_pin_memory"), Op("aten::is_pinned")),
    kernels=(
        ("CPU", (Op("aten::add.Tensor"), Op("aten::empty.memory_format"))),
        ("CompositeImplicitAutograd", ()),
        ("QuantizedCPU", (Op("aten::empty.memory_format"),)),
    ),
)
# Stands in for torchgen_worker.py: it writes one line a file, and counts how often it ran.
WORKER = """\
import json, pathlib, sys
tree, request = map(pathlib.Path, sys.argv[1:])
with (tree / "runs").open("a") as log:
    log.write("run\\n")
for one in json.loads(request.read_text()):
    folder = pathlib.Path(one["output"])
    folder.mkdir()
    for name in ("Schema", "BackendSelect", *one["kernels"]):
        selected = one["kernels"].get(name, one["operators"])
        (folder / f"Register{name}.cpp").write_text(f"// {name} {selected}\\n")
    (folder / "Operators.cpp").write_text(f"// {one['calls']}\\n")
    if one["resolved"]:
        (folder / "Resolved.cpp").write_text(f"// {one['resolved']}\\n")
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    folder = tmp_path / "toy-tree"
    folder.mkdir()
    worker = tmp_path / "worker.py"
    worker.write_text(WORKER)
    return folder


def toy(tree: Path) -> Dialect:
    """1.13.1's, with the worker beside a tree."""
    worker = tree.parent / "worker.py"
    return replace(DIALECT, generated=replace(DIALECT.generated, worker=worker))


def runs(tree: Path) -> int:
    return len((tree / "runs").read_text().splitlines())


def files(folder: Path) -> list[str]:
    return sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file())


def test_keys_are_split_into_shared_and_own_units() -> None:
    assert REQUEST.shared_keys(DIALECT.keys) == ("CPU", "CompositeImplicitAutograd")
    assert REQUEST.own_keys(DIALECT.keys) == ("QuantizedCPU",)


def test_kernels_that_are_only_called_have_units_too() -> None:
    direct = (("CPU", (Op("aten::mul.out"),)), ("SparseCPU", (Op("aten::mul.out"),)))
    request = RegistrationRequest((), (), (("QuantizedCPU", (Op("aten::relu"),)),), direct)
    assert request.shared_keys(DIALECT.keys) == ("CPU",)
    assert request.own_keys(DIALECT.keys) == ("QuantizedCPU", "SparseCPU")


def test_an_undefined_name_is_an_error() -> None:
    with pytest.raises(jinja2.UndefinedError, match="'helpers' is undefined"):
        render("registrations.cpp.j2", keys=["CPU"])


def test_the_shared_unit_is_the_files_one_after_another(
    tree: Path, tmp_path: Path, golden: Golden
) -> None:
    units = generate_registrations([REQUEST], toy(tree), tree, tmp_path / "cache", os.environ)[
        REQUEST
    ]
    shared = units[0]
    golden(GOLDEN / "registrations.cpp", shared.path.read_text())
    assert {unit.name: unit.path.name for unit in units} == {
        "registrations": "registrations.cpp",
        "operators": "Operators.cpp",
        "registrations-QuantizedCPU": "RegisterQuantizedCPU.cpp",
    }
    assert files(shared.path.parent) == [
        "Operators.cpp",
        "RegisterBackendSelect.cpp",
        "RegisterCPU.cpp",
        "RegisterCompositeImplicitAutograd.cpp",
        "RegisterQuantizedCPU.cpp",
        "RegisterSchema.cpp",
        "SHA256SUMS",
        "registrations.cpp",
    ]


def test_kernels_that_entry_points_call_are_in_the_shared_unit(
    tree: Path, tmp_path: Path, golden: Golden
) -> None:
    request = replace(REQUEST, resolved=((Op("aten::mul.out"), "CPU"),))
    units = generate_registrations([request], toy(tree), tree, tmp_path / "cache", os.environ)[
        request
    ]
    shared = units[0]
    golden(GOLDEN / "registrations-resolved.cpp", shared.path.read_text())
    other = replace(REQUEST, resolved=((Op("aten::add.out"), "CPU"),))
    others = generate_registrations([other], toy(tree), tree, tmp_path / "cache", os.environ)[other]
    changed = [one.name for one, two in zip(units, others, strict=True) if one.digest != two.digest]
    assert changed == ["registrations"]


def test_equal_requests_are_written_once(tree: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    other = RegistrationRequest(operators=(Op("aten::add.Tensor"),), calls=(), kernels=())
    first = generate_registrations([REQUEST, REQUEST, other], toy(tree), tree, cache, os.environ)
    assert runs(tree) == 1
    assert generate_registrations([other, REQUEST], toy(tree), tree, cache, os.environ) == first
    assert runs(tree) == 1
    assert list((cache / "staging").iterdir()) == []


def test_a_units_digest_is_of_all_text_that_it_includes(tree: Path, tmp_path: Path) -> None:
    def digests(request: RegistrationRequest) -> dict[str, str]:
        units = generate_registrations([request], toy(tree), tree, tmp_path / "cache", os.environ)[
            request
        ]
        return {unit.name: unit.digest for unit in units}

    first = digests(REQUEST)
    changed = RegistrationRequest(
        operators=REQUEST.operators,
        calls=REQUEST.calls,
        kernels=(*REQUEST.kernels[:2], ("QuantizedCPU", (Op("aten::relu"),))),
    )
    other = digests(changed)
    assert {name for name in first if first[name] != other[name]} == {"registrations-QuantizedCPU"}
    called = digests(RegistrationRequest(REQUEST.operators, (Op("aten::relu"),), REQUEST.kernels))
    assert {name for name in first if first[name] != called[name]} == {"operators"}


def test_an_interrupted_write_is_written_again(tree: Path, tmp_path: Path, golden: Golden) -> None:
    cache = tmp_path / "cache"
    (shared, *_) = generate_registrations([REQUEST], toy(tree), tree, cache, os.environ)[REQUEST]
    (shared.path.parent / "SHA256SUMS").unlink()
    shared.path.write_text("half of it")
    generate_registrations([REQUEST], toy(tree), tree, cache, os.environ)
    assert runs(tree) == 2
    golden(GOLDEN / "registrations.cpp", shared.path.read_text())


def test_a_failing_torchgen_is_told_and_leaves_nothing(tree: Path, tmp_path: Path) -> None:
    toy(tree).generated.worker.write_text("raise SystemExit('no native_functions.yaml')\n")
    cache = tmp_path / "cache"
    with pytest.raises(TorchgenFailedError) as caught:
        generate_registrations([REQUEST], toy(tree), tree, cache, os.environ)
    assert caught.value.render() == (
        "error: torchgen failed to write the registrations\n"
        "  do:       ./orchestrate fetch --verify checks the source tree\n"
        "  | no native_functions.yaml"
    )
    assert files(cache) == []


STUBS = frozenset(
    {
        "_ZN2at4nameEv",
        "_ZN2at11QTensorImplC2ENS_6TensorE",
        # at::kept(std::optional<long>): the NDK's libc++ has another inline namespace
        "_ZN2at4keptENSt3__18optionalIlEE",
    }
)


def test_stubs_are_a_text_named_by_content(tmp_path: Path, golden: Golden) -> None:
    (unit,) = generate_stubs(STUBS, tmp_path)
    assert unit.text is not None
    golden(GOLDEN / "stubs.cpp", unit.text)
    assert unit.path == tmp_path / "stubs" / f"{unit.digest}.cpp"
    assert unit.digest == text_digest(unit.text)
    assert files(tmp_path) == []


@pytest.mark.parametrize(
    ("symbol", "others"),
    [
        ("_ZN2at4nameEv", ()),
        (
            "_ZN2at32make_per_tensor_affine_quantizerEdlN3c1010ScalarTypeE",
            ("_ZN2at32make_per_tensor_affine_quantizerEdxN3c1010ScalarTypeE",),
        ),
        ("_ZN2at11QTensorImplC1ElRKS0_St", ("_ZN2at11QTensorImplC1ExRKS0_St",)),
        (
            "_ZN2at4lmlmERKSt6vectorIlEmLm5E",
            (
                "_ZN2at4lmlmERKSt6vectorIxEjLj5E",
                "_ZN2at4lmlmERKSt6vectorIxEmLm5E",
                "_ZN2at4lmlmERKSt6vectorIxEyLy5E",
            ),
        ),
    ],
)
def test_long_is_spelled_in_another_way_elsewhere(symbol: str, others: tuple[str, ...]) -> None:
    assert elsewhere_spelled(symbol) == others


def test_stubs_have_the_spelling_of_every_system(tmp_path: Path) -> None:
    (unit,) = generate_stubs(frozenset({"_ZN2at4takeEl"}), tmp_path)
    assert unit.text is not None
    head, _, tail = unit.text.partition("#if defined(__APPLE__) || !defined(__LP64__)")
    assert "_ZN2at4takeEl" in head
    assert "_ZN2at4takeEx" not in head
    assert "void lta_stub_2() {" in tail
    assert "_ZN2at4takeEx" in tail
    assert "#endif" in tail


def test_no_stubs_are_no_unit(tmp_path: Path) -> None:
    assert generate_stubs(frozenset(), tmp_path) == ()
    assert files(tmp_path) == []


@pytest.mark.real
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


@pytest.mark.real
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


@pytest.mark.real
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


@pytest.mark.real
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
