"""A recorded NDK: a folder with an NDK's layout and facts, whose clang writes down how it was
called and has zig do it, with the stand-in's libraries in place of bionic's."""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from ziglang import __file__ as _ziglang

from orchestrator.compilers import relink
from orchestrator.compilers.resolve import ResolvedToolchain, resolve_toolchain
from orchestrator.compilers.zig_cxx import LINK_FLAGS
from orchestrator.errors import Place
from orchestrator.load.workspace import load_workspace
from orchestrator.values.config.toolchain import Processor, ToolchainConfig

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests/golden/android"
ABIS: Mapping[str, Processor] = {
    "android-arm64-v8a": "arm64",
    "android-armeabi-v7a": "armv7",
    "android-x86_64": "x86_64",
}
LIBRARIES = {
    "arm64": "aarch64-linux-android",
    "armv7": "arm-linux-androideabi",
    "x86_64": "x86_64-linux-android",
}
ZIG = Path(_ziglang).parent / "zig"
# What only an NDK's clang knows, or zig says in another way.
_OWN = (
    *("--target=", "-march=", "-mfpu=", "-mthumb", "-static-libstdc++", "-no-canonical-prefixes"),
    "-Wl,--no-rosegment",
)
_CLANG = """#!/bin/sh
''''exec "{python}" "$0" "$@" # '''
import os, sys
if sys.argv[1:] == ["--version"]:
    print("Android (10552028, based on r487747d) clang version 17.0.2")
    raise SystemExit
with open("{log}", "a") as log:
    log.write(repr(["{name}", *sys.argv[1:]]) + "\\n")
words = [word for word in sys.argv[1:] if not word.startswith({own})]
# the recorded NDK has no C++ library: what the library would have stays open
links = not set(words) & {{"-c", "-E", "-S"}} and "c++-header" not in words
for word in words:
    if word.startswith("-print-file-name="):
        print(word.partition("=")[2])
        raise SystemExit
listed = [word for word in words if word.startswith("@")]
if listed:
    # what an NDK's clang hands on, zig refuses; of a list it is the second link
    words.remove(listed[0])
    lines = open(listed[0][1:]).read().split()
    target = next(word for word in sys.argv[1:] if word.startswith("--target="))
    again = ["{python}", "-I", "{relink}", *(line.removeprefix("-Wl,") for line in lines), "--"]
    words = [word for word in words if word != "-Wl,-z,defs"]
    command = {commands}["{name}"][target.rstrip("0123456789")]
    os.execvp(again[0], [*again, *command, *{links}, *words])
words = [word for word in words if word != "-Wl,-z,defs" or not links]
target = next(word for word in sys.argv[1:] if word.startswith("--target="))
command = {commands}["{name}"][target.rstrip("0123456789")]
os.execvp(command[0], [*command, *({links} if links else []), *words])
"""


def config(abi: str = "android-arm64-v8a", **ndk: object) -> ToolchainConfig:
    values = {
        "abi": abi,
        "system": "android",
        "processor": ABIS[abi],
        "format": "elf",
        "compiler": {"ndk": {"api": 24, **ndk}},
        "run": "none",
    }
    return ToolchainConfig.model_validate(values)


def stub_toolchain(abi: str, cache: Path) -> ResolvedToolchain:
    """The toolchain of an ABI where there is no NDK."""
    declared = load_workspace(ROOT, os.environ).toolchains[abi]
    return resolve_toolchain(declared.config, declared.place, cache, bare_environment())


def bare_environment() -> dict[str, str]:
    """This environment without an NDK."""
    return {name: value for name, value in os.environ.items() if not name.startswith("ANDROID_")}


def record_ndk(folder: Path) -> Path:
    """Write the recorded NDK r26d into `<folder>/ndk`, its log at `<folder>/log`.

    The stand-in's libraries are in the user's cache, where zig finds again what it made for them.
    """
    ndk, cache = folder / "ndk", load_workspace(ROOT, os.environ).cache
    (ndk / "meta").mkdir(parents=True)
    (ndk / "source.properties").write_text(
        "Pkg.Desc = Android NDK\nPkg.Revision = 26.3.11579264\nPkg.ReleaseName = r26d\n"
    )
    levels = {"min": 21, "max": 34, "aliases": {"20": 19, "25": 24, "U": 34}}
    (ndk / "meta/platforms.json").write_text(json.dumps(levels, indent=2))
    prebuilt = ndk / "toolchains/llvm/prebuilt/linux-x86_64"
    (prebuilt / "bin").mkdir(parents=True)
    (prebuilt / "NOTICE").write_text("LLVM's licence, and others'.\n")
    commands: dict[str, dict[str, Sequence[str]]] = {"clang++": {}, "clang": {}}
    for abi, processor in ABIS.items():
        driver = stub_toolchain(abi, cache).driver
        triple = {"armv7": "armv7a-linux-androideabi"}.get(processor, LIBRARIES[processor])
        commands["clang++"][f"--target={triple}"] = driver.commands["cxx"]
        commands["clang"][f"--target={triple}"] = driver.commands["cc"]
        library = prebuilt / "sysroot/usr/lib" / LIBRARIES[processor] / "libc++_shared.so"
        library.parent.mkdir(parents=True)
        library.write_bytes(b"\x7fELF, as it were")
    facts = {"python": sys.executable, "log": str(folder / "log"), "own": repr(_OWN)}
    facts |= {"relink": relink.__file__, "links": repr(LINK_FLAGS)}
    for name in commands:
        write_program(
            prebuilt / "bin" / name, _CLANG.format(**facts, name=name, commands=repr(commands))
        )
    write_program(prebuilt / "bin/llvm-ar", f'#!/bin/sh\nexec {shlex.quote(str(ZIG))} ar "$@"\n')
    return ndk


def write_program(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)


def write_python(path: Path, text: str) -> Path:
    """A program in Python, wherever this one lies: a first line `#!` cannot hold blanks."""
    source = path.with_name(f"{path.name}.py")
    source.write_text(text)
    command = shlex.join([sys.executable, str(source)])
    write_program(path, f'#!/bin/sh\nexec {command} "$@"\n')
    return path


def with_ndk(
    ndk: Path, cache: Path, abi: str = "android-arm64-v8a", **more: object
) -> ResolvedToolchain:
    """A toolchain of the recorded NDK."""
    env = {**bare_environment(), "ANDROID_NDK_HOME": str(ndk)}
    return resolve_toolchain(config(abi, **more), Place(f"toolchains/{abi}.yaml", 6, 3), cache, env)


def with_users_zig(cache: Path) -> Path:
    """A cache folder of a test's own, with zig's part of the user's: what zig makes for each target
    takes 30 CPU seconds."""
    users = load_workspace(ROOT, os.environ).cache / "zig"
    users.mkdir(parents=True, exist_ok=True)
    cache.mkdir()
    (cache / "zig").symlink_to(users)
    return cache


def shown(argv: Sequence[str], places: Mapping[str, Path]) -> str:
    """A command line with this machine's paths replaced by their names."""
    words = list(argv)
    for name, path in places.items():  # first, so that no path is quoted for its blanks
        words = [word.replace(str(path), f"@{name}@") for word in words]
    return re.sub("@(\\w+)@", r"<\1>", shlex.join(words))
