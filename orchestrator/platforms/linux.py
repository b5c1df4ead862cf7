"""Linux with glibc or musl: a shared library for programs, and Debian packages with glibc."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from orchestrator.platforms.platform import CLibrary, Host, Platform, RelativeSize, SharedLibrary

# The parts of one package, libc6.
_GLIBC: Final = frozenset(
    (
        "libc.so.6",
        "libm.so.6",
        "libdl.so.2",
        "libpthread.so.0",
        "librt.so.1",
        "ld-linux-x86-64.so.2",
        "ld-linux-aarch64.so.1",
        "ld-linux-armhf.so.3",
    )
)
# As zig calls it, and as Alpine does; both are the dynamic linker itself.
_MUSL: Final = frozenset(("libc.so", "libc.musl-x86_64.so.1", "libc.musl-aarch64.so.1"))
# The oldest glibc that pip knows tags for: https://peps.python.org/pep-0600/, and manylinux2014's
# for the processors that came later.
_OLDEST_GLIBC: Final[Mapping[str, tuple[int, int]]] = {"x86_64": (2, 5)}
_OLDEST_GLIBC_ELSEWHERE: Final = (2, 17)
# https://peps.python.org/pep-0656/; 1.2 is that of zig, and of every Alpine since 3.13
_MUSL_RELEASE: Final = "1_2"
LIBRARY: Final = SharedLibrary(
    system_libraries={"gnu": _GLIBC, "musl": _MUSL},
    # such a library is for the machine that compiled it, or its like
    cxx_libraries=frozenset(
        ("libstdc++.so.6", "libgcc_s.so.1", "libc++.so.1", "libc++abi.so.1", "libunwind.so.1")
    ),
    page_sizes={"x86_64": 0x1000, "arm64": 0x1000, "armv7": 0x1000},
    # not every glibc and musl reads packed relocations
    relocated="by itself",
    addons=frozenset({"arm64", "x86_64"}),
    checked=frozenset({"gnu"}),
)
LINUX: Final = Platform(
    system="linux",
    format="elf",
    library=LIBRARY,
    compilers=("zig", "command"),
    c_libraries=("gnu", "musl"),
    link_libraries=("-lpthread", "-ldl"),
    packages=("tar", "deb", "wheel"),
    default_packages=("tar", "deb"),
    # Debian has no ABI for musl
    package_needs={"deb": "gnu"},
    cmake_name="Linux",
    # `uname -m`
    cmake_processors={"x86_64": "x86_64", "arm64": "aarch64", "armv7": "armv7l"},
    host=Host(name="Linux", link_flags=("-Wl,--gc-sections",)),
    # glibc's; musl has none and takes no notice
    checked_calls=True,
    # glibc's; native/runtime_library/thread_exit.cpp
    threads_hold_libraries=True,
    sizes={"x86_64": RelativeSize(), "arm64": RelativeSize(more=35_000)},
)


def c_library_of(target: str) -> CLibrary:
    """The C library of a target for Linux, as zig and gcc write it: `aarch64-linux-musl`."""
    return "musl" if "-musl" in target else "gnu"


def wheel_platform(
    machine: str, target: str, needed: Collection[str], versions: Mapping[str, str]
) -> str:
    """The platform in a wheel's name, by what its library needs: `manylinux_2_17_x86_64`.

    machine   as `uname -m` says it
    needed    the libraries that the loader finds for it; without any, `target` tells the C library
    versions  the highest version of each set of symbols, `GLIBC` -> `2.17`

    One that needs more of the system than its C library has a tag without a promise, which package
    indices refuse: `linux_x86_64`.
    """
    libraries = LIBRARY.system_libraries
    c_library = c_library_of(target)
    if needed:
        c_library = "musl" if libraries["musl"].intersection(needed) else "gnu"
    if not libraries[c_library].issuperset(needed):
        return f"linux_{machine}"
    if c_library == "musl":
        return f"musllinux_{_MUSL_RELEASE}_{machine}"
    major, minor = max(
        _OLDEST_GLIBC.get(machine, _OLDEST_GLIBC_ELSEWHERE),
        _numbers(versions.get("GLIBC", "2.0")),
    )
    return f"manylinux_{major}_{minor}_{machine}"


def _numbers(version: str) -> tuple[int, int]:
    """`2.2.5`, the first version of symbols for x86-64, is glibc 2.2."""
    major, minor, *_ = (*version.split("."), "0")
    return int(major), int(minor)
