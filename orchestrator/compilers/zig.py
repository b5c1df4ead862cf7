"""PyPI's ziglang: clang, lld and the C and C++ libraries of many targets in one package."""

from __future__ import annotations

import hashlib
import os
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from importlib import util
from itertools import count
from pathlib import Path

from orchestrator.compilers.driver import LTO_LINK, CompilerMissingError, Driver
from orchestrator.compilers.module import Declared, Machine, Requirement
from orchestrator.compilers.zig_cxx import LINK_FLAGS, cxx_sources
from orchestrator.compilers.zig_parts import zig_parts
from orchestrator.compilers.zig_wheel import Wheel, wheel_of
from orchestrator.errors import Place
from orchestrator.platforms.linux import c_library_of
from orchestrator.system.installation import install_again
from orchestrator.system.process import CommandRunner
from orchestrator.system.staging import write_bytes, write_text
from orchestrator.values.config.toolchain import ToolchainConfig

# Always said, whatever zig's defaults become: objects carry no debug information (1.95 MB against
# 273 KB each), UBSan is off, and warnings of PyTorch's own headers are not ours to show.
# Unwinding entries are for functions that can throw: zig asks for all. Frame pointers are for
# functions that call others. Together 30 KB of a small library.
ZIG_FLAGS = (
    *("-g0", "-fno-sanitize=all", "-Wno-invalid-specialization"),
    *("-Xclang", "-funwind-tables=0", "-Xclang", "-mframe-pointer=non-leaf"),
)
# What -Oz means: clang's own, which zig takes for -Os, but inlining what is about as small as a
# call with its unwinding entry (clang's limit of 5 makes the library larger, not smaller).
ZIG_SMALLEST = ("-Xclang", "-Oz", "-mllvm", "-inline-threshold=35")

# In a folder of zig's cache: the library folder of the installation that it is of; its time says
# when that was last used.
_INSTALLATION = "installation"
# The folder, likewise, of zig's notes: which inputs made which result.
_NOTES = "h"
# In a folder that holds something damaged.
_LEFT = "left"
# A container does not see the installations of others that build in the same cache at this moment.
_UNUSED_SECONDS = 7 * 24 * 3600

# Links the bitcode in objects, not their code: zig's own `-flto` would make its libraries again.
ZIG_LTO = ("-Wl,--fat-lto-objects", *LTO_LINK)


def find(
    config: ToolchainConfig,
    place: Place,
    cache_folder: Path,
    env: Mapping[str, str],
    runner: CommandRunner,
) -> Driver:
    """zig for the declared target. Raises what `installed_zig` raises."""
    declared = config.compiler.zig
    assert declared is not None
    zig, wheel = installed_zig(place, cache_folder)
    verbs = {
        "cxx": ["c++", "-target", declared.target, *ZIG_FLAGS],
        "cc": ["cc", "-target", declared.target, *ZIG_FLAGS],
        "ar": ["ar"],
    }
    return Driver(
        kind="zig",
        version=wheel.version,
        target=declared.target,
        consumer_target=declared.target,
        identity={"zig": wheel.identity, "verbs": verbs, "smallest": ZIG_SMALLEST},
        commands={verb: (zig, *arguments) for verb, arguments in verbs.items()},
        cxx_library="libc++",
        c_library=c_library_of(declared.target),
        zig=zig,
        smallest=ZIG_SMALLEST,
        lto_flags=ZIG_LTO,
        cxx_sources=cxx_sources(Path(zig).parent / "lib"),
        link_flags=LINK_FLAGS,
        linked=zig_parts(zig, declared.target),
        exports_more="by wrapper",
        # start files, compiler-rt, libc's names: zig makes them of its own sources
        link_inputs="",
    )


def runs_zig(config: ToolchainConfig, machine: Machine) -> bool:
    """Always."""
    return True


def requirements(toolchains: Sequence[Declared], machine: Machine) -> Iterator[Requirement]:
    """Nothing in addition to the Python package."""
    yield from ()


def release_files(driver: Driver, runner: CommandRunner) -> Iterator[Path]:
    """zig itself, and what pip says of its package: its version, and the digests of its files."""
    assert driver.zig is not None
    zig = Path(driver.zig)
    yield zig
    yield from sorted(zig.parent.parent.glob(f"{zig.parent.name}-*.dist-info/*"))


def searched(
    config: ToolchainConfig, driver: Driver, env: Mapping[str, str], runner: CommandRunner
) -> Iterator[Path]:
    """Nowhere: it is a package of the Python that runs this."""
    yield from ()


def zig_library() -> Path | None:
    """The folder with zig's own libraries and headers; None where zig is not installed."""
    spec = util.find_spec("ziglang")
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(spec.submodule_search_locations[0]) / "lib"


def zig_cache(cache_folder: Path) -> Path:
    """The folder of zig's own cache: one for each installation of zig, the first that is not left.

    zig knows its library's files by inode and time. Two environments that share one cache of it
    would build libc++ again, a minute for each target, whenever the other one was used before.
    """
    library = zig_library()
    if library is None:
        return cache_folder / "zig"
    name = hashlib.sha256(str(library).encode()).hexdigest()[:12]
    numbers = (name if number == 1 else f"{name}-{number}" for number in count(1))
    folders = (cache_folder / "zig" / each for each in numbers)
    return next(folder for folder in folders if not (folder / _LEFT).exists())


def leave_zig_cache(folder: Path) -> None:
    """Have nothing begin to use a folder of zig's cache: there is another, empty one from now on,
    and nothing is seen through it. Raises OSError.

    Builds that use it go on in it: what is removed under a zig that links ends its link.
    """
    write_text(folder / _LEFT, "")


def seen_through(cache: Path, folder: Path) -> Path:
    """`cache`, a folder of zig's cache; if it is read-only, `folder` with the same contents, or,
    once that was left, without them.

    zig opens its manifests for writing, even to read them. So they are copied, and its results are
    linked; new files are only in `folder`.
    """
    if _writable(cache):
        return cache
    if (folder / _LEFT).exists():
        return folder
    for at, _, names in os.walk(cache):
        mirrored = folder / Path(at).relative_to(cache)
        mirrored.mkdir(parents=True, exist_ok=True)
        for name in names:
            if (mirrored / name).exists():
                continue
            if mirrored.parent == folder and mirrored.name == _NOTES:
                write_bytes(mirrored / name, (Path(at) / name).read_bytes())
            else:
                # a link to where a cache was before is none
                (mirrored / name).unlink(missing_ok=True)
                (mirrored / name).symlink_to(Path(at) / name)
    return folder


def _writable(folder: Path) -> bool:
    """True if files can be created in a folder, or the folder itself can."""
    here = next(path for path in (folder, *folder.parents) if path.exists())
    return os.access(here, os.W_OK)


def claim_zig_cache(cache_folder: Path) -> None:
    """Make the folder, with a record of the installation, or mark it as used.

    If it is new, folders that were left, or are of missing installations, are removed once they
    were unused for a week.
    """
    folder, library = zig_cache(cache_folder), zig_library()
    if library is None:
        return
    note = folder / _INSTALLATION
    if not note.is_file() and _writable(folder):
        _remove_left(folder.parent)
        write_text(note, f"{library}\n")
    # a cache that can only be read serves too
    with suppress(OSError):
        os.utime(note)


def _remove_left(folders: Path) -> None:
    for note in folders.glob(f"*/{_INSTALLATION}"):
        # another process may remove it at this moment, and a damaged one is nobody's
        with suppress(OSError, ValueError):
            gone = not Path(note.read_text(encoding="utf-8").strip()).is_dir()
            gone = gone or (note.parent / _LEFT).exists()
            if gone and time.time() - note.stat().st_mtime > _UNUSED_SECONDS:
                shutil.rmtree(note.parent, ignore_errors=True)


def installed_zig(place: Place, cache_folder: Path) -> tuple[str, Wheel]:
    """zig's program, and which zig it is.

    Raises CompilerMissingError, ZigUnrecordedError, ZigAlteredError.
    """
    program = zig_program(place)
    return program, wheel_of(Path(program), zig_cache(cache_folder), place)


def zig_program(place: Place) -> str:
    """zig's program. Raises CompilerMissingError."""
    library = zig_library()
    if library is None:
        raise CompilerMissingError(
            "the Python package ziglang is not installed",
            place=place,
            hint=install_again(),
        )
    return str(library.parent / "zig")
