"""iOS toolchains: zig where there is no Xcode, Xcode as its `xcrun` tells, and what is refused."""

from __future__ import annotations

import ast
import os
import subprocess
from pathlib import Path

import pytest
from golden_files import Golden
from ios_toy import ABIS, GOLDEN, ROOT, ZIG, build, record_xcode, shown, toolchain

from orchestrator.binary import macho
from orchestrator.compilers.resolve import (
    ResolvedToolchain,
    compiler_environment,
    resolve_toolchain,
)
from orchestrator.deliver.headers import api_functions
from orchestrator.errors import OrchestratorError, Place
from orchestrator.load.workspace import load_workspace
from orchestrator.values.config.toolchain import ToolchainConfig

PLACE = Place("toolchains/ios-arm64.yaml", 6, 1)
API = frozenset({"lta_add", "lta_version"})


def config(**xcode: object) -> ToolchainConfig:
    values = {
        "abi": "ios-arm64",
        "system": "ios",
        "processor": "arm64",
        "format": "macho",
        "compiler": {"xcode": {"sdk": "iphoneos", "minimum": "15.0", **xcode}},
        "run": "none",
    }
    return ToolchainConfig.model_validate(values)


def refused(what: ToolchainConfig, cache: Path, env: dict[str, str]) -> str:
    with pytest.raises(OrchestratorError) as caught:
        resolve_toolchain(what, PLACE, cache, env)
    return caught.value.render()


@pytest.mark.parametrize("abi", ABIS)
def test_zigs_command_lines(abi: str, tmp_path: Path, golden: Golden) -> None:
    tools = toolchain(abi, tmp_path)
    places = {"zig": ZIG, "package": ZIG.parent}
    lines = [f"{verb}: {shown(argv, places)}\n" for verb, argv in tools.driver.commands.items()]
    golden(GOLDEN / f"zig-{abi}.txt", "".join(lines))


def test_zigs_identity_holds_no_path(tmp_path: Path) -> None:
    identities = [toolchain(abi, tmp_path).driver.identity for abi in ABIS]
    assert str(ZIG.parent) not in str(identities)
    assert len({toolchain(abi, tmp_path).identity for abi in ABIS}) == 3


@pytest.mark.parametrize("abi", ABIS)
def test_zig_builds_what_the_platform_wants(abi: str, tmp_path: Path) -> None:
    tools = toolchain(abi, tmp_path / "tools")
    built = build(tmp_path / "build", tools)
    rules = macho.MachoRules(tools.config.system, tools.config.processor, "15.0", API)
    macho.check(built.library, rules)
    for name, path in built.objects.items():
        (member,) = [macho.Member(name, macho.parse_object(path.read_bytes(), path, name))]
        seen = (member.system, member.processor, member.minimum)
        assert seen == (tools.config.system, tools.config.processor, "15.0")


@pytest.mark.parametrize("abi", ABIS)
def test_xcodes_command_lines(abi: str, tmp_path: Path, golden: Golden) -> None:
    """Everything that Xcode's programs are asked to do for a variant, in order."""
    env = record_xcode(tmp_path / "xcode")
    tools = toolchain(abi, tmp_path / "tools", env)
    assert tools.version == "16.2"
    folder = tmp_path / "o'brien, a b"
    built = build(folder, tools)
    rules = macho.MachoRules(tools.config.system, tools.config.processor, "15.0", API)
    macho.check(built.library, rules)
    places = {
        "xcode": tmp_path / "xcode/Xcode.app/Contents/Developer",
        "cache": folder / "cache",
        "state": folder / "state",
        "toy": GOLDEN.parent / "package/toy",
        "golden": GOLDEN,
        "native": ROOT / "orchestrator/native",
    }
    log = (tmp_path / "xcode/log").read_text().splitlines()
    lines = [shown(ast.literal_eval(line), places) for line in log]
    golden(GOLDEN / f"xcode-{abi}.txt", "\n".join(lines) + "\n")


def test_xcodes_identity_is_its_build_not_its_place(tmp_path: Path) -> None:
    one = toolchain("ios-arm64", tmp_path, record_xcode(tmp_path / "a"))
    assert str(tmp_path) not in str(dict(one.driver.identity))
    assert one.driver.identity["xcode"] == "Xcode 16.2 Build version 16C5032a"
    assert one.driver.identity["sdk"] == "iphoneos 18.2"
    assert one.identity != toolchain("ios-arm64", tmp_path).identity


def test_xcode_without_the_platform(tmp_path: Path) -> None:
    env = record_xcode(tmp_path / "xcode")
    text = (tmp_path / "xcode/bin/xcrun").read_text().replace("iphoneos)", "nothing)")
    (tmp_path / "xcode/bin/xcrun").write_text(text)
    assert refused(config(), tmp_path, env) == (
        "toolchains/ios-arm64.yaml:6:1: error: Xcode gives no answer about the SDK iphoneos\n"
        "  expected: an Xcode with the iOS platform\n"
        "  seen:     `xcrun --sdk iphoneos --show-sdk-path` said: xcrun: error: SDK"
        ' "iphoneos" cannot be located\n'
        "  do:       install Xcode, choose it with `xcode-select --switch`, and get the platform"
        " with `xcodebuild -downloadPlatform iOS`"
    )


@pytest.mark.parametrize(
    ("minimum", "expected"),
    [
        ("11.0", "minimum: 12.0 or newer"),
        ("19.0", "minimum: 18.2 or older"),
        ("15.0-rc1", "two or three numbers, such as 15.0"),
    ],
)
def test_a_minimum_that_the_sdk_does_not_have(minimum: str, expected: str, tmp_path: Path) -> None:
    env = record_xcode(tmp_path / "xcode")
    text = refused(config(minimum=minimum), tmp_path, env)
    assert f"  expected: {expected}\n  seen:     {minimum}" in text


def test_a_minimum_that_zig_does_not_have(tmp_path: Path) -> None:
    assert refused(config(minimum="12.0"), tmp_path, dict(os.environ)) == (
        "toolchains/ios-arm64.yaml:6:1: error: zig 0.17.0 does not build for iOS 12.0\n"
        "  expected: minimum: 14.0 or newer\n"
        "  seen:     12.0\n"
        "  do:       declare `minimum: 14.0`, or use an older Xcode"
    )


def test_another_systems_sdk(tmp_path: Path) -> None:
    assert refused(config(sdk="iphonesimulator"), tmp_path, dict(os.environ)) == (
        "toolchains/ios-arm64.yaml:6:1: error: the SDK iphonesimulator is not ios's\n"
        "  expected: sdk: iphoneos\n"
        "  seen:     iphonesimulator"
    )


def test_the_api_is_what_the_header_declares() -> None:
    header = GOLDEN.parent / "package/toy/libtorch_app.h"
    assert api_functions(header.read_text()) == API


HASHES = """#include <stdexcept>
#include <string>
#include <unordered_map>
int count(const std::string& key) {
  static std::unordered_map<std::string, int> counts;
  if (key.empty()) throw std::invalid_argument("empty");
  return ++counts[key];
}
"""


def compiled(tools: ResolvedToolchain, source: Path) -> macho.Member:
    output = source.with_suffix(".o")
    cache = load_workspace(ROOT, os.environ).cache
    subprocess.run(
        [tools.cxx, "-Oz", "-c", source, "-o", output],
        env=compiler_environment(cache, os.environ),
        check=True,
    )
    return macho.Member("x.o", macho.parse_object(output.read_bytes(), output, "x.o"))


def test_objects_of_zig_run_where_they_say(tmp_path: Path) -> None:
    """No function of a newer libc++, no unwinding entry in a form that costs more."""
    tools = toolchain("ios-arm64", tmp_path / "tools")
    source = tmp_path / "hashes.cpp"
    source.write_text(HASHES)
    seen = compiled(tools, source)
    assert "___cxa_throw" in seen.undefined
    assert not [name for name in seen.undefined if "__hash_memory" in name]
    assert "__eh_frame" not in [section.name for section in seen.binary.sections]


def test_preprocessed_text_keeps_the_platform(tmp_path: Path) -> None:
    """As distcc and icecream send it: zig alone would lose the version of iOS."""
    tools = toolchain("ios-simulator-arm64", tmp_path / "tools")
    (tmp_path / "a.ii").write_text("int a() { return 1; }\n")
    seen = compiled(tools, tmp_path / "a.ii")
    assert (seen.system, seen.minimum) == ("ios-simulator", "15.0")
