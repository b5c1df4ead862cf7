"""Files that a compiler of this machine, or an NDK, reads beside its programs: headers, and the
files that its linker puts into binaries.

A distribution's update may replace them and leave the compiler as it is. So their contents are part
of the compiler's identity: of the headers, those that the C and C++ standard libraries and the
system headers that PyTorch includes lead to, as the compiler itself finds them (`-M`).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Final

from orchestrator.compilers.flags import CHECKED_CALLS
from orchestrator.system.process import Command, CommandRunner
from orchestrator.system.reading import file_sha256

# Headers of C++17 and C11 (cppreference.com), of the system, of the compiler.
_HEADERS: Final = (
    *("algorithm", "any", "array", "atomic", "bitset", "cassert", "cctype", "cerrno", "cfenv"),
    *("cfloat", "charconv", "chrono", "cinttypes", "climits", "clocale", "cmath", "codecvt"),
    *("complex", "condition_variable", "csetjmp", "csignal", "cstdarg", "cstddef", "cstdint"),
    *("cstdio", "cstdlib", "cstring", "ctime", "cuchar", "cwchar", "cwctype", "deque"),
    *("exception", "filesystem", "forward_list", "fstream", "functional", "future"),
    *("initializer_list", "iomanip", "ios", "iosfwd", "iostream", "istream", "iterator", "limits"),
    *("list", "locale", "map", "memory", "memory_resource", "mutex", "new", "numeric", "optional"),
    *("ostream", "queue", "random", "ratio", "regex", "scoped_allocator", "set", "shared_mutex"),
    *("sstream", "stack", "stdexcept", "streambuf", "string", "string_view", "system_error"),
    *("thread", "tuple", "type_traits", "typeindex", "typeinfo", "unordered_map", "unordered_set"),
    *("utility", "valarray", "variant", "vector", "cxxabi.h"),
    *("assert.h", "complex.h", "ctype.h", "errno.h", "fenv.h", "float.h", "inttypes.h", "iso646.h"),
    *("limits.h", "locale.h", "math.h", "setjmp.h", "signal.h", "stdalign.h", "stdarg.h"),
    *("stdatomic.h", "stdbool.h", "stddef.h", "stdint.h", "stdio.h", "stdlib.h", "stdnoreturn.h"),
    *("string.h", "tgmath.h", "time.h", "uchar.h", "wchar.h", "wctype.h"),
    *("byteswap.h", "dirent.h", "dlfcn.h", "endian.h", "execinfo.h", "fcntl.h", "libgen.h"),
    *("link.h", "malloc.h", "poll.h", "pthread.h", "sched.h", "semaphore.h", "strings.h"),
    *("sys/auxv.h", "sys/file.h", "sys/ioctl.h", "sys/mman.h", "sys/param.h", "sys/prctl.h"),
    *("sys/resource.h", "sys/select.h", "sys/stat.h", "sys/syscall.h", "sys/sysinfo.h"),
    *("sys/time.h", "sys/types.h", "sys/uio.h", "sys/utsname.h", "sys/wait.h", "syslog.h"),
    *("unistd.h", "asm/hwcap.h", "linux/futex.h", "linux/limits.h"),
    *("arm_acle.h", "arm_bf16.h", "arm_fp16.h", "arm_neon.h", "arm_sve.h", "cpuid.h"),
    *("immintrin.h", "unwind.h", "x86intrin.h"),
)
# A C library has headers for C alone: there `_GNU_SOURCE` is not defined.
_LANGUAGES: Final = (("-std=c++17", "-x", "c++"), ("-x", "c"))
# As units are compiled: a C library has headers of its own for functions that check their calls.
_AS_UNITS: Final = ("-O2", *CHECKED_CALLS)
_LINKED: Final = (
    *("crti.o", "crtn.o", "crtbeginS.o", "crtendS.o", "crtbegin_so.o", "crtend_so.o"),
    *("libgcc.a", "libc_nonshared.a", "libstdc++_nonshared.a"),
)
# A file in a rule of make; a blank in its name is escaped.
_FILE: Final = re.compile(r"(?:\\.|[^\s\\])+")


@cache
def brought_files(cxx: str, flags: tuple[str, ...], runner: CommandRunner) -> tuple[Path, ...]:
    """The headers and linked files of a C++ compiler with these flags, sorted; empty where it does
    not tell."""
    headers = {path for language in _LANGUAGES for path in _headers(cxx, flags, language, runner)}
    return tuple(sorted({*headers, *_linked(cxx, flags, runner)}))


@cache
def brought_digest(files: tuple[Path, ...]) -> str:
    """One digest of the contents of files, which exist; their folders do not matter."""
    contents = sorted(f"{path.name} {file_sha256(path)}\n" for path in files)
    return hashlib.sha256("".join(contents).encode()).hexdigest()


def _headers(
    cxx: str, flags: Sequence[str], language: Sequence[str], runner: CommandRunner
) -> list[Path]:
    lines = [f"#if __has_include(<{name}>)\n#include <{name}>\n#endif\n" for name in _HEADERS]
    argv = [cxx, *_AS_UNITS, *flags, "-M", *language, "-"]
    done = runner.run(Command(argv, None, input="".join(lines).encode()))
    text = done.out.partition(":")[2].replace("\\\n", " ")
    found = (Path(re.sub(r"\\(.)", r"\1", word)) for word in _FILE.findall(text))
    return [path.resolve() for path in found if path.is_absolute() and path.is_file()]


def _linked(cxx: str, flags: Sequence[str], runner: CommandRunner) -> list[Path]:
    found = []
    for name in _LINKED:
        done = runner.run(Command([cxx, *flags, f"-print-file-name={name}"], None))
        path = Path(done.out.strip())
        # of what it does not have, it gives the name alone
        if path.is_absolute() and path.is_file():
            found.append(path.resolve())
    return found
