"""Compilers of this machine, by name or path."""

from __future__ import annotations

import hashlib
import re
import shutil
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from orchestrator.compilers.driver import CompilerMissingError, Driver, names_folder
from orchestrator.compilers.flags import Hardening
from orchestrator.errors import Place
from orchestrator.system.process import Command, CommandRunner
from orchestrator.values.config import CommandCompiler


def find_command(
    declared: CommandCompiler,
    flags: tuple[str, ...],
    place: Place,
    env: Mapping[str, str],
    runner: CommandRunner,
) -> Driver:
    """The declared programs, which are used with `flags`. Raises CompilerMissingError."""
    found = {
        "cxx": _find(declared.cxx, place, env),
        "cc": _find(declared.cc, place, env),
        "ar": _find(declared.ar or "ar", place, env),
    }
    version = first_line([found["cxx"], "--version"], runner)
    macros = _macros(found["cxx"], flags, runner)
    return Driver(
        version=version,
        target=version,
        identity={
            "command": version,
            "digest": file_digest(found["cxx"]),
            "calls": called_digests(found["cxx"], found["cc"], env.get("PATH"), runner),
        },
        commands={verb: (path,) for verb, path in found.items()},
        cxx_library="libc++" if "_LIBCPP_VERSION" in macros else "libstdc++",
        # musl has no macro of its own
        c_library="musl" if "__linux__" in macros and "__GLIBC__" not in macros else "gnu",
        links_cxx_library=False,
        hardens=_hardens(macros),
    )


def _hardens(macros: frozenset[str]) -> frozenset[Hardening]:
    """What a distribution's compiler does by itself, and maybe more of it than when told."""
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
    argv = [cxx, "-O2", *(f for f in flags if not names_folder(f)), "-dM", "-E", "-x", "c++", "-"]
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


def _find(command: str, place: Place, env: Mapping[str, str]) -> str:
    found = shutil.which(command, path=env.get("PATH"))
    if found is None:
        raise CompilerMissingError(
            f"{command} is not on PATH",
            place=place,
            hint=f"install {command}, or choose a toolchain of zig",
        )
    return found
