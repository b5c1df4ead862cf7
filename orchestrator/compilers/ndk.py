"""The Android NDK at `ANDROID_NDK_HOME` or `ANDROID_NDK_ROOT`; the stub sysroot if neither is set.

The NDK's layout: `source.properties` has its release (`Pkg.Revision = 26.3.11579264`),
`meta/platforms.json` the API levels that it can compile for, `toolchains/llvm/prebuilt/<host>/bin`
the compilers. The flags that affect objects are those of its own
`build/cmake/android-legacy.toolchain.cmake`.
"""

from __future__ import annotations

import platform
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from orchestrator.compilers import zig
from orchestrator.compilers.brought import brought_digest, brought_files
from orchestrator.compilers.command import called_by, called_digests, file_digest, first_line
from orchestrator.compilers.driver import AndroidFacts, CompilerMissingError, Driver, LinkedPart
from orchestrator.compilers.flags import HARDENING
from orchestrator.compilers.module import Declared, Machine, Requirement
from orchestrator.compilers.stub_sysroot import PAGES, find_shim
from orchestrator.errors import OrchestratorError, Place
from orchestrator.system.process import CommandRunner
from orchestrator.system.reading import read_json
from orchestrator.values.config.toolchain import NdkCompiler, Processor, ToolchainConfig

VARIABLES: Final = ("ANDROID_NDK_HOME", "ANDROID_NDK_ROOT")
# From this release on lld links, llvm-ar archives and libunwind unwinds; before, binutils and
# libgcc did, which know neither --icf nor our response files.
LEAST_RELEASE: Final = 23
_TRIPLES: Final[Mapping[Processor, str]] = {
    "arm64": "aarch64-linux-android",
    "armv7": "armv7a-linux-androideabi",
    "x86_64": "x86_64-linux-android",
}
# The folder of the sysroot's libraries, where it is not the triple.
_LIBRARIES: Final[Mapping[Processor, str]] = {"armv7": "arm-linux-androideabi"}
_FLAGS: Final = (
    *("-DANDROID", "-fstack-protector-strong", "-D_FORTIFY_SOURCE=2"),
    *("-no-canonical-prefixes", "-Qunused-arguments"),
    # which functions' addresses count: clang leaves it out for Android, whose older strip could not
    # keep it, and without it the linker folds nothing
    "-faddrsig",
)
_OF_PROCESSOR: Final[Mapping[Processor, tuple[str, ...]]] = {
    "arm64": PAGES,
    "armv7": ("-march=armv7-a", "-mfpu=neon", "-mthumb"),
    "x86_64": PAGES,
}
_REVISION: Final = re.compile(r"^Pkg\.Revision\s*=\s*((\d+)[\w.+-]*)\s*$", re.MULTILINE)
_LLVM: Final = "Apache-2.0 WITH LLVM-exception"
_PARTS: Final = {
    "libcxx": ("_ZNSt6__ndk1", "_ZNKSt6__ndk1"),
    "libcxxabi": ("__cxa_throw", "__dynamic_cast"),
    "libunwind": ("_Unwind_RaiseException", "unw_step"),
    "compiler-rt": ("__emutls_get_address", "__aarch64_", "__aeabi_", "__udivti3"),
}
# Where their archives lie below the folder of a host; `lib64` up to release 25.
_ARCHIVES: Final = {
    "libcxx": ("sysroot/usr/lib/{triple}/libc++_static.a",),
    "libcxxabi": ("sysroot/usr/lib/{triple}/libc++abi.a",),
    "libunwind": (
        "lib/clang/*/lib/linux/{processor}/libunwind.a",
        "lib64/clang/*/lib/linux/{processor}/libunwind.a",
    ),
    "compiler-rt": (
        "lib/clang/*/lib/linux/libclang_rt.builtins-{processor}-android.a",
        "lib64/clang/*/lib/linux/libclang_rt.builtins-{processor}-android.a",
    ),
}


class NdkUnusableError(OrchestratorError):
    """`ANDROID_NDK_HOME` or `ANDROID_NDK_ROOT` names something that is not a usable NDK."""


class NdkTooOldError(OrchestratorError):
    """The NDK is of a release that cannot build variants."""


class ApiLevelError(OrchestratorError):
    """A toolchain declares an API level that its NDK cannot compile for."""


@dataclass(frozen=True)
class _Ndk:
    """An NDK: its folder, the variable that names it, its revision, major release, host folder."""

    folder: Path
    variable: str
    revision: str
    release: int
    prebuilt: Path


def find(
    config: ToolchainConfig,
    place: Place,
    cache_folder: Path,
    env: Mapping[str, str],
    runner: CommandRunner,
) -> Driver:
    """The NDK's clang, or the declared stub sysroot if no variable names an NDK.

    Raises NdkUnusableError, NdkTooOldError, ApiLevelError, CompilerMissingError, and what
    `find_shim` raises.
    """
    declared = config.compiler.ndk
    assert declared is not None
    variable = next((name for name in VARIABLES if env.get(name)), None)
    if variable is not None:
        ndk = _open(variable, Path(env[variable]), place)
        return _driver(ndk, declared, config, place, runner)
    if declared.shim:
        return find_shim(declared, config.processor, place, cache_folder, env, runner)
    raise CompilerMissingError(
        f"the toolchain {config.abi} needs an Android NDK",
        place=place,
        expected=f"{VARIABLES[0]} or {VARIABLES[1]}",
        seen="neither is set",
        hint="install an NDK and set ANDROID_NDK_HOME to its folder;"
        " `shim: true` compiles without one what must not be shipped",
    )


def runs_zig(config: ToolchainConfig, machine: Machine) -> bool:
    """If it is the stub sysroot, because there is no NDK."""
    return _folder(machine) is None and _has_stub(config)


def requirements(toolchains: Sequence[Declared], machine: Machine) -> Iterator[Requirement]:
    """The NDK; if a variable names one, the stub sysroot does not replace it."""
    named = any(machine.env.get(name) for name in VARIABLES)
    configs = [each.config for each in toolchains]
    yield Requirement(
        "Android NDK",
        _folder(machine),
        tuple(config.abi for config in configs if named or not _has_stub(config)),
        "install it and set ANDROID_NDK_HOME; without it Android libraries are built against a stub"
        " sysroot and cannot be shipped",
    )


def _has_stub(config: ToolchainConfig) -> bool:
    return config.compiler.ndk is not None and config.compiler.ndk.shim


def _folder(machine: Machine) -> str | None:
    """The folder of the NDK, as the variables name it."""
    named = (machine.env.get(name) for name in VARIABLES)
    return next((folder for folder in named if folder and machine.is_folder(folder)), None)


def release_files(driver: Driver, runner: CommandRunner) -> Iterator[Path]:
    """The file with the NDK's release, and what is linked of it; the stub sysroot's files are
    zig's."""
    if driver.zig is not None:
        yield from zig.release_files(driver, runner)
        return
    # <ndk>/toolchains/llvm/prebuilt/<host>/bin/clang++
    programs = Path(driver.commands["cxx"][0]).parent
    ndk = programs.parents[4]
    yield from (ndk / "source.properties", ndk / "meta/platforms.json")
    yield from called_by(driver, str(programs), runner)
    yield from driver.brought
    yield from _archives(driver.linked)


def searched(
    config: ToolchainConfig, driver: Driver, env: Mapping[str, str], runner: CommandRunner
) -> Iterator[Path]:
    """Nowhere: variables of the environment name it."""
    yield from ()


def _driver(
    ndk: _Ndk,
    declared: NdkCompiler,
    config: ToolchainConfig,
    place: Place,
    runner: CommandRunner,
) -> Driver:
    _check_api(ndk, declared.api, config.abi, place)
    programs = {
        verb: _program(ndk, name, place)
        for verb, name in {"cxx": "clang++", "cc": "clang", "ar": "llvm-ar"}.items()
    }
    target = f"{_TRIPLES[config.processor]}{declared.api}"
    flags = (f"--target={target}", *_OF_PROCESSOR[config.processor], *_FLAGS)
    if declared.api < 30:
        # older systems' unwinders want code and unwinding tables in one segment (NDK issue 1589)
        flags = (*flags, "-Wl,--no-rosegment")
    static = ("-static-libstdc++",) if declared.stl == "c++_static" else ()
    linked = _linked(ndk, config.processor, static=bool(static))
    brought = brought_files(programs["cxx"], (*flags, *static), runner)
    return Driver(
        kind="ndk",
        version=ndk.revision,
        target=target,
        identity={
            "ndk": ndk.revision,
            "clang": first_line([programs["cxx"], "--version"], runner),
            "digest": file_digest(programs["cxx"]),
            # those of the NDK alone: its clang calls no other
            "calls": called_digests(
                programs["cxx"], programs["cc"], str(ndk.prebuilt / "bin"), runner
            ),
            "flags": [*flags, *static],
            "brought": brought_digest(brought),
            "linked": {path.name: file_digest(str(path)) for path in _archives(linked)},
        },
        commands={
            "cxx": (programs["cxx"], *flags, *static),
            "cc": (programs["cc"], *flags),
            "ar": (programs["ar"],),
        },
        cxx_library="libc++",
        c_library="bionic",
        links_cxx_library=bool(static),
        beside=() if static else (_shared_library(ndk, config.processor, place),),
        android=AndroidFacts(declared.api, ndk.release, declared.stl),
        linked=linked,
        brought=brought,
        exports_more="by compiler",
        # _FLAGS, as all that is compiled with an NDK
        hardens=HARDENING,
    )


def _open(variable: str, folder: Path, place: Place) -> _Ndk:
    """The NDK that `variable` names. Raises NdkUnusableError, NdkTooOldError."""
    if not folder.is_dir():
        raise _unusable(variable, place, "the folder of an NDK", f"no folder {folder}")
    properties = folder / "source.properties"
    match = (
        _REVISION.search(properties.read_text(encoding="utf-8")) if properties.is_file() else None
    )
    if match is None or not (folder / "toolchains/llvm").is_dir():
        seen = (
            f"no Pkg.Revision in {properties.name}"
            if match is None and properties.is_file()
            else f"no {properties.name}"
            if match is None
            else "no toolchains/llvm"
        )
        raise _unusable(
            variable, place, "source.properties and toolchains/llvm", f"{seen} in {folder}"
        )
    release = int(match[2])
    if release < LEAST_RELEASE:
        raise NdkTooOldError(
            f"the NDK that {variable} names is too old",
            place=place,
            expected=f"release {LEAST_RELEASE} or newer: the first that uses only lld and llvm-ar",
            seen=match[1],
            hint="install a newer NDK; 27 and newer are made for 16 KB pages",
        )
    return _Ndk(folder, variable, match[1], release, _prebuilt(folder, variable, place))


def _unusable(variable: str, place: Place, expected: str, seen: str) -> NdkUnusableError:
    return NdkUnusableError(
        f"{variable} names no Android NDK",
        place=place,
        expected=expected,
        seen=seen,
        hint=f"set {variable} to the folder that holds the NDK's source.properties,"
        " such as $ANDROID_HOME/ndk/<revision>",
    )


def _incomplete(ndk: _Ndk, part: Path, place: Place, why: str = "") -> NdkUnusableError:
    return NdkUnusableError(
        f"a part of the NDK that {ndk.variable} names is missing",
        place=place,
        expected=f"{part.relative_to(ndk.folder)}{why}",
        seen=f"no such file in {ndk.folder}",
        hint="install the NDK again",
    )


def _prebuilt(folder: Path, variable: str, place: Place) -> Path:
    """`toolchains/llvm/prebuilt/<host>` for this machine; macOS has one folder for both Macs."""
    host = f"{platform.system().lower()}-x86_64"
    found = folder / "toolchains/llvm/prebuilt" / host
    if platform.system() == "Linux" and platform.machine() not in ("x86_64", "AMD64"):
        host = f"linux-{platform.machine()}"
        found = folder / "toolchains/llvm/prebuilt" / host
    if not found.is_dir():
        parent = folder / "toolchains/llvm/prebuilt"
        hosts = sorted(path.name for path in parent.iterdir()) if parent.is_dir() else []
        raise NdkUnusableError(
            f"the NDK that {variable} names is not for this machine",
            place=place,
            expected=f"toolchains/llvm/prebuilt/{host}",
            seen=f"compilers for {', '.join(hosts) or 'no machine'}",
            hint="install the NDK that is made for this system",
        )
    return found


def _check_api(ndk: _Ndk, api: int, abi: str, place: Place) -> None:
    """Raises ApiLevelError, NdkUnusableError."""
    path = ndk.folder / "meta/platforms.json"
    try:
        levels = read_json(path)
        least, most = int(levels["min"]), int(levels["max"])
    except (OSError, ValueError, KeyError, TypeError) as cause:
        raise _incomplete(ndk, path, place, " with the API levels `min` and `max`") from cause
    if not least <= api <= most:
        raise ApiLevelError(
            f"the NDK cannot compile {abi} for API level {api}",
            place=place,
            expected=f"`api` from {least} to {most} (NDK {ndk.revision})",
            seen=str(api),
            hint=f"set `api: {min(max(api, least), most)}`, or use"
            f" {'an older' if api < least else 'a newer'} NDK",
        )


def _program(ndk: _Ndk, name: str, place: Place) -> str:
    path = ndk.prebuilt / "bin" / name
    if not path.is_file():
        raise _incomplete(ndk, path, place)
    return str(path)


def _shared_library(ndk: _Ndk, processor: Processor, place: Place) -> Path:
    """libc++_shared.so, which an app with `stl: c++_shared` carries."""
    path = ndk.prebuilt / "sysroot/usr/lib" / _libraries(processor) / "libc++_shared.so"
    if not path.is_file():
        raise _incomplete(ndk, path, place, ", for `stl: c++_shared`")
    return path


def _libraries(processor: Processor) -> str:
    return _LIBRARIES.get(processor, _TRIPLES[processor])


def _archives(linked: Iterable[LinkedPart]) -> tuple[Path, ...]:
    """The files of which the linker puts parts into binaries."""
    return tuple(
        path for part in linked for glob in part.sources for path in sorted(part.folder.glob(glob))
    )


def _linked(ndk: _Ndk, processor: Processor, *, static: bool) -> tuple[LinkedPart, ...]:
    """LLVM's runtime libraries, in whose binaries the licence text is the NDK's NOTICE."""
    notice = next(
        (p for p in (ndk.prebuilt / "NOTICE", ndk.folder / "NOTICE") if p.is_file()), None
    )
    texts = {} if notice is None else {"NOTICE": notice}
    triple = _libraries(processor)
    names = {"triple": triple, "processor": triple.partition("-")[0]}
    return tuple(
        LinkedPart(
            name,
            f"ndk-{ndk.revision}",
            _LLVM,
            texts,
            witnesses,
            ndk.prebuilt,
            tuple(archive.format(**names) for archive in _ARCHIVES[name]),
        )
        for name, witnesses in _PARTS.items()
        if static or name not in ("libcxx", "libcxxabi")
    )
