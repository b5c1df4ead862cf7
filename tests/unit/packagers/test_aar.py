"""AARs of delivered folders: what is in them, what is refused, and that C and C++ code can link."""

from __future__ import annotations

import hashlib
import io
import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import package_toy as toy
import pytest
from golden_files import Golden
from guide import listed
from zig_tool import zig, zig_environment

from orchestrator.binary.elf import (
    ForeignLibraryError,
    WrongExportsError,
)
from orchestrator.binary.elf_pages import SmallAlignmentError
from orchestrator.deliver.delivered import read_delivery
from orchestrator.deliver.files import EPOCH, ForeignFileError, files_below
from orchestrator.deliver.headers import HeaderFile
from orchestrator.deliver.manifest import AndroidFact, ToolchainFact
from orchestrator.deliver.variant import DeliverInputs, deliver
from orchestrator.errors import OrchestratorError
from orchestrator.packagers import aar
from orchestrator.packagers.aar_java import (
    JavaCompileError,
    JavaCompiler,
    compile_java,
    find_java_compiler,
    java_package,
    java_sources,
)
from orchestrator.values.config.toolchain import Processor

GOLDEN = toy.GOLDEN / "aar"
ABIS = ("arm64-v8a", "armeabi-v7a", "x86_64")
PAGES = "-Wl,-z,max-page-size=16384"
# Android's library: the toy's C API, and what the virtual machine calls.
LIBRARY = """
#include "libtorch_app.h"
int lta_add(int left, int right) { return left + right; }
const char *lta_version(void) { return "toy 1"; }
__attribute__((visibility("default"))) int JNI_OnLoad(void *vm, void *reserved);
int JNI_OnLoad(void *vm, void *reserved) { (void)vm, (void)reserved; return 0x10006; }
"""
ARCHITECTURES: Mapping[str, tuple[Processor, str]] = {
    "android-arm64-v8a": ("arm64", "aarch64-linux-musl"),
    "android-armeabi-v7a": ("armv7", "arm-linux-musleabihf"),
    "android-x86_64": ("x86_64", toy.TARGET),
}


def library(
    folder: Path, abi: str, *link: str, text: str = LIBRARY, flags: tuple[str, ...] = ("-fPIC",)
) -> Path:
    """A library for an Android ABI that needs no other; quick for any processor."""
    target = ARCHITECTURES[abi][1]
    source, unit, out = folder / "library.c", folder / "library.o", folder / "libtoy_torch.so"
    source.write_text(text)
    common = ("-g0", "-Os", "-fno-sanitize=all", "-fvisibility=hidden", f"-I{toy.TOY}")
    zig("cc", "-target", target, *common, *flags, "-c", source, "-o", unit)
    zig(
        *("cc", "-target", target, "-shared", "-nostdlib", "-Wl,-soname,libtoy_torch.so"),
        toy.PLACEHOLDER,
        *(link or (PAGES,)),
        *(unit, "-o", out),
    )
    return out


def inputs(folder: Path, abi: str, *link: str, **more: object) -> DeliverInputs:
    """A delivery for an Android ABI."""
    folder.mkdir(parents=True)
    for name in ("whole.a", "core.a"):
        (folder / name).write_bytes(b"!<arch>\n")
    found = library(folder, abi, *link, **more)  # type: ignore[arg-type]
    made = toy.inputs(folder, found, folder / "whole.a", folder / "core.a")
    return replace(
        made,
        abi=abi,
        system="android",
        processor=ARCHITECTURES[abi][0],
        toolchain=ToolchainFact(
            compiler="ndk",
            version="26.3.11579264",
            identity="ef" * 32,
            cxx_library="libc++",
            android=AndroidFact(api=24, ndk=26, stl="c++_static"),
        ),
    )


@pytest.fixture(scope="module")
def variants(tmp_path_factory: pytest.TempPathFactory) -> list[DeliverInputs]:
    folder = tmp_path_factory.mktemp("variants")
    return [inputs(folder / abi, abi) for abi in ARCHITECTURES]


def packed(
    variants: list[DeliverInputs], folder: Path, env: Mapping[str, str] = os.environ
) -> tuple[Path, ...]:
    folders = [deliver(variant, folder / "dist").folder for variant in variants]
    return aar.pack([*map(read_delivery, folders)], folder / "dist/toy/packages", env)


@pytest.fixture(scope="module")
def usual(
    variants: list[DeliverInputs], tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, ...]:
    """The packages of all variants, to be read."""
    return packed(variants, tmp_path_factory.mktemp("usual"))


def contents(path: Path) -> dict[str, bytes]:
    """Of a file, or of a folder's files by their paths."""
    if path.is_file():
        return {"": path.read_bytes()}
    return {name: (path / name).read_bytes() for name in files_below(path)}


def members(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        return {name: archive.read(name) for name in archive.namelist()}


def test_what_an_aar_holds(usual: tuple[Path, ...], golden: Golden) -> None:
    main, sources, symbols, maven = usual
    assert maven.name == "maven"
    assert [path.name for path in (main, sources, symbols)] == [
        "toy-libtorch-1.2.0.aar",
        "toy-libtorch-1.2.0-sources.jar",
        "toy-libtorch-1.2.0-native-debug-symbols.zip",
    ]
    held = members(main)
    golden(GOLDEN / "names.txt", "".join(f"{name}\n" for name in held))
    for name in (
        "AndroidManifest.xml",
        "proguard.txt",
        "prefab/modules/toy_torch_core/include/toy_libtorch-static.cmake",
    ):
        golden(GOLDEN / Path(name).name, held[name].decode())
    assert held["R.txt"] == b""
    dist = main.parents[1] / "android-arm64-v8a"
    assert held["jni/arm64-v8a/libtoy_torch.so"] == (dist / "lib/libtoy_torch.so").read_bytes()
    manifest = held["META-INF/toy_libtorch/arm64-v8a/manifest.json"]
    assert manifest == (dist / "manifest.json").read_bytes()
    assert list(members(symbols)) == [
        f"{abi}/libtoy_torch.so.dbg" for abi in ("arm64-v8a", "armeabi-v7a", "x86_64")
    ]
    assert {name: text.decode() for name, text in members(sources).items()} == {
        file.path: file.content.decode()
        for file in java_sources("toy", "toy_torch", ABIS)
        if isinstance(file.content, bytes)
    }


def test_the_android_manifest(usual: tuple[Path, ...]) -> None:
    held = members(usual[0])
    root = ElementTree.fromstring(held["AndroidManifest.xml"])
    android = "{http://schemas.android.com/apk/res/android}"
    assert (root.tag, root.attrib) == ("manifest", {"package": "libtorch.toy"})
    assert [(child.tag, child.attrib) for child in root] == [
        ("uses-sdk", {f"{android}minSdkVersion": "24"})
    ]


def test_prefab_modules(usual: tuple[Path, ...]) -> None:
    held = members(usual[0])
    texts = {
        name: json.loads(text)
        for name, text in held.items()
        if name.startswith("prefab/") and name.endswith(".json") and "arm" not in name
    }
    module, libs = "prefab/modules/toy_torch", "libs/android.x86_64/abi.json"
    common = {"abi": "x86_64", "api": 24, "ndk": 26}
    assert texts == {
        "prefab/prefab.json": {
            "schema_version": 2,
            "name": "toy_libtorch",
            "version": "1.2.0",
            "dependencies": [],
        },
        f"{module}/module.json": {"export_libraries": [], "library_name": "libtoy_torch"},
        f"{module}_core/module.json": {
            "export_libraries": [],
            "library_name": "libtoy_torch_core",
        },
        f"{module}_registrations/module.json": {
            "export_libraries": [":toy_torch_core"],
            "library_name": "libtoy_torch_registrations",
        },
        f"{module}/{libs}": {**common, "stl": "none", "static": False},
        f"{module}_core/{libs}": {**common, "stl": "c++_static", "static": True},
        f"{module}_registrations/{libs}": {**common, "stl": "c++_static", "static": True},
    }


def test_a_header_that_differs_lies_beside_the_libraries(
    variants: list[DeliverInputs], tmp_path: Path
) -> None:
    other = tmp_path / "core.h"
    other.write_text("// another one\n")
    differing = replace(variants[0], headers=(HeaderFile(str(other), "toy/core.h"),))
    held = members(packed([differing, variants[2]], tmp_path)[0])
    module = "prefab/modules/toy_torch_core"
    assert not [name for name in held if name.startswith(f"{module}/include/")]
    assert held[f"{module}/libs/android.arm64-v8a/include/toy/core.h"] == b"// another one\n"
    assert f"{module}/libs/android.x86_64/include/libtorch_app.h" in held


def test_classes_are_of_java_8_and_of_the_apps_own_package(usual: tuple[Path, ...]) -> None:
    held = members(usual[0])
    with zipfile.ZipFile(io.BytesIO(held["classes.jar"])) as jar:
        names = jar.namelist()
        majors = {jar.read(n)[6:8] for n in names if n.endswith(".class")}
        # the library's name is a constant: javac puts it where it is used
        assert b"toy_torch" in jar.read("libtorch/toy/Native.class")
    assert names[0] == "META-INF/MANIFEST.MF"
    assert {"libtorch/toy/Module.class", "libtorch/toy/Tensor.class"} < set(names)
    assert {name.rpartition("/")[0] for name in names[1:]} == {"libtorch/toy"}
    assert majors == {(52).to_bytes(2, "big")}
    facts = json.loads(held["META-INF/toy_libtorch/java.json"])
    assert facts["compiler"].startswith("javac ")
    assert (facts["package"], facts["release"]) == ("libtorch.toy", 8)


def test_the_classes_of_pytorch_android(variants: list[DeliverInputs], tmp_path: Path) -> None:
    """Beside the app's own, over them, and without the classes of Android's that they name."""
    main, sources, *_ = packed(
        [replace(variant, java_api="org.pytorch") for variant in variants], tmp_path
    )
    with zipfile.ZipFile(io.BytesIO(members(main)["classes.jar"])) as jar:
        names = set(jar.namelist())
        assert b"libtorch/toy/Module" in jar.read("org/pytorch/Module.class")
    assert {"libtorch/toy/Module.class", "org/pytorch/torchvision/TensorImageUtils.class"} < names
    assert not [name for name in names if name.startswith("android/")]
    texts = members(sources)
    assert b"libtorch.toy.Module" in texts["org/pytorch/Module.java"]
    assert not [name for name in texts if name.startswith("android/")]


def test_equal_deliveries_give_equal_packages(
    variants: list[DeliverInputs], usual: tuple[Path, ...], tmp_path: Path
) -> None:
    other = packed(list(reversed(variants)), tmp_path / "b/c")
    assert [path.name for path in usual] == [path.name for path in other]
    assert [contents(path) for path in usual] == [contents(path) for path in other]


def test_what_is_there_is_not_made_again(variants: list[DeliverInputs], tmp_path: Path) -> None:
    before = [path.stat().st_ino for path in packed(variants, tmp_path)]
    assert [path.stat().st_ino for path in packed(variants, tmp_path)] == before


def test_names_are_known_before_packing(
    variants: list[DeliverInputs], usual: tuple[Path, ...], tmp_path: Path
) -> None:
    manifests = [deliver(variant, tmp_path / "m").manifest for variant in variants]
    assert aar.names(manifests, os.environ) == tuple(path.name for path in usual)
    assert aar.names(manifests, {})[0] == "toy-libtorch-1.2.0-WITHOUT-JAVA.aar"
    camera = manifests[0].model_copy(update={"package_name": "camera-libtorch", "version": "1.0.0"})
    said = listed("docs/guide/use-the-aar.md", "camera-libtorch-1.0.0.aar")
    assert [*aar.names([camera], os.environ)] == [one.rstrip("/") for one in said]


def test_delivered_models_are_assets(variants: list[DeliverInputs], tmp_path: Path) -> None:
    """Once for all ABIs, and of the artifact that apps run."""
    (model,) = variants[0].models
    delivered = model.model_copy(update={"delivered": "share/toy/models/toy.ptl"})
    with_model = [
        replace(variant, models=(delivered,), model_files={"toy": b"a model"})
        for variant in variants
    ]
    main, _, _, maven = packed(with_model, tmp_path)
    path = "assets/toy_libtorch/models/toy.ptl"
    assert members(main)[path] == b"a model"
    assert (
        'open("toy_libtorch/models/toy.ptl")'
        in members(main)["META-INF/toy_libtorch/README.md"].decode()
    )
    having = {file.name for file in maven.rglob("*.aar") if path in members(file)}
    assert len(having) == 1
    assert "native" not in having.pop()


def test_one_variant_that_must_not_ship_marks_the_package(
    variants: list[DeliverInputs], tmp_path: Path
) -> None:
    shim = replace(
        variants[0],
        for_release=False,
        toolchain=variants[0].toolchain.model_copy(
            update={"android": AndroidFact(api=24, ndk=None, stl="c++_static")}
        ),
    )
    paths = packed([shim, *variants[1:]], tmp_path)
    assert all(path.name.startswith("toy-libtorch-1.2.0-NOT-FOR-RELEASE") for path in paths[:3])
    assert "libtorch/toy/toy-libtorch/1.2.0-NOT-FOR-RELEASE" in "".join(contents(paths[3]))
    held = members(paths[0])
    abi = held["prefab/modules/toy_torch/libs/android.arm64-v8a/abi.json"]
    assert json.loads(abi)["ndk"] == 0


def test_without_a_jdk_the_package_says_so(
    variants: list[DeliverInputs], usual: tuple[Path, ...], tmp_path: Path
) -> None:
    """The environment that counts is the one that was passed: this process's has a JDK."""
    main, sources, *_ = packed(variants, tmp_path, {"PATH": str(tmp_path)})
    assert main.name == "toy-libtorch-1.2.0-WITHOUT-JAVA.aar"
    held = members(main)
    with zipfile.ZipFile(io.BytesIO(held["classes.jar"])) as jar:
        assert jar.namelist() == ["META-INF/MANIFEST.MF"]
    assert json.loads(held["META-INF/toy_libtorch/java.json"]) == {
        "package": "libtorch.toy",
        "compiler": None,
        "release": 8,
        "note": "no javac was found: classes.jar is empty; compile the sources.jar",
    }
    assert members(sources) == members(usual[1])


POM = {"m": "http://maven.apache.org/POM/4.0.0"}


def resolved(maven: Path, group: str, name: str, version: str) -> dict[str, Path]:
    """What a client finds: an artifact and what its POM asks for; digests are compared."""
    folder = maven / group.replace(".", "/") / name
    versions = ElementTree.parse(folder / "maven-metadata.xml").findall(".//version")
    assert version in [one.text for one in versions]
    stem = folder / version / f"{name}-{version}"
    root = ElementTree.parse(f"{stem}.pom").getroot()

    def text(element: ElementTree.Element, key: str) -> str:
        return element.findtext(f"m:{key}", "", POM)

    own = [text(root, key) for key in ("groupId", "artifactId", "version", "packaging")]
    assert own == [group, name, version, "aar"]
    for file in folder.rglob("*"):
        if file.is_file() and file.suffix in (".md5", ".sha1", ".sha256", ".sha512"):
            digest = hashlib.new(file.suffix[1:], file.with_suffix("").read_bytes()).hexdigest()
            assert file.read_text() == digest
    found = {name: Path(f"{stem}.aar")}
    for one in root.findall("m:dependencies/m:dependency", POM):
        assert text(one, "type") == "aar"
        keys = ("groupId", "artifactId", "version")
        found |= resolved(maven, *(text(one, key) for key in keys))
    return found


def test_the_maven_repository(
    variants: list[DeliverInputs], tmp_path: Path, golden: Golden
) -> None:
    grouped = [replace(variant, maven_group="com.example") for variant in variants]
    main, sources, _, maven = packed(grouped, tmp_path)
    held = contents(maven)
    golden(GOLDEN / "maven/names.txt", "".join(f"{name}\n" for name in sorted(held)))
    for name in held:
        if name.endswith((".pom", "native/maven-metadata.xml", "README.md")):
            golden(GOLDEN / "maven" / Path(name).name, held[name].decode())
    found = resolved(maven, "com.example", "toy-libtorch-native", "1.2.0")
    assert sorted(found) == ["toy-libtorch", "toy-libtorch-native"]
    whole, java, native = map(members, (main, found["toy-libtorch"], found["toy-libtorch-native"]))
    assert (
        sources.read_bytes()
        == found["toy-libtorch"].with_name("toy-libtorch-1.2.0-sources.jar").read_bytes()
    )
    prefab = {name for name in whole if name.startswith("prefab/")}
    assert java == {name: data for name, data in whole.items() if name not in prefab}
    assert {name for name in native if name.startswith("prefab/")} == prefab
    assert not [name for name in native if name.startswith("jni/")]
    # a build refuses two modules of one namespace
    assert b'package="libtorch.toy"' in java["AndroidManifest.xml"]
    assert b'package="libtorch.toy.prefab"' in native["AndroidManifest.xml"]
    assert {(maven / name).stat().st_mtime for name in held} == {EPOCH}


def test_without_a_group_it_is_the_java_package(
    variants: list[DeliverInputs], tmp_path: Path
) -> None:
    made = replace(variants[0], package_name="toy+libtorch")
    maven = packed([made], tmp_path)[3]
    assert resolved(maven, "libtorch.toy", "toy_libtorch", "1.2.0")


def test_what_somebody_added_to_the_repository_stays(
    variants: list[DeliverInputs], tmp_path: Path
) -> None:
    maven = packed(variants, tmp_path)[3]
    (maven / "mine.txt").write_text("mine")
    with pytest.raises(ForeignFileError, match="this folder was not written by the orchestrator"):
        packed([replace(variant, version="1.2.1") for variant in variants], tmp_path)
    assert (maven / "mine.txt").read_text() == "mine"
    (maven / "mine.txt").unlink()
    packed([replace(variant, version="1.2.1") for variant in variants], tmp_path)
    assert resolved(maven, "libtorch.toy", "toy-libtorch", "1.2.1")


def test_variants_of_another_system_are_refused(tmp_path: Path) -> None:
    done = deliver(toy.quick_inputs(tmp_path / "quick"), tmp_path)
    with pytest.raises(aar.NotForAndroidError) as caught:
        aar.pack([read_delivery(done.folder)], tmp_path, {})
    assert caught.value.render() == (
        "error: linux-x86_64 is not an Android ABI\n"
        "  expected: a variant for Android, with a minimum API level\n"
        "  seen:     linux, no API level\n"
        "  do:       remove `aar` from the app's packages, or the ABI from its targets"
    )


@pytest.mark.parametrize(
    ("error", "abi", "link", "text", "seen"),
    [
        (
            SmallAlignmentError,
            "android-arm64-v8a",
            ("-Wl,-z,max-page-size=4096",),
            LIBRARY,
            "0x1000",
        ),
        (
            WrongExportsError,
            "android-arm64-v8a",
            (PAGES,),
            LIBRARY.replace("JNI_OnLoad", "JNI_OnUnload"),
            "1 missing: JNI_OnLoad; 1 too many: JNI_OnUnload",
        ),
        (
            ForeignLibraryError,
            "android-arm64-v8a",
            (PAGES, "-Wl,--no-as-needed", "OTHER"),
            LIBRARY,
            "libother.so",
        ),
    ],
)
def test_a_bad_library_is_refused(
    error: type[OrchestratorError],
    abi: str,
    link: tuple[str, ...],
    text: str,
    seen: str,
    tmp_path: Path,
) -> None:
    other = tmp_path / "libother.so"
    if "OTHER" in link:
        toy.plain_library(other, target=ARCHITECTURES[abi][1], soname="libother.so")
    words = [str(other) if word == "OTHER" else word for word in link]
    done = deliver(inputs(tmp_path / "made", abi, *words, text=text), tmp_path)
    with pytest.raises(error) as caught:
        aar.pack([read_delivery(done.folder)], tmp_path / "packages", {})
    assert caught.value.seen == seen
    assert caught.value.place is not None
    assert caught.value.place.file == str(done.folder / "lib/libtoy_torch.so")
    assert not (tmp_path / "packages").exists()


def test_four_kilobytes_are_enough_for_32_bits(tmp_path: Path) -> None:
    made = inputs(tmp_path / "a", "android-armeabi-v7a", "-Wl,-z,max-page-size=4096")
    assert len(packed([made], tmp_path)) == 4


@pytest.mark.parametrize(
    ("app", "package"),
    [
        ("camera", "libtorch.camera"),
        ("my-app", "libtorch.my_app"),
        ("my.app_2", "libtorch.my_app_2"),
        ("2cam", "libtorch.app_2cam"),
        ("new", "libtorch.new_"),
        ("Camera", "libtorch.Camera"),
    ],
)
def test_the_java_package_of_an_app(app: str, package: str) -> None:
    assert java_package(app) == package
    for file in java_sources(app, "x_torch", ABIS):
        assert isinstance(file.content, bytes)
        assert file.path.startswith(package.replace(".", "/") + "/")
        assert "libtorch.app" not in file.content.decode().replace(package, "")


def program(folder: Path, text: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "javac"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def test_where_javac_is_looked_for(tmp_path: Path) -> None:
    on_path = program(tmp_path / "path", "echo javac 17.0.1")
    at_home = program(tmp_path / "home/bin", "echo javac 21.0.2 >&2")
    broken = program(tmp_path / "stub", "echo 'No Java runtime present' >&2; exit 1")
    path = f"{on_path.parent}"
    assert find_java_compiler({"PATH": path}) == JavaCompiler(str(on_path), "javac 17.0.1")
    found = find_java_compiler({"PATH": path, "JAVA_HOME": str(tmp_path / "home")})
    assert found == JavaCompiler(str(at_home), "javac 21.0.2")
    found = find_java_compiler({"PATH": path, "JAVA_HOME": str(tmp_path / "gone")})
    assert found == JavaCompiler(str(on_path), "javac 17.0.1")
    assert find_java_compiler({"PATH": str(broken.parent)}) is None
    assert find_java_compiler({}) is None


def test_a_javac_that_is_too_old(tmp_path: Path) -> None:
    old = program(tmp_path, "echo 'error: invalid flag: --release' >&2; exit 2")
    with pytest.raises(JavaCompileError) as caught:
        compile_java(
            java_sources("toy", "toy_torch", ABIS), JavaCompiler(str(old), "javac 1.8.0_402")
        )
    assert caught.value.render() == (
        "error: the Java API does not compile\n"
        "  expected: a JDK since 9, whose javac knows --release 8\n"
        "  seen:     javac 1.8.0_402\n"
        "  do:       set JAVA_HOME to another JDK\n"
        "  | error: invalid flag: --release"
    )


# Stands in for the prefab tool, which no package registry has: it makes the same targets.
PREFAB = """
function(prefab folder abi)
  file(READ "${folder}/prefab.json" package)
  string(JSON package GET "${package}" name)
  file(GLOB modules RELATIVE "${folder}/modules" "${folder}/modules/*")
  foreach(module IN LISTS modules)
    file(READ "${folder}/modules/${module}/module.json" facts)
    string(JSON stem GET "${facts}" library_name)
    set(library "${folder}/modules/${module}/libs/android.${abi}")
    file(READ "${library}/abi.json" abi_facts)
    string(JSON static GET "${abi_facts}" static)
    if(static)
      add_library(${package}::${module} STATIC IMPORTED GLOBAL)
      set(file "${library}/${stem}.a")
    else()
      add_library(${package}::${module} SHARED IMPORTED GLOBAL)
      set(file "${library}/${stem}.so")
    endif()
    set_target_properties(${package}::${module} PROPERTIES
      IMPORTED_LOCATION "${file}"
      INTERFACE_INCLUDE_DIRECTORIES "${folder}/modules/${module}/include")
  endforeach()
endfunction()
"""
CMAKE_LISTS = """
cmake_minimum_required(VERSION 3.22)
project(consumer LANGUAGES C CXX)
include(prefab.cmake)
set(ANDROID_ABI x86_64)
prefab("${PREFAB}" ${ANDROID_ABI})
add_executable(c_api c_api.c)
target_link_libraries(c_api PRIVATE toy_libtorch::toy_torch)
get_target_property(include toy_libtorch::toy_torch_core INTERFACE_INCLUDE_DIRECTORIES)
include(${include}/toy_libtorch-static.cmake)
add_executable(cxx_api cxx_api.cpp)
target_link_libraries(cxx_api PRIVATE toy_libtorch::static)
"""
C_API = """
#include <libtorch_app.h>
int main(void) { return lta_add(20, 22) == 42 ? 0 : 1; }
"""
CXX_API = (toy.GOLDEN / "consumers/cxx_static/main.cpp").read_text()


def test_c_and_cxx_code_link_prefab_modules(tmp_path: Path) -> None:
    """The toy's real archives, in the clothes of Android: host binaries, so that they run."""
    real = toy.variant(tmp_path / "real")
    shared = inputs(tmp_path / "android", "android-x86_64")
    made = replace(
        real,
        abi=shared.abi,
        system="android",
        shared_library=shared.shared_library,
        toolchain=shared.toolchain,
    )
    main = packed([made], tmp_path)[0]
    with zipfile.ZipFile(main) as archive:
        archive.extractall(tmp_path / "aar")
    project = tmp_path / "project"
    project.mkdir()
    texts = {
        "prefab.cmake": PREFAB,
        "CMakeLists.txt": CMAKE_LISTS,
        "c_api.c": C_API,
        "cxx_api.cpp": CXX_API,
    }
    for name, text in texts.items():
        (project / name).write_text(text)
    for part in cmake_steps(project, tmp_path):
        done = subprocess.run(
            part, env=zig_environment(), capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
    assert subprocess.run([tmp_path / "build/c_api"], check=False).returncode == 0
    ran = subprocess.run([tmp_path / "build/cxx_api"], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout) == (0, "5 7 aten::add;\n")


def cmake_steps(project: Path, folder: Path) -> Iterator[list[str]]:
    tools = Path(sys.executable).parent
    cmake = str(tools / "cmake")
    zig = f"{sys.executable};-m;ziglang"
    yield [
        *(cmake, "-S", str(project), "-B", str(folder / "build"), "-G", "Ninja"),
        f"-DCMAKE_MAKE_PROGRAM={tools / 'ninja'}",
        f"-DCMAKE_C_COMPILER={zig};cc;-target;{toy.TARGET}",
        f"-DCMAKE_CXX_COMPILER={zig};c++;-target;{toy.TARGET}",
        f"-DPREFAB={folder / 'aar/prefab'}",
    ]
    yield [cmake, "--build", str(folder / "build")]
