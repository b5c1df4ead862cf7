"""Exports a module of torch, in a Python with torch: see `process.py`."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal, NoReturn

from pydantic import Field, ValidationError

from orchestrator.canonical.convert import difference
from orchestrator.canonical.lock import LARGEST_INPUTS, Rewrite
from orchestrator.canonical.process import FILE_LIMIT, Reported, Work, read_made, run_worker
from orchestrator.canonical.python import ExportPython
from orchestrator.errors import OrchestratorError, Place
from orchestrator.system.process import CommandRunner
from orchestrator.values.config.forms import Declared, Line, Tuple

_OTHERWISE = "or export it by a script of your own: docs/guide/export.md"


_EXPORTABLE = (
    "where a way depends on a value, write torch.cond or torch.where, or keep `if` and let"
    " TorchScript compile the module (--via script)"
)


class ModuleUnmadeError(OrchestratorError):
    """The `--module` cannot be imported, or gives no module."""


class WeightsUnfitError(OrchestratorError):
    """A file of weights cannot be read, or is another module's."""


class ExampleInputsError(OrchestratorError):
    """The example inputs are none, or the module does not run on them."""


class NotScriptableError(OrchestratorError):
    """TorchScript cannot compile a module."""


class NotExportableError(OrchestratorError):
    """torch.export cannot follow a module, nor can it be scripted where that was tried."""


class UnsupportedProgramError(OrchestratorError):
    """An exported program holds what no model can have."""


class ExportSizesError(OrchestratorError):
    """The requested sizes of dimensions contradict each other, the example or the module."""


class ControlFlowError(OrchestratorError):
    """A trace would lose control flow."""


class ExportDiffersError(OrchestratorError):
    """An exported model gives other results than its module."""


class ExportFailedError(OrchestratorError):
    """torch cannot export a module."""


@dataclass(frozen=True)
class ModuleRequest:
    """An export to make; `export_request.py` describes the texts."""

    module: str
    name: str
    weights: Path | None
    inputs: str | None
    declared: Sequence[Mapping[str, Any]]
    compiled: Literal["export", "script", "trace", "any"]
    canonical: Literal["static", "off"]
    sizes: Literal["any", "fixed"]
    pytorch: str
    paths: Sequence[Path]
    without: Sequence[str] = ()
    methods: Mapping[str, str] = field(default_factory=dict)
    dynamic: Sequence[str] = ()
    fixed: Sequence[str] = ()
    decomposed: Sequence[str] = ()


class ExportedCall(Declared):
    """A call of a module and its model: as `lock.ComparedCall`; `refused`: a check of the model
    stopped it, for the reason `why`."""

    call: Line
    inputs: Tuple[Line]
    result: Literal["same", "flat", "too small", "not taken", "differs by itself", "refused"]
    largest: float | None = Field(None, ge=0)
    why: Line | None = None


class ExportResult(Declared):
    """A worker's result of an export. via: the exporter that took the module; notes: for people."""

    torch: Line
    folded: bool
    rewrites: Tuple[Rewrite]
    comparison: Tuple[ExportedCall]
    via: Literal["export", "script", "trace"]
    notes: Tuple[Line] = Field(())

    @property
    def largest(self) -> float:
        """The largest difference of all."""
        return max((call.largest or 0.0 for call in self.comparison), default=0.0)


def export_module(
    asked: ModuleRequest,
    tolerances: Mapping[str, tuple[float, float]],
    python: ExportPython,
    env: Mapping[str, str],
    runner: CommandRunner,
) -> tuple[bytes, bytes, ExportResult]:
    """The `.ptl` of a module, its example calls as the model runner's inputs, and what was done and
    compared.

    Raises the errors of this module and of `process.py`.
    """
    place = Place(asked.module)
    work = Work("exporting this module", "exported this module", place, otherwise=_OTHERWISE)
    request = {
        "task": "export",
        "module": asked.module,
        "name": asked.name,
        "weights": None if asked.weights is None else str(asked.weights),
        "inputs": asked.inputs,
        "declared": asked.declared,
        "compiled": asked.compiled,
        "canonical": asked.canonical,
        "sizes": asked.sizes,
        "methods": dict(asked.methods),
        "dynamic": list(asked.dynamic),
        "fixed": list(asked.fixed),
        "decomposed": list(asked.decomposed),
        "pytorch": asked.pytorch,
        "paths": list(map(str, asked.paths)),
        "without": list(asked.without),
        "tolerances": tolerances,
    }
    with tempfile.TemporaryDirectory(prefix="orchestrator-") as temporary:
        folder = Path(temporary)
        refuse = partial(_refuse, asked=asked, module=place)
        result, done = run_worker(request, folder, work, python, env, runner, refuse)
        try:
            answer = ExportResult.model_validate(result)
            inputs = read_made(folder / "inputs.json", LARGEST_INPUTS)
            return read_made(folder / "model.ptl", FILE_LIMIT), inputs, answer
        except (ValidationError, OSError, ValueError) as error:
            raise ExportFailedError(
                "torch's answer on this module cannot be read",
                place=place,
                seen=str(error).splitlines()[0][:500],
                details=done.err[-2000:],
            ) from None


def _refuse(error: Reported, asked: ModuleRequest, module: Place) -> NoReturn:
    """Raises the error that the worker reported."""
    text, facts, lines = error.text, error.facts, error.lines
    place = error.place or module
    match error.kind:
        case "module":
            raise ModuleUnmadeError(
                f"{asked.module} gives no module",
                place=place,
                expected="package:attribute, a torch.nn.Module or what makes one without arguments",
                seen=lines[0][:500],
                hint="packages are looked for in this folder, the workspace's root and --path",
                details=text if len(lines) > 1 else None,
            )
        case "weights":
            raise WeightsUnfitError(
                "these weights are not this module's",
                place=Place(str(asked.weights)),
                expected="a state_dict() written by torch.save, with all names of the module",
                seen=lines[0][:500],
                details=text if len(lines) > 1 else None,
            )
        case "example inputs":
            raise ExampleInputsError(
                "the example inputs cannot be used",
                place=place,
                expected="a list of calls, each a tuple of arguments; or such a list by method",
                seen=lines[0][:500],
            )
        case "original":
            raise ExampleInputsError(
                "this module does not run on its example inputs",
                place=place,
                seen=f"{error.call}: {lines[-1][:500]}",
                hint="check their shapes and dtypes, and the devices that the module names",
                details=text if len(lines) > 1 else None,
            )
        case "script" if asked.compiled == "trace":
            raise NotScriptableError(
                "torch cannot trace this module",
                place=place,
                expected="tensors as inputs and results, also in lists, tuples and dictionaries",
                seen=_seen(lines[0], facts),
                hint="write that line otherwise, or leave `--via trace` away: scripting takes"
                " numbers, texts and several methods",
                details=error.said or None,
            )
        case "script":
            raise NotScriptableError(
                "TorchScript cannot compile this module",
                place=place,
                expected="what torch.jit.script compiles: it keeps control flow",
                seen=_seen(lines[0], facts),
                hint="write that line otherwise, or pass --via export or, where no way in the"
                " module depends on a value, --via trace",
                details=error.said or None,
            )
        case "export":
            raise NotExportableError(
                "torch.export cannot follow this module"
                + (", nor can TorchScript compile it" if facts.get("script") else ""),
                place=place,
                expected="a way that depends on sizes, not on a tensor's values"
                if facts.get("values")
                else "what torch.export takes",
                seen=_seen(lines[0], facts),
                hint=_EXPORTABLE,
                details="\n".join(filter(None, (text, _scripting(facts)))),
            )
        case "program":
            raise UnsupportedProgramError(
                "this module needs what a model cannot have",
                place=place,
                seen=_seen(lines[0], facts),
                hint="write that line otherwise, or "
                + ("pass --via export" if facts.get("scripted") else "pass --via script"),
                details=_scripting(facts) or None,
            )
        case "sizes":
            raise ExportSizesError(
                "these dimensions cannot be had",
                place=module,
                expected="--dynamic NAME:DIMENSION, with =LEAST..MOST, and --fixed NAME:DIMENSION",
                seen=lines[0][:500],
            )
        case "control flow":
            raise ControlFlowError(
                "a trace of this module would lose control flow: this line depends on a value",
                place=place,
                seen=lines[0][:500],
                hint="leave `--via trace` away, or compute that without a Python number",
            )
        case "differs":
            raise ExportDiffersError(
                "the exported model gives other results than the module, so nothing was written",
                place=place,
                seen=difference(error),
                hint="set torch.backends.quantized.engine = 'qnnpack' before you quantise: models"
                f" compute as that engine does, and not as {facts['engine']}"
                if facts.get("engine")
                else "a trace keeps sizes that Python computed: leave `--via trace` away, or pass"
                " --fixed-sizes where the model is for its inputs' sizes alone"
                if asked.compiled == "trace"
                else "pass `--canonical off`, with which it is right, and report it with the module"
                if facts.get("plain")
                else "torch.export cannot follow the module, and TorchScript computes otherwise"
                " than Python: pass --fixed-sizes where the model is for its inputs' sizes alone"
                if facts.get("scripted")
                else f"pass --via {'export' if asked.compiled == 'script' else 'script'}; where"
                " that differs too, report it with the module",
            )
    raise ExportFailedError(
        "torch cannot export this module",
        place=place,
        seen=lines[-1][:500],
        hint=_OTHERWISE.removeprefix("or "),
        details=f"{text}\n{error.said}".strip(),
    )


def _seen(reason: str, facts: Mapping[str, Any]) -> str:
    code = str(facts.get("code", ""))[:200]
    return f"{reason[:500]}: {code}" if code else reason[:500]


def _scripting(facts: Mapping[str, Any]) -> str:
    script = facts.get("script")
    return f"scripting it was refused too: {str(script)[:1000]}" if script else ""
