"""Android without an NDK: a stub sysroot that compiles and links. Its libraries must not ship.

zig compiles for the real Android triple, but has no bionic: the headers are musl's, and libraries
are linked against empty ones with bionic's symbols. The C++ library is LLVM's, from zig's package,
compiled with every variant in the NDK's namespace (`std::__ndk1`). Everything that depends on
bionic's own layouts is wrong. The effect of `__ANDROID__` on PyTorch's units, the symbols, the
sections and the packages are as with an NDK.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from orchestrator.compilers.driver import AndroidFacts, Driver, StubToolchain
from orchestrator.compilers.zig import ZIG_FLAGS, ZIG_LTO, ZIG_SMALLEST, installed_zig
from orchestrator.compilers.zig_cxx import LINK_FLAGS, NO_CXX_LIBRARY, cxx_sources
from orchestrator.compilers.zig_parts import zig_parts
from orchestrator.errors import OrchestratorError, Place
from orchestrator.system.process import Command, CommandRunner
from orchestrator.system.sums import is_whole, publish
from orchestrator.values.config.toolchain import NdkCompiler, Processor

HEADERS: Final = Path(__file__).parent / "android"
# What zig reads where its libc is from; it names the folder that it is in.
LIBC: Final = "libc.txt"
# musl's NULL is not a number in C++, bionic's is.
NULL: Final = Path(__file__).parents[1] / "native/libc/null.h"


class StandInBrokenError(OrchestratorError):
    """zig cannot make the empty libraries that the stub sysroot links against."""


@dataclass(frozen=True)
class _Machine:
    """zig's words for a processor: target, its folder of musl's headers, of Linux' headers, lld's
    emulation, the macros of zig's list of musl's symbols, flags."""

    triple: str
    musl: str
    linux: str
    emulation: str
    symbols: tuple[str, ...]
    flags: tuple[str, ...] = ()


# 16 KB pages: Google Play wants them of 64-bit libraries for API level 35 and up.
PAGES: Final = ("-Wl,-z,max-page-size=16384",)
_MACHINES: Final[Mapping[Processor, _Machine]] = {
    "arm64": _Machine(
        triple="aarch64-linux-android",
        musl="aarch64",
        linux="aarch64",
        emulation="aarch64linux",
        symbols=("ARCH_aarch64", "FAMILY_aarch64", "PTR64"),
        flags=PAGES,
    ),
    "armv7": _Machine(
        triple="thumb-linux-androideabi",
        musl="arm",
        linux="arm",
        emulation="armelf_linux_eabi",
        symbols=("ARCH_arm", "FAMILY_arm", "TIME32"),
        # The NDK's armeabi-v7a: NEON, arguments in integer registers. zig's list of what its CPU
        # has follows clang's and takes NEON away again with `-vfp2`.
        flags=(
            *("-mcpu=baseline", "-mfpu=neon", "-mfloat-abi=softfp"),
            *("-Xclang", "-target-feature", "-Xclang", "+vfp2"),
            *("-Xclang", "-target-feature", "-Xclang", "+neon"),
        ),
    ),
    "x86_64": _Machine(
        triple="x86_64-linux-android",
        musl="x86_64",
        linux="x86",
        emulation="elf_x86_64",
        symbols=("ARCH_x86_64", "FAMILY_x86", "PTR64"),
        flags=PAGES,
    ),
}
_FLAGS: Final = (
    # what an NDK's own CMake file and its <android/ndk-version.h> define, and PyTorch asks for
    *("-DANDROID", "-D__ANDROID_NDK__", "-D__NDK_MAJOR__=26"),
    *("-U_LIBCPP_HAS_MUSL_LIBC", "-D_LIBCPP_HAS_MUSL_LIBC=1"),
    *("-U_LIBCPP_ABI_NAMESPACE", "-D_LIBCPP_ABI_NAMESPACE=__ndk1", "-Wno-macro-redefined"),
    # without the list of functions whose address counts, which clang leaves out for Android, the
    # linker folds none
    *("-fPIC", "-faddrsig"),
)
# In musl, and in no bionic: what refers to them must not link here either.
_NOT_BIONIC: Final = (
    *("shm_open", "shm_unlink", "pthread_cancel", "pthread_setcancelstate"),
    *("pthread_setcanceltype", "pthread_testcancel", "mq_open", "mq_unlink", "wordexp"),
)
# libunwind's own <unwind.h> in place of clang's, which stands before it and knows no ARM.
_UNWIND: Final = ("-D__CLANG_UNWIND_H", "-include", "$zig/libunwind/include/unwind.h")
_DYNAMIC: Final = ("dlopen", "dlsym", "dlclose", "dlerror", "dladdr", "dl_iterate_phdr")
_LOG: Final = ("__android_log_write", "__android_log_print")


def find_shim(
    declared: NdkCompiler,
    processor: Processor,
    place: Place,
    cache_folder: Path,
    env: Mapping[str, str],
    runner: CommandRunner,
) -> Driver:
    """zig with the stub sysroot, in place of an NDK. Raises StandInBrokenError, and what
    `installed_zig` raises."""
    zig, wheel = installed_zig(place, cache_folder)
    library = Path(zig).parent / "lib"
    machine = _MACHINES[processor]
    target = f"{machine.triple}.{declared.api}"
    flags = ("-target", target, *ZIG_FLAGS, *machine.flags, *_FLAGS)
    identity = {
        "shim": wheel.identity,
        "flags": [flags, NO_CXX_LIBRARY],
        "smallest": ZIG_SMALLEST,
        "headers": _headers_digest(),
    }
    made_of = [identity, _NOT_BIONIC, _DYNAMIC, _LOG]
    digest = hashlib.sha256(json.dumps(made_of, sort_keys=True).encode()).hexdigest()
    # its libc.txt says where it is: a cache that was moved needs another
    name = hashlib.sha256(f"{digest} {cache_folder}".encode()).hexdigest()[:12]
    folder = cache_folder / "toolchains" / f"android-sysroot-{name}"
    run = partial(_run_zig, zig, env, place, runner)
    _make_sysroot(folder, library, machine, target, run)
    compiler = _Compiler(zig, folder, library, machine, flags)
    return Driver(
        kind="ndk-shim",
        version=wheel.version,
        target=target,
        identity=identity,
        commands={"cxx": compiler.argv("c++"), "cc": compiler.argv("cc"), "ar": (zig, "ar")},
        cxx_library="libc++",
        c_library="bionic",
        zig=zig,
        smallest=ZIG_SMALLEST,
        lto_flags=ZIG_LTO,
        cxx_sources=cxx_sources(library, _UNWIND),
        links_cxx_whole=True,
        link_flags=LINK_FLAGS,
        android=AndroidFacts(declared.api, None, "c++_static"),
        stub=StubToolchain(
            expected="an Android NDK",
            seen="neither ANDROID_NDK_HOME nor ANDROID_NDK_ROOT is set, so the stub"
            " sysroot is used",
            hint="set ANDROID_NDK_HOME to the folder of an NDK, or build without --release",
        ),
        linked=zig_parts(zig, target),
        exports_more="by wrapper",
        link_inputs=digest,
    )


@dataclass(frozen=True)
class _Compiler:
    zig: str
    sysroot: Path
    library: Path
    machine: _Machine
    flags: tuple[str, ...]

    def argv(self, verb: str) -> tuple[str, ...]:
        """zig with the stub sysroot instead of a C library of its own."""
        # by the command and not by libc.txt, which all checkouts of a user share
        include = self.library / "libc/include"
        musl = (include / f"{self.machine.musl}-linux-musl", include / "generic-musl")
        linux = (include / f"{self.machine.linux}-linux-any", include / "any-linux-any")
        behind = (*musl, HEADERS, *linux)
        return (
            *("env", f"ZIG_LIBC={self.sysroot / LIBC}", self.zig, verb, *self.flags),
            *(word for folder in behind for word in ("-idirafter", str(folder))),
            *("-include", str(NULL)),
            f"-L{self.sysroot}",
        )


def _headers_digest() -> str:
    digest = hashlib.sha256()
    for path in (*sorted(HEADERS.rglob("*.h")), NULL):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _make_sysroot(
    folder: Path, library: Path, machine: _Machine, target: str, run_in: Callable[..., None]
) -> None:
    """Write empty libraries with bionic's names into `folder`, where they are not there already,
    undamaged."""
    if is_whole(folder):
        return
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".sysroot-") as name:
        staged = Path(name) / folder.name
        staged.mkdir()
        run = partial(run_in, Path(name) / "zig", staged)
        assemble = ("cc", "-target", target, "-g0", "-c", "-x", "assembler-with-cpp")
        sources = {
            "crtbegin_so": _assembly((), ("__dso_handle",)),
            "crtend_so": "",
            "libm": _assembly(_math(library), ()),
            "libdl": _assembly(_DYNAMIC, ()),
            "liblog": _assembly(_LOG, ()),
        }
        for stem, text in sources.items():
            (staged / f"{stem}.S").write_text(text, encoding="utf-8")
            run(*assemble, f"{stem}.S", "-o", f"{stem}.o")
        defined = [f"-D{name}" for name in machine.symbols]
        run(*assemble, *defined, str(library / "libc/musl/libc.S"), "-o", "libc.o")
        (staged / "libc.map").write_text(
            "{ local: " + "; ".join(_NOT_BIONIC) + "; };\n", encoding="utf-8"
        )
        for stem in ("libc", "libm", "libdl", "liblog"):
            script = ("--version-script=libc.map", "--undefined-version") if stem == "libc" else ()
            link = ("ld.lld", "-m", machine.emulation, "-shared", "-soname", f"{stem}.so", *script)
            run(*link, f"{stem}.o", "-o", f"{stem}.so")
        described = {
            **dict.fromkeys(("include_dir", "sys_include_dir", "crt_dir", "cc_dir"), folder),
            **dict.fromkeys(("msvc_lib_dir", "kernel32_lib_dir", "darwin_sdk_dir"), ""),
        }
        text = "".join(f"{key}={value}\n" for key, value in described.items())
        (staged / LIBC).write_text(text, encoding="utf-8")
        publish(staged, folder)


def _assembly(functions: tuple[str, ...], hidden: tuple[str, ...]) -> str:
    """Functions of no content; hidden words that hold nothing."""
    lines = [".text", *(f".globl {n}\n.type {n}, %function\n{n}: .long 0" for n in functions)]
    lines += [".data", *(f".globl {n}\n.hidden {n}\n{n}: .quad 0" for n in hidden)]
    return "\n".join(lines) + "\n"


def _math(library: Path) -> tuple[str, ...]:
    """The functions of libm: the names of musl's sources."""
    return tuple(sorted(path.stem for path in (library / "libc/musl/src/math").glob("[a-z]*.c")))


def _run_zig(
    zig: str,
    env: Mapping[str, str],
    place: Place,
    runner: CommandRunner,
    kept: Path,
    folder: Path,
    *arguments: str,
) -> None:
    """Run zig in a folder, with its own caches in `kept`. Raises StandInBrokenError."""
    caches = {"ZIG_GLOBAL_CACHE_DIR": str(kept), "ZIG_LOCAL_CACHE_DIR": str(kept)}
    done = runner.run(Command([zig, *arguments], {**env, **caches}, folder))
    if done.code:
        raise StandInBrokenError(
            "zig cannot make the libraries of the stub sysroot",
            place=place,
            seen=next(iter(done.err.strip().splitlines()), f"exit code {done.code}"),
            hint="set ANDROID_NDK_HOME to an NDK, or install ziglang again",
            details=done.err.strip() or None,
        )
