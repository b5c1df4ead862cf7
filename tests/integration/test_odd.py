"""A model that returns memory which nothing has written, and names what it cannot call.

`apps/odd/export.py` beside this file writes it. What the tracer and a build do with it, and with a
model that takes all memory there is.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
import yaml
from driving import call, flat_line, tensor, traced_alone
from pydantic import TypeAdapter
from real import orchestrator

from orchestrator.values.config.app import ModelConfig
from orchestrator.verify import model_runner as driver
from orchestrator.verify.model_runner import run_model
from tests import ptl

pytestmark = [pytest.mark.real, pytest.mark.ci_only]

ODD = Path(__file__).parent / "apps" / "odd"
FRESH = (
    "forward[0] output[1], forward[0] output[2], forward[0] output[3], forward[0] output[4],"
    " again[0] output"
)
FLAT = "forward output[5] (all 0)"


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace whose only app is `odd`, traced."""
    root, told = traced_alone(ODD, tmp_path_factory.mktemp("odd"))
    assert told.splitlines()[-3:] == [
        f"    compared by kind and shape only: {FRESH}",
        f"  {flat_line(FLAT)}".rstrip(),
        "    never ran, and would fail in this runtime: aten::stft with 9 in spectrum",
    ]
    return root


@pytest.fixture(scope="module")
def report(workspace: Path) -> dict[str, Any]:
    ran = orchestrator("build", "--json", "--quiet", cwd=workspace)
    assert ran.code == 0, ran.err
    (variant,) = json.loads(ran.out)["variants"]
    return dict(variant)


def test_memory_that_nothing_has_written_does_not_fail_the_verification(
    workspace: Path, report: dict[str, Any]
) -> None:
    assert report["verified"] == "ok in part"
    ran = orchestrator("verify", "//apps/odd", "--quiet", cwd=workspace)
    assert (ran.code, ran.err, ran.out) == (
        0,
        "",
        "//apps/odd:linux-x86_64 odd: ok in part, 3 runs, also at CPU level baseline\n"
        f"  compared by kind and shape only: {FRESH}\n{flat_line(FLAT)}",
    )


@pytest.mark.usefixtures("report")
def test_what_was_written_is_compared(workspace: Path) -> None:
    outputs = call(workspace, "odd", "forward", tensor(1, -2, 3))["output"]["tuple"]
    assert (outputs[0], outputs[5]) == (tensor(2, -4, 6), tensor(0, 0, 0, 0))


@pytest.mark.usefixtures("report")
def test_a_call_with_too_many_arguments_does_no_harm_until_it_is_reached(workspace: Path) -> None:
    assert call(workspace, "odd", "spectrum", tensor(1, 2))["output"] == tensor(2, 3)
    reached = call(workspace, "odd", "spectrum", tensor(*range(8), shape=[1, 1, 8]))
    assert (reached["output"], reached["error"]["code"]) == (None, "RUN_FAILED")


def test_a_call_with_too_many_arguments_that_is_reached_is_refused(workspace: Path) -> None:
    declared = workspace / "apps/odd/app.yaml"
    before = declared.read_text()
    value = yaml.safe_load(before)
    inputs = [{"method": "spectrum", "args": [{"shape": [1, 1, 8], "fill": "ones"}]}]
    value["models"][0]["inputs"] = inputs
    declared.write_text(yaml.safe_dump(value))
    ran = orchestrator("trace", "//apps/odd", "--quiet", cwd=workspace)
    declared.write_text(before)
    assert (ran.code, ran.err) == (
        1,
        "apps/odd/models/odd.ptl: error: this model passes more arguments than PyTorch 1.13.1's"
        " operators take\n"
        "  expected: aten::stft with at most 8\n"
        "  seen:     aten::stft with 9 in spectrum\n"
        "  do:       a newer PyTorch wrote it: pass the scripted module through torch.jit.freeze"
        " before it is saved, which leaves out arguments that have their defaults; or export it"
        " with PyTorch 1.13.1, or write that part of the model in other operators\n",
    )


@pytest.mark.usefixtures("report")
def test_a_model_that_takes_all_memory_ends_as_an_error(
    workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its interpreter's stack grows without end."""
    rows = ("STORE", 1), ("LOADC", 0), ("JMP", -1), ("RET", 0)
    tables = ptl.code(
        ptl.tuple_of(*(ptl.instruction(*row) for row in rows)),
        constants=ptl.tuple_of(ptl.number(7)),
    )
    this = ptl.schema(ptl.tuple_of(ptl.argument("self", ptl.MODULE)))
    greedy = tmp_path / "greedy.ptl"
    greedy.write_bytes(ptl.model(ptl.bytecode(ptl.function(tables=tables, signature=this))))
    model = TypeAdapter(ModelConfig).validate_python(
        {"file": "models/greedy.ptl", "inputs": [{"args": []}]}
    )

    monkeypatch.setattr(driver, "MEMORY_LIMIT", 2**30)
    program = workspace / ".orchestrator/variants/odd/linux-x86_64/driver"
    library = workspace / "dist/odd/linux-x86_64/lib"
    env = {**os.environ, "LD_LIBRARY_PATH": str(library)}
    ended = run_model([str(program)], greedy, model, env)
    assert ended.result is not None
    (run,) = ended.result["runs"]
    assert (ended.returncode, run["error"]) == (
        1,
        {"code": "OUT_OF_MEMORY", "text": "out of memory"},
    )
