"""iOS and its simulator: a static library that apps link, delivered in XCFrameworks."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from orchestrator.platforms.platform import Platform, RelativeSize, StaticLibrary

IOS: Final = Platform(
    system="ios",
    format="macho",
    library=StaticLibrary(sdk="iphoneos", simulator=False),
    compilers=("xcode",),
    c_libraries=("libsystem",),
    link_libraries=(),
    packages=("xcframework", "tar"),
    default_packages=("xcframework",),
    cmake_name="iOS",
    # Apple's architectures
    cmake_processors={"arm64": "arm64"},
    cmake_advice="use Xcode, or CMake's own support: -DCMAKE_SYSTEM_NAME=iOS",
    # Apple's headers check without being asked
    checked_calls=False,
    # compact unwinding takes a sixth of .eh_frame
    sizes={"arm64": RelativeSize(scale=0.8), "x86_64": RelativeSize(scale=0.8)},
)
IOS_SIMULATOR: Final = replace(
    IOS,
    system="ios-simulator",
    library=StaticLibrary(sdk="iphonesimulator", simulator=True),
    cmake_processors={"x86_64": "x86_64", "arm64": "arm64"},
)
