"""What zig links into binaries from its own package, with the versions that the package tells.

zig compiles its C++ library, unwinder, compiler support and C library from sources that it brings.
Which of them end up in a binary depends on the target and on what the binary uses; each part's
witnesses tell (zig's `src/libs/libcxx.zig`, `glibc.zig`, `musl.zig` have the lists of sources).
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from orchestrator.toolchain.driver import LinkedPart

_LLVM: Final = "Apache-2.0 WITH LLVM-exception"
_LIBCPP_VERSION: Final = re.compile(r"define _LIBCPP_VERSION (\d+)(\d\d)(\d\d)$", re.MULTILINE)
_MUSL_VERSION: Final = re.compile(r'VERSION "([^"]+)"')
# LLVM's names of helpers that compilers call; zig's own sources, under zig's licence.
_HELPERS: Final = (
    *("__udivti3", "__umodti3", "__divti3", "__modti3", "__multi3", "__muloti4", "__udivmodti4"),
    *("__mulsc3", "__muldc3", "__multc3", "__mulxc3", "__divsc3", "__divdc3", "__divtc3"),
    *("__addtf3", "__subtf3", "__multf3", "__divtf3", "__extenddftf2", "__trunctfdf2"),
    *("__extendhfsf2", "__truncsfhf2", "__truncdfhf2", "__truncsfbf2", "__powidf2", "__powisf2"),
    *("__floattidf", "__floatuntidf", "__fixdfti", "__fixunsdfti", "__aeabi_", "__aarch64_"),
)
# libc_nonshared.a: what glibc before 2.33 links into every binary instead of exporting it.
_NONSHARED: Final = (
    *("atexit", "at_quick_exit", "pthread_atfork", "__stack_chk_fail_local", "__libc_csu_"),
    *("stat", "fstat", "lstat", "fstatat", "mknod", "mknodat"),
    *("stat64", "fstat64", "lstat64", "fstatat64"),
)
_MUSL: Final = ("__init_libc", "__libc_start_main", "__libc_malloc", "__stdio_write", "__syscall_ret")


def zig_parts(zig: str, version: str, target: str) -> tuple[LinkedPart, ...]:
    """The parts that zig may link into binaries for `target`.

    `zig` is the program, beside which the package's `lib` lies.
    """
    package = Path(zig).parent
    library = package / "lib"
    llvm = _llvm_version(library)
    parts = [
        _llvm_part(library, "libcxx", llvm, ("_ZNSt3__1", "_ZNKSt3__1")),
        _llvm_part(library, "libcxxabi", llvm, ("__cxa_throw", "__dynamic_cast")),
        _llvm_part(library, "libunwind", llvm, ("_Unwind_RaiseException", "unw_step")),
        LinkedPart(
            "zig-compiler-rt", version, "MIT", {"LICENSE": package / "LICENSE"}, _HELPERS
        ),
    ]
    if "-musl" in target:
        musl = library / "libc/musl"
        parts.append(
            LinkedPart(
                "musl",
                _found(_MUSL_VERSION, musl / "src/internal/version.h")[1],
                "MIT",
                {"COPYRIGHT": musl / "COPYRIGHT"},
                _MUSL,
            )
        )
    elif "-gnu" in target:
        parts.append(
            LinkedPart(
                "glibc-nonshared",
                target.rpartition("-gnu")[2].partition(".")[2] or "unknown",
                "LGPL-2.1-or-later WITH GCC-exception-2.0",
                {"LICENSES": library / "libc/glibc/LICENSES"},
                _NONSHARED,
            )
        )
    return tuple(parts)


def _llvm_part(library: Path, name: str, version: str, witnesses: tuple[str, ...]) -> LinkedPart:
    texts = {"LICENSE.TXT": library / name / "LICENSE.TXT"}
    return LinkedPart(name, version, _LLVM, texts, witnesses)


def _llvm_version(library: Path) -> str:
    """`22.1.8`: libc++ writes it as 220108."""
    return ".".join(
        str(int(part))
        for part in _found(_LIBCPP_VERSION, library / "libcxx/include/__config").groups()
    )


def _found(pattern: re.Pattern[str], path: Path) -> re.Match[str]:
    match = pattern.search(path.read_text(encoding="utf-8"))
    assert match, f"{path} has no {pattern.pattern}"
    return match
