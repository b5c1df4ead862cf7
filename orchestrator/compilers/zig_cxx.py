"""The C++ library, its ABI library and the unwinder as sources, from ziglang.

zig would compile them itself at the first link, again for every installation and target, at its own
optimisation level. As our own compilations, they are cached, shared and planned like the rest.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from orchestrator.compilers.driver import CxxSource

_BUILT: Final = ("-fPIC", "-ffunction-sections", "-fdata-sections", "-fvisibility=hidden")
_CXX: Final = (
    *(*_BUILT, "-fvisibility-inlines-hidden", "-w", "-DNDEBUG", "-std=c++23"),
    "-D_LIBCPP_BUILDING_LIBRARY",
)
# Folder of zig's package -> how its sources are compiled (zig's src/libs/libcxx.zig, and others).
_PARTS: Final[Mapping[str, tuple[str, ...]]] = {
    "libcxx/src": (
        *_CXX,
        *("-DLIBCXX_BUILDING_LIBCXXABI", "-I$zig/libcxx/src", "-I$zig/libcxx/libc"),
    ),
    "libcxx/src/ryu": (*_CXX, "-I$zig/libcxx/src"),
    "libcxxabi/src": (*_CXX, "-D_LIBCXXABI_BUILDING_LIBRARY", "-I$zig/libcxx/src"),
    # An exception is unwound from within `_Unwind_RaiseException`, which is C: without an entry of
    # its own every `throw` ends the process.
    "libunwind/src": (
        *(*_BUILT, "-w", "-DNDEBUG", "-D_LIBUNWIND_IS_NATIVE_ONLY", "-I$zig/libunwind/include"),
        *("-fexceptions", "-Xclang", "-funwind-tables=2"),
    ),
}
# Sources of which PyTorch without kernels takes nothing, in either of its versions. All that they
# define has a name of C++'s own.
SELDOM: Final = frozenset(
    f"libcxx/src/{name}.cpp"
    for name in (
        *("any", "atomic", "barrier", "bind", "charconv", "expected", "fstream"),
        *("memory_resource", "mutex_destructor", "new_handler", "ostream", "print"),
        *("random_shuffle", "regex", "ryu/d2fixed", "ryu/d2s", "ryu/f2s", "strstream"),
        *("typeinfo", "valarray", "vector", "verbose_abort"),
    )
)
# Sources that are compiled one by one, and optimised, where others of their folder are not
# (`plan/cxx_together.py`): those that change what its headers declare; one with an initialiser,
# which is linked only where something refers to it; those of strings and streams, by which all that
# a run tells is written.
ALONE: Final = frozenset(
    f"libcxx/src/{name}.cpp"
    for name in (
        *("condition_variable_destructor", "error_category", "ios.instantiations", "iostream"),
        "string",
    )
)
# One that changes what headers declare, but can have others behind it.
FIRST: Final = frozenset({"libcxx/src/memory.cpp"})
# At a link: zig is not to bring a C++ library of its own making.
NO_CXX_LIBRARY: Final = ("-nostdlib++",)
# And no runtime for UBSan, which nothing here refers to: without an optimisation zig compiles one,
# twelve CPU seconds a target.
LINK_FLAGS: Final = (*NO_CXX_LIBRARY, "-O2")
# For a C++ library without exceptions.
_EXCLUDED: Final = ("libcxxabi/src/cxa_noexception.cpp",)


def cxx_sources(library: Path, of_unwinder: tuple[str, ...] = ()) -> tuple[CxxSource, ...]:
    """The sources below zig's library folder; of_unwinder: flags of the unwinder's besides."""
    return tuple(
        CxxSource(
            unit=f"{part}/{path.name}",
            language="c++" if path.suffix == ".cpp" else "c",
            flags=(
                *flags,
                *(of_unwinder if part == "libunwind/src" and path.suffix != ".S" else ()),
            ),
        )
        for part, flags in _PARTS.items()
        for path in sorted((library / part).iterdir())
        if path.suffix in (".cpp", ".c", ".S") and f"{part}/{path.name}" not in _EXCLUDED
    )
