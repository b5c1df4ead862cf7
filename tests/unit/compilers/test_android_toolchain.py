"""Android toolchains: an NDK as its folder tells, the stand-in without one, and what is refused."""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import android_toy as toy
import ninja
import package_toy
import pytest
from core_toy import CORE, GUARD, make_index
from elftools.elf.elffile import ELFFile
from golden_files import Golden
from toy_workspace import toy_invocation, toy_runtime
from written_lists import write_lists

from orchestrator.binary import elf
from orchestrator.binary.elf_symbols import defined_symbols
from orchestrator.build.delivering.licences import source_of
from orchestrator.build.planning.links import extensible_script, variant_links
from orchestrator.build.workshop.runtime import Runtime
from orchestrator.compilers.relink import exported_name
from orchestrator.compilers.resolve import (
    ResolvedToolchain,
    compiler_environment,
    resolve_toolchain,
)
from orchestrator.compilers.stub_sysroot import _run_zig
from orchestrator.deliver.delivered import read_delivery
from orchestrator.deliver.headers import api_functions
from orchestrator.deliver.manifest import AndroidFact, ToolchainFact
from orchestrator.deliver.rules import shared_library_rules
from orchestrator.deliver.variant import deliver
from orchestrator.errors import OrchestratorError, Place
from orchestrator.execute.ninja_file import RUN, ninja_text
from orchestrator.load.workspace import load_workspace
from orchestrator.packagers import aar
from orchestrator.plan.flags import unit_flags
from orchestrator.platforms.android import LIBRARY, packed_relocations
from orchestrator.pytorch.v1_13.dialect import DIALECT
from orchestrator.system.process import LocalRunner
from orchestrator.values.action import ActionGraph, Compile
from orchestrator.values.fingerprint import text_digest

CASES = toy.ROOT / "tests/failing/ndk"
PLACE = Place("toolchains/android-arm64-v8a.yaml", 6, 3)
FLAGS = ("-Oz", "-fPIC", "-fvisibility=hidden", "-std=gnu++17", "-DTOY_MOBILE", "-DTOY_LEVEL=2")
ENTRY = 'extern "C" __attribute__((visibility("default"))) int JNI_OnLoad() { return 0x10006; }\n'


@pytest.fixture(scope="module")
def ndk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return toy.record_ndk(tmp_path_factory.mktemp("recorded"))


@pytest.mark.parametrize("abi", toy.ABIS)
def test_an_ndks_command_lines(abi: str, ndk: Path, tmp_path: Path, golden: Golden) -> None:
    tools = toy.with_ndk(ndk, tmp_path, abi)
    lines = [
        f"{verb}: {toy.shown(argv, {'ndk': ndk})}\n" for verb, argv in tools.driver.commands.items()
    ]
    golden(toy.GOLDEN / f"ndk-{abi}.txt", "".join(lines))


@pytest.mark.parametrize("abi", toy.ABIS)
def test_the_stand_ins_command_lines(abi: str, tmp_path: Path, golden: Golden) -> None:
    tools = toy.stub_toolchain(abi, tmp_path)
    places = {"zig": toy.ZIG, "package": toy.ZIG.parent, "cache": tmp_path, "ours": toy.ROOT}
    lines = [f"{verb}: {toy.shown(argv, places)}\n" for verb, argv in tools.driver.commands.items()]
    text = "".join(lines).replace(tools.identity[:12], "<identity>")
    # of zig's wheel too, which is another on another system
    text = re.sub(r"(android-sysroot-)[0-9a-f]{12}", r"\1<digest>", text)
    golden(toy.GOLDEN / f"stand-in-{abi}.txt", text)


def test_the_shared_stub_sysroot_names_no_installation_of_zig(tmp_path: Path) -> None:
    """It is in the user's cache: the checkout that made it may be gone when another one builds."""
    tools = toy.stub_toolchain("android-arm64-v8a", tmp_path)
    (sysroot,) = (tmp_path / "toolchains").glob("android-sysroot-*")
    naming = [p.name for p in sysroot.iterdir() if str(toy.ZIG.parent).encode() in p.read_bytes()]
    assert naming == []
    source = tmp_path / "unit.c"
    source.write_text("#include <locale.h>\nstruct lconv *words(void) { return localeconv(); }\n")
    made = tmp_path / "unit.o"
    compile_it = [*tools.driver.commands["cc"], "-c", str(source), "-o", str(made)]
    environment = compiler_environment(load_workspace(toy.ROOT, os.environ).cache, os.environ)
    subprocess.run(compile_it, env=environment, check=True)
    assert made.exists()


def test_a_zig_that_makes_no_sysroot(tmp_path: Path) -> None:
    broken = tmp_path / "zig"
    toy.write_program(broken, "#!/bin/sh\necho one >&2\necho two >&2\nexit 3\n")
    with pytest.raises(OrchestratorError) as caught:
        _run_zig(str(broken), {}, PLACE, LocalRunner(), tmp_path, tmp_path, "cc", "-c", "libm.S")
    assert caught.value.render() == (
        "toolchains/android-arm64-v8a.yaml:6:3: error: zig cannot make the libraries of the stub"
        " sysroot\n"
        "  seen:     one\n"
        "  do:       set ANDROID_NDK_HOME to an NDK, or install ziglang again\n"
        "  | one\n"
        "  | two"
    )


def test_an_ndks_facts(ndk: Path, tmp_path: Path) -> None:
    tools = toy.with_ndk(ndk, tmp_path, stl="c++_shared")
    driver = tools.driver
    assert (driver.kind, driver.version, driver.target) == (
        "ndk",
        "26.3.11579264",
        "aarch64-linux-android24",
    )
    assert driver.android is not None
    assert (driver.android.api, driver.android.ndk, driver.android.stl) == (24, 26, "c++_shared")
    assert [path.name for path in driver.beside] == ["libc++_shared.so"]
    assert tools.for_release
    assert "-static-libstdc++" not in driver.commands["cxx"]
    assert {part.name for part in driver.linked} == {"libunwind", "compiler-rt"}


@pytest.mark.parametrize("libraries", ["lib", "lib64"])
def test_an_ndks_parts_are_told_by_the_digests_of_its_archives(
    ndk: Path, tmp_path: Path, libraries: str
) -> None:
    prebuilt = shutil.copytree(ndk, tmp_path / "ndk") / "toolchains/llvm/prebuilt/linux-x86_64"
    clang = f"{libraries}/clang/17/lib/linux"
    archives = {
        "libcxx": "sysroot/usr/lib/aarch64-linux-android/libc++_static.a",
        "libcxxabi": "sysroot/usr/lib/aarch64-linux-android/libc++abi.a",
        "libunwind": f"{clang}/aarch64/libunwind.a",
        "compiler-rt": f"{clang}/libclang_rt.builtins-aarch64-android.a",
    }
    for name, path in archives.items():
        (prebuilt / path).parent.mkdir(parents=True, exist_ok=True)
        (prebuilt / path).write_text(name)
    parts = toy.with_ndk(tmp_path / "ndk", tmp_path / "cache").driver.linked
    found = {part.name: source_of(part.folder, part.sources) for part in parts}
    assert {name: source.sha256 for name, source in found.items() if source} == {
        name: sha256(name.encode()).hexdigest() for name in archives
    }


def test_what_decides_about_objects_is_the_ndks_identity(ndk: Path, tmp_path: Path) -> None:
    other = tmp_path / "moved"
    shutil.copytree(ndk, other)
    tools = toy.with_ndk(ndk, tmp_path)
    assert toy.with_ndk(other, tmp_path).identity == tools.identity
    assert toy.with_ndk(ndk, tmp_path, api=26).identity != tools.identity
    assert toy.with_ndk(ndk, tmp_path, stl="c++_shared").identity != tools.identity
    # what is linked, as it is: files of other copies, since a digest is remembered for a process
    seen = {tools.identity}
    for text in ("one", "another"):
        prebuilt = shutil.copytree(ndk, tmp_path / text) / "toolchains/llvm/prebuilt/linux-x86_64"
        archive = prebuilt / "sysroot/usr/lib/aarch64-linux-android/libc++_static.a"
        archive.parent.mkdir(parents=True, exist_ok=True)
        archive.write_text(text)
        seen.add(toy.with_ndk(tmp_path / text, tmp_path).identity)
    assert len(seen) == 3
    (other / "source.properties").write_text("Pkg.Revision = 27.0.12077973\n")
    assert toy.with_ndk(other, tmp_path).identity != tools.identity
    assert str(ndk) not in json.dumps(tools.driver.identity)


def test_the_second_variable_is_read_where_the_first_is_not_set(ndk: Path, tmp_path: Path) -> None:
    env = {**toy.bare_environment(), "ANDROID_NDK_HOME": "", "ANDROID_NDK_ROOT": str(ndk)}
    assert resolve_toolchain(toy.config(), PLACE, tmp_path, env).driver.kind == "ndk"


def test_the_stand_in_must_not_be_released(tmp_path: Path) -> None:
    tools = toy.stub_toolchain("android-x86_64", tmp_path)
    assert not tools.for_release
    assert tools.driver.android is not None
    assert tools.driver.android.ndk is None
    assert str(tmp_path) not in json.dumps(tools.driver.identity)


def test_without_a_stand_in_an_ndk_is_wanted(tmp_path: Path) -> None:
    with pytest.raises(OrchestratorError) as caught:
        resolve_toolchain(toy.config(), PLACE, tmp_path, toy.bare_environment())
    assert caught.value.render() == (CASES / "none.txt").read_text().rstrip("\n")


@pytest.mark.parametrize("case", sorted(path.stem for path in CASES.glob("*.yaml")))
def test_a_bad_ndk(case: str, ndk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A case says which files of the recorded NDK are other or gone, and what is declared."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(ndk, "ndk")
    import yaml

    asked = yaml.safe_load((CASES / f"{case}.yaml").read_text())
    for name in asked.get("without", ()):
        path = Path("ndk") / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    for name, text in asked.get("files", {}).items():
        path = Path("ndk") / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    env = {**toy.bare_environment(), "ANDROID_NDK_ROOT": asked.get("folder", "ndk")}
    with pytest.raises(OrchestratorError) as caught:
        resolve_toolchain(toy.config(**asked.get("ndk", {})), PLACE, tmp_path / "cache", env)
    expected = (CASES / f"{case}.txt").read_text().rstrip("\n")
    assert f"{type(caught.value).__name__}\n{caught.value.render()}" == expected


def test_android_has_no_posix_shared_memory() -> None:
    def flags(system: Any) -> list[str]:
        given: Any = {"language": "c++", "kernel": False, "hot": False, "optimize": "size"}
        return list(unit_flags(DIALECT.flags, **given, purpose="release", system=system))

    linux = flags("linux")
    without = {"-DHAVE_SHM_OPEN=1", "-DHAVE_SHM_UNLINK=1"}
    assert without < set(linux)
    assert flags("android") == [flag for flag in linux if flag not in without]


@pytest.mark.parametrize("abi", toy.ABIS)
def test_a_package_by_the_recorded_ndk(abi: str, ndk: Path, tmp_path: Path, golden: Golden) -> None:
    """Compiled, linked as variants are, delivered, held to Android's rules, packed as an AAR."""
    tools = toy.with_ndk(ndk, toy.with_users_zig(tmp_path / "cache"), abi)
    library = build(tmp_path, tools)
    golden(toy.GOLDEN / f"build-{abi}.txt", called(ndk, tmp_path))
    with library.open("rb") as file:
        read = ELFFile(file)
        machine, loads = read["e_machine"], list(read.iter_segments("PT_LOAD"))
    assert (
        machine == {"arm64": "EM_AARCH64", "armv7": "EM_ARM", "x86_64": "EM_X86_64"}[toy.ABIS[abi]]
    )
    if toy.ABIS[abi] != "armv7":
        assert {segment["p_align"] for segment in loads} == {0x4000}
    assert any("NSt6__ndk1" in name for name in defined_symbols(library))
    inputs = replace(
        package_toy.inputs(tmp_path, library, tmp_path / "whole.a", tmp_path / "core.a"),
        abi=abi,
        system="android",
        processor=toy.ABIS[abi],
        registrations=library.with_name("libtoy_torch_registrations.a"),
        core=library.with_name("libtoy_torch_core.a"),
        toolchain=ToolchainFact(
            compiler="ndk",
            version=tools.version,
            identity=tools.identity,
            cxx_library="libc++",
            android=AndroidFact(api=24, ndk=26, stl="c++_static"),
        ),
    )
    delivered = deliver(inputs, tmp_path / "dist")
    header = (package_toy.TOY / "libtorch_app.h").read_text()
    rules = shared_library_rules(
        delivered.manifest,
        LIBRARY,
        header,
        c_library=tools.driver.c_library,
        holds_cxx_library=tools.driver.links_cxx_library,
    )
    elf.check(delivered.shared_library, rules)
    packages = aar.pack([read_delivery(delivered.folder)], tmp_path / "packages", {})
    assert packages[0].name.startswith("toy-libtorch-1.2.0")
    assert "NOT-FOR-RELEASE" not in packages[0].name


def called(ndk: Path, folder: Path) -> str:
    """How the recorded clang compiled the API and linked it all."""
    lines = (ndk.parent / "log").read_text().splitlines()
    places = {"state": folder / "state", "ours": toy.ROOT}
    shown = [toy.shown(ast.literal_eval(line), places) for line in lines if str(folder) in line]
    return f"{shown[0]}\n{shown[-1]}\n"


@pytest.mark.parametrize("abi", ["android-arm64-v8a", "android-x86_64"])
def test_an_ndk_links_a_library_that_add_ons_extend(abi: str, ndk: Path, tmp_path: Path) -> None:
    """Twice, by its clang; with the C API and what the virtual machine calls."""
    tools = toy.with_ndk(ndk, toy.with_users_zig(tmp_path / "cache"), abi)
    symbols = ("_Z8registryv", "_Z9unreachedv")
    library = build(tmp_path, tools, symbols)
    header = (package_toy.TOY / "libtorch_app.h").read_text()
    mine = api_functions(header) | {"JNI_OnLoad"}
    assert elf.exported_symbols(library) - mine == {exported_name("toy", symbols[0])}


def runtime_of(exported: tuple[str, ...]) -> Runtime:
    """A runtime in which one unit has these symbols, and another one refers to them."""
    nobody: tuple[str, ...] = ()
    nodes = {"user": (GUARD, 8, exported), **dict.fromkeys(exported, (CORE, 8, nobody))}
    return toy_runtime(index=make_index(nodes, registrations=(), initialisers={}))


def build(folder: Path, tools: ResolvedToolchain, exported: tuple[str, ...] = ()) -> Path:
    """The toy's library, compiled and linked by ninja with the flags of real variants.

    exported: symbols that it exports for add-ons
    """
    (folder / "entry.cpp").write_text(ENTRY)
    compiles = {name: _compile(tools.abi, name) for name in ("api", "core", "registrations")}
    entry = replace(_compile(tools.abi, "entry"), source="$cache/../entry.cpp")
    objects: Any = SimpleNamespace(
        plan=SimpleNamespace(
            spec=SimpleNamespace(
                abi=tools.abi, system="android", lto=False, extensible=bool(exported)
            ),
            whole=(),
            on_demand=(),
        ),
        runtime_library=(),
        cxx_library=(),
        registrations=(compiles["registrations"],),
        native=(compiles["api"],),
        java=(entry,),
        kernels=(),
        whole=(compiles["api"].object, compiles["registrations"].object),
        on_demand=(compiles["core"].object,),
        fastest_first=tuple(compiles[name].object for name in ("api", "registrations", "core")),
    )
    here = toy_invocation(folder / "workspace", found={tools.abi: tools})
    prepared = here.prepare(runtime_of(exported), [tools.abi])
    links = variant_links(prepared, "toy", objects)
    everything = {c.object: c for c in (*compiles.values(), entry)}
    cache = folder / "objects"
    native = toy.ROOT / "orchestrator/native"
    folders = {
        **{"cache": str(cache), "state": str(folder / "state"), "native": str(native)},
        "toy": str(package_toy.TOY),
    }
    text = ninja_text(
        ActionGraph(everything, links.all),
        folders=folders,
        toolchains={
            tools.abi: {
                "cxx": str(tools.cxx),
                "cc": str(tools.cc),
                "ar": str(tools.ar),
                "link": tools.link_flags,
            }
        },
        present=(),
        python=sys.executable,
    )
    if exported:
        script = Path(links.shared.inputs[0].replace("$cache", str(cache)))
        script.parent.mkdir(parents=True)
        script.write_text(extensible_script(prepared.runtime, "toy", objects.plan.spec))
    (folder / "build.ninja").write_text(text)
    write_lists(links.all, folders)
    done = subprocess.run(
        [Path(ninja.BIN_DIR) / "ninja", "-j1", "-v", "-f", folder / "build.ninja"],
        env={
            **compiler_environment(load_workspace(toy.ROOT, os.environ).cache, os.environ),
            RUN: "run",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return Path(links.shared.output.replace("$state", str(folder / "state")))


def _compile(abi: str, name: str) -> Compile:
    return Compile(
        unit=name,
        source=f"$toy/{name}.cpp",
        language="c++",
        abi=abi,
        flags=FLAGS,
        projection=None,
        fingerprint=text_digest(f"{abi} {name}"),
        cost=1.0,
    )


@pytest.mark.parametrize(
    ("api", "flags"),
    [
        (21, ()),
        (23, ("-Wl,--pack-dyn-relocs=android",)),
        (28, ("-Wl,--pack-dyn-relocs=android+relr", "-Wl,--use-android-relr-tags")),
        (30, ("-Wl,--pack-dyn-relocs=android+relr",)),
    ],
)
def test_relocations_are_packed_as_the_least_system_reads_them(
    api: int, flags: tuple[str, ...]
) -> None:
    assert packed_relocations(api) == flags
