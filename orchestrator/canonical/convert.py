"""Makes a model canonical: `torch_worker.py` in a process of its own, with limits.

torch's passes can crash, and a model is a program that nobody has read: what it does to its process
is told as an error of the model. The worker's answer is checked as any other untrusted text.
"""

from __future__ import annotations

import hashlib
import json
import signal
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NoReturn

from pydantic import ValidationError

from orchestrator.canonical.lock import LARGEST_INPUTS, ComparedCall, Rewrite
from orchestrator.canonical.python import ExportPython
from orchestrator.errors import OrchestratorError, Place
from orchestrator.models.archive import open_archive
from orchestrator.system.process import Command, CommandRunner, Finished, Limits
from orchestrator.values.config import Declared, Line, Tuple

WORKER: Final = Path(__file__).parent / "torch_worker.py"
# Seconds, and bytes of address space and of each file.
TIME_LIMIT: Final = 1800
MEMORY_LIMIT: Final = 16 * 2**30
FILE_LIMIT: Final = 2 * 2**30
_SAID: Final = 2**16
_LONGEST_RESULT: Final = 2**24
_KEPT: Final = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "LD_LIBRARY_PATH")
_NO_MEMORY: Final = ("can't allocate memory", "bad_alloc", "Cannot allocate memory", "MemoryError")
_OFF: Final = "or leave the model as it is: `canonical: off` for it in app.yaml"


class NoTorchScriptError(OrchestratorError):
    """A model was saved without its TorchScript, of which a canonical one is made."""


class ConversionDiedError(OrchestratorError):
    """torch died while it converted a model."""


class ConversionSlowError(OrchestratorError):
    """A conversion took too long."""


class ConversionMemoryError(OrchestratorError):
    """A conversion took too much memory."""


class ConversionFailedError(OrchestratorError):
    """torch cannot convert a model."""


class OriginalFailsError(OrchestratorError):
    """A model does not run on its own inputs."""


class UnrecordableInputsError(OrchestratorError):
    """A model's bundled inputs cannot be recorded."""


class CanonicalDiffersError(OrchestratorError):
    """A canonical model gives other results than the one that it was made of."""


@dataclass(frozen=True)
class Converted:
    """What came out. inputs: of the calls that are bundled in the original, as JSON."""

    made: bytes
    inputs: bytes
    torch: str
    folded: bool
    rewrites: tuple[Rewrite, ...]
    comparison: tuple[ComparedCall, ...]

    @property
    def largest(self) -> float:
        """The largest difference of all."""
        return max((call.largest or 0.0 for call in self.comparison), default=0.0)


class _Result(Declared):
    torch: Line
    folded: bool
    rewrites: Tuple[Rewrite]
    comparison: Tuple[ComparedCall]


def require_torchscript(model: Path, shown: str) -> None:
    """Raises NoTorchScriptError, and what reading an archive raises."""
    place = Place(shown)
    with model.open("rb") as file, open_archive(file, place) as archive:
        found = any(name.startswith("code/") for name in archive.names)
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
    tolerances: Mapping[str, tuple[float, float]],
    python: ExportPython,
    env: Mapping[str, str],
    runner: CommandRunner,
) -> Converted:
    """Convert a model, and compare what came out with it.

    shown     the model's path in messages
    name      becomes the archive's top folder
    declared  the model runner's inputs; None for those that are bundled
    Raises the errors of this module.
    """
    require_torchscript(model, shown)
    with tempfile.TemporaryDirectory(prefix="orchestrator-") as place:
        folder = Path(place)
        request = folder / "request.json"
        request.write_text(
            json.dumps(
                {
                    "model": str(model.resolve()),
                    "name": name,
                    "folder": place,
                    "declared": declared,
                    "without": [],
                    "tolerances": tolerances,
                }
            ),
            encoding="utf-8",
        )
        done = runner.run(
            Command(
                [python.program, "-P", "-W", "ignore", str(WORKER), str(request)],
                {**_reduced(env), "PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1"},
                timeout=TIME_LIMIT,
                limits=Limits(MEMORY_LIMIT, FILE_LIMIT),
                tail=_SAID,
            )
        )
        result = _answer(folder, done, shown)
        if "error" in result:
            _refuse(result["error"], shown, done)
        return _converted(folder, result, shown, done)


def worker_digest() -> str:
    """Of our part of a conversion."""
    return hashlib.sha256(WORKER.read_bytes()).hexdigest()[:16]


def _reduced(env: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in env.items() if name in _KEPT}


def _answer(folder: Path, done: Finished, shown: str) -> dict[str, Any]:
    """What the worker wrote; raises what its end says otherwise."""
    place = Place(shown)
    stage = _stage(folder)
    if done.code is None:
        raise ConversionSlowError(
            "making this model canonical took too long",
            place=place,
            expected=f"at most {TIME_LIMIT} s",
            seen=f"still {stage}",
            hint=f"use smaller or fewer inputs, {_OFF}",
        )
    file = folder / "result.json"
    if done.code == 0 and file.is_file() and file.stat().st_size <= _LONGEST_RESULT:
        try:
            result = json.loads(file.read_bytes())
        except ValueError:
            result = None
        if isinstance(result, dict):
            return result
    if any(word in done.err for word in _NO_MEMORY):
        raise _no_memory(place, stage)
    raise ConversionDiedError(
        "torch died while it made this model canonical",
        place=place,
        seen=f"it {_end(done.code)} while {stage}",
        hint=f"report it with the model to PyTorch's developers, {_OFF}",
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


def _no_memory(place: Place, stage: str) -> ConversionMemoryError:
    return ConversionMemoryError(
        "making this model canonical took too much memory",
        place=place,
        expected=f"at most {MEMORY_LIMIT // 2**30} GB",
        seen=f"none left while {stage}",
        hint=f"use smaller or fewer inputs, {_OFF}",
    )


def _refuse(error: Any, shown: str, done: Finished) -> NoReturn:
    """Raises what the worker told."""
    facts = error if isinstance(error, dict) else {}
    kind, text = str(facts.get("kind")), str(facts.get("text"))[:10_000]
    place = Place(shown)
    if kind == "memory" or any(word in text for word in _NO_MEMORY):
        raise _no_memory(place, "running")
    call, lines = str(facts.get("call", ""))[:200], text.strip().splitlines() or [""]
    match kind:
        case "original":
            raise OriginalFailsError(
                "this model does not run on its own inputs",
                place=place,
                seen=f"{call}: {lines[-1]}",
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
        case "differs":
            raise _differs(facts, place, call)
    raise ConversionFailedError(
        "torch cannot make this model canonical",
        place=place,
        seen=lines[-1][:500],
        hint=_OFF.removeprefix("or "),
        details=f"{text}\n{done.err[-2000:]}".strip(),
    )


def _differs(facts: Mapping[str, Any], place: Place, call: str) -> CanonicalDiffersError:
    inputs, rewrites = facts.get("inputs"), facts.get("rewrites")
    shapes = ", ".join(map(str, inputs)) if isinstance(inputs, list) else "?"
    named = ", ".join(map(str, rewrites)) if isinstance(rewrites, list) else ""
    return CanonicalDiffersError(
        "the canonical model gives other results than this one, so nothing was written",
        place=place,
        seen=f"{call} with {shapes}: {facts.get('difference')}"[:1000],
        hint=(
            f"it is right without the rewrite {named}: report it with the model; until then, "
            if named
            else "look whether the model was exported for training (module.eval() was not called),"
            " or computes with what it did not write; otherwise report it, "
        )
        + _OFF,
    )


def _converted(folder: Path, result: dict[str, Any], shown: str, done: Finished) -> Converted:
    try:
        told = _Result.model_validate(result)
        made = _read(folder / "canonical.ptl", FILE_LIMIT)
        inputs = _read(folder / "inputs.json", LARGEST_INPUTS)
    except (ValidationError, OSError, ValueError) as error:
        raise ConversionFailedError(
            "torch's answer on this model cannot be read",
            place=Place(shown),
            seen=str(error).splitlines()[0][:500],
            hint=_OFF.removeprefix("or "),
            details=done.err[-2000:],
        ) from None
    return Converted(made, inputs, told.torch, told.folded, told.rewrites, told.comparison)


def _read(path: Path, most: int) -> bytes:
    if path.stat().st_size > most:
        raise ValueError(f"{path.name} has more than {most:,} bytes")
    return path.read_bytes()
