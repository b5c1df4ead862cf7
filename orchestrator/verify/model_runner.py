"""Runs the model runner (or the tracer, which also records) on a model, in a separate process.

A model is an untrusted program: it runs with limits on time, memory and output, leaves no core
file, and sees only those environment variables that a program needs to start. Its process still has
the user's permissions.
"""

from __future__ import annotations

import json
import signal
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal

from orchestrator.system.process import LOCAL, Command, CommandRunner, Limits
from orchestrator.trace.runs import RunsUnreadableError, parse_runs
from orchestrator.values.config.app import ModelConfig
from orchestrator.verify.inputs import inputs_json
from orchestrator.verify.verdict import RunnerResult

# A model that runs longer than this on its own inputs is stuck (seconds).
TIME_LIMIT = 600
# Far more than a phone has. It limits the address space: what is written is limited too late for
# qemu-user, which then looks for room for ever; and qemu-user takes 4 GB of it for a guest of
# 32 bits before anything runs.
MEMORY_LIMIT = 16 * 2**30
# Outputs are written as text, and so is what the model prints.
OUTPUT_LIMIT = 2**30
# The end of what a model printed that is kept.
_SAID = 2**16

# How inputs may lie in memory (native/driver/values.h).
Layout = Literal["part", "channels-last"]
# As usual, with floats that are the next ones: what that changes is a rounding error.
Nudged = Literal["nudged"]

# What a program needs to start; other variables may hold secrets.
_KEPT: Final = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "LD_LIBRARY_PATH")
# What splits LD_LIBRARY_PATH, ld.so(8).
_SEPARATORS: Final = frozenset(":;")
_KEPT_FOR_EMULATORS: Final = "QEMU_"


def run_model(
    argv: Sequence[str],
    model_file: Path,
    model: ModelConfig,
    env: Mapping[str, str],
    *,
    libraries: Path | None = None,
    recorded: bytes | None = None,
    fill: int | None = None,
    level: str | None = None,
    threads: int | None = None,
    addon: Path | None = None,
    with_arguments: bool = False,
    layout: Layout | Nudged | None = None,
    runner: CommandRunner = LOCAL,
) -> RunnerResult:
    """Run `argv` on a model's inputs.

    libraries: the folder of the shared library that the program is linked against.
    recorded: the inputs as the runner's JSON, where they are neither declared nor in the file.
    fill: a byte that all fresh memory is filled with, where the C library can do that.
    level: the highest CPU level that may be used (native/libraries/cpuinfo.h); None: any.
    threads: how many it may use (native/threads/pool.cpp); None: its default.
    addon: what its library is extended with before the model is loaded.
    with_arguments: whether the result has the inputs too.
    layout: how the inputs lie in memory; None: in the usual order.
    """
    with tempfile.TemporaryDirectory(prefix="orchestrator-") as folder:
        output = Path(folder) / "result.json"
        arguments = ["--model", str(model_file), "--output", str(output)]
        if not with_arguments:
            arguments.append("--no-args")
        if addon is not None:
            arguments += ["--extend", str(addon)]
        if layout is not None:
            arguments += ["--layout", layout]
        inputs = Path(folder) / "inputs.json"
        if model.runs:
            with inputs.open("w", encoding="utf-8") as file:
                json.dump(inputs_json(model.runs), file)
            arguments += ["--inputs", str(inputs)]
        elif recorded is not None:
            inputs.write_bytes(recorded)
            arguments += ["--inputs", str(inputs)]
        own = {**_filling(fill), **_level(level), **_threads(threads)}
        if libraries is not None:
            own["LD_LIBRARY_PATH"] = _searched(libraries, Path(folder) / "libraries")
        done = runner.run(
            Command(
                [*argv, *arguments],
                {**_reduced(env), **own},
                timeout=TIME_LIMIT,
                limits=Limits(MEMORY_LIMIT, OUTPUT_LIMIT),
                tail=_SAID,
            )
        )
        if done.code is None:
            return RunnerResult(-signal.SIGKILL, None, still_running())
        try:
            result = _read(output)
            selection, levels = (None, None) if result is None else _said(result)
            return RunnerResult(done.code, result, done.err, selection, levels)
        except RunsUnreadableError as error:
            return RunnerResult(done.code, None, f"{done.err}\nits result cannot be read: {error}")


def told_inputs(ran: RunnerResult) -> bytes | None:
    """The inputs of a run `with_arguments`, as the runner takes them; None where one is not
    known."""
    runs = () if ran.result is None else ran.result["runs"]
    if not runs or any(run.get("args") is None for run in runs):
        return None
    return json.dumps([{"method": run["method"], "args": run["args"]} for run in runs]).encode()


def still_running() -> str:
    """Text in place of a program's stderr if it exceeded its time limit."""
    return f"still running after {TIME_LIMIT} s"


def _reduced(env: Mapping[str, str]) -> dict[str, str]:
    return {
        name: value
        for name, value in env.items()
        if name in _KEPT or name.startswith(_KEPT_FOR_EMULATORS)
    }


def _searched(folder: Path, link: Path) -> str:
    """A folder as LD_LIBRARY_PATH takes it: through a link where its own path would be split."""
    if _SEPARATORS.isdisjoint(str(folder)):
        return str(folder)
    link.symlink_to(folder)
    return str(link)


def _filling(byte: int | None) -> dict[str, str]:
    """The environment in which glibc fills what it hands out with a byte.

    It fills with the complement of the given byte (`alloc_perturb`, malloc/malloc.c), and does not
    fill what comes from a thread's own cache. Other C libraries ignore the variable.
    """
    if byte is None:
        return {}
    complement = byte ^ 0xFF
    return {"GLIBC_TUNABLES": f"glibc.malloc.perturb={complement}:glibc.malloc.tcache_count=0"}


def _level(level: str | None) -> dict[str, str]:
    return {} if level is None else {"LTA_CPU_LEVEL": level}


def _threads(count: int | None) -> dict[str, str]:
    return {} if count is None else {"LTA_THREADS": str(count)}


def _said(result: dict[str, Any]) -> tuple[str | None, tuple[str, ...] | None]:
    """Take the facts about library and processor out of a result: the library's selection, and the
    CPU levels that it could choose from."""
    selection, levels = result.pop("selection", None), result.pop("cpu_levels", None)
    return (
        selection if isinstance(selection, str) else None,
        tuple(map(str, levels)) if isinstance(levels, list) else None,
    )


def _read(path: Path) -> dict[str, Any] | None:
    """The result; None where there is none. Raises RunsUnreadableError."""
    try:
        value = parse_runs(path.read_bytes())
    except FileNotFoundError:
        return None
    # The file's own path would make a recording differ from machine to machine.
    value.pop("model", None)
    return value
