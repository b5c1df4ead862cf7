"""Program that the orchestrator starts in torch's Python: makes models canonical, exports modules.

Called as `python -P worker.py <request.json>`. `task` in the request names the task; `folder` takes
the output, `result.json` too: {"error": {"kind", "text", ...}} or the task's result. `stage` in the
folder names the stage that was reached, for whoever finds it dead.

`canonical`, which makes `canonical.ptl` and `inputs.json`:

model      the `.ptl`; it has its TorchScript (`code/`)
kind       `static` or `traced`: see `static.py` and `traced.py`
name       the new file's top folder
declared   the calls to run it with, as the model runner's `--inputs` (native/driver/values.h); null
           for the inputs that are bundled in the file
pytorch    the version of the runtime that the model is for: operators that it lacks are lowered
without    names of rewrites that are not to be applied
timed      true to time both models
tolerances dtype -> [relative, absolute]

The result describes a call's inputs well enough to make them again. `program` makes the same of a
`.pt2`, which was checked (`models/programs.py`): it ignores `kind` and `timed`, and the result has
`notes` for people. The third task is `export_request.py`'s.
"""

from __future__ import annotations

import importlib.util
import json
import sys
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any


def _find_package() -> None:
    """The package `orchestrator` that this file lies in: started as a file, Python does not know
    it, and what else lies beside it is not for this Python."""
    place = Path(__file__).resolve().parents[1]
    spec = importlib.util.spec_from_file_location(
        "orchestrator", place / "__init__.py", submodule_search_locations=[str(place)]
    )
    assert spec is not None
    assert spec.loader is not None
    sys.modules["orchestrator"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(sys.modules["orchestrator"])


class Stage:
    """Says how far it got."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __call__(self, text: str) -> None:
        self.file.write_text(text, encoding="utf-8")


def _canonical(request: Mapping[str, Any], stage: Stage) -> dict[str, Any]:
    """{"torch", "folded", "rewrites": [...], "comparison": [...], "microseconds": [x, x]|None}."""
    import torch

    from orchestrator.export.archive import reproducible
    from orchestrator.export.calls import least_times, lite, own_calls
    from orchestrator.export.comparing import Comparing, completed, in_double, made_of
    from orchestrator.export.refusal import Refused
    from orchestrator.export.static import Applied, Attempt, convert, settled
    from orchestrator.export.values import calls_json

    if request["kind"] == "traced":
        # it imports what only a trace needs, which takes a second
        from orchestrator.export.traced import Tracing, specialised

    folder, original = Path(request["folder"]), Path(request["model"]).read_bytes()
    stage("loading the model")
    try:
        module = torch.jit.load(request["model"])
    except RuntimeError as error:
        raise Refused("load", str(error)) from error
    stage("making its inputs")
    own = completed(module, own_calls(module, request["declared"]))
    if not own:
        raise Refused("no inputs", "")
    inputs = calls_json(own)
    comparing = Comparing.of(module, own, request["tolerances"])
    right = made_of(original, module, own)

    def attempt(without: frozenset[str], fold: bool) -> Attempt:
        applied = Applied()
        stage("converting")
        try:
            loaded = torch.jit.load(request["model"])
            tracing = Tracing(own, lite(original)) if request["kind"] == "traced" else None
            replace = tracing.replace if tracing else None
            made = convert(loaded, request["pytorch"], without, fold, applied, replace)
            data = reproducible(made._save_to_buffer_for_lite_interpreter(), request["name"])
        except RuntimeError as error:
            raise Refused("convert", str(error)) from error
        stage("comparing")
        probes = tracing.probes if tracing else ()
        seen, exact = made_of(data, made, own), in_double(request["model"])
        return Attempt(data, applied, *comparing(right, seen, probes, exact))

    try:
        best, folded = settled(attempt, frozenset(request["without"]))
    except Refused as error:
        raise (error if request["kind"] == "static" else specialised(error)) from error
    times = None
    if request.get("timed"):
        stage("timing")
        times = least_times((lite(original), lite(best.made)), own)
    stage("writing")
    (folder / "inputs.json").write_text(inputs, encoding="utf-8")
    (folder / "canonical.ptl").write_bytes(best.made)
    return {
        "torch": torch.__version__,
        "folded": folded,
        "rewrites": best.applied.rows(),
        "comparison": best.rows,
        "microseconds": times,
    }


def _program(request: Mapping[str, Any], stage: Stage) -> dict[str, Any]:
    """As `_canonical`, with {"notes": [...]}."""
    from orchestrator.export.refusal import Refused
    from orchestrator.export.saving import export_program

    try:
        made = export_program(
            request["name"],
            Path(request["model"]),
            request["declared"],
            pytorch=request["pytorch"],
            tolerances=request["tolerances"],
            without=frozenset(request["without"]),
            stage=stage,
        )
    except RuntimeError as error:
        raise Refused("convert", str(error)) from error
    stage("writing")
    return made.written(Path(request["folder"]), "canonical.ptl")


def _export(request: Mapping[str, Any], stage: Stage) -> dict[str, Any]:
    from orchestrator.export.export_request import exported

    return exported(request, stage)


_TASKS: Mapping[str, Callable[[Mapping[str, Any], Stage], dict[str, Any]]] = {
    "canonical": _canonical,
    "export": _export,
    "program": _program,
}


def result(request: Mapping[str, Any]) -> dict[str, Any]:
    """Run a task. Returns its result, or {"error": ...}."""
    from orchestrator.export.refusal import Refused

    stage = Stage(Path(request["folder"], "stage"))
    try:
        return _TASKS[request["task"]](request, stage)
    except Refused as error:
        return {"error": {"kind": error.kind, "text": str(error), **error.facts}}
    except MemoryError:
        return {"error": {"kind": "memory", "text": ""}}
    except RuntimeError as error:
        # how torch says that there is no memory left
        kind = "memory" if "alloc" in str(error) else "bug"
        return {"error": {"kind": kind, "text": traceback.format_exc()}}
    except Exception:
        return {"error": {"kind": "bug", "text": traceback.format_exc()}}


def main(arguments: list[str]) -> int:
    """Do what the request says."""
    _find_package()
    import torch

    request = json.loads(Path(arguments[0]).read_text(encoding="utf-8"))
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True, warn_only=True)
    told = result(request)
    Path(request["folder"], "result.json").write_text(json.dumps(told), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
