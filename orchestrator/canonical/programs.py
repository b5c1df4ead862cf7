"""Makes a model of a program of torch.export, in a Python with torch: see `process.py`.

The file is copied, and the copy is checked before torch gets to see it: what was checked is what is
read.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, NoReturn

from orchestrator.canonical.convert import Converted, converted, difference
from orchestrator.canonical.process import Reported, Work, run_worker
from orchestrator.canonical.python import ExportPython
from orchestrator.errors import OrchestratorError, Place
from orchestrator.models.programs import read_program
from orchestrator.system.process import CommandRunner
from orchestrator.values.config.app import PROGRAM_SUFFIX

_OTHERWISE: Final = "or export the module itself: ./orchestrate export model"


class ProgramNewerError(OrchestratorError):
    """A newer torch wrote a program than the one that is installed."""


class ProgramUnreadableError(OrchestratorError):
    """torch cannot read a program."""


class ProgramOperatorError(OrchestratorError):
    """A program names operators that the installed torch does not have."""


class ProgramInputsError(OrchestratorError):
    """A program has no inputs to compare with, or does not run on those that it is given."""


class ProgramRefusedError(OrchestratorError):
    """A program holds what no model can have."""


class ProgramDiffersError(OrchestratorError):
    """A model gives other results than the program that it was made of."""


def convert_program(
    program: Path,
    shown: str,
    name: str,
    declared: Sequence[Mapping[str, Any]] | None,
    pytorch: str,
    tolerances: Mapping[str, tuple[float, float]],
    python: ExportPython,
    env: Mapping[str, str],
    runner: CommandRunner,
    without: Iterable[str] = (),
) -> Converted:
    """Convert a program, and compare the model with it.

    shown     the program's path in messages
    name      becomes the archive's top folder
    declared  the model runner's inputs; None for those in the file
    pytorch   the version of the app's runtime: operators that it does not have are lowered
    without   names of rewrites that are not to be applied
    Raises the errors of this module, of reading a program, and of `process.py`.
    """
    work = Work(
        "making a model of this program",
        "made a model of this program",
        Place(shown),
        otherwise=_OTHERWISE,
    )
    with tempfile.TemporaryDirectory(prefix="orchestrator-") as place:
        folder = Path(place)
        copy = folder / f"program{PROGRAM_SUFFIX}"
        if program.is_file():
            shutil.copyfile(program, copy)
        read_program(copy if copy.exists() else program, name=shown)
        request = {
            "task": "program",
            "model": str(copy),
            "name": name,
            "declared": declared,
            "pytorch": pytorch,
            "without": sorted(without),
            "tolerances": tolerances,
        }
        refuse = partial(_refuse, place=work.place)
        result, done = run_worker(request, folder, work, python, env, runner, refuse)
        return converted(folder, result, shown, done)


def _refuse(error: Reported, place: Place) -> NoReturn:
    """Raises the error that the worker reported."""
    kind, text, facts, lines = error.kind, error.text, error.facts, error.lines
    line = lines[0][:500]
    details = text if len(lines) > 1 else None
    written, own = (str(facts.get(key, "?"))[:60] for key in ("written", "torch"))
    newer = _version(written) > _version(own) if "written" in facts else False
    if newer and kind in ("load", "operators"):
        raise ProgramNewerError(
            "a newer torch wrote this program than the one that is to read it",
            place=place,
            expected=f"torch {own} or older, which is installed",
            seen=f"torch {written}: {line}",
            hint="install that version in the environment for torch, or export the module again",
        )
    match kind:
        case "load":
            raise ProgramUnreadableError(
                "torch cannot read this program",
                place=place,
                expected=f"what torch.export.save of torch {own} or older wrote",
                seen=f"{line}; torch {written} wrote it",
                hint="export the module again by the torch that is installed",
                details=details,
            )
        case "operators":
            raise ProgramOperatorError(
                "this program names operators that torch does not have",
                place=place,
                expected=f"operators of torch {own}, torchvision and torchao",
                seen=line,
                hint="install the package that has them in the environment for torch, or write that"
                " part of the module otherwise",
            )
        case "no inputs":
            raise ProgramInputsError(
                "this program has no inputs to run it with",
                place=place,
                expected="the inputs that it was exported with in the file, or `inputs:` for it",
                seen=line or None,
                hint="declare `inputs:` in app.yaml, or pass --input",
            )
        case "inputs" | "example inputs" | "original":
            raise ProgramInputsError(
                "this program does not run on these inputs",
                place=place,
                seen=f"{error.call}: {line}" if error.call else line,
                hint="check their order, shapes and dtypes",
                details=details,
            )
        case "program" | "export" | "convert" | "sizes":
            raise ProgramRefusedError(
                "this program needs what a model cannot have",
                place=error.place or place,
                seen=line,
                hint=f"write that part of the module otherwise, {_OTHERWISE} with --via script",
                details=details,
            )
        case "differs":
            raise ProgramDiffersError(
                "the model gives other results than this program, so nothing was written",
                place=place,
                seen=difference(error),
                hint=f"report it with the file, {_OTHERWISE}",
            )
    raise ProgramRefusedError(
        "torch cannot make a model of this program",
        place=place,
        seen=lines[-1][:500],
        hint=_OTHERWISE.removeprefix("or "),
        details=f"{text}\n{error.said}".strip(),
    )


def _version(text: str) -> tuple[int, ...]:
    numbers = text.partition("+")[0].split(".")[:2]
    return tuple(int(one) if one.isdecimal() else 0 for one in numbers)
