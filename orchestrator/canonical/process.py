"""Starts `export/worker.py` in a Python with torch: a process of its own, with limits.

torch's passes can crash, and a model is a program that nobody has read: what it does to its process
is reported as an error of the model. The worker's answer is checked as any other untrusted text.
"""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NoReturn

from orchestrator.canonical.python import ExportPython
from orchestrator.errors import OrchestratorError, Place
from orchestrator.system.process import Command, CommandRunner, Finished, Limits
from orchestrator.system.reading import read_json

EXPORT: Final = Path(__file__).parents[1] / "export"
WORKER: Final = EXPORT / "worker.py"
# Seconds, and bytes of address space and of each file.
TIME_LIMIT: Final = 1800
MEMORY_LIMIT: Final = 16 * 2**30
FILE_LIMIT: Final = 2 * 2**30
_SAID: Final = 2**16
_LONGEST_RESULT: Final = 2**24
_KEPT: Final = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "LD_LIBRARY_PATH")
_NO_MEMORY: Final = ("can't allocate memory", "bad_alloc", "Cannot allocate memory", "MemoryError")


class ConversionDiedError(OrchestratorError):
    """torch died while it converted or exported a model."""


class ConversionSlowError(OrchestratorError):
    """A conversion or an export took too long."""


class ConversionMemoryError(OrchestratorError):
    """A conversion or an export took too much memory."""


@dataclass(frozen=True)
class Work:
    """A worker's task, in words: `making this model canonical`, `made this model canonical`.

    place      of the model
    otherwise  advice if it fails
    """

    doing: str
    did: str
    place: Place
    otherwise: str


@dataclass(frozen=True)
class Reported:
    """An error that a worker reported: see `export/worker.py`.

    said  what it wrote to stderr, at the end
    """

    kind: str
    text: str
    facts: Mapping[str, Any]
    said: str

    @property
    def lines(self) -> list[str]:
        """At least one."""
        return self.text.strip().splitlines() or [""]

    @property
    def call(self) -> str:
        """The call of the model in which it happened."""
        return str(self.facts.get("call", ""))[:200]

    @property
    def place(self) -> Place | None:
        """The line of the module, as it was where it was exported."""
        file, line = self.facts.get("file"), self.facts.get("line")
        if not isinstance(file, str) or not isinstance(line, int):
            return None
        return Place(file[:500], line, 1)


def run_worker(
    request: Mapping[str, Any],
    folder: Path,
    work: Work,
    python: ExportPython,
    env: Mapping[str, str],
    runner: CommandRunner,
    refuse: Callable[[Reported], NoReturn],
) -> tuple[dict[str, Any], Finished]:
    """Run the worker. Returns the `result.json` that it wrote to the folder, and its finished
    process.

    refuse: raises the error for what the worker reported
    Raises ConversionDiedError, ConversionSlowError, ConversionMemoryError.
    """
    file = folder / "request.json"
    file.write_text(json.dumps({**request, "folder": str(folder)}), encoding="utf-8")
    done = runner.run(
        Command(
            [python.program, "-P", "-W", "ignore", str(WORKER), str(file)],
            {**_reduced(env), "PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1"},
            timeout=TIME_LIMIT,
            limits=Limits(MEMORY_LIMIT, FILE_LIMIT),
            tail=_SAID,
        )
    )
    result = _answer(folder, done, work)
    if "error" in result:
        error = result["error"]
        facts: Mapping[str, Any] = error if isinstance(error, dict) else {}
        kind, text = str(facts.get("kind")), str(facts.get("text"))
        if kind == "memory" or any(word in text for word in _NO_MEMORY):
            raise _no_memory(work, "running")
        refuse(Reported(kind, text[:10_000], facts, done.err[-2000:]))
    return result, done


def read_made(path: Path, most: int) -> bytes:
    """A file that a worker made. Raises ValueError where it is larger than `most`, OSError."""
    if path.stat().st_size > most:
        raise ValueError(f"{path.name} has more than {most:,} bytes")
    return path.read_bytes()


def _reduced(env: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in env.items() if name in _KEPT}


def _answer(folder: Path, done: Finished, work: Work) -> dict[str, Any]:
    """Read the worker's result. Raises the error that its exit stands for if there is none."""
    stage = _stage(folder)
    if done.code is None:
        raise ConversionSlowError(
            f"{work.doing} took too long",
            place=work.place,
            expected=f"at most {TIME_LIMIT} s",
            seen=f"still {stage}",
            hint=f"use smaller or fewer inputs, {work.otherwise}",
        )
    file = folder / "result.json"
    if done.code == 0 and file.is_file() and file.stat().st_size <= _LONGEST_RESULT:
        try:
            result = read_json(file, _LONGEST_RESULT)
        except ValueError:
            result = None
        if isinstance(result, dict):
            return result
    if any(word in done.err for word in _NO_MEMORY):
        raise _no_memory(work, stage)
    raise ConversionDiedError(
        f"torch died while it {work.did}",
        place=work.place,
        seen=f"it {_end(done.code)} while {stage}",
        hint=f"report it with the model to PyTorch's developers, {work.otherwise}",
        details=done.err[-2000:],
    )


def _stage(folder: Path) -> str:
    try:
        return (folder / "stage").read_text(encoding="utf-8", errors="replace")[:100]
    except OSError:
        return "importing torch"


def _end(code: int) -> str:
    if code >= 0:
        return f"ended with code {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"was killed by signal {-code}"


def _no_memory(work: Work, stage: str) -> ConversionMemoryError:
    return ConversionMemoryError(
        f"{work.doing} took too much memory",
        place=work.place,
        expected=f"at most {MEMORY_LIMIT // 2**30} GB",
        seen=f"none left while {stage}",
        hint=f"use smaller or fewer inputs, {work.otherwise}",
    )
