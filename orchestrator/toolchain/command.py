"""Compilers of this machine, by name or path."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from orchestrator.errors import Place
from orchestrator.toolchain.driver import CompilerMissingError, Driver
from orchestrator.values.config import CommandCompiler


def find_command(
    declared: CommandCompiler, flags: tuple[str, ...], place: Place, env: Mapping[str, str]
) -> Driver:
    """The declared programs, which are used with `flags`. Raises CompilerMissingError."""
    found = {
        "cxx": _find(declared.cxx, place, env),
        "cc": _find(declared.cc, place, env),
        "ar": _find(declared.ar or "ar", place, env),
    }
    version = first_line([found["cxx"], "--version"])
    macros = _macros(found["cxx"], flags)
    return Driver(
        version=version,
        target=version,
        identity={"command": version, "digest": file_digest(found["cxx"])},
        commands={verb: (path,) for verb, path in found.items()},
        cxx_library="libc++" if "_LIBCPP_VERSION" in macros else "libstdc++",
        # musl has no macro of its own
        c_library="musl" if "__linux__" in macros and "__GLIBC__" not in macros else "gnu",
        links_cxx_library=False,
    )


@cache
def _macros(cxx: str, flags: tuple[str, ...]) -> frozenset[str]:
    """The names of the macros that the C++ compiler and its libraries define."""
    argv = [cxx, *(f for f in flags if "$" not in f), "-dM", "-E", "-x", "c++", "-"]
    done = subprocess.run(
        argv, input="#include <cstddef>\n", capture_output=True, text=True, check=False
    )
    words = (line.split() for line in done.stdout.splitlines())
    return frozenset(line[1].partition("(")[0] for line in words if line[:1] == ["#define"])


def first_line(argv: list[str]) -> str:
    """The first line that a program prints."""
    done = subprocess.run(argv, capture_output=True, text=True, errors="replace", check=False)
    return next(iter((done.stdout or done.stderr).strip().splitlines()), "of unknown version")


@cache
def file_digest(path: str) -> str:
    """sha256 of a program, through its links."""
    return hashlib.sha256(Path(path).resolve().read_bytes()).hexdigest()


def _find(command: str, place: Place, env: Mapping[str, str]) -> str:
    found = shutil.which(command, path=env.get("PATH"))
    if found is None:
        raise CompilerMissingError(
            f"{command} is not on PATH",
            place=place,
            hint=f"install {command}, or choose a toolchain of zig",
        )
    return found
