"""Compilers of this machine, by name or path."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

from orchestrator.compilers.brought import brought_digest, brought_files
from orchestrator.compilers.driver import CompilerMissingError, Driver, names_folder
from orchestrator.compilers.flags import Hardening
from orchestrator.compilers.module import Declared, Machine, Requirement
from orchestrator.errors import Place
from orchestrator.system.process import Command, CommandRunner
from orchestrator.values.config.toolchain import ToolchainConfig


def find(
    config: ToolchainConfig,
    place: Place,
    cache_folder: Path,
    env: Mapping[str, str],
    runner: CommandRunner,
) -> Driver:
    """The declared programs. Raises CompilerMissingError."""
    declared = config.compiler.command
    assert declared is not None
    found = {
        "cxx": _find(declared.cxx, place, env),
        "cc": _find(declared.cc, place, env),
        "ar": _find(declared.ar or "ar", place, env),
    }
    version = first_line([found["cxx"], "--version"], runner)
    flags = tuple(flag for flag in config.compile_flags if not names_folder(flag))
    macros = _macros(found["cxx"], flags, runner)
    brought = brought_files(found["cxx"], flags, runner)
    return Driver(
        kind="command",
        version=version,
        target=version,
        identity={
            "command": version,
            "digest": file_digest(found["cxx"]),
            "calls": called_digests(found["cxx"], found["cc"], env.get("PATH"), runner),
            "brought": brought_digest(brought),
        },
        commands={verb: (path,) for verb, path in found.items()},
        cxx_library="libc++" if "_LIBCPP_VERSION" in macros else "libstdc++",
        # musl has no macro of its own
        c_library="musl" if "__linux__" in macros and "__GLIBC__" not in macros else "gnu",
        family="clang" if "clang" in version.lower() else "gcc",
        links_cxx_library=False,
        hardens=_hardens(macros),
        brought=brought,
    )


def runs_zig(config: ToolchainConfig, machine: Machine) -> bool:
    """Never."""
    return False


def requirements(toolchains: Sequence[Declared], machine: Machine) -> Iterator[Requirement]:
    """The declared programs."""
    for each in toolchains:
        command = each.config.compiler.command
        assert command is not None
        for name in (command.cxx, command.cc):
            found, abi = machine.which(name), each.config.abi
            yield Requirement(name, found, (abi,), f"install it, or correct {each.place}")


def release_files(driver: Driver, runner: CommandRunner) -> Iterator[Path]:
    """The headers and the linked files that its identity has."""
    yield from driver.brought


def searched(
    config: ToolchainConfig, driver: Driver, env: Mapping[str, str], runner: CommandRunner
) -> Iterator[Path]:
    """PATH, for the declared programs and those that they call."""
    declared, path = config.compiler.command, env.get("PATH")
    assert declared is not None
    for name in (declared.cxx, declared.cc, declared.ar or "ar", "as", "ld"):
        yield from places_of(name, path)
    yield from called_by(driver, path, runner)


def places_of(name: str, path: str | None) -> Iterator[Path]:
    """Yield the paths at which a program is looked for, in the order of PATH, up to the first
    match."""
    folders = [""] if "/" in name else (path or os.defpath).split(os.pathsep)
    for folder in folders:
        place = Path.cwd() / folder / name
        yield place
        if place.is_file() and os.access(place, os.X_OK):
            return


def _hardens(macros: frozenset[str]) -> frozenset[Hardening]:
    """The hardening that a distribution's compiler enables by default, possibly more than ours."""
    found: set[Hardening] = set()
    if macros & {"__SSP_STRONG__", "__SSP_ALL__"}:
        found.add("canaries")
    if "_FORTIFY_SOURCE" in macros:
        found.add("checked_calls")
    return frozenset(found)


@cache
def _macros(cxx: str, flags: tuple[str, ...], runner: CommandRunner) -> frozenset[str]:
    """The names of the macros that the C++ compiler and its libraries define."""
    # some are defined only where the compiler optimises
    argv = [cxx, "-O2", *flags, "-dM", "-E", "-x", "c++", "-"]
    done = runner.run(Command(argv, None, input=b"#include <cstddef>\n"))
    words = (line.split() for line in done.out.splitlines())
    return frozenset(line[1].partition("(")[0] for line in words if line[:1] == ["#define"])


def first_line(argv: list[str], runner: CommandRunner) -> str:
    """The first line that a program prints."""
    done = runner.run(Command(argv, None))
    return next(iter((done.out or done.err).strip().splitlines()), "of unknown version")


@cache
def file_digest(path: str) -> str:
    """sha256 of a program, through its links."""
    return hashlib.sha256(Path(path).resolve().read_bytes()).hexdigest()


# gcc's compilers are programs of their own; a driver may leave assembling and linking to others.
_CALLED = ("cc1plus", "cc1", "as", "ld")
# clang's code is often in libraries that its program is linked with.
_COMPILER_LIBRARY = re.compile(r"^\s*(lib\S*(?:LLVM|clang)\S*) => (/.*) \(0x", re.MULTILINE)


@cache
def called_digests(cxx: str, cc: str, path: str | None, runner: CommandRunner) -> dict[str, str]:
    """name -> sha256 of the programs and libraries that do the work of these two drivers."""
    return {name: file_digest(file) for name, file in called_files(cxx, cc, path, runner).items()}


def called_files(cxx: str, cc: str, path: str | None, runner: CommandRunner) -> dict[str, str]:
    """name -> path of the programs and libraries that do the work of these two drivers.

    path: where programs are looked up that they name without a folder
    """
    found = {"cc": cc}
    for name in _CALLED:
        driver = cc if name == "cc1" else cxx
        asked = [driver, f"-print-prog-name={name}"]
        program = shutil.which(first_line(asked, runner), path=path)
        if program is not None:
            found[name] = program
    try:
        needs = runner.run(Command(["ldd", cxx], None)).out
    except OSError:
        # where there is no ldd (macOS), the libraries are those of the system
        needs = ""
    found |= dict(_COMPILER_LIBRARY.findall(needs))
    return {name: found[name] for name in sorted(found)}


def called_by(driver: Driver, path: str | None, runner: CommandRunner) -> Iterator[Path]:
    """Yield the programs that a driver's commands call, as its identity has them."""
    commands = driver.commands
    files = called_files(commands["cxx"][0], commands["cc"][0], path, runner)
    return (Path(file) for file in files.values())


def _find(command: str, place: Place, env: Mapping[str, str]) -> str:
    found = shutil.which(command, path=env.get("PATH"))
    if found is None:
        raise CompilerMissingError(
            f"{command} is not on PATH",
            place=place,
            hint=f"install {command}, or choose a toolchain of zig",
        )
    return found
