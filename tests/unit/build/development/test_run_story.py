"""Running a model around the development library, whose base, shards and runner are functions here;
the real ones are in tests/integration."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from core_toy import CORE, GUARD, MINIZ, make_index
from toy_workspace import toy_dialect, toy_invocation, toy_runtime, toy_toolchain

from orchestrator.build.development import run as running
from orchestrator.build.development import shard_contents
from orchestrator.build.development import subject as subject_module
from orchestrator.build.development.development import Development, NoDevelopmentLibraryError, Shard
from orchestrator.build.development.run import (
    InitialiserFailedError,
    RanModel,
    RunFailedError,
    ShardRefusedError,
    run_in_development,
)
from orchestrator.build.development.shard_contents import InBase, joining
from orchestrator.build.development.shard_files import forget_old, forget_old_bases
from orchestrator.build.development.subject import InputsUnfitError, Subject, read_inputs
from orchestrator.build.development.timed import Seen, TimedLibrary
from orchestrator.build.workshop import toolchains
from orchestrator.build.workshop.runtime import Runtime
from orchestrator.models.info import read_model
from orchestrator.plan.development import NAME
from orchestrator.pytorch.v1_13.dialect import DIALECT
from orchestrator.system.folders import ensure_folder
from orchestrator.trace.lock import write_lock
from orchestrator.trace.recording import RecordedWork
from orchestrator.values.config.app import ModelConfig
from orchestrator.values.growth import Growth, NewDtypes
from orchestrator.values.operators import OperatorName as Op
from orchestrator.values.trace import Trace, TraceIdentity
from orchestrator.verify.model_runner import still_running
from orchestrator.verify.verdict import RunnerResult

APP = """\
models: [{file: toy.ptl}]
targets: [linux-x86_64]
"""
TOOLCHAIN = """\
abi: linux-mine
system: linux
processor: {}
format: elf
compiler: {{zig: {{target: x86_64-linux-gnu.2.28}}}}
run: native
"""
KNOWN = tuple(map(Op, ("aten::a", "aten::b", "aten::c", "aten::d")))


def closure(_index: object, _kernels: object, operators: Collection[str], _: str) -> Any:
    """aten::a may call aten::b."""
    return SimpleNamespace(
        operators={*operators, *(("aten::b",) if "aten::a" in operators else ())}
    )


def result(error: dict[str, Any] | None = None, at_load: bool = False) -> RunnerResult:
    run = {"method": "forward", "index": 0, "output": {"int": 1}, "error": error}
    value = {"runs": [] if at_load else [run], "error": error if at_load else None}
    return RunnerResult(1 if error else 0, value)


def missing(*names: str) -> dict[str, Any]:
    return {"code": "MISSING_OPERATOR", "text": "no schema", "operators": list(names)}


@dataclass
class Toy:
    """A model that names aten::a, and what its runner says when it has some operators."""

    root: Path
    runner: Callable[[frozenset[str]], RunnerResult]
    shards: list[frozenset[str]] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    usual: tuple[str, ...] = ()
    wide: list[frozenset[str]] = field(default_factory=list)
    own: tuple[str, ...] = ()
    in_base: InBase = field(default_factory=lambda: InBase(frozenset(), frozenset()))

    @property
    def state(self) -> Path:
        return ensure_folder(self.root / ".orchestrator", "state")

    @property
    def base(self) -> Path:
        path = self.root / "bases/0" / f"lib{NAME}_torch.so"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        return path

    @property
    def runtime(self) -> Runtime:
        units = (CORE, GUARD, MINIZ, MINIZ)
        rows = [(name, "CPU", unit, ()) for name, unit in zip(KNOWN, units, strict=True)]
        index = make_index(registrations=rows)
        index = replace(index, tree=64 * "e")
        return toy_runtime(index=index, dialect=toy_dialect(usual_calls=self.usual))

    def make(
        self, _roots: Collection[str], operators: Collection[Op], wide: Collection[str]
    ) -> Shard:
        self.shards.append(frozenset(operators))
        self.wide.append(frozenset(wide))
        (self.root / "shard.so").touch()
        made = ("a.cpp", "b.cpp")
        return Shard(self.root / "shard.so", frozenset(operators), 3, 1000, made, self.own)

    def run(self, repeat: int | None = None) -> RanModel:
        info = SimpleNamespace(root_operators=("aten::a",), sha256=64 * "f", archive_version=3)
        subject = Subject(
            "toy", Path("toy.ptl"), ModelConfig(file="toy.ptl"), None, cast(Any, info)
        )
        here = toy_invocation(self.root, log=self.said.append)
        return run_in_development(
            here, self.runtime, subject, repeat=repeat, jobs=None, view=cast(Any, None)
        )


@dataclass
class Library:
    toy: Toy
    base: Any

    def require(self) -> None:
        """It is there."""

    @property
    def in_base(self) -> InBase:
        return self.toy.in_base

    def shard(self, *how: Any) -> Shard:
        return self.toy.make(*how)


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Toy]:
    def made(runner: Callable[[frozenset[str]], RunnerResult]) -> Toy:
        one = Toy(tmp_path, runner)
        base = SimpleNamespace(extended=SimpleNamespace(path=one.base))
        library = Library(one, base)
        monkeypatch.setattr(running, "Development", lambda *_: library)

        def run(_here: object, _subject: object, _base: object, shard: Shard, *how: object) -> Any:
            if "--record" in how:
                return RunnerResult(0, {"runs": [{"error": None}], "trace": {"of": "toy"}})
            return runner(shard.operators)

        def worked(recording: object, runs: int, _scales: object) -> RecordedWork:
            assert (recording, runs) == ({"of": "toy"}, 1)
            return RecordedWork(("add_stub",), 7)

        monkeypatch.setattr(running, "_run", run)
        monkeypatch.setattr(running, "recorded_work", worked)
        monkeypatch.setattr(running, "scales", lambda _: None)
        monkeypatch.setattr(shard_contents, "static_selection", closure)
        return one

    return made


def test_what_comes_up_missing_is_compiled_and_the_model_runs_again(
    toy: Callable[..., Toy],
) -> None:
    def runner(has: frozenset[str]) -> RunnerResult:
        for name in ("aten::b", "aten::c"):
            if name not in has:
                return result(missing(name), at_load=name == "aten::b")
        return result()

    one = toy(runner)
    ran = one.run()
    assert one.shards == [
        {"aten::a"},
        {"aten::a", "aten::b"},
        {"aten::a", "aten::b", "aten::c"},
    ]
    assert [attempt.missing for attempt in ran.attempts] == [("aten::b",), ("aten::c",), ()]
    assert one.said == [
        "aten::b: not there yet, compiling",
        "aten::c: not there yet, compiling",
    ]


def test_a_dtype_that_comes_up_missing_widens_its_kernel(toy: Callable[..., Toy]) -> None:
    def runner(_: frozenset[str]) -> RunnerResult:
        if "copy_" in one.wide[-1]:
            return result()
        error = {"code": "MISSING_DTYPE", "text": "dtype", "kernel_tag": "copy_", "dtype": "Half"}
        return result(error)

    one = toy(runner)
    ran = one.run()
    assert one.wide == [frozenset(), {"copy_"}]
    assert [attempt.missing for attempt in ran.attempts] == [("copy_ for Half",), ()]
    assert one.said == ["copy_ for Half: not there yet, compiling"]
    one.wide.clear()
    one.run()
    assert one.wide == [{"copy_"}]


def test_a_dtype_that_no_kernel_has_ends_it(toy: Callable[..., Toy]) -> None:
    error = {"code": "MISSING_DTYPE", "text": "dtype", "kernel_tag": "copy_", "dtype": "Half"}
    one = toy(lambda _: result(error))
    with pytest.raises(RunFailedError):
        one.run()
    assert one.wide == [frozenset(), {"copy_"}]


def test_a_shard_is_not_let_go_while_a_model_runs_in_it(toy: Callable[..., Toy]) -> None:
    def runner(_: frozenset[str]) -> RunnerResult:
        shard = one.root / "shard.so"
        shard.rename(one.root / f"lib{NAME}_0.so")
        os.utime(one.root / f"lib{NAME}_0.so", (0, 0))
        for number in range(1, 20):
            (one.root / f"lib{NAME}_{number}.so").touch()
        forget_old(one.root)
        return result()

    one = toy(runner)
    one.run()
    assert (one.root / f"lib{NAME}_0.so").exists()
    forget_old(one.root)
    assert not (one.root / f"lib{NAME}_0.so").exists()


def test_a_base_is_not_let_go_while_a_model_runs_in_it(toy: Callable[..., Toy]) -> None:
    def runner(_: frozenset[str]) -> RunnerResult:
        os.utime(library, (0, 0))
        for number in range(1, 6):
            other = one.root / "bases" / str(number)
            other.mkdir()
            (other / library.name).touch()
        forget_old_bases(one.root / "bases")
        return result()

    one = toy(runner)
    library = one.base
    one.run()
    assert library.exists()
    forget_old_bases(one.root / "bases")
    assert not library.exists()


def test_of_what_is_usually_called_it_gets_what_it_can_call(toy: Callable[..., Toy]) -> None:
    one = toy(lambda _: result())
    one.usual = ("aten::b", "aten::c", "aten::of_another_pytorch")
    one.run()
    assert one.shards == [{"aten::a", "aten::b"}]


def test_what_the_base_calls_is_guessed_too(toy: Callable[..., Toy]) -> None:
    """Such as the operator that sets the storage of each weight: no model's operator calls it."""
    one = toy(lambda _: result())
    one.usual = ("aten::c", "aten::d")
    one.in_base = InBase(frozenset(), frozenset({Op("aten::d")}))
    one.run()
    assert one.shards == [{"aten::a", "aten::d"}]


def test_what_costs_no_unit_is_there_at_first(toy: Callable[..., Toy]) -> None:
    one = toy(lambda _: result())
    one.in_base = InBase(frozenset({GUARD}), frozenset())
    one.run()
    assert one.shards == [{"aten::a", "aten::b"}]


def test_the_second_time_all_joins_that_the_model_may_call(toy: Callable[..., Toy]) -> None:
    runtime, roots = toy(lambda _: result()).runtime, frozenset({Op("aten::a")})
    missing = frozenset({Op("aten::c")})
    assert joining(runtime, roots, missing, rounds=1) == {"aten::c"}
    assert joining(runtime, roots, missing, rounds=2) == {"aten::a", "aten::b", "aten::c"}
    assert joining(runtime, roots, frozenset(), rounds=2) == frozenset()


def test_what_a_model_called_is_remembered(toy: Callable[..., Toy]) -> None:
    one = toy(lambda has: result(None if "aten::c" in has else missing("aten::c")))
    one.run()
    one.shards.clear()
    one.run()
    assert one.shards == [{"aten::a", "aten::c"}]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"operators": 3}', '{"operators": ["aten::z"]}'])
def test_a_damaged_note_is_no_note(toy: Callable[..., Toy], text: str) -> None:
    one = toy(lambda _: result())
    calls = one.state / "development/calls"
    calls.mkdir(parents=True)
    (calls / f"{64 * 'f'}-{16 * 'e'}.json").write_text(text)
    one.run()
    assert one.shards == [{"aten::a"}]


@pytest.mark.parametrize(
    ("seen", "error"),
    [
        (
            result(missing("aten::unheard")),
            "error: the model toy does not run on its inputs\n"
            "  seen:     MISSING_OPERATOR: no schema\n"
            "  do:       this PyTorch, as it is built here, has no kernel of it",
        ),
        (
            result(missing("aten::a")),
            "error: the model toy does not run on its inputs\n"
            "  seen:     MISSING_OPERATOR: no schema\n"
            "  do:       it was compiled and is not found: this is a bug, report it",
        ),
        (
            result({"code": "RUN_FAILED", "text": "mat1 and mat2"}),
            "error: the model toy does not run on its inputs\n"
            "  seen:     RUN_FAILED: mat1 and mat2\n"
            "  do:       run the model in PyTorch on the same inputs",
        ),
        (
            RunnerResult(-signal.SIGSEGV, None, "oh no\n"),
            "error: the development library died on the model toy\n"
            "  seen:     it was killed by SIGSEGV\n"
            "  do:       run the model in PyTorch on the same inputs\n"
            "  | oh no",
        ),
    ],
)
def test_a_model_that_does_not_run(toy: Callable[..., Toy], seen: RunnerResult, error: str) -> None:
    one = toy(lambda _: seen)
    with pytest.raises(RunFailedError) as caught:
        one.run()
    assert caught.value.render().rstrip().removeprefix("toy.ptl: ") == error
    assert one.shards == [{"aten::a"}]
    assert not (one.state / "development").exists()


@pytest.fixture
def timed(monkeypatch: pytest.MonkeyPatch) -> Callable[[RunnerResult], list[Any]]:
    """What the model says in the library that it is timed in; gives what that was made of and how
    it was run."""

    def made(seen: RunnerResult) -> list[Any]:
        asked = list[Any]()

        def library(
            _here: object, _runtime: object, app: object, needs: Seen, **_more: object
        ) -> TimedLibrary:
            asked.append((app, needs))
            return TimedLibrary(Path("timed"), Path("timed/driver"), 294, ("a.cpp",))

        def run(argv: list[str], *_: object, **_more: object) -> RunnerResult:
            asked.append(argv)
            return seen

        monkeypatch.setattr(running, "timed_library", library)
        monkeypatch.setattr(running, "run_model", run)
        return asked

    return made


def test_a_model_is_timed_in_another_library_with_what_it_was_seen_to_call(
    toy: Callable[..., Toy], timed: Callable[[RunnerResult], list[Any]]
) -> None:
    run = {"method": "forward", "index": 0, "output": {"int": 1}, "error": None}
    times = {"microseconds": 3.0, "microseconds_min": 2.0}
    asked = timed(RunnerResult(0, {"runs": [{**run, "output": {"int": 2}, **times}]}))
    one = toy(lambda has: result(None if "aten::c" in has else missing("aten::c")))
    ran = one.run(repeat=7)
    assert ran.result["runs"] == [{**run, **times}]
    assert ran.timed is not None
    assert (ran.timed.library.units, ran.timed.library.compiled) == (294, ("a.cpp",))
    (app, needs), argv = asked
    assert app is None
    assert needs == Seen(
        frozenset({Op("aten::a")}),
        frozenset({Op("aten::a"), Op("aten::c")}),
        frozenset(),
        (),
        ("add_stub",),
        7,
        3,
    )
    assert argv == ["timed/driver", "--time", "--repeat", "7"]


def test_a_model_is_timed_where_it_cannot_be_recorded(
    toy: Callable[..., Toy],
    timed: Callable[[RunnerResult], list[Any]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All units that it uses are fast there, and AVX-512 is left out."""
    asked = timed(result())
    one = toy(lambda _: result())
    died = RunnerResult(-signal.SIGSEGV, None)
    monkeypatch.setattr(running, "_run", lambda *how: died if "--record" in how else result())
    one.run(repeat=7)
    (_, needs), *_ = asked
    assert (needs.hot, needs.multiply_adds) == (None, 0)


@pytest.mark.parametrize(
    ("seen", "told"),
    [
        (result(missing("aten::x")), "MISSING_OPERATOR: no schema"),
        (result(missing("aten::x"), at_load=True), "MISSING_OPERATOR: no schema"),
        (RunnerResult(-signal.SIGSEGV, None), "it was killed by SIGSEGV"),
    ],
)
def test_a_model_that_does_not_run_where_it_is_timed(
    toy: Callable[..., Toy],
    timed: Callable[[RunnerResult], list[Any]],
    seen: RunnerResult,
    told: str,
) -> None:
    timed(seen)
    with pytest.raises(RunFailedError) as caught:
        toy(lambda _: result()).run(repeat=7)
    assert caught.value.render().rstrip() == (
        "toy.ptl: error: the model toy runs in the development library, and not in the library"
        " that it is timed in\n"
        f"  seen:     {told}\n"
        "  do:       this is a bug: report it; without --repeat the model runs"
    )


def test_too_many_runs(toy: Callable[..., Toy], timed: Callable[[RunnerResult], list[Any]]) -> None:
    timed(RunnerResult(-signal.SIGKILL, None, still_running()))
    with pytest.raises(RunFailedError) as caught:
        toy(lambda _: result()).run(repeat=1_000_000)
    assert caught.value.render().rstrip() == (
        "toy.ptl: error: 1,000,000 runs of the model toy take too long\n"
        "  seen:     still running after 600 s\n"
        "  do:       pass a smaller number to --repeat"
    )


@pytest.mark.parametrize(("given", "traced"), [(None, True), (b"[]", False)])
def test_a_trace_tells_what_is_timed_on_its_own_inputs_alone(
    given: bytes | None, traced: bool, tmp_path: Path
) -> None:
    """Other inputs may have run other operators, and other dtypes."""
    trace = cast(Any, SimpleNamespace(hot_tags=("add",), multiply_adds=5))
    here = toy_invocation(tmp_path, {"toy": APP})
    app = here.workspace.apps["toy"]
    (model,) = app.config.models
    info = cast(Any, SimpleNamespace(root_operators=("aten::a",), archive_version=3))
    subject = Subject("toy", app.model_path(model), model, given, info, app, trace, trace)
    shard = Shard(tmp_path, frozenset(KNOWN), 1, 1, None)
    base = cast(Any, None)  # only a model without a trace is recorded
    assert running._seen(here, toy_runtime(), subject, base, shard, frozenset({"copy_"})) == Seen(
        frozenset({Op("aten::a")}),
        frozenset(KNOWN),
        frozenset({"copy_"}),
        (trace,) if traced else (),
        ("add",),
        5,
        3,
    )


def grown(
    root: Path, locks: Mapping[str, Mapping[str, Any]], policy: str = "traced", **ran: Any
) -> Growth | None:
    """What the library of an app of core_toy's index would grow by for a model that ran so.

    locks: model -> what its lock has, in addition to aten::linear in Float
    """
    names = (*locks, "untraced")
    models = "".join(f"  - file: {name}.ptl\n" for name in names)
    text = f"models:\n{models}targets: [linux-x86_64]\nselection: {policy}\n"
    app = toy_invocation(root, {"toy": text}).workspace.apps["toy"]
    for name, more in locks.items():
        lock: dict[str, Any] = {
            "called_operators": {"aten::linear": 1},
            "kernel_tags": {"linear_tag": {"Float": 1}},
            **more,
        }
        identity = TraceIdentity("a" * 64, "b" * 64, "bundled", ("CPU",), "c" * 16)
        trace = Trace("toy", name, identity, (Op("aten::linear"),), outputs="d" * 64, **lock)
        write_lock(app.folder, trace, b"")
    runtime = toy_runtime(dialect=toy_dialect(cuts=()), backends=("CPU",))
    info: Any = SimpleNamespace(root_operators=ran.pop("roots", ("aten::linear",)))
    model = app.config.models[-1]
    subject = Subject("untraced", app.model_path(model), model, None, info)
    return running._growth(runtime, subject, app, ran)


def test_an_app_without_a_trace_has_no_library_to_grow(tmp_path: Path) -> None:
    assert grown(tmp_path, {}, operators={"aten::linear": {}}) is None
    (tmp_path / "apps/toy/traces").mkdir()
    (tmp_path / "apps/toy/traces/untraced.yaml").write_text("damaged")
    assert grown(tmp_path, {}, operators={"aten::linear": {}}) is None


def test_what_a_trace_of_any_model_has_is_nothing_new(tmp_path: Path) -> None:
    other = {"kernel_tags": {"linear_tag": {"Float": 1, "Double": 2}}}
    ran: dict[str, Any] = {
        "operators": {"aten::linear": {"calls": 1}},
        "kernel_tags": {"linear_tag": {"Double": 3}},
    }
    assert grown(tmp_path, {"one": {}, "two": other}, **ran) == Growth()


def test_a_known_kernel_that_ran_in_another_dtype_is_told(tmp_path: Path) -> None:
    ran: dict[str, Any] = {
        "operators": {"aten::linear": {"calls": 1}},
        "kernel_tags": {"linear_tag": {"Double": 3, "Float": 1}},
    }
    new = (NewDtypes("linear_tag", ("Double",), 200),)
    assert grown(tmp_path, {"one": {}}, **ran) == Growth((), new, 200)
    # its library has all dtypes, whatever ran
    new = (NewDtypes("linear_tag", ("Double",), 0),)
    assert grown(tmp_path, {"one": {}}, "static", **ran) == Growth((), new, 0)
    # no input of the trace ran the operator: it is guarded
    unrun: dict[str, Any] = {"one": {"called_operators": {}}}
    assert grown(tmp_path, unrun, "guarded", **ran) == Growth((), new, 0)


def test_operators_that_are_named_or_called_are_told_with_their_kernels(tmp_path: Path) -> None:
    ran: dict[str, Any] = {
        "operators": {"toy::conv": {"calls": 1}},
        "kernel_tags": {"conv_tag": {"Float": 3}},
    }
    found = grown(tmp_path, {"one": {}}, roots=("aten::linear", "aten::add.Tensor"), **ran)
    new = (NewDtypes("conv_tag", ("Float",), 0),)
    assert found == Growth(("aten::add.Tensor", "toy::conv"), new, 364 + 24 + 100 + 12)


def test_a_shard_that_the_base_refuses_is_a_bug_of_ours(toy: Callable[..., Toy]) -> None:
    text = "this add-on is for another library: for development, build id 00"
    one = toy(lambda _: result({"code": "LOAD_FAILED", "text": text}, at_load=True))
    with pytest.raises(ShardRefusedError) as caught:
        one.run()
    assert caught.value.seen == text


@pytest.mark.parametrize("own", [(), ("apps/ink/src/a.cpp", "apps/ink/src/b.cpp")])
def test_an_initialiser_that_throws_is_the_apps_where_it_has_sources(
    toy: Callable[..., Toy], own: tuple[str, ...]
) -> None:
    text = "the add-on cannot be registered: the brush is dry"
    one = toy(lambda _: result({"code": "INVALID_ARGUMENT", "text": text}, at_load=True))
    one.own = own
    with pytest.raises(InitialiserFailedError if own else ShardRefusedError) as caught:
        one.run()
    if own:
        assert caught.value.render() == (
            "error: a static initialiser of the app's own sources threw an exception\n"
            "  expected: registrations and static objects that do not throw\n"
            "  seen:     the brush is dry\n"
            "  do:       look into apps/ink/src/a.cpp, apps/ink/src/b.cpp"
        )
    else:
        assert caught.value.seen == text


def test_inputs_are_calls_or_an_array_for_each_argument(tmp_path: Path) -> None:
    calls = b'[{"method": "forward", "args": []}]'
    (tmp_path / "x.json").write_bytes(calls)
    assert read_inputs([tmp_path / "x.json"]) == calls
    header = b"{'descr': '|u1', 'fortran_order': False, 'shape': (1,), }"
    array = b"\x93NUMPY\1\0" + len(header).to_bytes(2, "little") + header + b"\5"
    (tmp_path / "x.npy").write_bytes(array)
    given = read_inputs([tmp_path / "x.npy", tmp_path / "x.npy"])
    tensor = {"tensor": {"dtype": "uint8", "shape": [1], "data": "BQ=="}}
    assert json.loads(given or b"") == [{"method": "forward", "args": [tensor, tensor]}]
    assert read_inputs([]) is None
    (tmp_path / "X.NPY").write_bytes(array)
    assert read_inputs([tmp_path / "X.NPY"]) is not None


def test_inputs_are_calls_as_in_app_yaml(tmp_path: Path) -> None:
    texts = ("[{shape: [2], dtype: int8, fill: ones}, true]", "{method: reset, args: []}")
    given = read_inputs([Path(text) for text in texts])
    tensor = {"tensor": {"dtype": "int8", "shape": [2], "data": "AQE="}}
    assert json.loads(given or b"") == [
        {"method": "forward", "args": [tensor, {"bool": True}]},
        {"method": "reset", "args": []},
    ]
    with pytest.raises(InputsUnfitError) as caught:
        read_inputs([Path(texts[1]), tmp_path / "x.npy"])
    assert caught.value.seen == "a file beside calls"


def test_inputs_have_a_limit_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    header = b"{'descr': '|u1', 'fortran_order': False, 'shape': (3,), }"
    array = b"\x93NUMPY\1\0" + len(header).to_bytes(2, "little") + header + b"abc"
    (tmp_path / "x.npy").write_bytes(array)
    monkeypatch.setattr(subject_module, "MOST_ELEMENTS", 8)
    assert read_inputs(2 * [tmp_path / "x.npy"]) is not None
    with pytest.raises(InputsUnfitError) as caught:
        read_inputs(3 * [tmp_path / "x.npy"])
    assert caught.value.seen == "more than 8 elements with those before it"


@pytest.mark.parametrize(
    ("names", "seen"),
    [
        (("x.jpg",), "a file with the suffix .jpg"),
        (("x",), "a file with no suffix"),
        (("gone.json",), "No such file or directory"),
        (("dict.json",), "a file of 2 bytes that is no list"),
        (("dict.json", "x.npy"), "a file with the suffix .json"),
    ],
)
def test_other_files_are_no_inputs(tmp_path: Path, names: tuple[str, ...], seen: str) -> None:
    (tmp_path / "dict.json").write_text("{}")
    with pytest.raises(InputsUnfitError) as caught:
        read_inputs([tmp_path / name for name in names])
    assert caught.value.seen == seen


@pytest.mark.parametrize(
    ("calls", "seen"),
    [
        ("[]", "an empty list"),
        ("[3]", "call 0: no object with `method` and `args`"),
        ('[{"method": "forward"}]', "call 0: not a text as `method` and a list as `args`"),
        (
            '[{"method": "forward", "args": [3]}]',
            'forward[0], argument 1: 3 is no object with a kind, as {"int": 3} is',
        ),
        (
            '[{"method": "f", "args": []}, {"method": "f", "args": [{"int": true}]}]',
            "f[1], argument 1: True is no int",
        ),
        (
            '[{"method": "f", "args": [{"none": true}, {"list": [{"number": 3}]}]}]',
            "f[0], argument 2: number is no kind: these are none, bool, int, double, string,"
            " tensor, list, tuple, dict",
        ),
        (
            '[{"method": "f", "args": [{"tensor": {"dtype": "float32", "shape": [2],'
            ' "data": "AAAAAA=="}}]}]',
            "f[0], argument 1: float32[2] has 8 bytes, and there are 4",
        ),
        ("[{", "invalid JSON"),
    ],
)
def test_calls_are_refused_before_anything_runs(tmp_path: Path, calls: str, seen: str) -> None:
    (tmp_path / "x.json").write_text(calls)
    with pytest.raises(InputsUnfitError) as caught:
        read_inputs([tmp_path / "x.json"])
    assert str(caught.value.seen).startswith(seen)


def test_calls_are_of_the_models_own_methods() -> None:
    info = read_model(
        Path(__file__).parents[4] / "apps/camera/models/classifier.ptl", DIALECT.models
    )
    for method, count, seen in (
        ("embed", 1, "a call of embed; the model has forward"),
        ("forward", 2, "forward with 2 arguments; it takes 1"),
        ("forward", 1, None),
    ):
        given = json.dumps([{"method": method, "args": count * [{"int": 3}]}]).encode()
        if seen is None:
            subject_module._require_methods(info, given, [Path("x.json")])
            continue
        with pytest.raises(InputsUnfitError) as caught:
            subject_module._require_methods(info, given, [Path("x.json")])
        assert caught.value.seen == seen


def on_machine(monkeypatch: pytest.MonkeyPatch, processor: str) -> None:
    uname = {"arm64": "aarch64"}.get(processor, processor)
    monkeypatch.setattr(toolchains, "this_machine", lambda: ("Linux", uname))


def library(root: Path, compiler: str, processor: str) -> Development:
    (root / "toolchains").mkdir()
    (root / "toolchains/linux-mine.yaml").write_text(TOOLCHAIN.format(processor))
    here = toy_invocation(root)
    config = here.toolchains.config("linux-mine")
    more: Any = "by wrapper" if compiler == "zig" else None
    found = {"linux-mine": toy_toolchain(config, kind=compiler, exports_more=more)}
    return Development(toy_invocation(root, found=found), toy_runtime(), None, cast(Any, None))


@pytest.mark.parametrize(("compiler", "processor"), [("command", "x86_64"), ("zig", "arm64")])
def test_where_there_is_none(
    compiler: str, processor: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_machine(monkeypatch, processor)
    with pytest.raises(NoDevelopmentLibraryError) as caught:
        library(tmp_path, compiler, processor).require()
    assert caught.value.what == "there is no development library yet for linux-mine"
    assert caught.value.hint == "trace the model here: ./orchestrate trace //apps/<app>"


def test_where_there_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    on_machine(monkeypatch, "x86_64")
    library(tmp_path, "zig", "x86_64").require()
