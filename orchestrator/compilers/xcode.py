"""iOS: Xcode through `xcrun` if it exists, otherwise zig with its bundled Darwin headers.

Both make Mach-O objects of the platform's public ABI: the same triples, the same C++ library
(libc++, inline namespace `std::__1`, from the system), the same `LC_BUILD_VERSION`.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Final

from orchestrator.compilers import zig
from orchestrator.compilers.command import file_digest, first_line, places_of
from orchestrator.compilers.driver import Driver
from orchestrator.compilers.module import Declared, Machine, Requirement
from orchestrator.compilers.zig import ZIG_FLAGS, ZIG_SMALLEST, installed_zig
from orchestrator.errors import OrchestratorError, Place
from orchestrator.platforms import PLATFORMS
from orchestrator.platforms.platform import StaticLibrary
from orchestrator.system.process import Command, CommandRunner
from orchestrator.system.reading import read_json
from orchestrator.values.config.toolchain import ToolchainConfig

# libc++'s availability.h tells releases apart from iOS 15 on, so 14 is the last that it was made
# for; Apple's SDKs say the same of themselves (SDKSettings.json).
_ZIG_LEAST: Final = "14.0"
# zig's libc++ is built beside its headers, so it lets them use all that its binary has. The one on
# the device may be older: with the annotations the headers use only what it has.
_SYSTEM_LIBCXX: Final = (
    "-U_LIBCPP_HAS_VENDOR_AVAILABILITY_ANNOTATIONS",
    "-D_LIBCPP_HAS_VENDOR_AVAILABILITY_ANNOTATIONS=1",
)
_DARWIN_HEADERS: Final = "lib/libc/include/any-darwin-any"


class XcodeUnusableError(OrchestratorError):
    """`xcrun` is here, but does not give what compiling for iOS needs."""


class MinimumVersionError(OrchestratorError):
    """A toolchain declares an iOS version that its compiler cannot build for."""


class SdkMismatchError(OrchestratorError):
    """A toolchain declares another system's SDK."""


def find(
    config: ToolchainConfig,
    place: Place,
    cache_folder: Path,
    env: Mapping[str, str],
    runner: CommandRunner,
) -> Driver:
    """Xcode's clang, or zig where this machine has no `xcrun`.

    Raises SdkMismatchError, MinimumVersionError, XcodeUnusableError, and what `installed_zig`
    raises.
    """
    declared = config.compiler.xcode
    assert declared is not None
    wanted = _library(config).sdk
    if declared.sdk != wanted:
        raise SdkMismatchError(
            f"the SDK {declared.sdk} is not {config.system}'s",
            place=place,
            expected=f"sdk: {wanted}",
            seen=declared.sdk,
        )
    xcrun = shutil.which("xcrun", path=env.get("PATH"))
    if xcrun is None:
        return _zig(config, declared.minimum, place, cache_folder)
    asked = _Xcrun(xcrun, declared.sdk, place, env, runner)
    return _xcode(config, declared.minimum, asked, place)


def runs_zig(config: ToolchainConfig, machine: Machine) -> bool:
    """True if there is no Xcode."""
    return machine.which("xcrun") is None


def requirements(toolchains: Sequence[Declared], machine: Machine) -> Iterator[Requirement]:
    """Xcode, without which zig does."""
    get = "on macOS: xcode-select --install; without it zig builds the iOS archives"
    yield Requirement("Xcode", machine.which("xcrun"), (), get)


def release_files(driver: Driver, runner: CommandRunner) -> Iterator[Path]:
    """Yield the files that identify the SDK's release; zig's files if zig compiles."""
    if driver.zig is not None:
        yield from zig.release_files(driver, runner)
        return
    words = driver.commands["cxx"]
    yield Path(words[words.index("-isysroot") + 1], "SDKSettings.json")


def searched(
    config: ToolchainConfig, driver: Driver, env: Mapping[str, str], runner: CommandRunner
) -> Iterator[Path]:
    """PATH, for xcrun, and what `xcode-select` chose."""
    yield from places_of("xcrun", env.get("PATH"))
    yield Path("/var/db/xcode_select_link")


def _library(config: ToolchainConfig) -> StaticLibrary:
    """The static library of the toolchain's platform: Xcode builds for no other."""
    library = PLATFORMS[config.system].library
    assert isinstance(library, StaticLibrary)
    return library


def _xcode(config: ToolchainConfig, minimum: str, xcrun: _Xcrun, place: Place) -> Driver:
    sdk, version = Path(xcrun.ask("--show-sdk-path")), xcrun.ask("--show-sdk-version")
    _check_minimum(minimum, _least_of_sdk(sdk, xcrun.sdk), version, f"SDK {version}", place)
    suffix = "-simulator" if _library(config).simulator else ""
    target = f"{config.processor}-apple-ios{minimum}{suffix}"
    programs = {verb: xcrun.ask("--find", name) for verb, name in _PROGRAMS.items()}
    release = xcrun.release()
    flags = ("-target", target)
    return Driver(
        kind="xcode",
        version=release.split()[1] if len(release.split()) > 1 else release,
        target=target,
        identity={
            "xcode": release,
            "clang": first_line([programs["cxx"], "--version"], xcrun.runner),
            "digest": file_digest(programs["cxx"]),
            "sdk": f"{xcrun.sdk} {version}",
            "flags": flags,
        },
        commands={
            "cxx": (programs["cxx"], *flags, "-isysroot", str(sdk)),
            "cc": (programs["cc"], *flags, "-isysroot", str(sdk)),
            "ar": (programs["ar"],),
        },
        consumer_target=target,
        minimum=minimum,
        cxx_library="libc++",
        c_library="libsystem",
        archiver="libtool",
    )


_PROGRAMS: Final = {"cxx": "clang++", "cc": "clang", "ar": "libtool"}


class _Xcrun:
    """Questions to `xcrun` about one SDK."""

    def __init__(
        self,
        program: str,
        sdk: str,
        place: Place,
        env: Mapping[str, str],
        runner: CommandRunner,
    ) -> None:
        self.sdk = sdk
        self.runner = runner
        self._program = program
        self._place = place
        self._env = env

    def ask(self, *question: str) -> str:
        """The one line that answers. Raises XcodeUnusableError."""
        return self._run([self._program, "--sdk", self.sdk, *question])

    def release(self) -> str:
        """`Xcode 16.2 Build version 16C5032a`. Raises XcodeUnusableError."""
        return " ".join(self._run([self._program, "xcodebuild", "-version"]).split())

    def _run(self, argv: Sequence[str]) -> str:
        done = self.runner.run(Command(argv, self._env))
        said = done.out.strip()
        if done.code == 0 and said:
            return said
        raise XcodeUnusableError(
            f"Xcode gives no answer about the SDK {self.sdk}",
            place=self._place,
            expected="an Xcode with the iOS platform",
            seen=f"`{' '.join(['xcrun', *argv[1:]])}` said: {(done.err or said).strip()}",
            hint=(
                "install Xcode, choose it with `xcode-select --switch`, and get the platform with"
                " `xcodebuild -downloadPlatform iOS`"
            ),
        )


@cache
def _least_of_sdk(folder: Path, sdk: str) -> str | None:
    """The least deployment target, as the SDK's SDKSettings.json says; None where it does not."""
    try:
        settings = read_json(folder / "SDKSettings.json")
        least = settings["SupportedTargets"][sdk]["MinimumDeploymentTarget"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return str(least)


def _zig(config: ToolchainConfig, minimum: str, place: Place, cache_folder: Path) -> Driver:
    zig, wheel = installed_zig(place, cache_folder)
    _check_minimum(minimum, _ZIG_LEAST, None, f"zig {wheel.version}", place)
    suffix = "-simulator" if _library(config).simulator else ""
    processor = {"arm64": "aarch64"}.get(config.processor, config.processor)
    target = f"{processor}-ios.{minimum}{suffix}"
    flags = ("-target", target, *ZIG_FLAGS, *_SYSTEM_LIBCXX)
    verbs = {"cxx": ("c++", *flags), "cc": ("cc", *flags), "ar": ("ar", "--format=darwin")}
    headers = ("-isystem", str(Path(zig).parent / _DARWIN_HEADERS))
    return Driver(
        kind="zig",
        version=wheel.version,
        target=target,
        identity={
            "zig": wheel.identity,
            "verbs": verbs,
            "headers": _DARWIN_HEADERS,
            "smallest": ZIG_SMALLEST,
        },
        commands={
            verb: (zig, *arguments, *(() if verb == "ar" else headers))
            for verb, arguments in verbs.items()
        },
        consumer_target=target,
        minimum=minimum,
        cxx_library="libc++",
        c_library="libsystem",
        zig=zig,
        smallest=ZIG_SMALLEST,
        # archives, and objects that are joined: nothing else
        link_inputs="",
    )


def _check_minimum(
    minimum: str, least: str | None, most: str | None, of: str, place: Place
) -> None:
    if not all(part.isdigit() for part in minimum.split(".")) or len(minimum.split(".")) > 3:
        raise MinimumVersionError(
            "`minimum` is not a valid iOS version",
            place=place,
            expected="two or three numbers, such as 15.0",
            seen=minimum,
        )
    if least is not None and _numbers(minimum) < _numbers(least):
        raise MinimumVersionError(
            f"{of} does not build for iOS {minimum}",
            place=place,
            expected=f"minimum: {least} or newer",
            seen=minimum,
            hint=f"declare `minimum: {least}`, or use an older Xcode",
        )
    if most is not None and _numbers(minimum) > _numbers(most):
        raise MinimumVersionError(
            f"{of} is older than the least iOS version",
            place=place,
            expected=f"minimum: {most} or older",
            seen=minimum,
            hint="lower it, or use a newer Xcode",
        )


def _numbers(version: str) -> tuple[int, ...]:
    """`15.0` and `15` are one version."""
    numbers = [int(part) for part in version.split(".") if part.isdigit()]
    return tuple([*numbers, 0, 0, 0][:3])
