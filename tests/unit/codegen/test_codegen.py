"""The units that are made of torchgen's registrations, and stubs; torchgen itself is a toy here."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import jinja2
import pytest
from codegen_toy import STUBS, files
from core_toy import GOLDEN
from golden_files import Golden

from orchestrator.codegen.registrations import (
    TorchgenFailedError,
    generate_registrations,
    planned_registrations,
)
from orchestrator.codegen.render import render
from orchestrator.codegen.requests import RegistrationRequest
from orchestrator.codegen.stubs import elsewhere_spelled, generate_stubs
from orchestrator.pytorch.dialect import Dialect
from orchestrator.pytorch.v1_13.dialect import DIALECT
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


def test_a_cache_that_can_only_be_read_serves(tree: Path, tmp_path: Path) -> None:
    """What it has is copied to where the rest is written, and a plan knows it."""
    cache, texts = tmp_path / "cache", tmp_path / "state/texts"
    made = generate_registrations([REQUEST], toy(tree), tree, cache, os.environ)[REQUEST]
    before = sorted(cache.rglob("*"))
    planned = planned_registrations([REQUEST], toy(tree), tree, texts, cache)[REQUEST]
    assert not texts.exists()
    other = RegistrationRequest(operators=(Op("aten::add.Tensor"),), calls=(), kernels=())
    there = generate_registrations(
        [REQUEST, other], toy(tree), tree, texts, os.environ, cache=cache
    )
    assert runs(tree) == 2
    assert [unit.digest for unit in planned] == [unit.digest for unit in made]
    assert there[REQUEST] == planned
    assert all(unit.path.is_relative_to(texts) for unit in (*there[REQUEST], *there[other]))
    assert sorted(cache.rglob("*")) == before
    assert list((texts / "staging").iterdir()) == []
