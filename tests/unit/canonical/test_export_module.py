"""Exports around torch: what the worker is asked, and its refusals. It is a script here."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from orchestrator.canonical import process
from orchestrator.canonical.exporting import (
    ControlFlowError,
    ExampleInputsError,
    ExportDiffersError,
    ExportFailedError,
    ExportResult,
    ExportSizesError,
    ModuleRequest,
    ModuleUnmadeError,
    NotExportableError,
    NotScriptableError,
    UnsupportedProgramError,
    WeightsUnfitError,
    export_module,
)
from orchestrator.canonical.process import ConversionDiedError, ConversionMemoryError
from orchestrator.canonical.python import ExportPython
from orchestrator.errors import OrchestratorError
from orchestrator.system.process import LOCAL

HEAD = """\
import json, os, sys
from pathlib import Path
request = json.loads(Path(sys.argv[1]).read_text())
folder = Path(request["folder"])
def answer(**value):
    (folder / "result.json").write_text(json.dumps(value))
(folder / "stage").write_text("comparing")
"""
ROW = {"call": "forward[0]", "inputs": ["float32[2]"], "result": "same", "largest": 2.5e-07}
REFUSED = {"call": "forward[0], longer", "inputs": [], "result": "refused", "why": "size 1 of x"}
GOOD = f"""
(folder / "model.ptl").write_bytes(b"made")
(folder / "inputs.json").write_bytes(b"[]")
answer(torch="2.13.0", folded=True, rewrites=[], comparison=[{ROW}, {REFUSED}],
       via="export", notes=["x"])
"""
ASKED: dict[str, Any] = {
    "module": "nets:Net",
    "name": "net",
    "weights": "/w/net.pt",
    "inputs": None,
    "declared": [],
    "compiled": "any",
    "canonical": "static",
    "sizes": "any",
    "methods": {"encode": "nets:lines"},
    "dynamic": ["x:1=2..8"],
    "fixed": ["x:0"],
    "decomposed": [],
    "pytorch": "1.13.1",
}

Export = Callable[..., tuple[bytes, bytes, ExportResult]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Export:
    def call(script: str, **changes: Any) -> tuple[bytes, bytes, ExportResult]:
        worker = tmp_path / "worker.py"
        worker.write_text(HEAD + script)
        monkeypatch.setattr(process, "WORKER", worker)
        facts: dict[str, Any] = {**ASKED, "weights": Path("/w/net.pt"), "paths": [Path("/src")]}
        request = ModuleRequest(**{**facts, **changes})
        python = ExportPython(sys.executable, "2.13.0")
        return export_module(request, {"float32": (1e-4, 1e-5)}, python, os.environ, LOCAL)

    return call


def refused(run: Export, kind: type[OrchestratorError], error: Any, **changes: Any) -> str:
    with pytest.raises(kind) as caught:
        run(f"answer(error={error!r})", **changes)
    return caught.value.render()


def test_what_comes_out(run: Export) -> None:
    made, inputs, result = run(GOOD)
    assert (made, inputs, result.torch, result.largest) == (b"made", b"[]", "2.13.0", 2.5e-07)
    assert (result.via, result.notes, result.comparison[1].why) == ("export", ("x",), "size 1 of x")


def test_what_goes_in(run: Export, tmp_path: Path) -> None:
    seen = tmp_path / "seen.json"
    run(f"Path({str(seen)!r}).write_text(json.dumps(request))\n{GOOD}")
    request = json.loads(seen.read_text())
    assert Path(request.pop("folder")).is_absolute()
    assert request == {
        "task": "export",
        **ASKED,
        "paths": ["/src"],
        "without": [],
        "tolerances": {"float32": [1e-4, 1e-5]},
    }


def test_a_line_that_torchscript_cannot_compile(run: Export) -> None:
    error = {
        "kind": "script",
        "text": "open is not supported",
        "file": "/src/nets.py",
        "line": 9,
        "code": "with open(name) as f:",
    }
    assert refused(run, NotScriptableError, error) == (
        "/src/nets.py:9:1: error: TorchScript cannot compile this module\n"
        "  expected: what torch.jit.script compiles: it keeps control flow\n"
        "  seen:     open is not supported: with open(name) as f:\n"
        "  do:       write that line otherwise, or pass --via export or, where no way in the module"
        " depends on a value, --via trace"
    )


LINE = {"file": "/src/nets.py", "line": 9, "code": "if x > 0:"}


def test_a_module_that_torch_export_cannot_follow(run: Export) -> None:
    error = {"kind": "export", "text": "Could not guard", "values": True, **LINE}
    assert refused(run, NotExportableError, error) == (
        "/src/nets.py:9:1: error: torch.export cannot follow this module\n"
        "  expected: a way that depends on sizes, not on a tensor's values\n"
        "  seen:     Could not guard: if x > 0:\n"
        "  do:       where a way depends on a value, write torch.cond or torch.where, or keep `if`"
        " and let TorchScript compile the module (--via script)\n"
        "  | Could not guard"
    )
    text = refused(run, NotExportableError, {**error, "values": False, "script": "nets.py:3: no"})
    assert (
        "follow this module, nor can TorchScript compile it\n  expected: what torch.export" in text
    )
    assert text.endswith("  | scripting it was refused too: nets.py:3: no")


def test_a_program_that_no_model_can_be(run: Export) -> None:
    error = {"kind": "program", "text": "cond of a SymBool", **LINE}
    assert refused(run, UnsupportedProgramError, error) == (
        "/src/nets.py:9:1: error: this module needs what a model cannot have\n"
        "  seen:     cond of a SymBool: if x > 0:\n"
        "  do:       write that line otherwise, or pass --via script"
    )
    error = {"kind": "program", "text": "a model has no enumerations", "scripted": True, **LINE}
    told = refused(run, UnsupportedProgramError, error, compiled="script")
    assert told.endswith("  do:       write that line otherwise, or pass --via export")


def test_dimensions_that_contradict_each_other(run: Export) -> None:
    error = {"kind": "sizes", "text": "there is no argument y, but x"}
    assert refused(run, ExportSizesError, error) == (
        "nets:Net: error: these dimensions cannot be had\n"
        "  expected: --dynamic NAME:DIMENSION, with =LEAST..MOST, and --fixed NAME:DIMENSION\n"
        "  seen:     there is no argument y, but x"
    )


def test_a_module_that_cannot_be_traced_is_not_told_to_be_traced(run: Export) -> None:
    error = {"kind": "script", "text": "Type 'Tuple[int]' cannot be traced"}
    told = refused(run, NotScriptableError, error, compiled="trace")
    assert told.splitlines()[0].endswith("error: torch cannot trace this module")
    assert "or leave `--via trace` away" in told
    assert "pass --via trace" not in told


def test_a_branch_that_a_trace_would_lose(run: Export) -> None:
    error = {"kind": "control flow", "text": "if x > 0:", "file": "/src/nets.py", "line": 4}
    text = refused(run, ControlFlowError, error)
    assert text.startswith("/src/nets.py:4:1: error: a trace of this module would lose control")
    assert "seen:     if x > 0:\n" in text


DIFFERS = {
    "kind": "differs",
    "text": "x",
    "call": "forward[0], larger batch",
    "inputs": ["float32[3, 4]"],
    "difference": "output[0]: 1.0, and now 2.0",
    "rewrites": [],
}


@pytest.mark.parametrize(
    ("compiled", "plain", "advice"),
    [
        ("trace", None, "--fixed-sizes"),
        ("script", True, "pass `--canonical off`, with which it is right, and report it"),
        ("script", False, "pass --via export; where that differs too, report it with the module"),
        ("any", None, "pass --via script; where that differs too, report it with the module"),
    ],
)
def test_another_result(run: Export, compiled: str, plain: bool | None, advice: str) -> None:
    """`--canonical off` is advice only where the model is right with it."""
    text = refused(run, ExportDiffersError, {**DIFFERS, "plain": plain}, compiled=compiled)
    assert text.startswith(
        "nets:Net: error: the exported model gives other results than the module, so nothing was"
        " written\n"
        "  seen:     forward[0], larger batch with float32[3, 4]: output[0]: 1.0, and now 2.0\n"
    )
    assert advice in text


def test_another_result_of_torchscript(run: Export) -> None:
    text = refused(run, ExportDiffersError, {**DIFFERS, "scripted": True}, compiled="any")
    assert "and TorchScript computes otherwise than Python: pass --fixed-sizes where" in text


def test_another_result_of_an_engine_that_computes_otherwise(run: Export) -> None:
    text = refused(run, ExportDiffersError, {**DIFFERS, "engine": "x86"}, compiled="script")
    assert "set torch.backends.quantized.engine = 'qnnpack' before you quantise: models" in text
    assert "compute as that engine does, and not as x86" in text


@pytest.mark.parametrize(
    ("error", "kind", "told"),
    [
        ({"kind": "module", "text": "ImportError: no"}, ModuleUnmadeError, "ImportError: no"),
        ({"kind": "weights", "text": "Missing key"}, WeightsUnfitError, "/w/net.pt: error: these"),
        ({"kind": "example inputs", "text": "no call"}, ExampleInputsError, "seen:     no call"),
        (
            {"kind": "original", "text": "a\nbad shape", "call": "forward[1]"},
            ExampleInputsError,
            "seen:     forward[1]: bad shape\n",
        ),
        ({"kind": "bug", "text": "T\nKeyError: 1"}, ExportFailedError, "seen:     KeyError: 1"),
        ({"kind": "memory", "text": ""}, ConversionMemoryError, "exporting this module took too"),
        ([], ExportFailedError, "torch cannot export this module"),
    ],
)
def test_other_refusals(run: Export, error: Any, kind: type[OrchestratorError], told: str) -> None:
    assert told in refused(run, kind, error)


def test_a_place_that_is_none(run: Export) -> None:
    error = {"kind": "module", "text": "x", "file": 3, "line": "y"}
    assert refused(run, ModuleUnmadeError, error).startswith("nets:Net: error: nets:Net gives no")


def test_a_crash(run: Export) -> None:
    with pytest.raises(ConversionDiedError) as caught:
        run("os.abort()")
    assert caught.value.what == "torch died while it exported this module"


@pytest.mark.parametrize(
    "script",
    [
        "answer(torch='2', folded=True, rewrites=[], comparison=[], via='export')",
        GOOD.replace("folded=True", "folded=1"),
        GOOD.replace("'result': 'same'", "'result': 'wrong'"),
    ],
)
def test_an_answer_that_is_none(run: Export, script: str) -> None:
    with pytest.raises(ExportFailedError):
        run(script)
