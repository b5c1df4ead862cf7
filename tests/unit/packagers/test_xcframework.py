"""The XCFramework and the Swift package of a toy app, read as developers' tools read them."""

from __future__ import annotations

import json
import os
import plistlib
import re
import shutil
import struct
import subprocess
import zipfile
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import cmake
import ninja
import pytest
from golden_files import Golden
from guide import listed
from ios_toy import ABIS, GOLDEN, ZIG, Built, build, delivered, record_xcode, toolchain
from package_toy import TOY

from orchestrator.binary import macho
from orchestrator.binary.macho_universal import split_universal, universal
from orchestrator.compilers.resolve import compiler_environment
from orchestrator.deliver.delivered import read_delivery
from orchestrator.deliver.manifest import Manifest, read_manifest
from orchestrator.errors import OrchestratorError
from orchestrator.load.workspace import load_workspace
from orchestrator.packagers import xcframework
from orchestrator.packagers.privacy import UnexplainedCallError, accessed, privacy_manifest
from orchestrator.plan.flags import hardened

ROOT = Path(__file__).parents[3]
API = frozenset({"lta_add", "lta_version"})
NAMES = ("ToyLibtorch-1.2.0.xcframework.zip", "ToyLibtorch-1.2.0-swift.zip")
DEVICE = macho.MachoRules("ios", "arm64", "15.0", API)


@pytest.fixture(scope="module")
def toys(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Built]:
    """The toy, linked for every ABI."""
    folder = tmp_path_factory.mktemp("toys")
    return {abi: build(folder / abi, toolchain(abi, folder / "tools")) for abi in ABIS}


def deliver_all(
    folder: Path, toys: dict[str, Built], model_file: bytes | None = None
) -> list[Path]:
    return [
        delivered(folder, toolchain(abi, folder / "tools"), built, model_file)
        for abi, built in toys.items()
    ]


@pytest.fixture(scope="module")
def unpacked(toys: dict[str, Built], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with both packages, unpacked as a developer does."""
    folder = tmp_path_factory.mktemp("packed")
    for package in xcframework.pack(
        [*map(read_delivery, deliver_all(folder, toys))], folder / "packages"
    ):
        with zipfile.ZipFile(package) as archive:
            archive.extractall(folder / package.name)
    return folder


def test_the_files(unpacked: Path, golden: Golden) -> None:
    files = [
        path.relative_to(unpacked).as_posix()
        for name in NAMES
        for path in sorted((unpacked / name).rglob("*"))
        if path.is_file()
    ]
    golden(GOLDEN / "package/files.txt", "\n".join(files) + "\n")


@pytest.mark.parametrize(
    "path",
    [
        *("Info.plist", "PrivacyInfo.xcprivacy", "README.md"),
        "ios-arm64/Headers/ToyLibtorch/module.modulemap",
    ],
)
def test_the_texts(path: str, unpacked: Path, golden: Golden) -> None:
    text = (unpacked / NAMES[0] / "ToyLibtorch.xcframework" / path).read_text()
    golden(GOLDEN / "package" / Path(path).name, text)


@pytest.mark.parametrize(
    "path",
    ["Package.swift", "ToyLibtorch.podspec", "Sources/ToyLibtorchSwift/Model.swift"],
    ids=["manifest", "podspec", "source"],
)
def test_the_swift_package(path: str, unpacked: Path, golden: Golden) -> None:
    swift = unpacked / NAMES[1] / "ToyLibtorch"
    golden(GOLDEN / "package" / Path(path).name, (swift / path).read_text())
    one, other = (unpacked / NAMES[0], swift)
    same = subprocess.run(
        ["diff", "-r", one / "ToyLibtorch.xcframework", other / "ToyLibtorch.xcframework"],
        capture_output=True,
        check=False,
    )
    assert same.returncode == 0, same.stdout


def test_the_headers_and_podspec_of_libtorch_lite(
    toys: dict[str, Built], tmp_path: Path, golden: Golden
) -> None:
    deliveries = [
        replace(one, manifest=one.manifest.model_copy(update={"cxx_api": "LibTorch-Lite"}))
        for one in map(read_delivery, deliver_all(tmp_path, toys))
    ]
    framework, swift = xcframework.pack(deliveries, tmp_path / "packages")
    with zipfile.ZipFile(framework) as archive:
        folder = "ToyLibtorch.xcframework/ios-arm64/Headers/"
        names = [name for name in archive.namelist() if name.startswith(folder)]
        umbrella = archive.read(f"{folder}Libtorch-Lite/Libtorch-Lite.h")
    assert sorted(name.removeprefix(folder) for name in names) == [
        "ATen/ATen.h",
        "Libtorch-Lite/Libtorch-Lite.h",
        "Libtorch-Lite/classes.h",
        "ToyLibtorch/libtorch_app.h",
        "ToyLibtorch/module.modulemap",
        "torch/csrc/jit/mobile/import.h",
        "torch/csrc/jit/mobile/module.h",
        "torch/script.h",
        "torch/torch.h",
    ]
    assert umbrella.decode() == '#include "../ToyLibtorch/libtorch_app.h"\n#include "classes.h"\n'
    with zipfile.ZipFile(swift) as archive:
        podspec = archive.read("ToyLibtorch/LibTorch-Lite.podspec").decode()
    golden(GOLDEN / "package/LibTorch-Lite.podspec", podspec)


def test_info_plist_is_what_xcodebuild_writes(unpacked: Path) -> None:
    inside = unpacked / NAMES[0] / "ToyLibtorch.xcframework"
    info = plistlib.loads((inside / "Info.plist").read_bytes())
    assert {key: info[key] for key in ("CFBundlePackageType", "XCFrameworkFormatVersion")} == {
        "CFBundlePackageType": "XFWK",
        "XCFrameworkFormatVersion": "1.0",
    }
    for library in info["AvailableLibraries"]:
        folder = inside / library["LibraryIdentifier"]
        assert (folder / library["HeadersPath"]).is_dir()
        parts = split_universal((folder / library["LibraryPath"]).read_bytes())
        assert sorted(parts or ["arm64"]) == library["SupportedArchitectures"]


def test_every_slice_is_for_what_it_says(unpacked: Path, tmp_path: Path) -> None:
    inside = unpacked / NAMES[0] / "ToyLibtorch.xcframework"
    macho.check(inside / "ios-arm64/libtoy_torch.a", DEVICE)
    fat = (inside / "ios-arm64_x86_64-simulator/libtoy_torch.a").read_bytes()
    for processor, content in split_universal(fat).items():
        thin = tmp_path / f"{processor}.a"
        thin.write_bytes(content)
        macho.check(thin, macho.MachoRules("ios-simulator", processor, "15.0", API))


def test_the_manifests_of_all_variants_are_in_it(unpacked: Path) -> None:
    inside = unpacked / NAMES[0] / "ToyLibtorch.xcframework"
    whole = json.loads((inside / "manifest.json").read_text())
    assert sorted(whole["variants"]) == sorted(ABIS)
    bill = json.loads((inside / "sbom.cdx.json").read_text())
    (abis,) = [
        one["value"]
        for one in bill["metadata"]["component"]["properties"]
        if one["name"] == "libtorch:abi"
    ]
    assert abis == "ios-arm64 ios-simulator-arm64 ios-simulator-x86_64"
    told = {
        one["name"]: one["hashes"][0]["content"]
        for one in bill["metadata"]["component"]["components"]
    }
    libraries = ("ios-arm64/libtoy_torch.a", "ios-arm64_x86_64-simulator/libtoy_torch.a")
    assert told == {name: sha256((inside / name).read_bytes()).hexdigest() for name in libraries}


def test_delivered_models_are_resources(toys: dict[str, Built], tmp_path: Path) -> None:
    plain, swift = xcframework.pack(
        [*map(read_delivery, deliver_all(tmp_path, toys, b"a model"))], tmp_path / "packages"
    )
    with zipfile.ZipFile(plain) as archive:
        assert archive.read("ToyLibtorch.xcframework/Models/toy.ptl") == b"a model"
        readme = archive.read("ToyLibtorch.xcframework/README.md").decode()
    assert '`try Model(named: "toy")`' in readme
    sources = "ToyLibtorch/Sources/ToyLibtorchSwift"
    with zipfile.ZipFile(swift) as archive:
        assert archive.read(f"{sources}/Models/toy.ptl") == b"a model"
        package = archive.read("ToyLibtorch/Package.swift").decode()
        podspec = archive.read("ToyLibtorch/ToyLibtorch.podspec").decode()
        assert "convenience init(named name" in archive.read(f"{sources}/Delivered.swift").decode()
    assert 'resources: [.copy("PrivacyInfo.xcprivacy"), .copy("Models")],' in package
    assert '\n  s.resources = "Sources/ToyLibtorchSwift/Models"\n' in podspec


def test_two_folders_give_the_same_bytes(toys: dict[str, Built], tmp_path: Path) -> None:
    elsewhere = tmp_path / "the other, elsewhere"
    again = {abi: build(elsewhere / abi, toolchain(abi, elsewhere / "tools")) for abi in ABIS}
    seen = []
    for folder, built in ((tmp_path / "one", toys), (elsewhere, again)):
        packages = xcframework.pack(
            [*map(read_delivery, deliver_all(folder, built))], folder / "packages"
        )
        seen.append({package.name: package.read_bytes() for package in packages})
    assert seen[0] == seen[1]
    assert tuple(seen[0]) == NAMES


def test_a_package_that_is_there_is_not_written_again(
    toys: dict[str, Built], tmp_path: Path
) -> None:
    folders = deliver_all(tmp_path, toys)
    first = [
        p.stat().st_mtime_ns
        for p in xcframework.pack([*map(read_delivery, folders)], tmp_path / "packages")
    ]
    assert [
        p.stat().st_mtime_ns
        for p in xcframework.pack([*map(read_delivery, folders)], tmp_path / "packages")
    ] == first


def test_the_whole_way_with_xcode(toys: dict[str, Built], tmp_path: Path) -> None:
    """From `xcrun` to the package; apart from who compiled, it is the one of zig's objects."""
    env = record_xcode(tmp_path / "xcode")
    folders = []
    for abi in ABIS:
        tools = toolchain(abi, tmp_path / "tools", env)
        folders.append(delivered(tmp_path, tools, build(tmp_path / abi, tools)))
    archive, _ = xcframework.pack([*map(read_delivery, folders)], tmp_path / "packages")
    with zipfile.ZipFile(archive) as package:
        readme = package.read("ToyLibtorch.xcframework/README.md").decode()
    zigs = (GOLDEN / "package/README.md").read_text()
    assert readme == zigs.replace("Compiled by zig 0.17.0.", "Compiled by xcode 16.2.")


# --- what is refused ---


def refused(library: Path, rules: macho.MachoRules) -> str:
    with pytest.raises(OrchestratorError) as caught:
        macho.check(library, rules)
    text = caught.value.render().replace(str(library.parent), "<folder>")
    # objects are named by their content
    return re.sub(r"\([0-9a-f]{64}\.o\)", "(<digest>.o)", text)


def test_a_simulator_object_among_the_devices(toys: dict[str, Built], tmp_path: Path) -> None:
    device, simulator = (toys[abi].folder / "toy_torch_joined.o" for abi in ABIS[:2])
    shutil.copy(device, tmp_path / "device.o")
    shutil.copy(simulator, tmp_path / "simulator.o")
    library = archive(tmp_path, "device.o", "simulator.o")
    assert refused(library, DEVICE) == (
        "<folder>/libmixed.a(simulator.o): error: an object is for another platform\n"
        "  expected: ios\n"
        "  seen:     ios-simulator"
    )


def test_another_processor(toys: dict[str, Built]) -> None:
    rules = macho.MachoRules("ios-simulator", "arm64", "15.0", API)
    assert refused(toys["ios-simulator-x86_64"].library, rules) == (
        "<folder>/libtoy_torch.a(<digest>.o): error: an object is for another processor\n"
        "  expected: arm64\n"
        "  seen:     x86_64"
    )


def test_another_least_version(toys: dict[str, Built]) -> None:
    rules = macho.MachoRules("ios", "arm64", "16.4", API)
    assert refused(toys["ios-arm64"].library, rules) == (
        "<folder>/libtoy_torch.a(<digest>.o): error: an object has another minimum version"
        " of iOS\n"
        "  expected: 16.4\n"
        "  seen:     15.0"
    )


def test_type_information_of_built_in_types_is_no_export(tmp_path: Path) -> None:
    """Real objects for x86-64: what camera's type-erased functions leave in them, and a class."""
    tools = toolchain("ios-simulator-x86_64", tmp_path / "tools")
    rules = macho.MachoRules("ios-simulator", "x86_64", "15.0", frozenset())
    for name, type_, exported in (
        ("built_in", "void (*)(void*)", {"__ZTSPFvPvE"}),
        ("own", "void (*)(Own*)", {"__ZTSPFvP3OwnE"}),
    ):
        (tmp_path / f"{name}.cpp").write_text(
            "#include <typeinfo>\n"
            'struct __attribute__((visibility("default"))) Own { virtual ~Own(); };\n'
            f'extern "C" const char* lta_name() {{ return typeid({type_}).name(); }}\n'
        )
        argv = [str(tools.cxx), *tools.compile_flags, "-fvisibility=hidden", "-c", f"{name}.cpp"]
        env = compiler_environment(load_workspace(ROOT, os.environ).cache, os.environ)
        subprocess.run([*argv, "-o", f"{name}.o"], cwd=tmp_path, env=env, check=True)
        library = archive(tmp_path, f"{name}.o")
        (member,) = macho.read_archive(library)
        assert exported <= member.exported
        if name == "built_in":
            macho.check(library, rules)
        else:
            assert "4 too many: __ZTIFvP3OwnE, __ZTIPFvP3OwnE, " in refused(library, rules)
        library.unlink()


@pytest.mark.parametrize("flag", [*hardened((), "ios"), "-fno-stack-protector"])
def test_functions_that_guard_their_stack(flag: str, tmp_path: Path) -> None:
    """With our flags for iOS, and with a toolchain's that takes them back."""
    tools = toolchain("ios-arm64", tmp_path / "tools")
    (tmp_path / "array.c").write_text(
        '__attribute__((visibility("default"))) char lta_add(void (*fill)(char*)) {\n'
        "  char array[32];\n  fill(array);\n  return array[3];\n}\n"
    )
    argv = [str(tools.cc), *tools.compile_flags, "-Oz", flag, "-MD", "-MF", "array.d", "-c"]
    env = compiler_environment(load_workspace(ROOT, os.environ).cache, os.environ)
    subprocess.run([*argv, "array.c", "-o", "array.o"], cwd=tmp_path, env=env, check=True)
    library = archive(tmp_path, "array.o")
    rules = macho.MachoRules("ios", "arm64", "15.0", frozenset({"lta_add"}), canaries=True)
    if flag == "-fstack-protector":
        macho.check(library, rules)
        return
    assert refused(library, rules) == (
        "<folder>/libmixed.a: error: the library's functions have no stack protectors\n"
        "  expected: a reference to ___stack_chk_fail\n"
        "  seen:     none\n"
        "  do:       a toolchain without it says so: `compile_flags: [-fno-stack-protector]`"
    )


def test_more_or_less_than_the_api(toys: dict[str, Built]) -> None:
    rules = macho.MachoRules("ios", "arm64", "15.0", frozenset({"lta_add", "lta_gone"}))
    assert refused(toys["ios-arm64"].library, rules) == (
        "<folder>/libtoy_torch.a: error: the library does not export exactly the C API\n"
        "  expected: the 2 functions of the C API\n"
        "  seen:     1 missing: _lta_gone; 1 too many: _lta_version\n"
        "  do:       check -fvisibility=hidden, and the prelink"
    )


def test_a_reference_to_code_that_was_left_out(toys: dict[str, Built], tmp_path: Path) -> None:
    objects = toys["ios-arm64"].objects
    for name in ("api", "registrations"):
        shutil.copy(objects[name], tmp_path / f"{name}.o")
    assert refused(archive(tmp_path, "api.o", "registrations.o"), DEVICE) == (
        "<folder>/libmixed.a: error: the library has undefined references\n"
        "  expected: references to the system's libraries only\n"
        "  seen:     __Z8core_addii, __Z8registryv, _lta_anchors\n"
        "  do:       the runtime index lacks references of this platform's code"
    )


@pytest.mark.parametrize(
    ("content", "seen"),
    [
        (b"\x7fELF", "a file that is not an archive"),
        (b"!<arch>\n", "an archive without members"),
        (b"!<arch>\nx", "no member at byte 8"),
        (
            b"!<arch>\n" + b"a.o/".ljust(48) + b"4".ljust(10) + b"`\nab",
            "a member that is cut off at byte 70",
        ),
        (
            b"!<arch>\n" + b"a.o".ljust(48) + b"4".ljust(10) + b"`\nabcd",
            "the member a.o, which is not a Mach-O object",
        ),
    ],
)
def test_what_is_no_archive_of_objects(content: bytes, seen: str, tmp_path: Path) -> None:
    library = tmp_path / "libx.a"
    library.write_bytes(content)
    assert refused(library, DEVICE) == (
        "<folder>/libx.a: error: this is not a static library for iOS\n"
        "  expected: an archive of Mach-O objects\n"
        f"  seen:     {seen}"
    )


def archive(folder: Path, *objects: str) -> Path:
    library = folder / "libmixed.a"
    cache = load_workspace(ROOT, os.environ).cache
    subprocess.run(
        [ZIG, "ar", "--format=darwin", "rcsD", library, *objects],
        cwd=folder,
        env=compiler_environment(cache, os.environ),
        check=True,
    )
    return library


# --- names, and variants that do not go together ---


@pytest.fixture
def manifest(unpacked: Path) -> Manifest:
    return read_manifest(unpacked / "dist/toy/ios-arm64")


def test_names(manifest: Manifest) -> None:
    assert xcframework.names([manifest]) == NAMES
    other = manifest.model_copy(update={"for_release": False, "package_name": "photo.9-ml"})
    assert xcframework.names([other]) == (
        "Photo9Ml-1.2.0-NOT-FOR-RELEASE.xcframework.zip",
        "Photo9Ml-1.2.0-NOT-FOR-RELEASE-swift.zip",
    )
    digits = manifest.model_copy(update={"package_name": "9lives"})
    assert xcframework.module_name(digits) == "Lib9lives"
    camera = manifest.model_copy(update={"package_name": "camera-libtorch", "version": "0.1.0"})
    said = listed("docs/guide/use-the-xcframework.md", "CameraLibtorch-0.1.0")
    assert [*xcframework.names([camera])] == said


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"version": "1.3.0"}, "the variants come from different builds"),
        ({"fingerprint": "other"}, "the variants come from different builds"),
        ({"abi": "ios-arm64e"}, "two variants are for ios on arm64"),
    ],
)
def test_variants_that_do_not_go_together(
    change: dict[str, object], expected: str, manifest: Manifest
) -> None:
    other = manifest.model_copy(update=change)
    with pytest.raises(xcframework.MixedVariantsError, match=expected):
        xcframework.names([manifest, other])


def test_a_variant_of_another_system(manifest: Manifest) -> None:
    fact = manifest.toolchain.model_copy(update={"target": "x86_64-linux-gnu.2.28"})
    with pytest.raises(xcframework.MixedVariantsError) as caught:
        xcframework.minimum_of(manifest.model_copy(update={"toolchain": fact}))
    assert caught.value.seen == "x86_64-linux-gnu.2.28"


# --- universal files, privacy ---


def test_universal_files() -> None:
    parts = {"arm64": b"a" * 9, "x86_64": b"x" * 5}
    data = universal(parts)
    # magic, two parts; x86_64 first, as lipo does
    assert struct.unpack_from(">IIII", data) == (0xCAFEBABE, 2, 0x01000007, 3)
    assert split_universal(data) == parts
    assert universal(dict(reversed(parts.items()))) == data
    assert universal({"arm64": b"alone"}) == b"alone"
    assert split_universal(b"alone") == {}


def test_reasons_for_what_the_library_calls() -> None:
    assert accessed(["_fstat$INODE64", "_mach_absolute_time", "_malloc"]) == {
        "NSPrivacyAccessedAPICategoryFileTimestamp": ("C617.1",),
        "NSPrivacyAccessedAPICategorySystemBootTime": ("35F9.1",),
    }
    manifest = plistlib.loads(privacy_manifest(["_stat"]))
    assert manifest["NSPrivacyTracking"] is False
    assert manifest["NSPrivacyAccessedAPITypes"] == [
        {
            "NSPrivacyAccessedAPIType": "NSPrivacyAccessedAPICategoryFileTimestamp",
            "NSPrivacyAccessedAPITypeReasons": ["C617.1"],
        }
    ]
    with pytest.raises(
        UnexplainedCallError, match="a function for which Apple requires a declared reason"
    ):
        accessed(["_statfs"])


# --- CMake, as a consumer ---

_PLUTIL = """#!/usr/bin/env python3
import json, plistlib, sys
# plutil -convert json -o - <file>, as CMake calls it
with open(sys.argv[-1], "rb") as file:
    json.dump(plistlib.load(file), sys.stdout)
"""
_PROJECT = """cmake_minimum_required(VERSION 4.0)
project(consumer LANGUAGES C)
add_library(toy STATIC IMPORTED)
set_target_properties(toy PROPERTIES IMPORTED_LOCATION "{framework}")
add_executable(app app.c)
target_link_libraries(app PRIVATE toy)
"""


# CMake asks /usr/bin/plutil and no other: for this process alone, one is laid over the folder.
_WITH_PLUTIL = 'mount -t overlay overlay -o "lowerdir=$0:/usr/bin" /usr/bin && exec "$@"'


def configure(folder: Path, framework: Path, abi: str) -> subprocess.CompletedProcess[str]:
    """Configure a CMake project for iOS with a stand-in for the SDK, and for `plutil`."""
    tools = toolchain(abi, folder / "tools")
    sdk = {"ios": "iPhoneOS", "ios-simulator": "iPhoneSimulator"}[tools.config.system]
    path = folder / f"{sdk}.platform/Developer/SDKs/{sdk}.sdk"
    path.mkdir(parents=True, exist_ok=True)
    (path / "SDKSettings.json").write_text("{}")
    source, bin_folder = folder / "source", folder / "bin"
    for place in (source, bin_folder):
        place.mkdir(exist_ok=True)
    (bin_folder / "plutil").write_text(_PLUTIL)
    (bin_folder / "plutil").chmod(0o755)
    (source / "CMakeLists.txt").write_text(_PROJECT.format(framework=framework))
    (source / "app.c").write_text(
        "#include <ToyLibtorch/libtorch_app.h>\nint main(void) { return lta_add(1, 2); }\n"
    )
    cache = load_workspace(ROOT, os.environ).cache
    env = compiler_environment(cache, os.environ)
    without = not Path("/usr/bin/plutil").exists()
    argv = [
        *(("unshare", "-rm", "sh", "-c", _WITH_PLUTIL, bin_folder) if without else ()),
        *(Path(cmake.CMAKE_BIN_DIR) / "cmake", "-S", source, "-B", folder / "build", "-G", "Ninja"),
        "-DCMAKE_SYSTEM_NAME=iOS",
        f"-DCMAKE_OSX_SYSROOT={path}",
        f"-DCMAKE_OSX_ARCHITECTURES={tools.config.processor}",
        f"-DCMAKE_C_COMPILER={tools.cc}",
        *("-DCMAKE_C_COMPILER_WORKS=1", "-DCMAKE_C_ABI_COMPILED=1"),
    ]
    return subprocess.run(
        argv,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    ("abi", "identifier"),
    [
        ("ios-arm64", "ios-arm64"),
        ("ios-simulator-arm64", "ios-arm64_x86_64-simulator"),
        ("ios-simulator-x86_64", "ios-arm64_x86_64-simulator"),
    ],
)
def test_cmake_finds_the_slice(abi: str, identifier: str, unpacked: Path, tmp_path: Path) -> None:
    framework = unpacked / NAMES[0] / "ToyLibtorch.xcframework"
    done = configure(tmp_path, framework, abi)
    assert done.returncode == 0, done.stderr
    ninja_text = (tmp_path / "build/build.ninja").read_text()
    assert f"ToyLibtorch.xcframework/{identifier}/libtoy_torch.a" in ninja_text
    assert f"ToyLibtorch.xcframework/{identifier}/Headers" in ninja_text
    cache = load_workspace(ROOT, os.environ).cache
    compiled = subprocess.run(
        [Path(ninja.BIN_DIR) / "ninja", "-C", tmp_path / "build", "CMakeFiles/app.dir/app.c.o"],
        env=compiler_environment(cache, os.environ),
        capture_output=True,
        text=True,
        check=False,
    )
    assert compiled.returncode == 0, compiled.stdout


def test_cmake_refuses_a_damaged_one(unpacked: Path, tmp_path: Path) -> None:
    framework = tmp_path / "ToyLibtorch.xcframework"
    shutil.copytree(unpacked / NAMES[0] / framework.name, framework)
    info = framework / "Info.plist"
    info.write_text(info.read_text().replace("XFWK", "APPL"))
    done = configure(tmp_path, framework, "ios-arm64")
    assert done.returncode != 0
    assert "xcframework" in done.stderr


def test_the_toys_are_those_of_the_package_tests() -> None:
    assert (TOY / "libtorch_app.h").is_file()
