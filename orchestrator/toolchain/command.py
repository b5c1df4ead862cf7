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


def find_command(declared: CommandCompiler, place: Place, env: Mapping[str, str]) -> Driver:
    """The declared programs. Raises CompilerMissingError."""
    found = {
        "cxx": _find(declared.cxx, place, env),
        "cc": _find(declared.cc, place, env),
        "ar": _find(declared.ar or "ar", place, env),
    }
    version = first_line([found["cxx"], "--version"])
    return Driver(
        version=version,
        target=version,
        identity={"command": version, "digest": file_digest(found["cxx"])},
        commands={verb: (path,) for verb, path in found.items()},
        cxx_library="libstdc++",
    )


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
