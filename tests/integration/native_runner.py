"""Models in a delivered library: `consumers/runner.c`, compiled and given files."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from real import CONSUMERS
from zig_tool import HOST_CC, zig_environment

# New memory is filled with bytes that are no pointer and no size, freed memory too (mallopt(3)):
# what is used without being written, or after it was freed, shows.
FILLED = {"GLIBC_TUNABLES": "glibc.malloc.perturb=165"}


def compile_consumer(
    source: Path,
    program: Path,
    app: str,
    delivered: Path,
    compiler: Sequence[str] = HOST_CC,
    *more: Path | str,
) -> Path:
    """A C program over an app's delivered shared library, and `more` to link."""
    library = delivered / "lib"
    argv = [*compiler, "-std=c11", "-D_GNU_SOURCE", "-O1", "-g", "-Wall", "-Wextra", "-Werror"]
    # in two words: zig takes `-linker_torch`, of the app `inker`, for an option
    argv += [f"-I{delivered / 'include'}", str(source), f"-L{library}", "-l", f"{app}_torch"]
    argv += [f"-Wl,-rpath,{library}", "-o", str(program), *map(str, more)]
    env = zig_environment()
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return program


def compile_runner(
    folder: Path, app: str, delivered: Path, compiler: Sequence[str] = HOST_CC
) -> Path:
    """The runner of models over an app's delivered shared library."""
    return compile_consumer(CONSUMERS / "runner.c", folder / "runner", app, delivered, compiler)


def outcomes(runner: Path, models: Sequence[Path], *, env: Mapping[str, str] = FILLED) -> list[str]:
    """How each model ended: a line of `runner.c`."""
    done = subprocess.run(
        [str(runner)],
        input="".join(f"{model}\n" for model in models),
        env={**os.environ, **env},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        errors="replace",
        check=True,
    )
    lines = done.stdout.splitlines()
    assert len(lines) == len(models), done.stdout[-2000:]
    return lines


def with_symbols(delivered: Path, folder: Path) -> Path:
    """A copy of a delivered folder in which a debugger finds the library's symbols."""
    copy = Path(shutil.copytree(delivered, folder))
    shutil.copytree(copy / "symbols", copy / "lib/.debug")
    return copy


def backtrace(runner: Path, model: Path, env: Mapping[str, str] = FILLED) -> list[str]:
    """The functions on the stack where a model makes the runner crash, innermost first."""
    gdb = shutil.which("gdb")
    assert gdb, "a crash is judged by its stack: apt-get install gdb"
    done = subprocess.run(
        [gdb, "-q", "-nx", "-batch", "-ex", "run", "-ex", "bt 40", "--args", runner, model],
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    return [line for line in done.stdout.splitlines() if line.startswith("#")]
