"""A toy app for iOS: the package tests' sources, compiled and linked as real variants are.

Also a recorded Xcode: an `xcrun` on PATH that answers as Xcode 16.2's does, and whose clang and
libtool write down how they were called and have zig do it.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import ninja
from package_toy import TOY, inputs
from toy_natives import natives
from written_lists import write_lists
from ziglang import __file__ as _ziglang

from orchestrator.codegen.units import unit_of
from orchestrator.compilers.resolve import (
    ResolvedToolchain,
    compiler_environment,
    resolve_toolchain,
)
from orchestrator.deliver.manifest import ToolchainFact
from orchestrator.deliver.variant import deliver
from orchestrator.execute.ninja_file import RUN, ninja_text
from orchestrator.load.workspace import load_workspace
from orchestrator.plan.anchors import anchored, anchors_of, anchors_text
from orchestrator.plan.graph import VariantObjects
from orchestrator.plan.static_links import StaticLinks, static_links
from orchestrator.plan.variant import VariantPlan, VariantSpec
from orchestrator.system.staging import write_if_changed
from orchestrator.values.action import ActionGraph, Compile
from orchestrator.values.fingerprint import text_digest

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests/golden/ios"
ABIS = ("ios-arm64", "ios-simulator-arm64", "ios-simulator-x86_64")
ZIG = Path(_ziglang).parent / "zig"
FLAGS = (
    *("-Oz", "-fPIC", "-fvisibility=hidden", "-fvisibility-inlines-hidden"),
    *("-std=gnu++17", "-DTOY_MOBILE", "-DTOY_LEVEL=2"),
)

_SDKS = {"iphoneos": "iPhoneOS", "iphonesimulator": "iPhoneSimulator"}
_XCRUN = """#!/bin/sh
if [ "$1" = xcodebuild ]; then
  printf 'Xcode 16.2\\nBuild version 16C5032a\\n'
  exit
fi
case "$2" in
  iphoneos) folder=iPhoneOS ;;
  iphonesimulator) folder=iPhoneSimulator ;;
  *) echo "xcrun: error: SDK \\"$2\\" cannot be located" >&2; exit 1 ;;
esac
case "$3" in
  --show-sdk-path) echo "{xcode}/Platforms/$folder.platform/Developer/SDKs/$folder.sdk" ;;
  --show-sdk-version) echo 18.2 ;;
  --find) echo "{xcode}/Toolchains/XcodeDefault.xctoolchain/usr/bin/$4" ;;
esac
"""
_CLANG = """#!/bin/sh
''''exec "{python}" "$0" "$@" # '''
import os, sys
if sys.argv[1:] == ["--version"]:
    print("Apple clang version 16.0.0 (clang-1600.0.26.6)")
    raise SystemExit
with open("{log}", "a") as log:
    log.write(repr(["{name}", *sys.argv[1:]]) + "\\n")
arguments = sys.argv[1:]
at = arguments.index("-isysroot")
assert os.path.isdir(arguments[at + 1])
del arguments[at : at + 2]
at = arguments.index("-target") + 1
processor, rest = arguments[at].split("-apple-ios")
processor = "aarch64" if processor == "arm64" else processor
arguments[at] = processor + "-ios." + rest
verb = "c++" if "{name}" == "clang++" else "cc"
headers = os.path.join(os.path.dirname("{zig}"), "lib/libc/include/any-darwin-any")
more = ["-isystem", headers, "-g0", "-fno-sanitize=all"]
more += ["-U_LIBCPP_HAS_VENDOR_AVAILABILITY_ANNOTATIONS"]
more += ["-D_LIBCPP_HAS_VENDOR_AVAILABILITY_ANNOTATIONS=1"]
os.execv("{zig}", ["{zig}", verb, *more, *arguments])
"""
_LIBTOOL = """#!/bin/sh
''''exec "{python}" "$0" "$@" # '''
import os, subprocess, sys
with open("{log}", "a") as log:
    log.write(repr(["libtool", *sys.argv[1:-1], "<names>"]) + "\\n")
kind, stable, quiet, o, output, filelist, names = sys.argv[1:]
assert [kind, stable, quiet, o, filelist] == [
    "-static", "-D", "-no_warning_for_no_symbols", "-o", "-filelist"
]
# libtool(1): `-filelist file[,folder]`; names in lines, blanks belong to them
assert "," not in names
members = open(names).read().splitlines()
sys.exit(subprocess.call(["{zig}", "ar", "--format=darwin", "rcsD", output, *members]))
"""


@dataclass(frozen=True)
class Built:
    """What the toy's links made of one ABI."""

    links: StaticLinks
    folder: Path
    objects: Mapping[str, Path]

    @property
    def library(self) -> Path:
        return self.folder / Path(self.links.library.output).name


def record_xcode(folder: Path, sdks: Sequence[str] = tuple(_SDKS)) -> dict[str, str]:
    """Write the recorded Xcode; the environment in which it is found, its log at `<folder>/log`."""
    xcode, log = folder / "Xcode.app/Contents/Developer", folder / "log"
    for sdk in sdks:
        path = xcode / f"Platforms/{_SDKS[sdk]}.platform/Developer/SDKs/{_SDKS[sdk]}.sdk"
        path.mkdir(parents=True)
        targets = {sdk: {"MinimumDeploymentTarget": "12.0"}}
        (path / "SDKSettings.json").write_text(json.dumps({"SupportedTargets": targets}))
    programs = xcode / "Toolchains/XcodeDefault.xctoolchain/usr/bin"
    facts = {"python": sys.executable, "zig": str(ZIG), "log": str(log), "xcode": str(xcode)}
    for path, text in (
        (folder / "bin/xcrun", _XCRUN),
        (programs / "clang++", _CLANG),
        (programs / "clang", _CLANG),
        (programs / "libtool", _LIBTOOL),
    ):
        path.parent.mkdir(parents=True, exist_ok=True)
        for name, value in (facts | {"name": path.name}).items():
            text = text.replace(f"{{{name}}}", value)
        path.write_text(text)
        path.chmod(0o755)
    return {**os.environ, "PATH": f"{folder / 'bin'}:{os.environ['PATH']}"}


def toolchain(abi: str, cache: Path, env: Mapping[str, str] = os.environ) -> ResolvedToolchain:
    """One of the workspace's iOS toolchains, resolved with a cache of the test's own."""
    declared = load_workspace(ROOT, os.environ).toolchains[abi]
    return resolve_toolchain(declared.config, declared.place, cache, env)


def build(folder: Path, tools: ResolvedToolchain, *, anchors: bool = True) -> Built:
    """Compile and link the toy below `folder`: all of it by ninja, as a build does."""
    objects = toy_objects(tools.abi, folder, anchors)
    links = static_links("$state/variants", "toy_torch", objects)
    folders = {"cache": str(folder / "cache"), "state": str(folder / "state"), "toy": str(TOY)}
    folders |= {"native": str(ROOT / "orchestrator/native"), "golden": str(GOLDEN)}
    everything = {c.object: c for c in objects.compiles}
    text = ninja_text(
        ActionGraph(everything, links.all),
        folders=folders,
        toolchains={
            tools.abi: {
                "cxx": str(tools.cxx),
                "cc": str(tools.cc),
                "ar": str(tools.ar),
                "link": (),
            }
        },
        present=(),
        python=sys.executable,
    )
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "build.ninja").write_text(text)
    write_lists(links.all, folders)
    cache = load_workspace(ROOT, os.environ).cache
    done = subprocess.run(
        [Path(ninja.BIN_DIR) / "ninja", "-j1", "-v", "-f", folder / "build.ninja"],
        env={**compiler_environment(cache, os.environ), RUN: "run"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    paths = {
        c.unit: Path(c.object.replace("$state", folders["state"])) for c in everything.values()
    }
    return Built(links, folder / "state/variants", paths)


def toy_objects(abi: str, folder: Path, anchors: bool) -> VariantObjects:
    """The toy's units, with anchors as a real variant's have them."""
    api, core, registrations, unreached = (
        _compile(abi, name) for name in ("api", "core", "registrations", "unreached")
    )
    plan = VariantPlan(
        spec=cast(VariantSpec, SimpleNamespace(abi=abi)),
        needed=cast(Any, None),
        whole=(),
        on_demand=(core, unreached),
        request=cast(Any, None),
        selection=cast(Any, None),
        bearing={},
    )
    dead = replace(_compile(abi, "dead"), source="$golden/dead.cpp")
    objects = VariantObjects(plan, registrations=(registrations,), native=(api, dead))
    if not anchors:
        return objects
    unit = unit_of("anchors", anchors_text(anchors_of(objects)), folder / "cache/anchors")
    assert unit.text is not None
    write_if_changed(unit.path, unit.text)
    keeper = replace(_compile(abi, "anchors"), source=f"$cache/anchors/{unit.path.name}")
    return anchored(objects, [keeper], natives())


def delivered(
    folder: Path, tools: ResolvedToolchain, built: Built, model_file: bytes | None = None
) -> Path:
    """`<folder>/dist/toy/<abi>`, delivered as a build delivers it; maybe with a model."""
    bare = inputs(folder, built.library, built.library, built.library)
    if model_file is not None:
        (model,) = bare.models
        told = model.model_copy(update={"delivered": "share/toy/models/toy.ptl"})
        bare = replace(bare, models=(told,), model_files={"toy": model_file})
    facts = replace(
        bare,
        abi=tools.abi,
        system=tools.config.system,
        processor=tools.config.processor,
        shared_library=None,
        registrations=None,
        core=None,
        static_library=built.library,
        headers=(),
        definitions=(),
        toolchain=ToolchainFact(
            compiler=tools.driver.kind,
            version=tools.version,
            identity="ef" * 32,
            cxx_library=tools.driver.cxx_library,
            target=tools.driver.target,
        ),
    )
    return deliver(facts, folder / "dist").folder


def shown(argv: Sequence[str], places: Mapping[str, Path]) -> str:
    """A command line with this machine's paths replaced by their names."""
    words = list(argv)
    for name, path in places.items():  # first, so that no path is quoted for its blanks
        words = [word.replace(str(path), f"@{name}@") for word in words]
    return re.sub("@(\\w+)@", r"<\1>", shlex.join(words))


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
