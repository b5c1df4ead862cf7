"""`orchestrate export model`, in torch's Python: makes a module of its name, and exports it.

The request, besides `folder`, to which `model.ptl` and the example calls, `inputs.json`, go:

module      `package:attribute`: a module of torch, or what makes one when it is called
weights     a file of torch.save with the module's state, or null
inputs      `package:attribute`: calls, or what gives them when it is called; null for `declared`
declared    calls as the model runner's `--inputs`
methods     method -> `package:attribute` of its calls
name, compiled, canonical, sizes, dynamic, fixed   as `saving.Export` has them
decomposed  operators that a program of torch.export is to have in others
pytorch     the version of the runtime that the model is for
paths       folders to import from
without     names of rewrites that are not to be applied
tolerances  dtype -> [relative, absolute]

The result is {"torch", "folded", "rewrites": [...], "comparison": [...], "via", "notes": [...]}.
"""

from __future__ import annotations

import importlib
import sys
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from orchestrator.export.refusal import Refused
from orchestrator.export.saving import Export, export, prepare
from orchestrator.export.values import from_json


def exported(request: Mapping[str, Any], stage: Callable[[str], None]) -> dict[str, Any]:
    """Raises Refused."""
    sys.path[:0] = request["paths"]
    prepare()
    stage("making the module")
    module = _module(request["module"])
    if request["weights"] is not None:
        _load(module, request["weights"])
    stage("making its inputs")
    model = Export(
        module,
        _inputs(request),
        compiled=request["compiled"],
        canonical=request["canonical"],
        sizes=request["sizes"],
        dynamic=request["dynamic"],
        fixed=request["fixed"],
        decomposed=request["decomposed"],
        bundled=False,
    )
    made = export(
        request["name"],
        model,
        pytorch=request["pytorch"],
        tolerances=request["tolerances"],
        without=frozenset(request["without"]),
        stage=stage,
    )
    stage("writing")
    return {**made.written(Path(request["folder"]), "model.ptl"), "via": made.via}


def _found(name: str, kind: str) -> Any:
    """Import the object that `package:attribute` names. Raises Refused of this kind."""
    package, _, attribute = name.partition(":")
    try:
        found: Any = importlib.import_module(package)
        for part in attribute.split("."):
            found = getattr(found, part)
    except (Exception, SystemExit) as error:
        raise _refused(kind, error) from error
    return found


def _made(found: Any, kind: str) -> Any:
    try:
        return found()
    except (Exception, SystemExit) as error:
        raise _refused(kind, error) from error


def _refused(kind: str, error: BaseException) -> Refused:
    """With the line of the user's own code, which is the last that is not torch's."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [one for one in frames if one.filename != __file__ and not one.filename.startswith("<")]
    place = {"file": own[-1].filename, "line": own[-1].lineno} if own else {}
    return Refused(kind, f"{type(error).__name__}: {error}", **place)


def _module(name: str) -> torch.nn.Module:
    found = _found(name, "module")
    module = found if isinstance(found, torch.nn.Module) else _made(found, "module")
    if not isinstance(module, torch.nn.Module):
        raise Refused("module", f"{name} gives a {type(module).__name__}, no torch.nn.Module")
    return module


def _load(module: torch.nn.Module, file: str) -> None:
    try:
        module.load_state_dict(torch.load(file, map_location="cpu", weights_only=True))
    except Exception as error:
        raise Refused("weights", str(error)) from error


def _inputs(request: Mapping[str, Any]) -> Any:
    more = {method: _example(name) for method, name in request["methods"].items()}
    if request["inputs"] is not None:
        found = _example(request["inputs"])
        if not more:
            return found
        return {**(found if isinstance(found, Mapping) else {"forward": found}), **more}
    calls: dict[str, list[tuple[Any, ...]]] = {}
    for one in request["declared"]:
        calls.setdefault(one["method"], []).append(tuple(map(from_json, one["args"])))
    return {**calls, **more}


def _example(name: str) -> Any:
    found = _found(name, "example inputs")
    return _made(found, "example inputs") if callable(found) else found
