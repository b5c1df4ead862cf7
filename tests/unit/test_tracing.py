"""Tracing around the tracer: how often a model is run, and what becomes of what it gave.

The tracer is a function here; the real one runs in tests/integration.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from orchestrator.pipeline import tracing
from orchestrator.pipeline.tracing import IndexIncompleteError, ModelFailedError
from orchestrator.report.verify import DriverRun
from orchestrator.runtime.versions import load_version
from orchestrator.trace.lock import read_runs
from orchestrator.values.trace import TraceIdentity

Tracer = Callable[[int], DriverRun]


def result(number: int, *operators: str, error: dict[str, Any] | None = None) -> DriverRun:
    run = {"method": "forward", "index": 0, "output": {"int": number}, "error": None}
    recording = {
        "root_operators": [{"name": o, "overload": "", "calls": 1} for o in operators],
        "called_operators": dict.fromkeys(operators, 1),
        "setup_operators": {"aten::random_": 1},
        "kernel_tags": {},
        "setup_kernel_tags": {},
        "custom_classes": [],
        "build_features": [],
        "tag_nanoseconds": {},
        "self_nanoseconds": {},
        "failed_in": ["aten::linear", "aten::addmm"] if error else [],
    }
    runs = [] if error else [run]
    return DriverRun(0, {"runs": runs, "error": error, "trace": recording})


@pytest.fixture
def traced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[Tracer], tuple[dict[str, Any], tuple[str, ...], int]]:
    """What is recorded of a model, the places that are not compared, and how often it ran."""

    def run(tracer: Tracer) -> tuple[dict[str, Any], tuple[str, ...], int]:
        ran: list[int] = []

        def fake(*_: object) -> DriverRun:
            ran.append(len(ran))
            return tracer(ran[-1])

        monkeypatch.setattr(tracing, "run_driver", fake)
        model = SimpleNamespace(name="m")
        app = SimpleNamespace(
            name="a",
            folder=tmp_path,
            config=SimpleNamespace(models=[model]),
            model_path=lambda _: tmp_path / "m.ptl",
        )
        session = SimpleNamespace(
            say=lambda _: None,
            context=SimpleNamespace(root=tmp_path, env={}),
            runtime=SimpleNamespace(version=load_version("1.13.1")),
            trace_identity=lambda *_: TraceIdentity("", "", "", (), ""),
        )
        ((trace, places),) = tracing._trace_models(session, app, "tracer", True)  # type: ignore[arg-type]
        return read_runs(tmp_path, trace, tmp_path), places, len(ran)

    return run


Traced = Callable[[Tracer], tuple[dict[str, Any], tuple[str, ...], int]]


def test_a_steady_model_is_run_twice(traced: Traced) -> None:
    runs, places, count = traced(lambda _: result(3, "aten::relu"))
    assert (runs["runs"][0]["output"], places, count) == ({"int": 3}, (), 2)
    assert runs.keys() == {"runs", "error"}


def test_an_output_that_differs_is_recorded_by_its_kind(traced: Traced) -> None:
    runs, places, count = traced(lambda number: result(number, "aten::empty.memory_format"))
    assert runs["runs"][0]["output"] == {"unsteady": "int"}
    assert (places, count) == (("forward[0] output",), 2)


@pytest.mark.parametrize("operator", ["aten::random_.from", "aten::bernoulli_.float"])
def test_a_model_that_draws_is_run_more_often(traced: Traced, operator: str) -> None:
    """One of two numbers is often the same twice, and hardly eight times."""
    runs, _, count = traced(lambda number: result(int(number == 7), operator))
    assert (runs["runs"][0]["output"], count) == ({"unsteady": "int"}, 8)


def test_a_model_that_draws_and_seeds_is_compared(traced: Traced) -> None:
    runs, places, count = traced(lambda _: result(3, "aten::uniform_", "aten::manual_seed"))
    assert (runs["runs"][0]["output"], places, count) == ({"int": 3}, (), 8)


@pytest.mark.parametrize("failing", [0, 1])
def test_any_run_that_fails_fails_the_model(traced: Traced, failing: int) -> None:
    error = {"code": "RUN_FAILED", "text": "no words"}
    with pytest.raises(ModelFailedError) as caught:
        traced(lambda number: result(1, error=error if number == failing else None))
    assert caught.value.render() == (
        "m.ptl: error: the model m does not run on its inputs\n"
        "  seen:     RUN_FAILED: no words\n"
        "  do:       run the model in PyTorch on the same inputs, and check declared shapes\n"
        "  | raised in aten::linear, which called aten::addmm"
    )


def test_a_tracer_that_dies_is_told(traced: Traced) -> None:
    with pytest.raises(ModelFailedError) as caught:
        traced(lambda _: DriverRun(-11, None, "a word\n"))
    assert caught.value.render() == (
        "m.ptl: error: the tracer died on the model m\n"
        "  seen:     exit code -11\n"
        "  do:       run the model in PyTorch on the same inputs\n"
        "  | a word"
    )


def test_what_the_closure_lacks_is_a_fault_of_the_index(traced: Traced) -> None:
    error = {"code": "MISSING_OPERATOR", "text": "aten::x is missing", "operators": ["aten::x"]}
    with pytest.raises(IndexIncompleteError):
        traced(lambda _: result(1, error=error))
