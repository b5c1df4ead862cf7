"""`watch` around a runner that is a function here, over real files, with a clock of ours."""

from __future__ import annotations

import argparse
import shutil
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from toy_workspace import toy_runtime

from orchestrator.build.development.development import NoDevelopmentLibraryError
from orchestrator.build.development.run import RanModel, RunFailedError
from orchestrator.build.development.subject import Subject
from orchestrator.build.development.watch import is_whole, watched
from orchestrator.build.tracing.trace import TracedApp
from orchestrator.build.workshop.runtimes import Runtimes
from orchestrator.cli import make_context
from orchestrator.commands import watch
from orchestrator.errors import ExitCode, OrchestratorError
from orchestrator.load.declared import Workspace
from orchestrator.load.workspace import load_workspace
from orchestrator.system.file_watcher import Edge, Watcher, state_of
from orchestrator.values.config.app import ModelConfig

ROOT = Path(__file__).parents[3]
APP = """\
models:
  - file: models/one.ptl
  - file: models/two.ptl
targets: [linux-x86_64]
"""


NO_OPERATORS = SimpleNamespace(root_operators=(), sha256="")


class World:
    """A workspace in which something happens whenever `watch` waits for the first time.

    ran: the models in the order in which they were run, with what their files held
    """

    def __init__(self, root: Path, *steps: Callable[[], object]) -> None:
        self.root, self.steps, self.time = root, list(steps), 0.0
        self.ran: list[tuple[str, bytes]] = []
        self.inputs: list[str] = []
        self.quiet_since = 0.0
        (root / "apps/toy/models").mkdir(parents=True)
        (root / "WORKSPACE").write_text((ROOT / "WORKSPACE").read_text())
        shutil.copytree(ROOT / "toolchains", root / "toolchains")
        (root / "apps/toy/app.yaml").write_text(APP)
        for name in ("one", "two"):
            self.save(name, b"0")

    def save(self, name: str, data: bytes) -> None:
        part = self.root / "part"
        with zipfile.ZipFile(part, "w") as file:
            file.writestr("data", data)
        part.replace(self.root / f"apps/toy/models/{name}.ptl")

    def write(self, name: str, text: str) -> None:
        """A file of the app."""
        path = self.root / "apps/toy" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)

    def wait(self, seconds: float) -> None:
        self.time += seconds
        if self.time - self.quiet_since > 20:
            self.quiet_since = self.time
            if not self.steps:
                raise KeyboardInterrupt
            self.steps.pop(0)()

    def run(self, _here: Any, _runtime: Any, subject: Subject, **options: Any) -> RanModel:
        assert options["with_arguments"]
        with zipfile.ZipFile(subject.path) as file:
            data = file.read("data")
        self.ran.append((subject.name, data))
        if data == b"broken":
            raise RunFailedError(f"the model {subject.name} does not run on its inputs")
        run = {"method": "forward", "index": 0, "args": [], "output": {"int": int(data)}}
        result = {"runs": [{**run, "error": None}], "operators": {}}
        base = SimpleNamespace(units=1, compiled=None)
        return RanModel(subject, "1.13.1", cast(Any, base), (), result, None)

    def watch(self, what: str = "//apps/toy", *, trace: bool = False) -> int:
        arguments = argparse.Namespace(
            what=what,
            inputs=self.inputs,
            runtime=None,
            trace=trace,
            jobs=None,
            quiet=False,
            verbose=False,
            workspace=None,
        )
        env = {"ORCHESTRATOR_CACHE": str(self.root / "cache"), "HOME": str(self.root)}
        return watch.run(arguments, make_context(arguments, env, self.root))


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., World]:
    def made(*steps: Callable[[], object]) -> World:
        one, runtime = World(tmp_path / "workspace", *steps), toy_runtime()

        def subject(_here: Any, app: Any, model: Any, _inputs: Any) -> Subject:
            path = app.model_path(model)
            return Subject(model.name, path, model, None, cast(Any, NO_OPERATORS))

        for name in ("on", "of"):
            monkeypatch.setattr(Runtimes, name, lambda *_: runtime)
        monkeypatch.setattr("orchestrator.build.development.watch.app_subject", subject)
        monkeypatch.setattr(watch, "run_in_development", one.run)
        edge = Edge(state_of, lambda: one.time, one.wait)
        monkeypatch.setattr(watch, "Watcher", lambda whole: Watcher(whole, edge))
        return one

    return made


def test_each_is_run_and_then_the_one_that_was_saved(
    world: Callable[..., World], capsys: pytest.CaptureFixture[str]
) -> None:
    one: World = world(lambda: one.save("two", b"7"))
    assert one.watch() == ExitCode.OK
    assert one.ran == [("one", b"0"), ("two", b"0"), ("two", b"7")]
    out, err = capsys.readouterr()
    assert out.endswith(
        "two: PyTorch 1.13.1, 0 operators named\n"
        "  base: 1 units, from the store\n"
        "  forward[0]: int 7\n"
        "  against the run before:\n"
        "    forward[0] output: value 0 before, 7 now\n"
        "    the same operators ran\n"
    )
    waiting = "waiting for //apps/toy to be saved; Ctrl-C ends this\n"
    assert err == f"{waiting}saved: apps/toy/models/two.ptl\n{waiting}stopped\n"


def test_a_broken_model_is_told_and_watching_goes_on(
    world: Callable[..., World], capsys: pytest.CaptureFixture[str]
) -> None:
    """The next good one is compared with the last that ran."""
    one: World = world(lambda: one.save("one", b"broken"), lambda: one.save("one", b"3"))
    assert one.watch() == ExitCode.OK
    assert one.ran[2:] == [("one", b"broken"), ("one", b"3")]
    out, err = capsys.readouterr()
    assert "error: the model one does not run on its inputs\n" in err
    assert "    forward[0] output: value 0 before, 3 now\n" in out


def test_a_changed_declaration_runs_all_and_a_broken_one_is_told(
    world: Callable[..., World], capsys: pytest.CaptureFixture[str]
) -> None:
    def declare(text: str) -> Callable[[], object]:
        return lambda: (one.root / "apps/toy/app.yaml").write_text(text)

    one: World = world(
        declare("models: 3\n"),
        lambda: one.save("one", b"5"),
        declare(APP.replace("  - file: models/two.ptl\n", "")),
        lambda: one.save("two", b"6"),
    )
    assert one.watch() == ExitCode.OK
    assert one.ran[2:] == [("one", b"5")]
    err = capsys.readouterr().err
    assert err.count("error: key `targets`") == 2, "once in each round that it is broken in"


def test_a_round_loads_the_workspace_once(
    world: Callable[..., World], monkeypatch: pytest.MonkeyPatch
) -> None:
    loads: list[Path] = []

    def counted(root: Path, env: Mapping[str, str]) -> Workspace:
        loads.append(root)
        return load_workspace(root, env)

    monkeypatch.setattr("orchestrator.build.workshop.invocation.load_workspace", counted)
    one: World = world(lambda: one.save("one", b"5"), lambda: one.save("two", b"6"))
    assert one.watch() == ExitCode.OK
    assert len(one.ran) == 4
    assert loads == [one.root] * 3


def test_what_is_saved_while_a_round_begins_makes_another(
    world: Callable[..., World], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The declaration that the round read is an old one."""
    fewer = APP.replace("  - file: models/two.ptl\n", "")

    def found(here: Any, *_: Any) -> Any:
        if len(one.ran) == 2:
            one.ran.append(("declared", b""))
            (one.root / "apps/toy/app.yaml").write_text(fewer)
        return watched(here, *_)

    one: World = world(lambda: one.save("two", b"6"))
    monkeypatch.setattr(watch, "watched", found)
    assert one.watch() == ExitCode.OK
    assert one.ran[2:] == [("declared", b""), ("two", b"6"), ("one", b"0")]


SOURCES = """\
sources:
  files: [src/*.cpp]
  kernels: {namespace: toy, files: ["kernels/*.elementwise"]}
  include: [include]
"""
# Two models, of which both are run again in each round of what is none of theirs.
BOTH = [("one", b"0"), ("two", b"0")]


def with_sources(one: World) -> World:
    one.write("app.yaml", APP + SOURCES)
    one.write("src/a.cpp", "")
    one.write("include/a.h", "")
    one.write("kernels/ease.elementwise", "name: not a name\n")
    return one


def test_a_source_that_is_faulty_is_watched_and_so_are_the_others(
    world: Callable[..., World], capsys: pytest.CaptureFixture[str]
) -> None:
    """What mends it makes a round, and so does what is saved beside it."""
    one: World = world(
        lambda: one.write("src/a.cpp", "// changed"),
        lambda: one.write("kernels/ease.elementwise", "name: ease\n"),
        lambda: one.write("include/a.h", "// changed"),
    )
    assert with_sources(one).watch() == ExitCode.OK
    assert one.ran == 4 * BOTH
    saved = [line for line in capsys.readouterr().err.splitlines() if line.startswith("saved: ")]
    assert saved == [
        "saved: apps/toy/src/a.cpp",
        "saved: apps/toy/kernels/ease.elementwise",
        "saved: apps/toy/include/a.h",
    ]


def test_sources_that_are_added_and_taken_away_are_changes(
    world: Callable[..., World], capsys: pytest.CaptureFixture[str]
) -> None:
    one: World = world(
        lambda: one.write("src/b.cpp", ""),
        lambda: one.write("include/b.h", ""),
        lambda: one.write("include/notes.txt", ""),
        lambda: one.write("kernels/more.elementwise", ""),
        lambda: (one.root / "apps/toy/src/b.cpp").unlink(),
    )
    assert with_sources(one).watch() == ExitCode.OK
    assert one.ran == 5 * BOTH
    err = capsys.readouterr().err
    assert "notes.txt" not in err
    assert err.count("saved: apps/toy/src/b.cpp\n") == 2
    assert err.count("saved: apps/toy/kernels/more.elementwise\n") == 1


def test_sources_stay_watched_while_the_declaration_is_broken(world: Callable[..., World]) -> None:
    one: World = world(
        lambda: one.write("app.yaml", "models: 3\n"),
        lambda: one.write("kernels/ease.elementwise", "name: ease\n"),
        lambda: one.write("app.yaml", APP + SOURCES),
    )
    assert with_sources(one).watch() == ExitCode.OK
    assert one.steps == []
    assert one.ran == 2 * BOTH


def test_the_files_of_a_canonical_model_are_the_models(
    world: Callable[..., World], capsys: pytest.CaptureFixture[str]
) -> None:
    """They are made after the declared file: what is run is the canonical one."""
    one: World = world(
        lambda: one.save("one.canonical", b"8"),
        lambda: one.write("models/one.canonical.yaml", "format: 1\n"),
        lambda: one.write("models/one.canonical.inputs.zst", ""),
        lambda: one.write("models/two.canonical.yaml", "of a model that has none"),
    )
    canonical = "  - file: models/one.ptl\n    canonical: static\n"
    one.write("app.yaml", APP.replace("  - file: models/one.ptl\n", canonical))
    assert one.watch() == ExitCode.OK
    assert one.ran == [*BOTH, *3 * BOTH[:1]]
    assert "two.canonical" not in capsys.readouterr().err


@pytest.mark.parametrize("what", ["//apps/toy", "apps/toy/models/one.ptl"])
def test_files_of_inputs_are_watched(
    world: Callable[..., World],
    what: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    one: World = world(lambda: one.write("image.npy", "other"))
    one.write("image.npy", "")
    one.inputs = ["apps/toy/image.npy"]
    monkeypatch.chdir(one.root)
    monkeypatch.setattr(
        "orchestrator.build.development.watch.file_subject",
        lambda _here, _runtime, path, _inputs: Subject(
            "one", path, ModelConfig(file="one.ptl"), None, cast(Any, NO_OPERATORS)
        ),
    )
    assert one.watch(what) == ExitCode.OK
    assert one.ran == 2 * (BOTH if what.startswith("//") else BOTH[:1])
    assert "saved: apps/toy/image.npy\n" in capsys.readouterr().err


class Tracing:
    """Stands for what traces apps.

    current  whether the app's locks are
    gives    what is recorded, or why nothing is
    """

    def __init__(self, one: World, monkeypatch: pytest.MonkeyPatch) -> None:
        self.one, self.current = one, False
        self.gives: OrchestratorError | TracedApp | None = None
        monkeypatch.setattr(watch, "is_traced", lambda *_: self.current)
        monkeypatch.setattr(watch, "trace_apps", self.trace)

    def trace(self, here: Any, apps: list[Any], **options: Any) -> tuple[TracedApp, ...]:
        assert options.keys() == {"jobs", "view"}
        (app,) = apps
        self.one.ran.append(("traced", app.name.encode()))
        if isinstance(self.gives, OrchestratorError):
            raise self.gives
        return (self.gives or TracedApp(app, (), "development library", 150, 2),)


TRACED = ("traced", b"toy")


def test_an_app_is_traced_after_each_round_in_which_all_models_ran(
    world: Callable[..., World],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    one: World = world(
        lambda: one.save("one", b"broken"),
        lambda: one.save("one", b"3"),
    )
    Tracing(one, monkeypatch)
    assert one.watch(trace=True) == ExitCode.OK
    assert one.ran == [*BOTH, TRACED, ("one", b"broken"), ("one", b"3"), TRACED]
    out = capsys.readouterr().out
    assert out.endswith(
        "    the same operators ran\n//apps/toy: development library of 150 units, 2 compiled\n"
    )


def test_current_locks_are_not_recorded_again(
    world: Callable[..., World], monkeypatch: pytest.MonkeyPatch
) -> None:
    def saved() -> None:
        tracing.current = False
        one.save("two", b"1")

    one: World = world(saved)
    tracing = Tracing(one, monkeypatch)
    tracing.current = True
    assert one.watch(trace=True) == ExitCode.OK
    assert one.ran == [*BOTH, ("two", b"1"), TRACED]


def test_what_hinders_a_trace_is_told_and_watching_goes_on(
    world: Callable[..., World],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    one: World = world(lambda: one.save("two", b"1"), lambda: one.save("two", b"2"))
    tracing = Tracing(one, monkeypatch)
    tracing.gives = RunFailedError("a unit failed to build")
    app = load_workspace(one.root, {"ORCHESTRATOR_CACHE": str(one.root / "cache")}).apps["toy"]
    errors = (RunFailedError("the model two was saved while it was traced"),)
    one.steps.insert(1, lambda: setattr(tracing, "gives", TracedApp(app, (), None, 0, 0, errors)))
    assert one.watch(trace=True) == ExitCode.OK
    assert one.ran.count(TRACED) == 3
    out, err = capsys.readouterr()
    assert err.count("error: a unit failed to build\n") == 2
    assert err.count("error: the model two was saved while it was traced\n") == 1
    assert out.endswith("//apps/toy: 1 of 2 models refused\n")


@pytest.mark.parametrize(
    ("what", "inputs", "seen"),
    [
        ("new.ptl", [], "new.ptl"),
        ("//apps/toy", ["a.npy", "b.npy"], "//apps/toy with --input a.npy"),
    ],
)
def test_traces_are_of_apps_on_their_own_inputs(
    world: Callable[..., World], what: str, inputs: list[str], seen: str
) -> None:
    one: World = world()
    one.inputs = inputs
    with pytest.raises(watch.WatchTraceError) as caught:
        one.watch(what, trace=True)
    assert caught.value.render() == (
        "error: --trace is for an app's models on their own inputs\n"
        "  expected: //apps/<app>, without --input\n"
        f"  seen:     {seen}\n"
        "  do:       declare the model in an app.yaml, with `inputs:` where its file has none"
    )
    assert one.ran == []


def test_one_that_is_broken_at_first_is_waited_for(world: Callable[..., World]) -> None:
    one: World = world(lambda: one.save("one", b"4"))
    one.save("one", b"broken")
    assert one.watch() == ExitCode.OK
    assert one.ran == [("one", b"broken"), ("two", b"0"), ("one", b"4")]


def test_what_is_not_there_ends_it_at_once(world: Callable[..., World]) -> None:
    one: World = world()
    with pytest.raises(OrchestratorError):
        one.watch("//apps/none")

    def refuse(*_: Any, **__: Any) -> RanModel:
        raise NoDevelopmentLibraryError("there is no development library yet for toys")

    vars(watch)["run_in_development"] = refuse
    with pytest.raises(NoDevelopmentLibraryError):
        one.watch()


def test_half_of_a_model_is_not_whole(tmp_path: Path) -> None:
    path = tmp_path / "model.ptl"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("data", b"x" * 9000)
    assert is_whole(path)
    path.write_bytes(path.read_bytes()[:8000])
    assert not is_whole(path)
    path.unlink()
    assert not is_whole(path)
    assert is_whole(tmp_path / "app.yaml")
