"""Compiler flags of the runtime's units: the only place for flags that select, record or optimise.

Paths are written as `$tree`, `$generated`, `$configured`, `$native`, `$third_party_<name>`, so that
flags are the same text on every machine and can be fingerprinted; ninja fills them in.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from functools import cache
from typing import Final, Literal

from orchestrator.compilers.flags import CHECKED_CALLS, HARDENING, LTO_FLAGS, Hardening
from orchestrator.platforms import PLATFORMS
from orchestrator.pytorch.dialect import Layout, UnitFlags
from orchestrator.values.config.forms import Optimize
from orchestrator.values.config.toolchain import System

Purpose = Literal["release", "tracer"]
# Which functions of a unit find out that their stack was written over.
Canaries = Literal["none", "some", "more"]

# clang's own limit at -Oz, whatever a wrapper makes of it: what is good for units one by one
# (compilers/zig.py) makes a library that is optimised as a whole 27 KB larger.
_INLINE_LESS = ("-mllvm", "-inline-threshold=5")

# Which functions find out that their stack was written over. Those with an array of bytes, such as
# a SmallVector's; in what reads models, also those with any other array or with the address of a
# variable of their own: for all units that would cost 9 %. What computes does without (decision
# 0031): it is fast as it is, and a precompiled header is for units that are alike in this too.
_CANARIES: dict[Canaries, tuple[str, ...]] = {
    "none": (),
    "some": ("-fstack-protector",),
    "more": ("-fstack-protector-strong",),
}

_COMMON = (
    "-fPIC",
    "-ffunction-sections",
    "-fdata-sections",
    "-fvisibility=hidden",
    "-w",
    # __FILE__ reaches c10::Error: paths would name the cache folder, and cost 20 KB
    "-D__FILE__=__FILE_NAME__",
    "-D_FILE_OFFSET_BITS=64",
    "-DNDEBUG",
)

# What PyTorch is told of functions that a system's C library does not have.
_LACKS: Mapping[System, frozenset[str]] = {
    system: frozenset(f"-DHAVE_{function.upper()}=1" for function in platform.lacks)
    for system, platform in PLATFORMS.items()
}

# The C++ library's own sources, for the shared library alone.
RUNTIME_LIBRARY_FLAGS = (
    "-Oz",
    "-fPIC",
    "-ffunction-sections",
    "-fdata-sections",
    "-fvisibility=hidden",
    "-fvisibility-inlines-hidden",
    "-w",
    "-DNDEBUG",
    "-std=c++23",
    "-D_LIBCPP_BUILDING_LIBRARY",
    "-DLIBCXX_BUILDING_LIBCXXABI",
)

# Sources of ours that need nothing of C++'s own library, nor exceptions: what relocates a shared
# library, and what is behind the Java API.
BARE_FLAGS = (
    *("-Oz", "-fPIC", "-ffunction-sections", "-fdata-sections", "-fvisibility=hidden"),
    *("-fno-exceptions", "-fno-rtti", "-w", "-DNDEBUG", "-std=gnu++17"),
)

# What relocates a shared library, without canaries, also where a compiler makes them by default. On
# arm64 a canary is read through a pointer in the library's data, and this runs before those are as
# they should be. The loader itself relocates that one, but nothing here shall depend on it.
RELOCATION_FLAGS = (*BARE_FLAGS, "-fno-stack-protector", "-U_FORTIFY_SOURCE")


def hardened(
    flags: Iterable[str],
    system: System,
    canaries: Canaries = "some",
    *,
    wanted: Collection[Hardening] = HARDENING,
) -> tuple[str, ...]:
    """Hardening flags, followed by a toolchain's own flags.

    If the toolchain's flags set stack protectors themselves (`-fno-stack-protector`), ours are
    omitted.
    """
    own = tuple(flags)
    found: tuple[str, ...] = ()
    if "canaries" in wanted and not _about_canaries(own):
        found = _CANARIES[canaries]
    if "checked_calls" in wanted and PLATFORMS[system].checked_calls:
        found = (*found, *CHECKED_CALLS)
    return (*found, *own)


def canaries_of(layout: Layout, unit: str, *, kernel: bool, purpose: Purpose) -> Canaries:
    """Stack-protector level of a unit of PyTorch's (see `_CANARIES`).

    `none` for units that compute: those that upstream compiles at -O3 (`kernel`), and those in
    folders of kernels. `more` for units that read models, which are untrusted, and for every unit
    of a tracer, whose size and speed do not count: so its units share one precompiled header.
    """
    if purpose == "tracer":
        return "more"
    if kernel or unit.startswith(layout.kernels):
        return "none"
    return "more" if layout.reads(unit) else "some"


def guards_stack(flags: Iterable[str]) -> bool:
    """True unless the toolchain's own flags turn stack protectors off."""
    about = _about_canaries(tuple(flags))
    return not about or not about[-1].startswith("-fno-")


def checks_calls(flags: Iterable[str]) -> bool:
    """True unless the toolchain's own flags turn glibc's checks of calls that write
    (_FORTIFY_SOURCE) off."""
    about = [flag for flag in flags if flag[2:].startswith("_FORTIFY_SOURCE")]
    return not about or (about[-1].startswith("-D") and not about[-1].endswith("=0"))


def _about_canaries(flags: tuple[str, ...]) -> list[str]:
    return [flag for flag in flags if "stack-protector" in flag]


def own_folders(flags: Iterable[str]) -> tuple[str, ...]:
    """The folders of ours that a toolchain's flags put on the include path (`-I$native/...`)."""
    return tuple(flag[2:] for flag in flags if flag.startswith("-I$native/"))


def unit_flags(
    own: UnitFlags,
    *,
    language: str,
    kernel: bool,
    hot: bool,
    optimize: Optimize,
    purpose: Purpose,
    computes: bool = False,
    lto: bool = False,
    system: System = "linux",
) -> tuple[str, ...]:
    """The flags of one unit.

    own: its version's.  kernel: upstream compiles it at -O3.  hot: a trace shows that its kernels
    take the time.
    computes: it runs for each operator of a model.  lto: its link optimises all units together.
    """
    level = optimisation(kernel=kernel, hot=hot, optimize=optimize, computes=computes)
    flags = [level, *_COMMON, *(own.c if language == "c" else ())]
    if language == "c++":
        flags += [own.standard, "-fvisibility-inlines-hidden"]
        flags += [macro for macro in own.macros if macro not in _LACKS[system]]
        flags += own.release if purpose == "release" else own.tracer
        flags += [f"-I{folder}" for folder in own.include]
    flags += [f"-iquote{folder}" for folder in own.quoted]
    return together(flags) if lto else tuple(flags)


def together(flags: Iterable[str]) -> tuple[str, ...]:
    """The flags of a unit that is optimised with all others of its library, at the link."""
    return (*flags, *LTO_FLAGS, *_INLINE_LESS)


# Best optimised first.
_LEVELS = ("-O3", "-O2", "-Os", "-Oz")

# Units that differ in these have one precompiled header: they say what code is made of what was
# read. clang compares them, and would refuse. What the header reads asks for one of them alone,
# `__OPTIMIZE_SIZE__`: libc++ then has no copies of its searches for vectors. Whether the header is
# up to date is ninja's to know.
ANY_HEADER: Final = ("-Xclang", "-fno-validate-pch")
_OF_CODE: Final = frozenset(
    (*_LEVELS, *(flag for flags in _CANARIES.values() for flag in flags), "-fno-stack-protector")
)


def header_flags(flags: Iterable[str]) -> tuple[str, ...]:
    """Return the flags of the precompiled header for units with `flags`: the same for all levels of
    optimisation and guards of the stack."""
    return ("-Os", *(flag for flag in flags if flag not in _OF_CODE))


def reading(flags: tuple[str, ...], header: object | None) -> tuple[str, ...]:
    """The flags of a unit that has a precompiled header, or None."""
    return flags if header is None else (*flags, *ANY_HEADER)


@cache
def speed_rank(flags: tuple[str, ...]) -> int:
    """The rank of the optimisation level among `flags`: 0 for the fastest code. Raises ValueError
    where there is no level."""
    return min(_LEVELS.index(flag) for flag in flags if flag in _LEVELS)


def optimisation(*, kernel: bool, hot: bool, optimize: Optimize, computes: bool = False) -> str:
    """-Oz everywhere; or upstream's -O2 and -O3; or upstream's for the hot units alone.

    computes: the unit runs for each operator of a model, not once for a model. Where speed counts
    at all it gets -Os, which costs a small library 40 KB and takes a tenth off its time.
    """
    if optimize == "size" or (optimize == "balanced" and not hot and not computes):
        return "-Oz"
    if optimize == "balanced" and not hot:
        return "-Os"
    return "-O3" if kernel else "-O2"
