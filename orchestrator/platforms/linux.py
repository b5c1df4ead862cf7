"""Linux with glibc or musl: a shared library for programs, and Debian packages with glibc."""

from __future__ import annotations

from typing import Final

from orchestrator.platforms.platform import CLibrary, Host, Platform, SharedLibrary

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
LIBRARY: Final = SharedLibrary(
    system_libraries={"gnu": _GLIBC, "musl": _MUSL},
    # such a library is for the machine that compiled it, or its like
    cxx_libraries=frozenset(
        ("libstdc++.so.6", "libgcc_s.so.1", "libc++.so.1", "libc++abi.so.1", "libunwind.so.1")
    ),
    page_sizes={"x86_64": 0x1000, "arm64": 0x1000, "armv7": 0x1000},
    # not every glibc and musl reads packed relocations
    relocated="by itself",
)
LINUX: Final = Platform(
    system="linux",
    format="elf",
    library=LIBRARY,
    compilers=("zig", "command"),
    c_libraries=("gnu", "musl"),
    link_libraries=("-lpthread", "-ldl"),
    packages=("tar", "deb"),
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
)


def c_library_of(target: str) -> CLibrary:
    """The C library of a target for Linux, as zig and gcc write it: `aarch64-linux-musl`."""
    return "musl" if "-musl" in target else "gnu"
