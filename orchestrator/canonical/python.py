"""The Python that has torch, which the orchestrator itself never imports."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from orchestrator.errors import OrchestratorError
from orchestrator.system.process import Command, CommandRunner

VARIABLE: Final = "ORCHESTRATOR_EXPORT_PYTHON"
# What the worker was tested with; its passes are no promised interface of torch.
LEAST: Final = (2, 13)
TESTED: Final = "2.13.0"
_ASK: Final = (
    "import importlib.metadata as m, sys\n"
    "sys.path = [p for p in sys.path if p]\n"
    "try: print('torch', m.version('torch'))\n"
    "except m.PackageNotFoundError: print('none')\n"
)
_SECONDS: Final = 60
_OPTION: Final = "--python or "


class ExportPythonError(OrchestratorError):
    """The Python that is to have torch does not run."""


class TorchMissingError(OrchestratorError):
    """A Python has no torch."""


class TorchTooOldError(OrchestratorError):
    """A Python's torch is older than what models are converted with."""


@dataclass(frozen=True)
class ExportPython:
    """A Python with torch."""

    program: str
    torch: str


def find_python(
    asked: str | None, env: Mapping[str, str], runner: CommandRunner, option: str = _OPTION
) -> ExportPython:
    """Find the one that is asked for, else that of the environment variable, else our own.

    option: what the advice has for the command's option; empty for a command without one
    Raises ExportPythonError, TorchMissingError, TorchTooOldError.
    """
    program = asked or env.get(VARIABLE) or sys.executable
    by = "--python" if asked else f"${VARIABLE}" if env.get(VARIABLE) else "the orchestrator's own"
    advice = (
        f"make an environment with it (python3 -m venv DIR; DIR/bin/pip install torch=={TESTED}),"
        f" and name DIR/bin/python by {option}${VARIABLE}; or install the extra `export` of this"
        " package"
    )
    try:
        done = runner.run(Command([program, "-P", "-c", _ASK], env, timeout=_SECONDS))
    except OSError as error:
        raise _does_not_run(program, by, error.strerror or str(error), advice) from None
    said = re.fullmatch(r"none|torch (\S{1,60})", done.out.strip())
    if done.code != 0 or said is None:
        raise _does_not_run(program, by, done.reason(), advice)
    if said[1] is None:
        raise TorchMissingError(
            "canonical models and exports need torch, and this Python has none",
            expected=f"torch {TESTED}",
            seen=f"{program} ({by})",
            hint=advice,
        )
    version = tuple(map(int, re.findall(r"\d+", said[1])[:2]))
    if version < LEAST:
        raise TorchTooOldError(
            "this Python's torch is too old for canonical models and exports",
            expected=f"torch {'.'.join(map(str, LEAST))} or newer",
            seen=f"torch {said[1]} of {program} ({by})",
            hint=advice,
        )
    return ExportPython(program, said[1])


def _does_not_run(program: str, by: str, seen: str, advice: str) -> ExportPythonError:
    return ExportPythonError(
        f"the Python that is to have torch does not run: {program} ({by})",
        expected="a Python with torch",
        seen=seen,
        hint=advice,
    )
