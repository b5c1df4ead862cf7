"""Models of programs around torch: what the worker is asked, and its refusals. It is a script
here."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from program_toy import records, write

from orchestrator.canonical import process
from orchestrator.canonical.convert import Converted
from orchestrator.canonical.process import (
    ConversionDiedError,
    ConversionMemoryError,
    ConversionSlowError,
)
from orchestrator.canonical.programs import (
    ProgramDiffersError,
    ProgramInputsError,
    ProgramNewerError,
    ProgramOperatorError,
    ProgramRefusedError,
    ProgramUnreadableError,
    convert_program,
)
from orchestrator.canonical.python import ExportPython
from orchestrator.errors import OrchestratorError
from orchestrator.models.archive import DamagedModelError
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
GOOD = """
(folder / "canonical.ptl").write_bytes(b"made")
(folder / "inputs.json").write_bytes(b"[]")
answer(torch="2.13.0", folded=True, rewrites=[], microseconds=None, notes=["size 0 of x is fixed"],
       comparison=[{"call": "forward[0], longer", "inputs": [], "result": "refused", "why": "x"}])
"""
Convert = Callable[..., Converted]


@pytest.fixture
def convert(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Convert:
    def call(script: str) -> Converted:
        worker = tmp_path / "worker.py"
        worker.write_text(HEAD + script)
        monkeypatch.setattr(process, "WORKER", worker)
        return convert_program(
            write(tmp_path / "net.pt2", records()),
            "apps/a/models/net.pt2",
            "net",
            None,
            "1.13.1",
            {"float32": (1e-4, 1e-5)},
            ExportPython(sys.executable, "2.13.0"),
            os.environ,
            LOCAL,
            ["norms"],
        )

    return call


def refused(convert: Convert, kind: type[OrchestratorError], error: Any) -> str:
    with pytest.raises(kind) as caught:
        convert(f"answer(error={error!r})")
    return caught.value.render()


def test_what_comes_out(convert: Convert) -> None:
    done = convert(GOOD)
    assert (done.made, done.inputs, done.notes) == (b"made", b"[]", ("size 0 of x is fixed",))
    assert done.comparison[0].why == "x"


def test_what_goes_in(convert: Convert, tmp_path: Path) -> None:
    seen = tmp_path / "seen.json"
    convert(
        f"Path({str(seen)!r}).write_text(json.dumps(request))\n"
        "assert Path(request['model']).parent == folder and Path(request['model']).is_file()\n"
        f"{GOOD}"
    )
    request = json.loads(seen.read_text())
    assert request.pop("model") == request.pop("folder") + "/program.pt2"
    assert request == {
        "task": "program",
        "name": "net",
        "declared": None,
        "pytorch": "1.13.1",
        "without": ["norms"],
        "tolerances": {"float32": [1e-4, 1e-5]},
    }


def test_torch_sees_no_file_that_is_not_safe(convert: Convert, tmp_path: Path) -> None:
    (tmp_path / "bad.pt2").write_bytes(write(tmp_path / "net.pt2", records()).read_bytes()[:-9])
    python = ExportPython("/nowhere", "2.13.0")
    with pytest.raises(DamagedModelError):
        convert_program(
            tmp_path / "bad.pt2", "bad.pt2", "bad", None, "2.6.0", {}, python, {}, LOCAL
        )


def test_a_program_of_a_newer_torch(convert: Convert) -> None:
    error = {"kind": "load", "text": "SerializeError: 9", "written": "2.99.0", "torch": "2.13.0"}
    assert refused(convert, ProgramNewerError, error) == (
        "apps/a/models/net.pt2: error: a newer torch wrote this program than the one that is to"
        " read it\n"
        "  expected: torch 2.13.0 or older, which is installed\n"
        "  seen:     torch 2.99.0: SerializeError: 9\n"
        "  do:       install that version in the environment for torch, or export the module again"
    )
    refused(convert, ProgramNewerError, {**error, "kind": "operators", "text": "aten::new"})


def test_a_program_that_torch_cannot_read(convert: Convert) -> None:
    error = {"kind": "load", "text": "KeyError: 'x'", "written": "2.6.0+cu1", "torch": "2.13.0"}
    assert refused(convert, ProgramUnreadableError, error) == (
        "apps/a/models/net.pt2: error: torch cannot read this program\n"
        "  expected: what torch.export.save of torch 2.13.0 or older wrote\n"
        "  seen:     KeyError: 'x'; torch 2.6.0+cu1 wrote it\n"
        "  do:       export the module again by the torch that is installed"
    )


def test_operators_that_torch_does_not_have(convert: Convert) -> None:
    error = {"kind": "operators", "text": "torchvision::nms", "written": "2.13.0", "torch": "2.13"}
    assert refused(convert, ProgramOperatorError, error) == (
        "apps/a/models/net.pt2: error: this program names operators that torch does not have\n"
        "  expected: operators of torch 2.13, torchvision and torchao\n"
        "  seen:     torchvision::nms\n"
        "  do:       install the package that has them in the environment for torch, or write that"
        " part of the module otherwise"
    )


def test_inputs(convert: Convert) -> None:
    assert refused(convert, ProgramInputsError, {"kind": "no inputs", "text": ""}) == (
        "apps/a/models/net.pt2: error: this program has no inputs to run it with\n"
        "  expected: the inputs that it was exported with in the file, or `inputs:` for it\n"
        "  do:       declare `inputs:` in app.yaml, or pass --input"
    )
    error = {"kind": "original", "text": "Guard failed: x", "call": "forward[0]"}
    assert refused(convert, ProgramInputsError, error) == (
        "apps/a/models/net.pt2: error: this program does not run on these inputs\n"
        "  seen:     forward[0]: Guard failed: x\n"
        "  do:       check their order, shapes and dtypes"
    )


def test_what_no_model_can_have(convert: Convert) -> None:
    error = {"kind": "program", "text": "complex results", "file": "/src/net.py", "line": 3}
    assert refused(convert, ProgramRefusedError, error) == (
        "/src/net.py:3:1: error: this program needs what a model cannot have\n"
        "  seen:     complex results\n"
        "  do:       write that part of the module otherwise, or export the module itself:"
        " ./orchestrate export model with --via script"
    )
    text = refused(convert, ProgramRefusedError, {"kind": "bug", "text": "Traceback\nOops: x"})
    assert "torch cannot make a model of this program\n  seen:     Oops: x\n" in text


def test_other_results(convert: Convert) -> None:
    error = {
        **{"kind": "differs", "text": "", "call": "forward[0]", "inputs": ["float32[2]"]},
        "difference": "output[0]: 1.0, and now 2.0",
    }
    text = refused(convert, ProgramDiffersError, error)
    assert "seen:     forward[0] with float32[2]: output[0]: 1.0, and now 2.0\n" in text


def test_memory_and_time(convert: Convert, monkeypatch: pytest.MonkeyPatch) -> None:
    text = refused(convert, ConversionMemoryError, {"kind": "memory", "text": ""})
    assert "error: making a model of this program took too much memory\n" in text
    with pytest.raises(ConversionDiedError) as caught:
        convert("os.abort()")
    assert "torch died while it made a model of this program" in caught.value.render()
    monkeypatch.setattr(process, "TIME_LIMIT", 0.2)
    with pytest.raises(ConversionSlowError):
        convert("import time; time.sleep(60)")
