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

from orchestrator.build.development import NoDevelopmentLibraryError
from orchestrator.build.run import RanModel, RunFailedError
from orchestrator.build.subject import Subject
from orchestrator.build.watch import is_whole, watched_files
from orchestrator.cli import make_context
from orchestrator.commands import watch
from orchestrator.errors import ExitCode, OrchestratorError
from orchestrator.load.declared import Workspace
from orchestrator.load.workspace import load_workspace
from orchestrator.system.file_watcher import Edge, Watcher, state_of

ROOT = Path(__file__).parents[3]
APP = """\
models:
  - file: models/one.ptl
  - file: models/two.ptl
targets: [linux-x86_64]
"""


class Stop(Exception):
    """A test that ran out of steps."""


class World:
    """A workspace in which something happens whenever `watch` waits for the first time.

    ran: the models in the order in which they were run, with what their files held
    """

    def __init__(self, root: Path, *steps: Callable[[], object]) -> None:
        self.root, self.steps, self.time = root, list(steps), 0.0
        self.ran: list[tuple[str, bytes]] = []
        self.outputs: dict[str, int] = {}
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

    def wait(self, seconds: float) -> None:
        self.time += seconds
        if self.time - self.quiet_since > 20:
            self.quiet_since = self.time
            if not self.steps:
                raise KeyboardInterrupt
            self.steps.pop(0)()

    def run(self, _on: Any, subject: Subject, **options: Any) -> RanModel:
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

    def watch(self, what: str = "//apps/toy") -> int:
        arguments = argparse.Namespace(
            what=what,
            inputs=[],
            runtime=None,
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
        one = World(tmp_path / "workspace", *steps)

        def subject(_session: Any, app: Any, model: Any, _inputs: Any) -> Subject:
            info = SimpleNamespace(root_operators=(), sha256="")
            path = app.model_path(model)
            return Subject(model.name, path, model, None, cast(Any, info))

        monkeypatch.setattr("orchestrator.build.watch.app_subject", subject)
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

    monkeypatch.setattr("orchestrator.build.session.load_workspace", counted)
    one: World = world(lambda: one.save("one", b"5"), lambda: one.save("two", b"6"))
    assert one.watch() == ExitCode.OK
    assert len(one.ran) == 4
    assert loads == [one.root] * 3


def test_what_is_saved_while_a_round_begins_makes_another(world: Callable[..., World]) -> None:
    """The declaration that the round read is an old one."""
    fewer = APP.replace("  - file: models/two.ptl\n", "")

    def subject(session: Any, *_: Any) -> Any:
        if len(one.ran) == 2:
            one.ran.append(("declared", b""))
            (one.root / "apps/toy/app.yaml").write_text(fewer)
        return watched_files(session, *_)

    one: World = world(lambda: one.save("two", b"6"))
    vars(watch)["watched_files"] = subject
    try:
        assert one.watch() == ExitCode.OK
    finally:
        vars(watch)["watched_files"] = watched_files
    assert one.ran[2:] == [("declared", b""), ("two", b"6"), ("one", b"0")]


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
