"""Each platform is told once, whole, and every word of a declaration has its platform."""

from __future__ import annotations

from typing import get_args

import pytest

from orchestrator.compilers.registry import COMPILERS
from orchestrator.packagers.registry import PACKAGERS
from orchestrator.platforms import PLATFORMS
from orchestrator.platforms.declared import declared_c_library
from orchestrator.platforms.linux import c_library_of
from orchestrator.platforms.platform import CLibrary, Platform, SharedLibrary
from orchestrator.values.config.app import PackageKind
from orchestrator.values.config.toolchain import (
    Compiler,
    CompilerKind,
    ObjectFormat,
    Processor,
    System,
    ToolchainConfig,
)


def missing(words: object, told: object, where: str) -> str:
    """What someone who adds a word to a declaration has to do."""
    left, extra = {*get_args(words)} - {*told}, {*told} - {*get_args(words)}  # type: ignore[misc]
    parts = [f"add {', '.join(sorted(left))} to {where}"] if left else []
    parts += [f"{where} has {', '.join(sorted(extra))}, which no file can say"] if extra else []
    return "; ".join(parts)


def test_every_system_is_told() -> None:
    assert missing(System, PLATFORMS, "orchestrator/platforms/__init__.py") == ""
    assert [platform.system for platform in PLATFORMS.values()] == [*PLATFORMS]


def test_every_kind_of_compiler_is_told() -> None:
    assert missing(CompilerKind, COMPILERS, "orchestrator/compilers/registry.py") == ""
    declared = "Compiler in values/config/toolchain.py"
    assert missing(CompilerKind, Compiler.model_fields, declared) == ""
    used = {kind for platform in PLATFORMS.values() for kind in platform.compilers}
    assert missing(CompilerKind, used, "the `compilers` of a platform") == ""


def test_every_kind_of_package_is_told() -> None:
    assert missing(PackageKind, PACKAGERS, "orchestrator/packagers/__init__.py") == ""
    used = {kind for platform in PLATFORMS.values() for kind in platform.packages}
    assert missing(PackageKind, used, "the `packages` of a platform") == ""


def test_what_a_newcomer_is_told() -> None:
    assert missing(ObjectFormat, {"elf": 1}, "the table") == "add macho to the table"
    assert missing(ObjectFormat, ["elf", "macho", "wasm"], "the table") == (
        "the table has wasm, which no file can say"
    )


@pytest.mark.parametrize("platform", PLATFORMS.values(), ids=PLATFORMS)
def test_a_platform_is_told_whole(platform: Platform) -> None:
    assert {*platform.default_packages} <= {*platform.packages}
    assert {*platform.package_needs} <= {*platform.packages}
    assert {*platform.package_needs.values()} <= {*platform.c_libraries}
    assert {*platform.processors} <= {*get_args(Processor)}
    library = platform.library
    assert (platform.format == "elf") == isinstance(library, SharedLibrary)
    if isinstance(library, SharedLibrary):
        assert {*library.system_libraries} == {*platform.c_libraries}
        assert {*library.page_sizes} == {*platform.processors}


@pytest.mark.parametrize(
    ("system", "name", "processors"),
    [
        ("linux", "Linux", {"x86_64": "x86_64", "arm64": "aarch64", "armv7": "armv7l"}),
        ("android", "Android", {"x86_64": "x86_64", "arm64": "aarch64", "armv7": "armv7-a"}),
        ("ios", "iOS", {"arm64": "arm64"}),
        ("ios-simulator", "iOS", {"x86_64": "x86_64", "arm64": "arm64"}),
    ],
)
def test_names_for_cmake(system: System, name: str, processors: dict[str, str]) -> None:
    platform = PLATFORMS[system]
    assert (platform.cmake_name, platform.cmake_processors) == (name, processors)


@pytest.mark.parametrize(
    ("system", "compiler", "c_library"),
    [
        ("linux", {"zig": {"target": "x86_64-linux-gnu.2.28"}}, "gnu"),
        ("linux", {"zig": {"target": "arm-linux-musleabihf"}}, "musl"),
        ("linux", {"command": {"cxx": "c++", "cc": "cc"}}, None),
        ("android", {"ndk": {"api": 24}}, "bionic"),
        ("ios", {"xcode": {"sdk": "iphoneos", "minimum": "15.0"}}, "libsystem"),
    ],
)
def test_the_c_library_that_a_declaration_tells(
    system: System, compiler: object, c_library: CLibrary | None
) -> None:
    declared = {
        **{"abi": "toy", "system": system, "processor": "arm64", "run": "none"},
        **{"format": PLATFORMS[system].format, "compiler": compiler},
    }
    assert declared_c_library(ToolchainConfig.model_validate(declared)) == c_library


@pytest.mark.parametrize(
    ("kind", "c_library", "possible"),
    [
        ("deb", "gnu", True),
        ("deb", "musl", False),
        ("deb", None, True),
        ("tar", "musl", True),
        ("aar", "gnu", False),
    ],
)
def test_a_package_has_a_place_for_a_c_library(
    kind: PackageKind, c_library: CLibrary | None, possible: bool
) -> None:
    assert PLATFORMS["linux"].has_package(kind, c_library) == possible


def test_no_other_platform_goes_into_a_debian_package() -> None:
    others = [platform for name, platform in PLATFORMS.items() if name != "linux"]
    assert not any(platform.has_package("deb", c_library_of("")) for platform in others)
