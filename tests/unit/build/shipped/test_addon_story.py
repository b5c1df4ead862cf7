"""`orchestrator addon`: what it refuses before anything is compiled."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import package_toy as toy
import pytest
from shipped_fits import offer_of, plan_of
from shipped_index import ROOT, app_traces, shipped, shipped_facts, shipped_spec
from toy_workspace import toy_invocation

from orchestrator import cli
from orchestrator.build.development.addon_link import (
    AddonLinkError,
    AddonPart,
    Extended,
    _Linker,
    _visible,
    as_fragment,
)
from orchestrator.build.shipped.addon import NoAddonError, _name, _only, _require_addable
from orchestrator.build.shipped.fits import Held
from orchestrator.codegen.units import unit_of
from orchestrator.compilers.driver import CompilerMissingError
from orchestrator.deliver.manifest import RuntimeFact
from orchestrator.deliver.variant import deliver
from orchestrator.errors import Place
from orchestrator.packagers.contents import Packaged
from orchestrator.plan.addon import AddonNeeds
from orchestrator.plan.variant import compilation
from orchestrator.pytorch.v1_13.dialect import DIALECT
from orchestrator.values.fits import Judgement, Lack
from orchestrator.values.operators import OperatorName as Op

MODEL = ROOT / "apps/scanner/models/pages.ptl"
TREE = 64 * "d"
RUNTIMES = {TREE: "pytorch_old", 64 * "e": "pytorch_new"}


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("packages")
    runtime = RuntimeFact(pytorch="1.13.1", tree=shipped().tree)
    return deliver(replace(toy.quick_inputs(folder / "parts"), runtime=runtime), folder).folder


def refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], package: Path, *words: str
) -> list[str]:
    env = {"ORCHESTRATOR_CACHE": str(tmp_path / "cache"), "PATH": "/usr/bin:/bin"}
    (tmp_path / "cache").mkdir(exist_ok=True)
    (tmp_path / "state").mkdir(exist_ok=True)
    code = cli.main(["addon", "--for", str(package), str(MODEL), *words], env=env, cwd=ROOT)
    assert code == 1
    lines = capsys.readouterr().err.splitlines()
    # a build of this checkout may run beside the unit tests
    told = [line for line in lines if not line.startswith("waiting for process ")]
    return [line.rpartition("error: ")[2] for line in told]


def test_what_is_no_package_of_ours(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "some.zip").write_bytes(b"PK\3\4")
    assert "damaged" in refused(tmp_path, capsys, tmp_path / "some.zip")[0]
    assert refused(tmp_path, capsys, tmp_path / "gone")[0] == "this package cannot be read"


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (
            {"system": "ios", "processor": "arm64"},
            "apps for ios cannot load code that was not in the reviewed app",
        ),
        (
            {"system": "android", "processor": "armv7", "abi": "android-armeabi-v7a"},
            "there are no add-ons yet for android-armeabi-v7a",
        ),
        ({"processor": "armv7"}, "there are no add-ons yet for linux-x86_64"),
        (
            {"system": "android", "processor": "arm64", "abi": "android-arm64-v8a"},
            "the library was built with another toolchain than the one for android-arm64-v8a here",
        ),
        ({"abi": "linux-mine"}, "there is no toolchain for linux-mine here"),
        ({}, "the library was built with another toolchain than the one for linux-x86_64 here"),
    ],
)
def test_libraries_that_no_add_on_is_made_for(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    package: Path,
    change: Mapping[str, str],
    error: str,
) -> None:
    manifest = json.loads((package / "manifest.json").read_text())
    kept = (package / "manifest.json").read_text()
    try:
        (package / "manifest.json").write_text(json.dumps({**manifest, **change}))
        assert refused(tmp_path, capsys, package)[0] == error
    finally:
        (package / "manifest.json").write_text(kept)


def test_32_bit_android_is_refused_by_what_there_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], package: Path
) -> None:
    kept = (package / "manifest.json").read_text()
    change = {"system": "android", "processor": "armv7", "abi": "android-armeabi-v7a"}
    try:
        (package / "manifest.json").write_text(json.dumps({**json.loads(kept), **change}))
        told = refused(tmp_path, capsys, package)
    finally:
        (package / "manifest.json").write_text(kept)
    assert told == [
        "there are no add-ons yet for android-armeabi-v7a",
        "  expected: android on arm64, android on x86_64, linux on arm64, linux on x86_64",
        "  seen:     android, armv7",
        "  do:       build the app with the model, and ship it again",
    ]


@pytest.mark.parametrize(
    ("abi", "what"),
    [
        (None, "an add-on is for the library of one ABI"),
        ("ios-arm64", "the package has no library for ios-arm64"),
    ],
)
def test_of_a_package_of_several_abis_one_must_be_named(abi: str | None, what: str) -> None:
    both = [
        cast(Packaged, SimpleNamespace(path=Path("camera.aar"), manifest=SimpleNamespace(abi=one)))
        for one in ("android-arm64-v8a", "android-x86_64")
    ]
    assert _only(both, "android-x86_64") is both[1]
    with pytest.raises(NoAddonError) as caught:
        _only(both, abi)
    assert caught.value.render() == (
        f"camera.aar: error: {what}\n"
        "  expected: a library of one ABI\n"
        "  seen:     android-arm64-v8a, android-x86_64\n"
        "  do:       say which one: --abi ABI"
    )


def held(
    *lacks: Lack,
    traced: bool = True,
    runtime: str = TREE,
    sources: bool = False,
    roots: tuple[str, ...] = (),
    archive: int = 10,
) -> Held:
    """A model of //apps/inker; sources: whether that has some of its own. roots: more that the
    model names; archive: its version."""
    offer = offer_of(plan_of(app_traces("camera")))
    named = ("aten::hardswish", *roots)
    some: Any = SimpleNamespace()
    app: Any = SimpleNamespace(
        name="inker",
        config=SimpleNamespace(sources=some if sources else None),
        place=Place("apps/inker/app.yaml"),
        places=SimpleNamespace(key=lambda path: Place("apps/inker/app.yaml", 8, 1)),
    )
    identity = SimpleNamespace(runtime=runtime)
    trace: Any = SimpleNamespace(identity=identity, unreachable_operators=())
    known: Any = SimpleNamespace(
        operators=frozenset({Op("aten::hardswish"), Op("aten::zero_")}),
        dialect=DIALECT,
    )
    return Held(
        info=cast(Any, SimpleNamespace(root_operators=named, archive_version=archive)),
        app=app if traced else None,
        config=some if traced else None,
        trace=trace if traced else None,
        why_not="" if traced else "it has no trace",
        offer=offer,
        judged=Judgement("does not fit", "the library lacks what it needs", lacks),
        runtime=known,
    )


PACKAGED = cast(
    Packaged,
    SimpleNamespace(
        path=Path("camera.tar.zst"), manifest=SimpleNamespace(runtime=SimpleNamespace(tree=TREE))
    ),
)
HARDSWISH = Lack("operator", "aten::hardswish", "named")
NEW_TAG = Lack("kernel tag", "hardswish_cpu", "called", dtypes=("Float",))


def test_operators_and_kernels_that_are_all_new_can_be_brought() -> None:
    _require_addable(PACKAGED, held(HARDSWISH, NEW_TAG), RUNTIMES)


@pytest.mark.parametrize(
    ("lack", "seen"),
    [
        (
            Lack("kernel tag", "mul_cpu", "called", dtypes=("Double",), has=("Float",)),
            "dtype Double of mul_cpu, which it has for other dtypes",
        ),
        (Lack("custom class", "Prepacked", "named"), "custom class Prepacked"),
        (Lack("build feature", "FEATURE", "called"), "build feature FEATURE"),
        (Lack("operator", "aten::of_2_6", "named", note="no"), "operator aten::of_2_6 (no)"),
        (Lack("runtime", "bytecode version 12", "named"), "runtime bytecode version 12"),
    ],
)
def test_what_cannot_be_brought_is_refused_by_name(lack: Lack, seen: str) -> None:
    with pytest.raises(NoAddonError) as caught:
        _require_addable(PACKAGED, held(HARDSWISH, lack), RUNTIMES)
    assert caught.value.seen == seen


def test_an_operator_that_only_code_calls_in_the_library_can_be_brought() -> None:
    resolved = sorted(held().offer.resolved or ())[0]
    one = held(Lack("operator", resolved, "named"))
    known: Any = SimpleNamespace(operators={resolved}, dialect=DIALECT)
    _require_addable(PACKAGED, replace(one, runtime=known), RUNTIMES)


@pytest.mark.parametrize(
    ("roots", "archive", "seen"),
    [
        (("quantized::relu6",), 10, "aten::hardswish, quantized::relu6"),
        (("aten::gelu", "aten::linspace"), 8, "aten::gelu"),
        (("aten::gelu",), 10, None),
    ],
)
def test_a_model_that_reaches_code_which_the_library_omits_is_refused(
    roots: tuple[str, ...], archive: int, seen: str | None
) -> None:
    """Of other kinds of tensors; by which it means what an earlier PyTorch did."""
    one = held(HARDSWISH, roots=roots, archive=archive)
    if seen is None:
        _require_addable(PACKAGED, one, RUNTIMES)
        return
    with pytest.raises(NoAddonError) as caught:
        _require_addable(PACKAGED, one, RUNTIMES)
    assert caught.value.render() == (
        "camera.tar.zst: error: the library omits code that only models with other operators"
        " reach\n"
        "  expected: a model with the library's kinds of tensors, of a current PyTorch\n"
        f"  seen:     {seen}\n"
        "  do:       build the app with the model, and ship it again"
    )


def test_a_model_without_a_trace_is_refused() -> None:
    with pytest.raises(NoAddonError) as caught:
        _require_addable(PACKAGED, held(HARDSWISH, traced=False), RUNTIMES)
    assert caught.value.seen == "it has no trace"


BY_THEMSELVES = (
    HARDSWISH,
    Lack("operator", "ink::smooth", "named", note="PyTorch 1.13.1 does not have it"),
    Lack("custom class", "Brush", "named"),
    Lack("custom class", "CellParamsBase", "named"),
)


def test_an_apps_own_operators_and_classes_are_refused_as_such() -> None:
    with pytest.raises(NoAddonError) as caught:
        _require_addable(PACKAGED, held(*BY_THEMSELVES, sources=True), RUNTIMES)
    assert caught.value.render() == (
        "apps/inker/app.yaml:8:1: error: an add-on cannot bring what an app's own sources"
        " register\n"
        "  expected: operators of PyTorch\n"
        "  seen:     operator ink::smooth; custom class Brush\n"
        "  do:       build the app with the model, and ship it again"
    )
    # of an app without sources nobody knows whose they are
    with pytest.raises(NoAddonError) as caught:
        _require_addable(PACKAGED, held(*BY_THEMSELVES), RUNTIMES)
    assert caught.value.seen == (
        "operator ink::smooth (PyTorch 1.13.1 does not have it); custom class Brush;"
        " custom class CellParamsBase"
    )
    # and PyTorch's are refused as PyTorch's
    with pytest.raises(NoAddonError) as caught:
        _require_addable(PACKAGED, held(BY_THEMSELVES[3], sources=True), RUNTIMES)
    assert caught.value.seen == "custom class CellParamsBase"


def test_a_trace_of_another_runtime_is_refused() -> None:
    """It says nothing of what the library's runtime calls."""
    with pytest.raises(NoAddonError) as caught:
        _require_addable(PACKAGED, held(HARDSWISH, runtime=64 * "e"), RUNTIMES)
    assert caught.value.render() == (
        "apps/inker/app.yaml: error: an add-on is of the library's runtime, and the model was"
        " traced with another\n"
        "  expected: a trace made with runtime pytorch_old\n"
        "  seen:     one of runtime pytorch_new\n"
        "  do:       say `runtime: pytorch_old` there, and run: ./orchestrate trace //apps/inker"
    )


@pytest.mark.parametrize("name", ["", "win/ter", "../x", "a b", "-x"])
def test_names_are_those_of_apps(name: str) -> None:
    with pytest.raises(NoAddonError):
        _name(name)


def test_registrations_become_a_fragment_of_its_operators_alone(tmp_path: Path) -> None:
    (tmp_path / "registrations").mkdir()
    unit = unit_of("registrations", "", tmp_path / "registrations")
    unit.path.write_text('#include "RegisterSchema.cpp"\n#undef X\n')
    (unit.path.parent / "RegisterSchema.cpp").write_text(
        "TORCH_LIBRARY(aten, m) {\n"
        '  m.def("hardswish(Tensor self) -> Tensor", {});;\n'
        '  m.def("get_gradients(int context_id) -> Dict(Tensor, Tensor)");\n'
        '  m.impl(TORCH_SELECTIVE_NAME("aten::is_pinned"), TORCH_FN(is_pinned));\n'
        "}\n"
    )
    part = AddonPart((Op("aten::hardswish"),), AddonNeeds(), ())
    assert as_fragment(unit, part, tmp_path).text == (
        "// Registrations of an add-on: the library has the namespaces.\n"
        "#include <torch/library.h>\n"
        "#undef TORCH_LIBRARY\n"
        "#define TORCH_LIBRARY TORCH_LIBRARY_FRAGMENT\n"
        "TORCH_LIBRARY(aten, m) {\n"
        '  m.def("hardswish(Tensor self) -> Tensor", {});;\n'
        "}\n"
        "#undef X\n"
    )


def test_what_another_add_on_may_have_registered_is_registered_once(tmp_path: Path) -> None:
    (tmp_path / "registrations").mkdir()
    unit = unit_of("registrations", "", tmp_path / "registrations")
    unit.path.write_text(
        "TORCH_LIBRARY(aten, m) {\n"
        '  m.def("cat(Tensor[] tensors, int dim=0) -> Tensor", {});\n'
        '  m.def("add.out(Tensor self, Tensor other) -> Tensor", {});\n'
        '  m.def("hardswish(Tensor self) -> Tensor", {});\n'
        "}\n"
        "TORCH_LIBRARY_IMPL(aten, CPU, m) {\n"
        'm.impl("cat", TORCH_FN(wrapper_CPU_cat));\n'
        'm.impl("add.out",\n'
        "TORCH_FN(wrapper_CPU_add_out));\n"
        "}\n"
    )
    operators = (Op("aten::add.out"), Op("aten::cat"), Op("aten::hardswish"))
    part = AddonPart(
        operators,
        AddonNeeds(),
        (),
        frozenset({Op("aten::add.out"), Op("aten::cat")}),
    )
    assert as_fragment(unit, part, tmp_path).text == (
        "// Registrations of an add-on: the library has the namespaces.\n"
        "#include <torch/library.h>\n"
        "namespace lta { bool registers(const char* name, const char* overload); }\n"
        "#undef TORCH_LIBRARY\n"
        "#define TORCH_LIBRARY TORCH_LIBRARY_FRAGMENT\n"
        "TORCH_LIBRARY(aten, m) {\n"
        '  if (lta::registers("aten::cat", ""))'
        ' m.def("cat(Tensor[] tensors, int dim=0) -> Tensor", {});\n'
        '  if (lta::registers("aten::add", "out"))'
        ' m.def("add.out(Tensor self, Tensor other) -> Tensor", {});\n'
        '  m.def("hardswish(Tensor self) -> Tensor", {});\n'
        "}\n"
        "TORCH_LIBRARY_IMPL(aten, CPU, m) {\n"
        '  if (lta::registers("aten::cat", ""))'
        ' m.impl("cat", TORCH_FN(wrapper_CPU_cat));\n'
        '  if (lta::registers("aten::add", "out"))'
        ' m.impl("add.out",\n'
        "TORCH_FN(wrapper_CPU_add_out));\n"
        "}\n"
    )


@pytest.mark.parametrize(
    ("words", "seen"),
    [
        (
            ["sh", "-c", "seq 20 >&2; exit 7"],
            "exit code 7\n" + "\n".join(f"  | {line}" for line in range(1, 13)),
        ),
        # as where a cache that somebody empties had the wrapper of the linker
        (
            ["/gone/cxx"],
            "no such file: /gone/cxx\n  do:       run the same command again",
        ),
    ],
)
def test_a_link_that_fails_is_told_with_what_the_linker_said(
    tmp_path: Path, words: list[str], seen: str
) -> None:
    with pytest.raises(AddonLinkError) as caught:
        linker(tmp_path).run(words)
    assert caught.value.render() == (
        f"error: the add-on for toy 1.2.0 cannot be linked\n  seen:     {seen}"
    )


def test_a_link_whose_compiler_is_gone_is_told_by_its_toolchain(tmp_path: Path) -> None:
    (tmp_path / "toolchains").mkdir()
    (tmp_path / "toolchains/linux-x86_64.yaml").write_text(
        "{abi: linux-x86_64, system: linux, processor: x86_64, format: elf, run: native,"
        " compiler: {command: {cxx: /gone/cxx, cc: sh, ar: sh}}}\n"
    )
    with pytest.raises(CompilerMissingError) as caught:
        linker(tmp_path).run(["sh", "-c", "exit 127"])
    assert caught.value.place == Place("toolchains/linux-x86_64.yaml")


def linker(root: Path) -> _Linker:
    """A linker of the workspace in `root`."""
    tools: Any = SimpleNamespace(abi="linux-x86_64")
    base = Extended("toy", root / "libtoy.so", frozenset(), 40 * "0", "toy 1.2.0")
    return _Linker(toy_invocation(root), tools, base, root, {"PATH": "/usr/bin:/bin"})


def test_an_add_ons_object_is_visible_and_takes_the_librarys_precompiled_header() -> None:
    """A header of its own would be compiled for 5 s, and is the same."""
    index = shipped()
    (unit,) = (one for one in index.units if one.path == "aten/src/ATen/native/Linear.cpp")
    spec = shipped_spec((), purpose="tracer", precompile=True)
    hidden = compilation(shipped_facts(), spec, unit)(None)
    found = _visible(hidden)
    assert "-fvisibility=hidden" in hidden.flags
    assert not [flag for flag in found.flags if "visibility" in flag]
    assert found.pch == hidden.pch is not None
    assert found.fingerprint != hidden.fingerprint
