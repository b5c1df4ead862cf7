"""Makes a model canonical, in a Python with torch: see `process.py`."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final, Literal, NoReturn

from pydantic import Field, ValidationError

from orchestrator.canonical.lock import LARGEST_INPUTS, ComparedCall, Rewrite
from orchestrator.canonical.process import (
    EXPORT,
    FILE_LIMIT,
    Reported,
    Work,
    read_made,
    run_worker,
)
from orchestrator.canonical.python import ExportPython
from orchestrator.errors import OrchestratorError, Place
from orchestrator.models.archive import open_archive
from orchestrator.models.info import has_torchscript
from orchestrator.system.process import CommandRunner, Finished
from orchestrator.values.config.forms import Declared, Line, Tuple

_OFF: Final = "or leave the model as it is: `canonical: off` for it in app.yaml"
_STATIC: Final = "declare `canonical: static` for it, which keeps control flow and state"


class NoTorchScriptError(OrchestratorError):
    """A model was saved without its TorchScript, of which a canonical one is made."""


class ConversionFailedError(OrchestratorError):
    """torch cannot convert a model."""


class OriginalFailsError(OrchestratorError):
    """A model does not run on its own inputs."""


class UnrecordableInputsError(OrchestratorError):
    """A model's bundled inputs cannot be recorded."""


class UntraceableError(OrchestratorError):
    """A model's way, or its state, does not let it be traced."""


class SpecialisedError(OrchestratorError):
    """A trace would hold for some of the inputs alone that a model takes."""


class CanonicalDiffersError(OrchestratorError):
    """A canonical model gives other results than the one that it was made of."""


@dataclass(frozen=True)
class Converted:
    """A conversion's results.

    inputs        the calls that are bundled in the original, as JSON
    microseconds  the least CPU times of the calls, summed, in torch's lite interpreter: of the
                  original and of the converted model; None if not requested
    notes         for people, of a program of torch.export
    """

    made: bytes
    inputs: bytes
    torch: str
    folded: bool
    rewrites: tuple[Rewrite, ...]
    comparison: tuple[ComparedCall, ...]
    microseconds: tuple[float, float] | None = None
    notes: tuple[str, ...] = ()

    @property
    def largest(self) -> float:
        """The largest difference of all."""
        return max((call.largest or 0.0 for call in self.comparison), default=0.0)


_Microseconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class _Result(Declared):
    torch: Line
    folded: bool
    rewrites: Tuple[Rewrite]
    comparison: Tuple[ComparedCall]
    microseconds: Tuple[_Microseconds] | None = Field(None, min_length=2, max_length=2)
    notes: Tuple[Line] = Field(())


def require_torchscript(model: Path, shown: str) -> None:
    """Raises NoTorchScriptError, and what reading an archive raises."""
    place = Place(shown)
    with model.open("rb") as file, open_archive(file, place) as archive:
        found = has_torchscript(archive)
    if not found:
        raise NoTorchScriptError(
            "this model was saved without its TorchScript, which a canonical model is made of",
            place=place,
            expected="records under code/, as module._save_for_lite_interpreter(path) writes them",
            seen="bytecode alone",
            hint="export it again, and remove nothing from what _save_for_lite_interpreter wrote:"
            " the canonical model is without code/ again",
        )


def convert(
    model: Path,
    shown: str,
    name: str,
    declared: Sequence[Mapping[str, Any]] | None,
    pytorch: str,
    tolerances: Mapping[str, tuple[float, float]],
    python: ExportPython,
    env: Mapping[str, str],
    runner: CommandRunner,
    kind: Literal["static", "traced"] = "static",
    without: Iterable[str] = (),
    timed: bool = False,
) -> Converted:
    """Convert a model, and compare what came out with it.

    shown     the model's path in messages
    name      becomes the archive's top folder
    declared  the model runner's inputs; None for those that are bundled
    pytorch   the version of the app's runtime: operators that it does not have are lowered
    without   names of rewrites that are not to be applied
    timed     whether both models are timed, for a fifth of a second
    Raises the errors of this module.
    """
    require_torchscript(model, shown)
    work = Work(
        "making this model canonical", "made this model canonical", Place(shown), otherwise=_OFF
    )
    request = {
        "task": "canonical",
        "model": str(model.resolve()),
        "name": name,
        "declared": declared,
        "pytorch": pytorch,
        "kind": kind,
        "without": sorted(without),
        "timed": timed,
        "tolerances": tolerances,
    }
    with tempfile.TemporaryDirectory(prefix="orchestrator-") as place:
        folder = Path(place)
        refuse = partial(_refuse, place=work.place)
        result, done = run_worker(request, folder, work, python, env, runner, refuse)
        return converted(folder, result, shown, done)


def worker_digest(*, programs: bool = False) -> str:
    """Digest of our sources that make a conversion. programs: of a conversion from a program of
    torch.export."""
    digest = hashlib.sha256()
    for path in sorted(EXPORT.rglob("*.py") if programs else EXPORT.glob("*.py")):
        name = path.relative_to(EXPORT).as_posix()
        digest.update(name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def _refuse(error: Reported, place: Place) -> NoReturn:
    """Raises the error that the worker reported."""
    text, lines = error.text, error.lines
    match error.kind:
        case "original":
            raise OriginalFailsError(
                "this model does not run on its own inputs",
                place=place,
                seen=f"{error.call}: {lines[-1]}",
                hint="run the model in PyTorch on the same inputs, and check declared shapes",
                details=text,
            )
        case "inputs":
            raise UnrecordableInputsError(
                "the inputs in this model cannot be recorded",
                place=place,
                expected="tensors, numbers, texts, and lists, tuples and dictionaries of them",
                seen=lines[-1],
                hint="declare `inputs:` for it in app.yaml",
            )
        case "no inputs":
            raise UnrecordableInputsError(
                "this model has no inputs to compare it with",
                place=place,
                hint="bundle inputs in the model, or declare `inputs:` in app.yaml",
            )
        case "untraceable":
            raise UntraceableError(
                "this model cannot be traced",
                place=place,
                expected="a way that depends on no value, tensors as inputs, and no state",
                seen=lines[0][:500],
                hint=f"{_STATIC}, {_OFF}",
            )
        case "specialised":
            raise SpecialisedError(
                "a trace of this model would be of some inputs alone, so nothing was written",
                place=place,
                expected="a way that is the same for all inputs that the model takes",
                seen=lines[0][:500],
                hint=f"{_STATIC}, {_OFF}",
            )
        case "differs":
            raise _differs(error, place)
    raise ConversionFailedError(
        "torch cannot make this model canonical",
        place=place,
        seen=lines[-1][:500],
        hint=_OFF.removeprefix("or "),
        details=f"{text}\n{error.said}".strip(),
    )


def difference(error: Reported) -> str:
    """The worker's report of a call that gives other results."""
    inputs = error.facts.get("inputs")
    shapes = ", ".join(map(str, inputs)) if isinstance(inputs, list) else "?"
    return f"{error.call} with {shapes}: {error.facts.get('difference')}"[:1000]


def _differs(error: Reported, place: Place) -> CanonicalDiffersError:
    rewrites = error.facts.get("rewrites")
    named = ", ".join(map(str, rewrites)) if isinstance(rewrites, list) else ""
    return CanonicalDiffersError(
        "the canonical model gives other results than this one, so nothing was written",
        place=place,
        seen=difference(error),
        hint=(
            f"it is right without the rewrite {named}: report it with the model; until then, "
            if named
            else "look whether the model was exported for training (module.eval() was not called),"
            " or computes with what it did not write; otherwise report it, "
        )
        + _OFF,
    )


def converted(folder: Path, result: dict[str, Any], shown: str, done: Finished) -> Converted:
    """Read the model that a worker wrote to a folder, and its result. Raises
    ConversionFailedError."""
    try:
        answer = _Result.model_validate(result)
        made = read_made(folder / "canonical.ptl", FILE_LIMIT)
        inputs = read_made(folder / "inputs.json", LARGEST_INPUTS)
    except (ValidationError, OSError, ValueError) as error:
        raise ConversionFailedError(
            "torch's answer on this model cannot be read",
            place=Place(shown),
            seen=str(error).splitlines()[0][:500],
            hint=_OFF.removeprefix("or "),
            details=done.err[-2000:],
        ) from None
    times = answer.microseconds
    return Converted(
        made,
        inputs,
        answer.torch,
        answer.folded,
        answer.rewrites,
        answer.comparison,
        None if times is None else (times[0], times[1]),
        answer.notes,
    )
