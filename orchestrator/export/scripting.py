"""A module as TorchScript's compiler or its tracer makes it."""

from __future__ import annotations

import linecache
import re
import warnings
from collections.abc import Sequence

import torch

from orchestrator.export.calls import Call
from orchestrator.export.places import is_torchs, place_in
from orchestrator.export.refusal import Refused
from orchestrator.export.values import changed


def scripted(eager: torch.nn.Module, calls: Sequence[Call]) -> torch.jit.ScriptModule:
    """Raises Refused, with the line of the source that cannot be compiled."""
    try:
        made = torch.jit.script(eager)
    except Exception as error:
        raise Refused("script", _reason(str(error)), **place_in(str(error))) from error
    missing = [call.method for call in calls if not hasattr(made, call.method)]
    if missing:
        why = f"{missing[0]} is not compiled: decorate it with @torch.jit.export"
        raise Refused("script", why)
    return made


def traced(eager: torch.nn.Module, calls: Sequence[Call]) -> torch.jit.ScriptModule:
    """Raises Refused where the module's own source makes the way depend on a value."""
    first = {call.method: call.args for call in reversed(calls)}
    with warnings.catch_warnings(record=True) as caught, torch.no_grad():
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", torch.jit.TracerWarning)
        args = {method: changed(row, torch.Tensor.clone) for method, row in first.items()}
        try:
            made = torch.jit.trace_module(eager, args, check_trace=False)
        except Exception as error:
            raise Refused("script", _reason(str(error)), **place_in(str(error))) from error
    for one in caught:
        if issubclass(one.category, torch.jit.TracerWarning) and not is_torchs(one.filename):
            line = linecache.getline(one.filename, one.lineno).strip()
            raise Refused("control flow", line, file=one.filename, line=one.lineno)
    return made


def _reason(text: str) -> str:
    lines = [line.strip() for line in text.strip().splitlines()]
    if len(lines) > 1 and re.fullmatch(r"Argument \w+ not provided\.", lines[1]):
        # behind a signature: torch gives methods their defaults when all are compiled
        return f"{lines[1][:-1]}: TorchScript knows no defaults of the module's exported methods"
    variants = (line for line in lines if line.startswith("Expected a value of type"))
    if lines[:1] == ["Arguments for call are not valid."] and (first := next(variants, "")):
        return first
    return (lines or [""])[0].rstrip(":")
