"""Conversions around torch: the process, its limits and its answers. The worker is a script here.

Real processes end as torch's would; what torch itself does is in tests/integration.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from orchestrator.canonical import convert as converting
from orchestrator.canonical import process
from orchestrator.canonical.convert import (
    CanonicalDiffersError,
    ConversionFailedError,
    Converted,
    NoTorchScriptError,
    OriginalFailsError,
    SpecialisedError,
    UnrecordableInputsError,
    UntraceableError,
    convert,
    worker_digest,
)
from orchestrator.canonical.process import (
    ConversionDiedError,
    ConversionMemoryError,
    ConversionSlowError,
)
from orchestrator.canonical.python import ExportPython
from orchestrator.errors import OrchestratorError
from orchestrator.system.process import LOCAL
from tests.ptl import model as ptl_model

HEAD = """\
import json, os, sys, time
from pathlib import Path
request = json.loads(Path(sys.argv[1]).read_text())
folder = Path(request["folder"])
def answer(**value):
    (folder / "result.json").write_text(json.dumps(value))
def fail(**value):
    answer(error=value)
(folder / "stage").write_text("comparing")
"""
ROW = {"call": "forward[0]", "inputs": ["float32[2]"], "result": "same", "largest": 2.5e-07}
REWRITE = {"name": "clamp", "from": "aten::relu6", "to": ["aten::clamp"], "calls": 2, "why": "so"}
GOOD = f"""
(folder / "canonical.ptl").write_bytes(b"made")
(folder / "inputs.json").write_bytes(b"[]")
answer(torch="2.13.0", folded=True, rewrites=[{REWRITE}], comparison=[{ROW}])
"""
SHOWN = "apps/camera/models/net.ptl"

Convert = Callable[..., Converted]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Convert:
    """Converts a model with TorchScript, by a script in the worker's place."""
    model = tmp_path / "net.ptl"
    model.write_bytes(ptl_model(code__torch=b"def forward(self): ..."))

    def call(script: str, declared: Any = None, env: Any = os.environ) -> Converted:
        worker = tmp_path / "worker.py"
        worker.write_text(HEAD + script)
        monkeypatch.setattr(process, "WORKER", worker)
        python = ExportPython(sys.executable, "2.13.0")
        tolerances = {"float32": (1e-4, 1e-5)}
        return convert(model, SHOWN, "net", declared, "1.13.1", tolerances, python, env, LOCAL)

    return call


def failure(run: Convert, script: str, kind: type[OrchestratorError]) -> str:
    with pytest.raises(kind) as caught:
        run(script)
    text = caught.value.render()
    assert text.startswith(f"{SHOWN}: error: ")
    return text


def test_what_comes_out(run: Convert) -> None:
    done = run(GOOD)
    assert (done.made, done.inputs, done.torch, done.folded) == (b"made", b"[]", "2.13.0", True)
    assert (done.rewrites[0].old, done.rewrites[0].new) == ("aten::relu6", ("aten::clamp",))
    assert done.largest == 2.5e-07


def test_what_goes_in(run: Convert, tmp_path: Path) -> None:
    seen = tmp_path / "seen.json"
    environment = {"PATH": os.environ["PATH"], "HOME": "/h", "TOKEN": "secret"}
    script = f"""
Path({str(seen)!r}).write_text(json.dumps([request, dict(os.environ), sys.flags.safe_path]))
{GOOD}"""
    run(script, [{"method": "forward", "args": [{"int": 1}]}], environment)
    request, env, safe = json.loads(seen.read_text())
    assert request["model"] == str(tmp_path / "net.ptl")
    assert request["declared"] == [{"method": "forward", "args": [{"int": 1}]}]
    assert request["tolerances"] == {"float32": [1e-4, 1e-5]}
    assert (request["name"], request["kind"], request["without"]) == ("net", "static", [])
    assert (request["task"], request["pytorch"]) == ("canonical", "1.13.1")
    assert "TOKEN" not in env
    assert (env["HOME"], env["PYTHONHASHSEED"], safe) == ("/h", "0", True)


def test_a_crash(run: Convert) -> None:
    text = failure(run, "os.kill(os.getpid(), 11)", ConversionDiedError)
    assert "seen:     it was killed by SIGSEGV while comparing\n" in text
    assert "`canonical: off` for it in app.yaml" in text


def test_an_end_without_an_answer(run: Convert) -> None:
    script = "print('torch said so', file=sys.stderr); sys.exit(9)"
    text = failure(run, script, ConversionDiedError)
    assert "seen:     it ended with code 9 while comparing\n" in text
    assert text.endswith("| torch said so")


def test_a_crash_before_it_began(run: Convert) -> None:
    script = "(folder / 'stage').unlink(); os.abort()"
    assert "killed by SIGABRT while importing torch" in failure(run, script, ConversionDiedError)


def test_it_takes_too_long(run: Convert, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "TIME_LIMIT", 1)
    text = failure(run, "time.sleep(60)", ConversionSlowError)
    assert "expected: at most 1 s\n  seen:     still comparing\n" in text


def test_it_takes_too_much_memory(run: Convert, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "MEMORY_LIMIT", 2**30)
    text = failure(run, "x = bytearray(2**31)", ConversionMemoryError)
    assert "expected: at most 1 GB\n  seen:     none left while comparing\n" in text


@pytest.mark.parametrize(
    "error",
    [
        {"kind": "memory", "text": ""},
        {"kind": "original", "text": "DefaultCPUAllocator: can't allocate memory", "call": "f[0]"},
    ],
)
def test_torch_says_that_there_is_no_memory(run: Convert, error: dict[str, str]) -> None:
    failure(run, f"fail(**{error})", ConversionMemoryError)


def test_it_writes_too_much(run: Convert, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "FILE_LIMIT", 2**20)
    script = "(folder / 'canonical.ptl').write_bytes(bytes(2**21))"
    text = failure(run, script, ConversionDiedError)
    assert "while comparing" in text


def test_the_model_fails_itself(run: Convert) -> None:
    error = {"kind": "original", "text": "a\nshape '[2]' is invalid", "call": "forward[1]"}
    text = failure(run, f"fail(**{error})", OriginalFailsError)
    assert "seen:     forward[1]: shape '[2]' is invalid\n" in text


def test_a_difference(run: Convert) -> None:
    error = {
        "kind": "differs",
        "text": "x",
        "call": "forward[0], longer",
        "inputs": ["float32[1, 4]"],
        "difference": "output[0, 1]: 1.0, and now 2.0",
        "rewrites": ["clamp"],
    }
    assert failure(run, f"fail(**{error})", CanonicalDiffersError) == (
        f"{SHOWN}: error: the canonical model gives other results than this one, so nothing was"
        " written\n"
        "  seen:     forward[0], longer with float32[1, 4]: output[0, 1]: 1.0, and now 2.0\n"
        "  do:       it is right without the rewrite clamp: report it with the model; until then,"
        " or leave the model as it is: `canonical: off` for it in app.yaml"
    )
    alone = failure(run, f"fail(**{error | {'rewrites': []}})", CanonicalDiffersError)
    assert "exported for training" in alone


@pytest.mark.parametrize(
    ("error", "kind", "told"),
    [
        ({"kind": "inputs", "text": "an input of type X"}, UnrecordableInputsError, "of type X"),
        ({"kind": "no inputs", "text": ""}, UnrecordableInputsError, "no inputs to compare"),
        ({"kind": "convert", "text": "a\nisGenericDict"}, ConversionFailedError, "isGenericDict"),
        ({"kind": "bug", "text": "Traceback\nKeyError: 1"}, ConversionFailedError, "KeyError: 1"),
        ({}, ConversionFailedError, "cannot make this model canonical"),
    ],
)
def test_what_torch_refuses(
    run: Convert, error: dict[str, str], kind: type[OrchestratorError], told: str
) -> None:
    assert told in failure(run, f"fail(**{error})", kind)


@pytest.mark.parametrize(
    "script",
    [
        "answer(torch='2', folded=True, rewrites=[], comparison=[])",
        GOOD.replace("folded=True", "folded=1"),
        GOOD.replace("'result': 'same'", "'result': 'wrong'"),
        GOOD.replace("folded=True", "folded=True, more=1"),
        "answer(error=[])",
    ],
)
def test_an_answer_that_is_none(run: Convert, script: str) -> None:
    failure(run, script, ConversionFailedError)


@pytest.mark.parametrize("text", ["", "[1]", "{", '"x"'])
def test_an_answer_that_is_no_mapping(run: Convert, text: str) -> None:
    failure(run, f"(folder / 'result.json').write_text({text!r})", ConversionDiedError)


def test_a_model_without_torchscript(tmp_path: Path) -> None:
    model = tmp_path / "net.ptl"
    model.write_bytes(ptl_model())
    with pytest.raises(NoTorchScriptError) as caught:
        convert(model, SHOWN, "net", None, "1.13.1", {}, ExportPython("/nowhere", "2"), {}, LOCAL)
    assert caught.value.render() == (
        f"{SHOWN}: error: this model was saved without its TorchScript, which a canonical model is"
        " made of\n"
        "  expected: records under code/, as module._save_for_lite_interpreter(path) writes them\n"
        "  seen:     bytecode alone\n"
        "  do:       export it again, and remove nothing from what _save_for_lite_interpreter"
        " wrote: the canonical model is without code/ again"
    )


def test_the_digest_is_of_all_that_runs_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = worker_digest()
    copy = Path(shutil.copytree(process.EXPORT, tmp_path / "export"))
    monkeypatch.setattr(converting, "EXPORT", copy)
    assert worker_digest() == before
    for file in copy.glob("*.py"):
        file.write_text(file.read_text() + "#")
        assert worker_digest() != before
        before = worker_digest()


def test_what_cannot_be_traced(run: Convert) -> None:
    told = "aten::item (net.py:7): a number that depends on a tensor's value"
    script = f"fail(kind='untraceable', text={told!r})"
    with pytest.raises(UntraceableError) as caught:
        run(script)
    assert caught.value.render() == (
        f"{SHOWN}: error: this model cannot be traced\n"
        "  expected: a way that depends on no value, tensors as inputs, and no state\n"
        f"  seen:     {told}\n"
        "  do:       declare `canonical: static` for it, which keeps control flow and state, or"
        " leave the model as it is: `canonical: off` for it in app.yaml"
    )


def test_a_trace_of_some_sizes_alone(run: Convert) -> None:
    told = "a trace holds for some sizes alone (net.py:7): s0 < 3; but the model takes float32[4]"
    script = f"fail(kind='specialised', text={told!r})"
    with pytest.raises(SpecialisedError) as caught:
        run(script)
    assert caught.value.render() == (
        f"{SHOWN}: error: a trace of this model would be of some inputs alone, so nothing was"
        " written\n"
        "  expected: a way that is the same for all inputs that the model takes\n"
        f"  seen:     {told}\n"
        "  do:       declare `canonical: static` for it, which keeps control flow and state, or"
        " leave the model as it is: `canonical: off` for it in app.yaml"
    )
