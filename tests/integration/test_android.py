"""A whole variant for Android without an NDK: compiled, linked, compared, packed, not released."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from elftools.elf.elffile import ELFFile
from real import orchestrator, workspace_copy

from orchestrator.binary.elf_symbols import defined_symbols, needed_libraries
from orchestrator.build.delivering.compare import unregistered
from orchestrator.build.planning.plan import Variant, plan_variants
from orchestrator.build.workshop.invocation import Invocation, load
from orchestrator.compilers.resolve import compiler_environment
from orchestrator.context import Context
from orchestrator.execute.ninja_file import Tools, ninja_text
from orchestrator.execute.ninja_run import ninja_binary
from orchestrator.load.workspace import load_workspace
from orchestrator.plan.graph import action_graph
from orchestrator.values.labels import VariantLabel
from orchestrator.verify.structural import Structure, differences, structure_of

ABI = "android-arm64-v8a"
ARMV7 = "android-armeabi-v7a"
HOST = "linux-x86_64"
REGISTERING = ("CPUGuardImpl.cpp", "promoted_prim_ops.cpp", "registrations.cpp")
# on 1.13.1 and on 2.6.0
APPS = (pytest.param("camera", marks=pytest.mark.ci_only), "keyboard")
WITHOUT_NDK = {"ANDROID_NDK_HOME": "", "ANDROID_NDK_ROOT": ""}


@pytest.fixture(scope="module", params=APPS)
def app(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def workspace(app: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return workspace_for(tmp_path_factory.mktemp("android"), app, HOST, ABI)


@pytest.fixture(scope="module")
def report(workspace: Path) -> dict[str, dict[str, object]]:
    return built(workspace)


def workspace_for(folder: Path, app: str, *abis: str) -> Path:
    """A workspace with one app, for these ABIs."""
    root = workspace_copy(folder, app)
    path = root / "apps" / app / "app.yaml"
    config = yaml.safe_load(path.read_text())
    config["targets"] = list(abis)
    config["budgets"] = {}
    path.write_text(yaml.safe_dump(config))
    return root


def built(workspace: Path) -> dict[str, dict[str, object]]:
    """By ABI what the report of a build without an NDK says."""
    ran = orchestrator("build", "//...", "--json", "--quiet", cwd=workspace, **WITHOUT_NDK)
    assert ran.code == 0, ran.err
    return {variant["abi"]: variant for variant in json.loads(ran.out)["variants"]}


def test_it_is_not_run_here_but_made_as_what_ran(report: dict[str, dict[str, object]]) -> None:
    told = {key: report[ABI][key] for key in ("verified", "made_as", "for_release")}
    assert told == {"verified": "not run here", "made_as": HOST, "for_release": False}
    assert report[HOST]["verified"] == "ok"


@pytest.mark.usefixtures("report")
def test_the_library_is_androids(app: str, workspace: Path) -> None:
    folder = workspace / "dist" / app / ABI
    library = folder / f"lib/lib{app}_torch.so"
    with library.open("rb") as file:
        read = ELFFile(file)
        assert read["e_machine"] == "EM_AARCH64"
        assert {s["p_align"] for s in read.iter_segments("PT_LOAD")} == {0x4000}
        # packed as bionic reads them from API level 23 on
        packed = read.get_section_by_name(".rela.dyn")
        assert packed is not None
        assert packed.data()[:4] == b"APS2"
    assert {"libc.so", "liblog.so"} <= set(needed_libraries(library))
    symbols = defined_symbols(folder / f"symbols/lib{app}_torch.so.debug")
    assert any("NSt6__ndk1" in name for name in symbols)
    assert not any("NSt3__1" in name for name in symbols)


@pytest.mark.ci_only
def test_of_32_bits_too(tmp_path: Path) -> None:
    """armv7 has kernels, dispatch tables and relocations of its own: the whole app is linked."""
    root = workspace_for(tmp_path, "camera", HOST, ARMV7)
    row = built(root)[ARMV7]
    assert (row["verified"], row["made_as"]) == ("not run here", HOST)
    library = root / "dist/camera" / ARMV7 / "lib/libcamera_torch.so"
    with library.open("rb") as file:
        read = ELFFile(file)
        assert (read["e_machine"], read.elfclass) == ("EM_ARM", 32)
        # EF_ARM_EABI_VER5 (ELF for the Arm Architecture, 5.2)
        assert read["e_flags"] & 0xFF000000 == 0x05000000
    assert {"libc.so", "liblog.so"} <= set(needed_libraries(library))


@pytest.mark.usefixtures("report")
def test_it_must_not_be_released(app: str, workspace: Path) -> None:
    manifest = json.loads((workspace / "dist" / app / ABI / "manifest.json").read_text())
    assert manifest["for_release"] is False
    assert manifest["toolchain"]["android"] == {"api": 24, "ndk": None, "stl": "c++_static"}
    packages = [path.name for path in (workspace / "dist" / app / "packages").glob("*.aar")]
    assert packages
    assert all("NOT-FOR-RELEASE" in name for name in packages)


def test_a_release_is_refused_before_anything_is_compiled(app: str, workspace: Path) -> None:
    ran = orchestrator("build", f"//apps/{app}", "--release", cwd=workspace, **WITHOUT_NDK)
    assert (ran.code, ran.out) == (1, "")
    assert (
        ran.err
        == f"""\
toolchains/android-arm64-v8a.yaml: error: //apps/{app}:android-arm64-v8a must not be released
  expected: an Android NDK
  seen:     neither ANDROID_NDK_HOME nor ANDROID_NDK_ROOT is set, so the stub sysroot is used
  do:       set ANDROID_NDK_HOME to the folder of an NDK, or build without --release
"""
    )


@pytest.mark.usefixtures("report")
def test_a_link_without_a_registering_object_is_found(
    app: str, workspace: Path, tmp_path: Path
) -> None:
    """Linked once more by hand, without the object that registers the CPU's device guard."""
    here = loaded(workspace)
    ran, seen = plan_variants(here, [VariantLabel(app, HOST), VariantLabel(app, ABI)])
    whole = structure(here, ran)
    library = Path(here.runtimes.fill(seen.links.all[0].output))
    assert differences(whole, structure(here, seen, library)) == ()
    dropped = next(c for c in seen.objects.plan.whole if c.unit.endswith("CPUGuardImpl.cpp"))
    argv = link_command(here, seen, tmp_path)
    argv.remove(here.runtimes.fill(dropped.object))
    argv[argv.index("-o") + 1] = str(tmp_path / "lesser.so")
    env = compiler_environment(here.context.cache, os.environ)
    subprocess.run(argv, env=env, cwd=workspace, check=True)
    assert differences(whole, structure(here, seen, tmp_path / "lesser.so")) == (
        "1 missing initialisers: CPUGuardImpl.cpp",
    )


def loaded(workspace: Path) -> Invocation:
    env = {**os.environ, **WITHOUT_NDK}
    context = Context(
        root=workspace,
        cache=load_workspace(workspace, env).cache,
        state=workspace / ".orchestrator",
        dist=workspace / "dist",
        env=env,
    )
    return load(context, lambda line: None)


def structure(here: Invocation, variant: Variant, library: Path | None = None) -> Structure:
    path = library or Path(here.runtimes.fill(variant.links.all[0].output))
    return replace(
        structure_of(
            defined_symbols(path),
            path.read_bytes(),
            registering=REGISTERING,
            dtypes={},
            direct=unregistered(variant.objects),
        ),
        dtypes={
            c.unit: c.projection for c in variant.objects.plan.compiles if c.projection is not None
        },
    )


def link_command(here: Invocation, variant: Variant, folder: Path) -> list[str]:
    """The compiler's part of what ninja runs to link a library that is not in the cache."""
    toolchain, graph = here.toolchains.of(ABI), action_graph([variant.objects], variant.links.all)
    programs: Tools = {
        "cxx": str(toolchain.cxx),
        "cc": str(toolchain.cc),
        "ar": str(toolchain.ar),
        "link": toolchain.link_flags,
    }
    build = folder / "build.ninja"
    build.write_text(
        ninja_text(
            graph,
            folders=here.runtimes.folders,
            toolchains={ABI: programs},
            present=graph.compiles,
        )
    )
    library = here.runtimes.fill(variant.links.all[0].output)
    argv = [ninja_binary(), "-f", str(build), "-t", "commands", "-s", library]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    return shlex.split(done.stdout.partition(" && ")[0].replace("$$", "x"))
