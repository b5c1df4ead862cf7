"""Recording in the development library, whose base, shards and runner are functions here; the real
ones are in tests/integration."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from core_toy import CORE, GUARD, MINIZ, make_index
from toy_workspace import toy_dialect, toy_invocation, toy_runtime

from orchestrator.build.development import shard_contents
from orchestrator.build.development.development import Shard
from orchestrator.build.development.run import ShardRefusedError
from orchestrator.build.development.shard_contents import InBase, recorded_operators
from orchestrator.build.development.subject import readable_locks
from orchestrator.build.planning.variants import VariantRequest
from orchestrator.build.tracing import on_demand
from orchestrator.build.tracing.on_demand import OnDemandTracer, UnsureRecordingError
from orchestrator.errors import OrchestratorError
from orchestrator.select.closure import Registry
from orchestrator.trace.lock import write_lock
from orchestrator.values.config.app import ModelConfig
from orchestrator.values.operators import OperatorName as Op
from orchestrator.values.selection import Selection
from orchestrator.values.trace import Trace, TraceIdentity
from orchestrator.verify.verdict import RunnerResult

APP = """\
models: [{file: m.ptl}]
targets: [linux-x86_64]
"""
CLOSURE = ("aten::a", "aten::b", "aten::c", "aten::fill_.Scalar")


def recorded(
    *failures: tuple[str, str], error: dict[str, Any] | None = None, failed_in: Collection[str] = ()
) -> RunnerResult:
    """What the runner says of a model with these failed set-up calls."""
    run = {"method": "forward", "index": 0, "output": {"int": 1}, "error": error}
    setup = [{"call": call, "text": text} for call, text in failures]
    trace = {"setup_failures": setup, "failed_in": list(failed_in)}
    return RunnerResult(int(error is not None), {"runs": [run], "error": None, "trace": trace})


def absent(operator: str) -> str:
    """As PyTorch says it; an operator without an overload has a dot at its end."""
    name = operator if "." in operator else f"{operator}."
    return f"Could not find schema for {name} (raised from findSchemaOrThrow at Dispatcher.cpp:124)"


Runner = Callable[[frozenset[str], frozenset[str]], RunnerResult]


@dataclass
class Toy:
    """A model that probably calls aten::a and something that its closure has not."""

    root: Path
    runner: Runner
    library: Any = None
    shards: list[frozenset[str]] = field(default_factory=list)
    wide: list[frozenset[str]] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    argv: list[list[str]] = field(default_factory=list)
    fills: list[int | None] = field(default_factory=list)

    def shard(
        self, roots: Collection[str], operators: Collection[Op], wide: Collection[str]
    ) -> Shard:
        assert roots == {"aten::a"}
        self.shards.append(frozenset(operators))
        self.wide.append(frozenset(wide))
        return Shard(self.root / "shard.so", frozenset(operators), 3, 1000, ("a.cpp", "b.cpp"))

    def run(self, argv: list[str], *_: object, fill: int | None, **more: Any) -> RunnerResult:
        assert (more["addon"], more["libraries"]) == (self.root / "shard.so", self.root)
        self.argv.append(argv)
        self.fills.append(fill)
        return self.runner(self.shards[-1], self.wide[-1])

    def tracer(self) -> OnDemandTracer:
        here = toy_invocation(self.root, {"toy": APP}, log=self.said.append)
        selection = Selection(
            operators=dict.fromkeys(map(Op, CLOSURE), frozenset()),
            root_operators=frozenset({Op("aten::a")}),
        )
        request = VariantRequest("linux-x86_64", selection, Registry({}), "tracer", optimize="size")
        app = here.workspace.apps["toy"]
        return OnDemandTracer(here, toy_runtime(), app, cast(Any, self.library), request)

    def recorded(self, fill: int | None = None) -> RunnerResult:
        return self.tracer().run(ModelConfig(file="m.ptl"), fill)


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Runner], Toy]:
    def made(runner: Runner) -> Toy:
        one = Toy(tmp_path, runner)
        base = SimpleNamespace(
            units=100,
            compiled=None,
            runner=tmp_path / "driver",
            extended=SimpleNamespace(path=tmp_path / "libbase.so"),
        )
        one.library = SimpleNamespace(base=base, in_base=None, shard=one.shard)
        monkeypatch.setattr(on_demand, "app_subjects", lambda *_: ("first", "second"))
        probable = {"first": {"aten::a", "aten::elsewhere"}, "second": {"aten::b"}}
        monkeypatch.setattr(on_demand, "recorded_operators", lambda *how: probable[how[2]])
        monkeypatch.setattr(on_demand, "recorded_wide", lambda *how: {f"{how[2]}_kernel"})
        monkeypatch.setattr(on_demand, "run_model", one.run)
        calls = {"aten::b": {"aten::fill_.Scalar", "aten::outside"}}

        def closure(_index: object, _kernels: object, operators: Collection[str], _: str) -> Any:
            found = frozenset(operators).union(*(calls.get(name, set()) for name in operators))
            return SimpleNamespace(operators=found)

        monkeypatch.setattr(shard_contents, "static_selection", closure)
        return one

    return made


def test_all_models_of_an_app_have_one_shard_with_nothing_outside_of_the_closure(
    toy: Callable[[Runner], Toy],
) -> None:
    one = toy(lambda *_: recorded())
    tracer = one.tracer()
    assert tracer.run(ModelConfig(file="m.ptl"), 0x55) == recorded()
    assert one.shards == [{"aten::a", "aten::b"}]
    assert one.wide == [{"first_kernel", "second_kernel"}]
    assert (one.argv, one.fills) == ([[str(one.root / "driver"), "--record"]], [0x55])
    assert (tracer.units, tracer.compiled) == (103, 2)


def test_what_a_set_up_call_lacks_joins_and_the_model_is_recorded_again(
    toy: Callable[[Runner], Toy],
) -> None:
    """The recorder catches such an error, and what it recorded is less than a tracer records."""

    def runner(has: frozenset[str], wide: frozenset[str]) -> RunnerResult:
        failures = []
        if "aten::c" not in has:
            failures.append(("zeros", absent("aten::c")))
        if "aten::fill_.Scalar" not in has:
            failures.append(("eq", absent("aten::fill_.Scalar")))
        elif "copy_<>" not in wide:
            text = "dtype 'Byte' not selected for kernel tag copy_<> (raised from somewhere)"
            failures.append(("copy between dtypes", text))
        return recorded(*failures)

    one = toy(runner)
    assert one.recorded() == recorded()
    assert one.shards[1:] == [{*CLOSURE}, {*CLOSURE}]
    assert one.wide[2] - one.wide[1] == {"copy_<>"}
    assert one.said == [
        "aten::c, aten::fill_.Scalar: not there yet, compiling",
        "copy_<> for Byte: not there yet, compiling",
    ]


def test_what_the_model_lacks_joins(toy: Callable[[Runner], Toy]) -> None:
    def runner(has: frozenset[str], wide: frozenset[str]) -> RunnerResult:
        if "aten::c" not in has:
            code = {"code": "MISSING_OPERATOR", "text": "", "operators": ["aten::c"]}
            return recorded(error=code, failed_in=["aten::a"])
        if "add_stub" not in wide:
            code = {"code": "MISSING_DTYPE", "text": "", "kernel_tag": "add_stub", "dtype": "Half"}
            return recorded(error=code, failed_in=["aten::a"])
        return recorded()

    one = toy(runner)
    assert one.recorded() == recorded()
    assert one.shards[-1] == {"aten::a", "aten::b", "aten::c"}
    assert len(one.argv) == 3


def test_what_several_models_lack_joins_at_once(
    toy: Callable[[Runner], Toy], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of three models, one cannot be run, and two lack something in common and more."""
    lack = {"one": ("aten::c", "aten::fill_.Scalar"), "two": ("aten::c", "aten::d")}

    def of(model: str) -> Runner:
        def runner(has: frozenset[str], wide: frozenset[str]) -> RunnerResult:
            absent = [name for name in lack[model] if name not in has]
            code = {"code": "MISSING_OPERATOR", "text": "", "operators": absent[:1]}
            return recorded(error=code) if absent else recorded()

        return runner

    one = toy(lambda *_: recorded())
    tracer = one.tracer()
    run = one.run

    def run_model(argv: list[str], path: Path, model: ModelConfig, *rest: Any, **more: Any) -> Any:
        if model.name == "broken":
            raise OrchestratorError("it cannot be run")
        one.runner = of(model.name)
        return run(argv, path, model, *rest, **more)

    monkeypatch.setattr(on_demand, "run_model", run_model)
    models = [ModelConfig(file=f"{name}.ptl") for name in ("one", "broken", "two")]
    tracer.complete(models)
    # aten::d is not in the closure
    assert one.said == [
        "aten::c: not there yet, compiling",
        "aten::fill_.Scalar: not there yet, compiling",
    ]
    assert one.shards[1:] == [{"aten::a", "aten::b", "aten::c"}, {*CLOSURE}]
    assert len(one.argv) == 4
    assert tracer.run(models[0], None) == recorded()
    assert len(one.argv) == 5


def test_one_model_is_not_run_twice(toy: Callable[[Runner], Toy]) -> None:
    one = toy(lambda *_: recorded())
    one.tracer().complete([ModelConfig(file="m.ptl")])
    assert one.argv == []


@pytest.mark.parametrize(
    "error",
    [
        {"code": "MISSING_OPERATOR", "text": "", "operators": ["aten::elsewhere"]},
        {"code": "MISSING_DTYPE", "text": "", "kernel_tag": "first_kernel", "dtype": "Half"},
        {"code": "RUN_FAILED", "text": "mat1 and mat2"},
    ],
)
def test_what_a_tracer_of_the_closure_would_lack_as_well_is_given_back(
    toy: Callable[[Runner], Toy], error: dict[str, Any]
) -> None:
    one = toy(lambda *_: recorded(error=error, failed_in=["aten::a"]))
    assert one.recorded() == recorded(error=error, failed_in=["aten::a"])
    assert len(one.argv) == 1


@pytest.mark.parametrize(
    ("seen", "told"),
    [
        (
            recorded(("copy_ to itself", "no kernel")),
            "the set-up call copy_ to itself: no kernel",
        ),
        (
            recorded(("zeros", absent("aten::elsewhere"))),
            f"the set-up call zeros: {absent('aten::elsewhere')}",
        ),
        (
            recorded(failed_in=["aten::a", "aten::b"]),
            "an error in aten::a, which called aten::b, which the model survived",
        ),
    ],
)
def test_a_recording_in_which_something_failed_is_none(
    toy: Callable[[Runner], Toy], seen: RunnerResult, told: str
) -> None:
    one = toy(lambda *_: seen)
    with pytest.raises(UnsureRecordingError) as caught:
        one.recorded()
    assert caught.value.render().rstrip() == (
        "apps/toy/app.yaml: error: what was recorded of the model m may be less than it uses\n"
        "  expected: a run in which nothing fails\n"
        f"  seen:     {told}\n"
        "  do:       trace with --tracer: it has all that the model can reach"
    )


@pytest.mark.parametrize("locks", [(), (("aten::copy_", "aten::b"), ("aten::copy_", "aten::c"))])
def test_set_up_calls_are_known_from_what_every_lock_has(
    locks: tuple[tuple[str, ...], ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And from the model's own lock all that it says; without any, what models usually call."""
    units = {"aten::a": CORE, "aten::alike": CORE, "aten::b": GUARD, "aten::c": GUARD}
    units |= {"aten::copy_": MINIZ, "aten::usual": CORE, "aten::zeros": CORE}
    known = tuple(units)
    here = toy_invocation(tmp_path, {f"app_{number}": APP for number, _ in enumerate(locks)})
    runtime = toy_runtime(
        index=make_index(registrations=[(name, "CPU", unit, ()) for name, unit in units.items()]),
        dialect=toy_dialect(usual_calls=("aten::usual", "aten::of_another_pytorch")),
    )
    identity = TraceIdentity(
        "a" * 64, here.workspace.config.pins[runtime.name].tree, "bundled", (), "c" * 16
    )
    for app, names in zip(here.workspace.apps.values(), locks, strict=True):
        called = dict.fromkeys(map(Op, names), 1)
        trace = Trace(app.name, "m", identity, (Op("aten::a"),), called, {}, outputs="d" * 64)
        write_lock(app.folder, trace, b"")
    monkeypatch.setattr(shard_contents, "entered_operators", lambda *_: {"_Z5zeros": "aten::zeros"})
    monkeypatch.setattr(shard_contents, "probable_operators", lambda *_: frozenset({"aten::a"}))
    closure = SimpleNamespace(operators=frozenset(known))
    monkeypatch.setattr(shard_contents, "static_selection", lambda *_: closure)
    subject = cast(Any, SimpleNamespace(roots=frozenset({"aten::a"}), trace=None, earlier=None))
    # `alike` is in a unit that is compiled anyway
    at_first = {"aten::a", "aten::alike", "aten::zeros", "aten::usual"}
    base = InBase(frozenset(), frozenset())
    assert recorded_operators(here, runtime, subject, base) == at_first | (
        {"aten::copy_"} if locks else set()
    )
    earlier = list(readable_locks(here, runtime))
    assert len(earlier) == len(locks)
    for subject.earlier in earlier:
        found = {"aten::a", "aten::zeros", *subject.earlier.called_operators}
        assert recorded_operators(here, runtime, subject, base) == found


def test_a_shard_that_is_refused(toy: Callable[[Runner], Toy]) -> None:
    whole = {"code": "INVALID_ARGUMENT", "text": "this add-on is for another library"}
    seen = RunnerResult(1, {"runs": [], "error": whole, "trace": recorded().result["trace"]})  # type: ignore[index]
    with pytest.raises(ShardRefusedError):
        toy(lambda *_: seen).recorded()


def test_a_runner_that_dies_is_given_back(toy: Callable[[Runner], Toy]) -> None:
    died = RunnerResult(-11, None, "a word")
    assert toy(lambda *_: died).recorded() == died
