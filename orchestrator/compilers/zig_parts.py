"""The parts of zig's own package that it links into binaries, and their versions.

zig compiles its C++ library, unwinder, compiler support and C library from bundled sources (listed
in zig's `src/libs/*.zig`). Which of them a binary contains depends on the target and on what the
binary uses; each part's witness symbols show it.
"""

from __future__ import annotations

import re
from importlib import metadata
from pathlib import Path
from typing import Final

from orchestrator.compilers.driver import LinkedPart

_LIBCPP_VERSION: Final = re.compile(r"define _LIBCPP_VERSION (\d+)(\d\d)(\d\d)$", re.MULTILINE)
_MUSL_VERSION: Final = re.compile(r'VERSION "([^"]+)"')
_LLVM: Final = {
    # in its own namespace, and in the NDK's
    "libcxx": ("_ZNSt3__1", "_ZNKSt3__1", "_ZNSt6__ndk1", "_ZNKSt6__ndk1"),
    "libcxxabi": ("__cxa_throw", "__dynamic_cast"),
    "libunwind": ("_Unwind_RaiseException", "unw_step"),
}
# What compilers call for arithmetic that the processor lacks: zig's own `compiler_rt`. It is one
# object, which also brings functions of libc and libm (`memcpy`, `exp`), and its definitions take
# the place of a shared library's. Their bodies are local symbols, as `compiler_rt.log.log`.
_HELPERS: Final = (
    "compiler_rt.",
    *("__udivti3", "__umodti3", "__divti3", "__modti3", "__multi3", "__muloti4", "__udivmodti4"),
    *("__mulsc3", "__muldc3", "__multc3", "__mulxc3", "__divsc3", "__divdc3", "__divtc3"),
    *("__addtf3", "__subtf3", "__multf3", "__divtf3", "__extenddftf2", "__trunctfdf2"),
    *("__extendhfsf2", "__truncsfhf2", "__truncdfhf2", "__truncsfbf2", "__powidf2", "__powisf2"),
    *("__floattidf", "__floatuntidf", "__fixdfti", "__fixunsdfti", "__aeabi_", "__aarch64_"),
)
# libc_nonshared.a: what glibc links into every binary instead of exporting it, most before 2.33.
_NONSHARED: Final = (
    *("atexit", "at_quick_exit", "pthread_atfork", "__libc_csu_init", "__stack_chk_fail_local"),
    *("stat64", "fstat64", "lstat64", "fstatat64", "mknod", "mknodat"),
)
_NONSHARED_SOURCES: Final = (
    *("io/*.c", "stdlib/*.c", "csu/elf-init-2.33.c", "debug/*.c", "**/pthread_atfork.c"),
)


def zig_parts(zig: str, target: str) -> tuple[LinkedPart, ...]:
    """The parts that zig may link into binaries for `target`; `zig` is its program.

    musl's shared libraries take libc from the system, and so hold none of its witnesses.
    """
    package = Path(zig).parent
    library = package / "lib"
    llvm = _llvm_version(library)
    parts = [
        LinkedPart(
            name,
            llvm,
            "Apache-2.0 WITH LLVM-exception",
            {"LICENSE.TXT": library / name / "LICENSE.TXT"},
            witnesses,
            library,
            (f"{name}/**",),
        )
        for name, witnesses in _LLVM.items()
    ]
    # much of it is ported from LLVM and from musl, whose notices its sources name
    texts = {
        "LICENSE": package / "LICENSE",
        "LICENSE.TXT.llvm": library / "libcxx/LICENSE.TXT",
        "COPYRIGHT.musl": library / "libc/musl/COPYRIGHT",
    }
    runtime = ("compiler_rt.zig", "compiler_rt/**")
    zigs = metadata.version("ziglang")
    parts.append(LinkedPart("zig-compiler-rt", zigs, "MIT", texts, _HELPERS, library, runtime))
    if "-musl" in target:
        musl = library / "libc/musl"
        version = _found(_MUSL_VERSION, musl / "src/internal/version.h")[1]
        texts = {"COPYRIGHT": musl / "COPYRIGHT"}
        witnesses = ("__libc_start_main", "malloc")
        parts.append(
            LinkedPart("musl", version, "MIT", texts, witnesses, library, ("libc/musl/**",))
        )
    if "-gnu" in target:
        # the permission to link it stands in each of its sources
        texts = {"NOTICE": library / "libc/glibc/io/fstat64-2.32.c"}
        licence = "LGPL-2.1-or-later WITH GCC-exception-2.0"
        # what src/libs/glibc.zig compiles of it
        sources = tuple(f"libc/glibc/{name}" for name in _NONSHARED_SOURCES)
        parts.append(
            LinkedPart("glibc-nonshared", "2.32", licence, texts, _NONSHARED, library, sources)
        )
    return tuple(parts)


def _llvm_version(library: Path) -> str:
    """`22.1.8`: libc++ writes it as 220108."""
    match = _found(_LIBCPP_VERSION, library / "libcxx/include/__config")
    return ".".join(str(int(part)) for part in match.groups())


def _found(pattern: re.Pattern[str], path: Path) -> re.Match[str]:
    match = pattern.search(path.read_text(encoding="utf-8"))
    assert match, f"{path} does not hold {pattern.pattern}"
    return match
