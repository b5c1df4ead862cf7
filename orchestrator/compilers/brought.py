"""Files that a compiler of this machine, or an NDK, reads beside its programs: headers, and the
files that its linker puts into binaries.

A distribution's update may replace them and leave the compiler as it is. So their contents are part
of the compiler's identity: of the headers, those that the C++ standard library and the system
headers that PyTorch includes lead to, as the compiler itself finds them (`-M`).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Final

from orchestrator.system.process import Command, CommandRunner
from orchestrator.system.reading import file_sha256

_HEADERS: Final = (
    *("algorithm", "array", "atomic", "bitset", "charconv", "chrono", "cmath", "complex"),
    *("condition_variable", "csignal", "cstdarg", "cstdio", "cstdlib", "cstring", "cwchar"),
    *("deque", "exception", "filesystem", "fstream", "functional", "future", "iomanip"),
    *("iostream", "iterator", "limits", "list", "locale", "map", "memory", "mutex", "new"),
    *("numeric", "optional", "queue", "random", "regex", "set", "shared_mutex", "sstream"),
    *("stack", "string", "string_view", "system_error", "thread", "tuple", "typeindex"),
    *("unordered_map", "unordered_set", "utility", "valarray", "variant", "vector"),
    *("dlfcn.h", "fcntl.h", "pthread.h", "sched.h", "sys/mman.h", "sys/stat.h", "unistd.h"),
    *("immintrin.h", "arm_neon.h"),
)
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
    return tuple(sorted({*_headers(cxx, flags, runner), *_linked(cxx, flags, runner)}))


@cache
def brought_digest(files: tuple[Path, ...]) -> str:
    """One digest of the contents of files, which exist; their folders do not matter."""
    contents = sorted(f"{path.name} {file_sha256(path)}\n" for path in files)
    return hashlib.sha256("".join(contents).encode()).hexdigest()


def _headers(cxx: str, flags: Sequence[str], runner: CommandRunner) -> list[Path]:
    lines = [f"#if __has_include(<{name}>)\n#include <{name}>\n#endif\n" for name in _HEADERS]
    argv = [cxx, *flags, "-std=c++17", "-M", "-x", "c++", "-"]
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
