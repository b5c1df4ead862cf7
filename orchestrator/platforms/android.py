"""Android: a shared library with a Java API for apps, delivered in AARs."""

from __future__ import annotations

from typing import Final

from orchestrator.platforms.platform import Platform, RelativeSize, SharedLibrary

LIBRARY: Final = SharedLibrary(
    # the NDK's stable libraries that PyTorch uses
    system_libraries={
        "bionic": frozenset(("libc.so", "libm.so", "libdl.so", "liblog.so", "libandroid.so"))
    },
    # which apps carry themselves
    cxx_libraries=frozenset(("libc++_shared.so",)),
    # systems with pages of 16 KB run 64-bit code only
    page_sizes={"arm64": 0x4000, "x86_64": 0x4000, "armv7": 0x1000},
    relocated="by loader",
    exports=frozenset(("JNI_OnLoad",)),
    # 64-bit objects alone are rewritten so far
    addons=frozenset({"arm64", "x86_64"}),
)
ANDROID: Final = Platform(
    system="android",
    format="elf",
    library=LIBRARY,
    compilers=("ndk",),
    c_libraries=("bionic",),
    # bionic has threads in libc, and PyTorch logs to liblog
    link_libraries=("-lm", "-ldl", "-llog"),
    packages=("aar", "tar"),
    default_packages=("aar",),
    cmake_name="Android",
    # what CMake's Platform/Android-Determine.cmake says of an ABI
    cmake_processors={"x86_64": "x86_64", "arm64": "aarch64", "armv7": "armv7-a"},
    cmake_advice="use the NDK's build/cmake/android.toolchain.cmake, or the package's prefab"
    " modules",
    checked_calls=True,
    # POSIX shared memory
    lacks=frozenset(("shm_open", "shm_unlink")),
    # the NDK's, so that it can be told from the system's own
    cxx_namespace="__ndk1",
    # c10::impl::tls_local_dispatch_key_set() (c10/core/impl/LocalDispatchKeySet.h)
    not_inline=frozenset(("_ZN3c104impl26tls_local_dispatch_key_setEv",)),
    java=True,
    # the unwinder and all of the C++ library are in it
    sizes={"arm64": RelativeSize(more=140_000), "x86_64": RelativeSize(more=140_000)},
)


def packed_relocations(api: int) -> tuple[str, ...]:
    """Linker flags that pack relocations for the least supported system: from API level 23 on,
    smaller from 28, with standard tags from 30 (bionic, docs/elf-relocations and
    android-changes-for-ndk-developers.md)."""
    if api < 23:
        return ()
    if api < 28:
        return ("-Wl,--pack-dyn-relocs=android",)
    tags = ("-Wl,--use-android-relr-tags",) if api < 30 else ()
    return ("-Wl,--pack-dyn-relocs=android+relr", *tags)
