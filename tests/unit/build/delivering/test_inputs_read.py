"""What a build hangs on: each kind of thing that may change is among what it says that it read.

A workspace with an app for Linux, by compilers of the machine, and for Android, by an NDK; both are
scripts that say what they are asked for. Nothing is built.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import package_toy as toy
import pytest
import ziglang
from toy_workspace import toy_runtime

from orchestrator.build.delivering.inputs_read import InputsRead, inputs_read
from orchestrator.build.workshop.fetch import FetchedRuntime
from orchestrator.build.workshop.invocation import invocation
from orchestrator.build.workshop.runtime import Runtime
from orchestrator.commands.replay import difference, keep
from orchestrator.compilers.command import places_of
from orchestrator.context import Context
from orchestrator.deliver.headers import HeaderFile
from orchestrator.deliver.variant import DeliverInputs, deliver
from orchestrator.load.workspace import load_workspace
from orchestrator.system.environment import Environment
from orchestrator.values.action import ActionGraph, Compile, Link
from orchestrator.values.config.workspace import WorkspaceConfig
from orchestrator.values.labels import VariantLabel

WORKSPACE = f"""\
version: 1
cache: $CACHE/ours
runtime:
  pytorch: 1.13.1
  tree: "{"0" * 64}"
  sources: [path: $SOURCES/pytorch]
  third_party:
    fmt: {{tree: "{"1" * 64}", include: include, sources: [path: "${{HEADERS}}"]}}
launcher: {{command: [ccache]}}
"""
LINUX = """\
abi: linux-x86_64
system: linux
processor: x86_64
format: elf
compiler: {command: {cxx: toy-c++, cc: toy-cc, ar: toy-ar}}
run: none
"""
ANDROID = """\
abi: android-arm64
system: android
processor: arm64
format: elf
compiler: {ndk: {api: 24}}
run: none
"""
ZIG = """\
abi: linux-arm64
system: linux
processor: arm64
format: elf
compiler: {zig: {target: aarch64-linux-gnu.2.28}}
run: {emulator: [toy-qemu], sysroot: /nowhere/arm64}
"""
APP = """\
models: [{file: weights/toy.ptl}]
targets: [linux-x86_64, linux-arm64, android-arm64]
sources: {files: ["src/*.cpp"], include: [own], licence: {expression: MIT, file: COPYING}}
"""
COMPILER = "#!/bin/sh\necho toy compiler 1\n"
# says where it finds what it calls
CALLS = """\
#!/bin/sh
case $1 in -print-prog-name=ld) echo {ld} ;; -print-prog-name=*) echo none ;; *) echo toy 1 ;; esac
"""
BIN = "ndk/toolchains/llvm/prebuilt/linux-x86_64/bin"
STATIC_LIBRARY = f"{BIN[:-4]}/sysroot/usr/lib/aarch64-linux-android/libc++_static.a"
FINGERPRINT = "ab" * 32
OBJECT = Compile(
    unit="toy.cpp",
    source="$tree/toy.cpp",
    language="c++",
    abi="linux-x86_64",
    flags=(),
    projection=None,
    fingerprint=FINGERPRINT,
    cost=1,
)
LIBRARY = Link(
    output="$state/variants/libtoy.so",
    kind="shared",
    abi="linux-x86_64",
    whole=(OBJECT.object,),
    on_demand=(),
)
GRAPH = ActionGraph({OBJECT.object: OBJECT}, (LIBRARY,))
LABELS = (VariantLabel("toy", "linux-x86_64"), VariantLabel("toy", "android-arm64"))


def write(path: Path, text: str, mode: int = 0o644) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)


class Machine:
    """A workspace, its tools and its cache, built; `read` is what the build says."""

    def __init__(
        self, root: Path, inputs: DeliverInputs, labels: Sequence[VariantLabel] = LABELS
    ) -> None:
        self.root = root / "workspace"
        self.tools = root
        self._write()
        path = os.pathsep.join([str(root / "first"), str(root / "bin"), os.environ["PATH"]])
        self.env = {
            "PATH": path,
            "CACHE": str(root / "cache"),
            "SOURCES": str(root / "sources"),
            "ANDROID_NDK_HOME": str(root / "ndk"),
            "JAVA_HOME": str(root / "jdk"),
        }
        env = Environment(self.env)
        workspace = load_workspace(self.root, env)
        context = Context(
            root=self.root,
            cache=workspace.cache,
            state=self.root / ".orchestrator",
            dist=self.root / "dist",
            env=env,
        )
        runtime = self._runtime(workspace.config, context.cache)
        here = invocation(workspace, context, lambda line: None, ready=[runtime])
        header = context.cache / "runtime/pytorch/c10/core.h"
        write(header, "")
        self.inputs = replace(inputs, headers=(HeaderFile(str(header), "c10/core.h"),))
        deliver(self.inputs, context.dist)
        read = inputs_read(here, labels, GRAPH, [self.inputs])
        assert keep(self.root, ("build",), env, read, "", folder=context.cache, since=2**63), (
            "something that a build reads is not there"
        )
        self.read: InputsRead = read

    def _write(self) -> None:
        root = self.root
        for name, text in (
            ("WORKSPACE", WORKSPACE),
            ("toolchains/linux-x86_64.yaml", LINUX),
            ("toolchains/linux-arm64.yaml", ZIG),
            ("toolchains/android-arm64.yaml", ANDROID),
            ("apps/toy/app.yaml", APP),
            ("apps/toy/weights/toy.ptl", "model"),
            ("apps/toy/src/ops.cpp", "// operators"),
            ("apps/toy/own/deep/ops.h", "// a header"),
            ("apps/toy/COPYING", "as you like"),
            ("apps/toy/traces/toy.yaml", "lock"),
            ("apps/toy/traces/toy.runs.zst", "runs"),
            ("dist/toy/packages/toy.deb", "package"),
            (".orchestrator/build.ninja", ""),
            (".orchestrator/variants/libtoy.so", "linked"),
            (f".orchestrator/objects/ab/{FINGERPRINT}.o", "object"),
            ("../ndk/source.properties", "Pkg.Revision = 26.3.11579264\n"),
            ("../ndk/meta/platforms.json", '{"min": 21, "max": 34}'),
            (f"../{STATIC_LIBRARY}", "libc++"),
            ("../jdk/release", "JAVA_VERSION=17"),
        ):
            write(root / name, text)
        for folder, compiler, others in (
            (root.parent / "bin", "toy-c++", ("toy-cc", "toy-ar", "toy-ld")),
            (root.parent / BIN, "clang++", ("clang", "llvm-ar", "ld.lld", "toy-ld")),
        ):
            write(folder / compiler, CALLS.format(ld=folder / "toy-ld"), 0o755)
            for name in others:
                write(folder / name, COMPILER, 0o755)
        write(root.parent / "jdk/bin/javac", COMPILER, 0o755)

    def _runtime(self, config: WorkspaceConfig, cache: Path) -> Runtime:
        name = config.default_runtime
        pin = config.pins[name]
        folders = {"state": str(self.root / ".orchestrator"), "cache": str(cache)}
        for folder in ("generated", "configured"):
            folders[folder] = str(cache / folder)
            (cache / folder).mkdir(parents=True)
        for tree in ("pytorch", "fmt", "xnnpack"):
            write(cache / "runtime" / tree / ".complete", "{}")
        fetched = FetchedRuntime(
            version=pin.pytorch,
            tree=cache / "runtime/pytorch",
            digest=pin.tree,
            third_party={"fmt": cache / "runtime/fmt/include"},
            libraries={"xnnpack": cache / "runtime/xnnpack"},
        )
        return toy_runtime(
            name,
            folders,
            fetched=fetched,
            pin=pin,
            generated=cache / "generated",
            configured=cache / "configured",
        )

    def differs(self) -> str | None:
        kept = json.loads((self.root / ".orchestrator/last-build.json").read_text())
        found = difference(kept, self.root, ("build",), self.env, self.root)
        return found and found.replace(str(self.root), "$root").replace(str(self.tools), "$tools")


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> DeliverInputs:
    return toy.quick_inputs(tmp_path_factory.mktemp("quick"))


@pytest.fixture
def machine(tmp_path: Path, quick: DeliverInputs) -> Machine:
    return Machine(tmp_path, quick)


def test_nothing_differs(machine: Machine) -> None:
    assert machine.differs() is None


DELIVERED = "$root/dist/toy/linux-x86_64"
CHANGES = (
    # declarations, models, traces
    "+$root/WORKSPACE",
    "+$root/toolchains/linux-x86_64.yaml",
    "+$root/apps/toy/app.yaml",
    "+$root/apps/toy/weights/toy.ptl",
    "-$root/apps/toy/weights/toy.ptl",
    "+$root/apps/toy/src/ops.cpp",
    "+$root/apps/toy/own/deep/ops.h",
    "+$root/apps/toy/COPYING",
    "+$root/apps/toy/traces/toy.yaml",
    "+$root/apps/toy/traces/toy.runs.zst",
    # variables: of the cache's path, of the pins', of the NDK and of the JDK
    "CACHE=/elsewhere",
    "SOURCES=/elsewhere",
    "HEADERS=/elsewhere",
    "ANDROID_NDK_HOME=/elsewhere",
    "JAVA_HOME=/elsewhere",
    "PATH=/elsewhere",
    # a pinned source tree that is there now
    "+$tools/sources/pytorch",
    # compilers of the machine: another one, or one before it on PATH
    "+$tools/bin/toy-c++",
    "+$tools/bin/toy-ar",
    "+$tools/bin/toy-ld",
    "+$tools/first/ld",
    "+$tools/first/toy-cc",
    "+$tools/first/ccache",
    "+$tools/first/javac",
    # the NDK and the JDK
    "+$tools/ndk/source.properties",
    "+$tools/ndk/meta/platforms.json",
    f"+$tools/{BIN}/clang++",
    f"-$tools/{BIN}/clang++",
    f"+$tools/{BIN}/llvm-ar",
    f"+$tools/{BIN}/ld.lld",
    f"+$tools/{BIN}/toy-ld",
    f"+$tools/{STATIC_LIBRARY}",
    "+$tools/jdk/bin/javac",
    "+$tools/jdk/release",
    # the cache and the workspace's state
    "-$tools/cache/ours/runtime/pytorch/.complete",
    "-$tools/cache/ours/runtime/fmt/.complete",
    "-$tools/cache/ours/runtime/pytorch/c10/core.h",
    "+$root/.orchestrator/variants/libtoy.so",
    f"+$root/.orchestrator/objects/ab/{FINGERPRINT}.o",
    f"-$root/.orchestrator/objects/ab/{FINGERPRINT}.o",
    # what was delivered
    f"+{DELIVERED}/lib/libtoy_torch.so",
    f"-{DELIVERED}/lib/libtoy_torch.so",
    f"+{DELIVERED}/manifest.json",
    f"-{DELIVERED}/include/c10/core.h",
    "+$root/dist/toy/packages/toy.deb",
    "-$root/dist/toy/packages/toy.deb",
)


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_is_noticed(change: str, machine: Machine) -> None:
    apply(change, machine)
    name, sign, _ = change.partition("=")
    # a folder changes with the names in it
    path = change[1:]
    assert machine.differs() in ({name} if sign else {path, path.rpartition("/")[0]})


@pytest.mark.parametrize(
    ("new", "expected"),
    [
        ("toolchains/new.yaml", "toolchains/*.y*ml"),
        ("apps/new/app.yaml", "apps/*/app.y*ml"),
        ("apps/toy/src/more.cpp", "apps/toy/src/*.cpp"),
        ("apps/toy/src/more.hpp", "apps/toy/src/**/*.hpp"),
        ("apps/toy/own/more/ops.inc", "apps/toy/own/**/*.inc"),
        # of an ABI that this build did not make: packages join ABIs
        ("dist/toy/linux-arm64/manifest.json", "dist/toy/linux-arm64"),
    ],
)
def test_what_is_new_is_noticed(new: str, expected: str, machine: Machine) -> None:
    write(machine.root / new, "")
    assert machine.differs() == f"$root/{expected}"


def apply(change: str, machine: Machine) -> None:
    """`+file` is written, as it was where it is there; `-file` goes; `NAME=value` is set."""
    name, sign, value = change.partition("=")
    if sign:
        machine.env[name] = value
        return
    text = change[1:].replace("$root", str(machine.root)).replace("$tools", str(machine.tools))
    path = Path(text)
    if change[0] == "-":
        path.unlink()
    elif path.exists():
        shutil.copy2(path, path.with_name(".copy"))
        path.with_name(".copy").replace(path)
    else:
        write(path, COMPILER, 0o755)


def test_zig_and_an_emulator_are_among_what_is_read(tmp_path: Path, quick: DeliverInputs) -> None:
    read = Machine(tmp_path, quick, [VariantLabel("toy", "linux-arm64")]).read
    zig = Path(ziglang.__file__).with_name("zig")
    said = {path.name for path in read.read if path.parent.name.startswith("ziglang-")}
    assert zig in read.read
    assert {"METADATA", "RECORD"} <= said
    places = {tmp_path / "first/toy-qemu", tmp_path / "bin/toy-qemu", Path("/nowhere/arm64")}
    assert places <= read.sought
    (wrappers,) = (tmp_path / "cache/ours/toolchains").iterdir()
    assert {wrappers, wrappers / "cxx", wrappers / "cc", wrappers / "ar"} <= read.made


def test_a_program_is_looked_for_up_to_where_it_is(tmp_path: Path) -> None:
    a, b, c = (tmp_path / name for name in "abc")
    path = os.pathsep.join(map(str, (a, b, c)))
    write(a / "tool", "not a program")
    write(b / "tool", "", 0o755)
    write(c / "tool", "", 0o755)
    assert list(places_of("tool", path)) == [a / "tool", b / "tool"]
    assert list(places_of("none", path)) == [a / "none", b / "none", c / "none"]
    assert list(places_of(str(c / "tool"), path)) == [c / "tool"]
