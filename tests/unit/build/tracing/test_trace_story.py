"""Tracing around the tracer: how often a model is run, and what becomes of what it gave.

The tracer is a function here; the real one runs in tests/integration.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from core_toy import CORE, make_index
from toy_workspace import toy_invocation, toy_runtime

from orchestrator.build.tracing import trace as tracing
from orchestrator.build.tracing.on_demand import UnsureRecordingError
from orchestrator.build.tracing.trace import (
    IndexIncompleteError,
    ModelFailedError,
    TracedApp,
    TracedModel,
)
from orchestrator.build.workshop.invocation import Invocation
from orchestrator.build.workshop.native import NATIVE
from orchestrator.errors import OrchestratorError, Place
from orchestrator.load.declared import App
from orchestrator.models.checks import (
    ExtraArgumentsError,
    LapackMissingError,
    Misfit,
    MissingArgumentsError,
)
from orchestrator.system.process import LOCAL
from orchestrator.system.reading import file_sha256
from orchestrator.trace.difference import Change
from orchestrator.trace.lock import UnfitRecordingError, read_runs
from orchestrator.values.operators import Arguments
from orchestrator.verify.verdict import RunnerResult
from tests.ptl import (
    MODULE,
    bytecode,
    code,
    function,
    instruction,
    model,
    number,
    operator,
    tuple_of,
)

Tracer = Callable[[int], RunnerResult]
# Of aten::relu, with too many and too few.
EXTRA = Misfit("aten::relu", 2, "forward", Arguments(1, 1))
MISSING = Misfit("aten::relu", 0, "other", Arguments(1, 1))


@dataclass(frozen=True)
class Traced:
    """What is recorded of a model, the places that are not compared, the calls that it could not
    make, what changed in its lock, what fresh memory was filled with in each of its runs, and the
    code that did not run."""

    runs: dict[str, Any]
    places: tuple[str, ...]
    misfits: tuple[str, ...]
    changes: tuple[Change, ...] | None
    fills: tuple[int | None, ...]
    missing: tuple[str, ...]


def a_model(*misfits: Misfit) -> bytes:
    """One that calls aten::relu as these do, each in its method; without any, in forward."""
    given = {one.method: one.arguments for one in misfits} or {"forward": 1}
    rows = (instruction("LOAD", 1), instruction("OP", 0), instruction("RET"))
    return model(
        bytecode(
            *(
                function(
                    f"{MODULE}.{method}",
                    code(
                        tuple_of(*rows),
                        operators=tuple_of(operator("aten::relu", count=count)),
                        registers=number(1),
                    ),
                )
                for method, count in given.items()
            )
        )
    )


def workspace(root: Path, apps: Mapping[str, Mapping[str, bytes]], **more: Any) -> Invocation:
    """One with these apps, each with its models by name, on a runtime that has aten::relu."""
    texts = dict[str, str]()
    for app, models in apps.items():
        rows = "".join(f"  - {{file: {name}.ptl, inputs: [{{args: []}}]}}\n" for name in models)
        texts[app] = f"models:\n{rows}targets: [linux-x86_64]\n"
        for name, content in models.items():
            file = root / "apps" / app / f"{name}.ptl"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
    declared = root / "tree/aten/src/ATen/native/native_functions.yaml"
    declared.parent.mkdir(parents=True, exist_ok=True)
    declared.write_text("- func: relu(Tensor self) -> Tensor\n")
    runtime = toy_runtime(
        folders={"tree": str(root / "tree")},
        index=make_index(registrations=[("aten::relu", "CPU", CORE, ())]),
    )
    return toy_invocation(root, texts, ready=[runtime], **more)


def result(
    number: int, *operators: str, error: dict[str, Any] | None = None, methods: int = 1
) -> RunnerResult:
    """What a tracer says of a model with so many methods."""
    run = {"method": "forward", "index": 0, "output": {"int": number}, "error": None}
    recording = {
        "root_operators": [{"name": o, "overload": "", "calls": 1} for o in operators],
        "called_operators": dict.fromkeys(operators, 1),
        "setup_operators": {"aten::random_": 1},
        "kernel_tags": {},
        "setup_kernel_tags": {},
        "custom_classes": [],
        "build_features": [],
        "work": {},
        "failed_in": ["aten::linear", "aten::addmm"] if error else [],
    }
    runs = [] if error else [run]
    recorded = {"trace": recording, "coverage": methods * ["110"]}
    return RunnerResult(0, {"runs": runs, "error": error, **recorded})


Several = Callable[
    ..., tuple[tuple[TracedModel, ...], tuple[OrchestratorError, ...], list[int | None]]
]


@pytest.fixture
def several(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Several:
    """Traces models in `tracer`, which is given the number of the run; what memory was filled with
    in each comes last."""

    def run(tracer: Tracer, *misfits: Misfit, names: Sequence[str] = ("m",)) -> Any:
        fills: list[int | None] = []

        def fake(*_: object, recorded: None, fill: int | None, runner: object) -> RunnerResult:
            assert runner is LOCAL
            fills.append(fill)
            return tracer(len(fills) - 1)

        monkeypatch.setattr(tracing, "run_model", fake)
        here = workspace(tmp_path, {"a": dict.fromkeys(names, a_model(*misfits))})
        app = here.workspace.apps["a"]
        models, errors = tracing._trace_models(
            here, here.runtimes.of("a"), app, tracing._in_tracer(here, app, "tracer"), True
        )
        return models, errors, fills

    return run


@pytest.fixture
def traced(tmp_path: Path, several: Several) -> Callable[..., Traced]:
    """Traces one model."""

    def run(tracer: Tracer, *misfits: Misfit) -> Traced:
        models, errors, fills = several(tracer, *misfits)
        for error in errors:
            raise error
        (one,) = models
        runs = read_runs(tmp_path / "apps/a", one.trace, tmp_path)
        missing = tuple(text for method in one.methods for text in method.missing)
        return Traced(runs, one.uncompared, one.misfits, one.changes, tuple(fills), missing)

    return run


Trace = Callable[..., Traced]


def test_a_steady_model_is_run_with_all_that_fresh_memory_may_hold(traced: Trace) -> None:
    seen = traced(lambda _: result(3, "aten::relu"))
    assert (seen.runs["runs"][0]["output"], seen.places) == ({"int": 3}, ())
    assert seen.fills == (None, 0x55, 0xAA)
    assert seen.runs.keys() == {"runs", "error"}


def test_a_model_that_is_saved_while_it_is_traced_gets_no_lock(
    several: Several, tmp_path: Path
) -> None:
    """Its lock would have the new file's digest, with what the old one did."""
    file, digests = tmp_path / "apps/a/m.ptl", list[str]()

    def tracer(number: int) -> RunnerResult:
        if number == 1:
            digests.append(file_sha256(file))
            file.write_bytes(a_model(EXTRA))
            digests.append(file_sha256(file))
        return result(3, "aten::relu")

    _, (error,), _ = several(tracer)
    assert error.render().rstrip() == (
        "apps/a/m.ptl: error: the model m was saved while it was traced\n"
        f"  expected: {digests[0]}\n"
        f"  seen:     {digests[1]}\n"
        "  do:       run: ./orchestrate trace //apps/a"
    )
    assert not (tmp_path / "apps/a/traces").exists()


def test_a_model_that_fails_does_not_stop_the_others(several: Several, tmp_path: Path) -> None:
    """All failures are told; of the app nothing is written."""
    error = {"code": "RUN_FAILED", "text": "no words"}
    # a and c fail in their first run; b runs three times
    models, errors, fills = several(
        lambda number: result(3, "aten::relu", error=error if number in (0, 4) else None),
        names=("a", "b", "c"),
    )
    assert [one.trace.model for one in models] == ["b"]
    assert [(one.what, one.place) for one in errors] == [
        ("the model a does not run on its inputs", Place("apps/a/a.ptl")),
        ("the model c does not run on its inputs", Place("apps/a/c.ptl")),
    ]
    assert fills == [None, None, 0x55, 0xAA, None]
    assert not (tmp_path / "apps/a/traces").exists()
    models, errors, _ = several(lambda _: result(3, "aten::relu"), names=("a", "b"))
    assert errors == ()
    written = sorted(path.name for path in (tmp_path / "apps/a/traces").iterdir())
    assert written == ["a.runs.zst", "a.yaml", "b.runs.zst", "b.yaml"]


def test_what_did_not_run_is_told_and_kept_in_the_lock(traced: Trace, tmp_path: Path) -> None:
    assert traced(lambda _: result(3, "aten::relu")).missing == ("instructions 2",)
    assert (
        "  __torch__.M.forward:\n    instructions: 3\n    ways: 0\n    unrun: '2'\n"
        in (tmp_path / "apps/a/traces/m.yaml").read_text()
    )


@pytest.mark.parametrize("recorded", [None, ["11"], ["111", "1"], [3], "111"])
def test_what_is_not_of_the_models_instructions_is_refused(
    traced: Trace, recorded: object, tmp_path: Path
) -> None:
    def tracer(_: int) -> RunnerResult:
        done = result(3, "aten::relu")
        assert done.result is not None
        return replace(done, result={**done.result, "coverage": recorded})

    with pytest.raises(UnfitRecordingError, match="what was recorded of m does not fit the model"):
        traced(tracer)
    assert not (tmp_path / "apps/a/traces").exists()


def test_what_changed_in_the_lock_is_told(traced: Trace) -> None:
    """Nothing of a first trace, and nothing where the model was traced again as it is."""
    assert traced(lambda _: result(3, "aten::relu")).changes is None
    assert traced(lambda _: result(3, "aten::relu")).changes == ()
    assert traced(lambda _: result(4, "aten::neg")).changes == (
        Change("operators", ("aten::neg",), ("aten::relu",)),
        Change("outputs", detail="beyond the tolerance: forward[0] output: 3 -> 4"),
        Change("root operators"),
        Change("calls"),
    )


@pytest.mark.parametrize("different", [1, 2])
def test_an_output_that_differs_is_recorded_by_its_kind(traced: Trace, different: int) -> None:
    seen = traced(lambda n: result(int(n == different), "aten::empty.memory_format"))
    assert seen.runs["runs"][0]["output"] == {"unsteady": "int"}
    assert (seen.places, len(seen.fills)) == (("forward[0] output",), 3)


@pytest.mark.parametrize("operator", ["aten::random_.from", "aten::bernoulli_.float"])
def test_a_model_that_draws_is_run_more_often(traced: Trace, operator: str) -> None:
    """One of two numbers is often the same twice, and hardly eight times."""
    seen = traced(lambda number: result(int(number == 7), operator))
    assert seen.runs["runs"][0]["output"] == {"unsteady": "int"}
    assert seen.fills == (None, 0x55, 0xAA, 0x55, 0xAA, 0x55, 0xAA, 0x55)


def test_a_model_that_draws_and_seeds_is_compared(traced: Trace) -> None:
    seen = traced(lambda _: result(3, "aten::uniform_", "aten::manual_seed"))
    assert (seen.runs["runs"][0]["output"], seen.places) == ({"int": 3}, ())
    assert len(seen.fills) == 8


def test_a_call_that_the_runtime_cannot_make_does_no_harm_where_it_is_not_reached(
    traced: Trace,
) -> None:
    seen = traced(lambda _: result(3, "aten::neg", methods=2), EXTRA, MISSING)
    assert seen.misfits == ("aten::relu with 0 in other", "aten::relu with 2 in forward")


@pytest.mark.parametrize(
    ("misfit", "error", "seen"),
    [
        (EXTRA, ExtraArgumentsError, "aten::relu with 2 in forward"),
        (MISSING, MissingArgumentsError, "aten::relu with 0 in other"),
    ],
)
@pytest.mark.parametrize("failed", [False, True])
@pytest.mark.parametrize("reached", [0, 2])
def test_a_call_that_the_runtime_cannot_make_is_told_where_it_is_reached(
    traced: Trace, misfit: Misfit, error: type[Exception], seen: str, failed: bool, reached: int
) -> None:
    """Whether it fails, or computes something else."""
    why = {"code": "RUN_FAILED", "text": "false"} if failed else None

    def run(number: int) -> RunnerResult:
        return result(3, "aten::relu", error=why) if number == reached else result(3, "aten::neg")

    with pytest.raises(error) as caught:
        traced(run, misfit)
    assert (caught.value.place, caught.value.seen) == (Place("apps/a/m.ptl"), seen)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("failing", "do"),
    [
        (0, "run the model in PyTorch on the same inputs, and check declared shapes; where a newer"
         " PyTorch runs it, PyTorch 1.13.1 may lack a kernel for a dtype, such as float16: compute"
         " that part in float32"),
        (1, "it ran with fresh memory as it is, and not with bytes in it: look for a torch.empty,"
         " or the like, whose values the model uses"),
    ],
)  # fmt: skip
def test_any_run_that_fails_fails_the_model(traced: Trace, failing: int, do: str) -> None:
    error = {"code": "RUN_FAILED", "text": "no words"}
    with pytest.raises(ModelFailedError) as caught:
        traced(lambda number: result(1, error=error if number == failing else None))
    assert caught.value.render() == (
        "apps/a/m.ptl: error: the model m does not run on its inputs\n"
        "  seen:     RUN_FAILED: no words\n"
        f"  do:       {do}\n"
        "  | raised in aten::linear, which called aten::addmm"
    )


def test_a_model_that_fails_in_lapack_is_told_so(traced: Trace) -> None:
    failed = result(1, error={"code": "RUN_FAILED", "text": "no words"})
    assert failed.result is not None
    failed.result["trace"]["failed_in"] = ["aten::linalg_matrix_norm", "aten::linalg_svdvals"]
    with pytest.raises(LapackMissingError) as caught:
        traced(lambda _: failed)
    assert caught.value.render() == (
        "apps/a/m.ptl: error: this model calls an operator of LAPACK, which this runtime is built"
        " without\n"
        "  expected: operators of PyTorch 1.13.1 that have kernels without LAPACK\n"
        "  seen:     aten::linalg_svdvals\n"
        "  do:       compute results of constants before the export; compute others outside of the"
        " model, or express them in other operators, such as the closed form for the inverse of a"
        " small matrix\n"
        "  | raised in aten::linalg_matrix_norm, which called aten::linalg_svdvals"
    )


@pytest.mark.parametrize(
    ("backend", "do"),
    [
        ("SparseCPU", "add SparseCPU to `backends` under `defaults` in WORKSPACE, which keeps"
         " kernels for such tensors, and trace all apps; or use dense tensors in the model"),
        ("NestedTensorCPU", "libraries have no kernels for nested tensors: where the model has a"
         " torch.nn.TransformerEncoder, make it with enable_nested_tensor=False"),
        ("SparseCsrCPU", "libraries have no kernels for such tensors: use dense ones in the model"),
        # one that is declared
        ("QuantizedCPU", "run the model in PyTorch on the same inputs, and check declared shapes;"
         " where a newer PyTorch runs it, PyTorch 1.13.1 may lack a kernel for a dtype, such as"
         " float16: compute that part in float32"),
    ],
)  # fmt: skip
def test_a_model_that_needs_another_backend_is_told_which(
    traced: Trace, backend: str, do: str
) -> None:
    text = (
        f"Could not run 'aten::mm' with arguments from the '{backend}' backend: this library has"
        " no such kernel (raised from reportError at OperatorEntry.cpp:557)"
    )
    with pytest.raises(ModelFailedError) as caught:
        traced(lambda _: result(1, error={"code": "RUN_FAILED", "text": text}))
    assert caught.value.hint == do


def test_a_method_that_torch_has_not_saved_is_told_of(traced: Trace) -> None:
    text = "an instruction calls a method that its object does not have"
    assert text in (NATIVE / "capi/checked_interpreter.h").read_text()
    error = {"code": "RUN_FAILED", "text": f"the model is damaged: {text}"}
    with pytest.raises(ModelFailedError) as caught:
        traced(lambda _: result(1, error=error))
    assert caught.value.hint == (
        "torch saves no methods that are called through a torch.jit.interface alone: call the"
        " modules themselves, such as with `if index == i: x = module(x)` in a loop over the"
        " ModuleList, and export the model again"
    )


def test_a_model_that_takes_all_memory_is_told_how_much_there_is(traced: Trace) -> None:
    error = {"code": "OUT_OF_MEMORY", "text": "out of memory"}
    with pytest.raises(ModelFailedError) as caught:
        traced(lambda _: result(1, error=error))
    assert (caught.value.seen, caught.value.hint) == (
        "OUT_OF_MEMORY: out of memory",
        "run the model in PyTorch on the same inputs, and check declared shapes; models are traced"
        " with at most 16 GB of memory",
    )


def test_a_tracer_that_dies_is_told(traced: Trace) -> None:
    with pytest.raises(ModelFailedError) as caught:
        traced(lambda _: RunnerResult(-11, None, "a word\n"))
    assert caught.value.render() == (
        "apps/a/m.ptl: error: the model m crashed while it was traced\n"
        "  seen:     it was killed by SIGSEGV\n"
        "  do:       run the model in PyTorch on the same inputs\n"
        "  | a word"
    )


def test_a_tracer_for_another_processor_is_told(traced: Trace) -> None:
    with pytest.raises(ModelFailedError) as caught:
        traced(lambda _: RunnerResult(-4, None))
    assert caught.value.render() == (
        "apps/a/m.ptl: error: the model m crashed while it was traced\n"
        "  seen:     it was killed by SIGILL\n"
        "  do:       this processor does not have an instruction of the library, or a check of the"
        " compiler's stopped it: look for -march, -mcpu and -fsanitize in `compile_flags` of the"
        " toolchain"
    )


def test_what_the_closure_lacks_is_a_fault_of_the_index(traced: Trace) -> None:
    error = {"code": "MISSING_OPERATOR", "text": "aten::x is missing", "operators": ["aten::x"]}
    with pytest.raises(IndexIncompleteError):
        traced(lambda _: result(1, error=error))


def test_a_model_that_is_refused_stops_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each refused model is told; the app of one gets no tracer."""
    apps = {"good": {"a": a_model()}, "bad": {"b": b"", "c": a_model(), "d": b"no archive"}}
    here = workspace(tmp_path, apps)
    good, bad = (here.workspace.apps[name] for name in apps)
    asked = list[str]()

    def in_tracers(_: object, apps: Sequence[Any], *__: object) -> dict[str, TracedApp]:
        asked.extend(app.name for app in apps)
        return {app.name: TracedApp(app, (), "tracer", 7, 0) for app in apps}

    def trace(*apps: App) -> Sequence[TracedApp]:
        view: Any = None
        return tracing.trace_apps(here, apps, recorder="tracer", jobs=None, view=view)

    monkeypatch.setattr(tracing, "_trace_in_tracers", in_tracers)
    traced = trace(bad, good)
    assert asked == ["good"]
    assert [(one.app.name, one.units) for one in traced] == [("bad", 0), ("good", 7)]
    none = "this is not a .ptl model"
    assert [(error.what, error.place) for error in traced[0].errors] == [
        (none, Place("apps/bad/b.ptl")),
        (none, Place("apps/bad/d.ptl")),
    ]
    monkeypatch.setattr(tracing, "_trace_in_tracers", None)
    (alone,) = trace(bad)
    assert len(alone.errors) == 2


class Recorded:
    """Traces one app, `a`, whose recorders are functions here; the real ones are in
    tests/integration."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root = root
        self.available, self.errors = True, list[OrchestratorError]()
        self.said, self.in_tracers = list[str](), list[tuple[str, bool]]()
        self.completed = list[Sequence[object]]()
        library = SimpleNamespace(units=5, compiled=2, run=None, complete=self.completed.append)
        monkeypatch.setattr(tracing, "Development", lambda *_: self)
        monkeypatch.setattr(tracing, "OnDemandTracer", lambda *_: library)
        monkeypatch.setattr(tracing, "_request", lambda *_: None)
        monkeypatch.setattr(tracing, "_trace_models", lambda *_: ((), tuple(self.errors)))
        monkeypatch.setattr(tracing, "_trace_in_tracers", self._trace_in_tracers)

    def _trace_in_tracers(
        self, _: object, apps: Sequence[Any], everything: bool, *__: object
    ) -> dict[str, TracedApp]:
        self.in_tracers += [(app.name, everything) for app in apps]
        return {app.name: TracedApp(app, (), "tracer", 7, 0) for app in apps}

    def traced(self, **recorder: Any) -> TracedApp:
        here = workspace(self.root, {"a": {"m": a_model()}}, log=self.said.append)
        app, view = here.workspace.apps["a"], cast(Any, None)
        (one,) = tracing.trace_apps(here, [app], jobs=None, view=view, **recorder)
        return one


@pytest.fixture
def recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Recorded:
    return Recorded(tmp_path, monkeypatch)


def test_models_are_recorded_in_the_development_library(recorded: Recorded) -> None:
    one = recorded.traced()
    assert (one.recorder, one.units, one.compiled) == ("development library", 5, 2)
    assert recorded.completed == [one.app.config.models]
    assert recorded.in_tracers == []


@pytest.mark.parametrize(("recorder", "everything"), [("tracer", False), ("everything", True)])
def test_a_tracer_that_was_asked_for(recorded: Recorded, recorder: str, everything: bool) -> None:
    assert recorded.traced(recorder=recorder).recorder == "tracer"
    assert recorded.in_tracers == [("a", everything)]


def test_without_a_development_library_the_tracer_records(recorded: Recorded) -> None:
    recorded.available = False
    assert recorded.traced().recorder == "tracer"
    assert (recorded.in_tracers, recorded.said) == ([("a", False)], [])


def test_where_a_recording_is_unsure_the_tracer_records(recorded: Recorded) -> None:
    unsure = "what was recorded of the model m may be less than it uses"
    recorded.errors = [
        OrchestratorError("of another model"),
        UnsureRecordingError(unsure, seen="the set-up call zeros: no kernel"),
    ]
    assert recorded.traced().recorder == "tracer"
    assert recorded.in_tracers == [("a", False)]
    assert recorded.said == [
        f"{unsure} (the set-up call zeros: no kernel): building its app's tracer"
    ]


def test_a_model_that_fails_in_the_development_library_fails(recorded: Recorded) -> None:
    """Its author waits for no tracer to read of a wrong shape."""
    recorded.errors = [
        ModelFailedError("it does not run", hint="run it in PyTorch"),
        OrchestratorError("it is damaged", hint="export it"),
    ]
    one = recorded.traced()
    assert (one.recorder, recorded.in_tracers) == ("development library", [])
    assert [error.hint for error in one.errors] == [
        "run it in PyTorch; where it runs there, trace with --tracer",
        "export it",
    ]
