"""What a forecast assumes of a machine that has other work too."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from orchestrator.commands.views import assumption, progress_view
from orchestrator.execute.ninja_progress import Progress
from orchestrator.report.progress_view import ProgressView
from orchestrator.system.load import Load, present_load


@pytest.mark.parametrize(
    ("load", "jobs", "cores"),
    [
        (Load(2, 2, 0.0), 2, 2.0),
        (Load(2, 2, 0.0), 1, 1.0),
        (Load(2, 2, 1.0), 1, 1.0),
        (Load(2, 2, 8.0), 2, 0.4),
        (Load(64, 64, 30.0), 16, 16.0),
        # a container with two cores' share of a machine
        (Load(64, 2, 0.0), 2, 2.0),
        (Load(64, 2, 0.0), 8, 2.0),
        (Load(64, 2, 126.0), 2, 1.0),
    ],
)
def test_all_who_want_a_core_get_as_much(load: Load, jobs: int, cores: float) -> None:
    assert load.cores_for(jobs) == pytest.approx(cores)


def proc(root: Path, text: str) -> Path:
    (root / "proc").mkdir(parents=True, exist_ok=True)
    (root / "proc/loadavg").write_text(text)
    return root


def test_the_load_is_the_present_one(tmp_path: Path) -> None:
    """Not the averages, which hold what ran before; without this process itself."""
    readings = iter([3, 5, 3, 5, 3, 5, 3, 5, 3, 5])

    def wait(_: float) -> None:
        number = next(readings, 5)
        proc(tmp_path, f"9.99 9.99 9.99 {number}/112 23697\n")

    proc(tmp_path, "9.99 9.99 9.99 5/112 23697\n")
    assert present_load(tmp_path, wait).others == pytest.approx(3.0)
    assert next(readings, None) is None
    idle = proc(tmp_path, "9.99 9.99 9.99 1/112 23697\n")
    assert present_load(idle, lambda _: None).others == 0.0


@pytest.mark.parametrize("text", ["", "1 2 3", "1 2 3 x/y 5", "1 2 3 0/7 5"])
def test_a_system_that_does_not_tell_is_idle(text: str, tmp_path: Path) -> None:
    assert present_load(tmp_path, lambda _: None).others == 0.0
    assert present_load(proc(tmp_path, text), lambda _: None).others == 0.0


@pytest.mark.parametrize(
    ("load", "jobs", "text"),
    [
        (Load(2, 2, 0.4), 2, " with 2 jobs on 2 cores"),
        (Load(2, 1, 0.6), 1, " with 1 job on 1 core, beside 1 process"),
        (Load(2, 2, 8.2), 2, " with 2 jobs on 2 cores, beside 8 processes"),
    ],
)
def test_what_is_assumed_is_said(load: Load, jobs: int, text: str) -> None:
    assert assumption(jobs, load) == text


@pytest.mark.parametrize("terminal", [False, True])
def test_the_forecast_of_a_busy_machine(terminal: bool) -> None:
    """50 s of an idle machine; a load of 8 makes it 4 min, as it takes."""
    now, target = 0.0, io.StringIO()
    load = Load(2, 2, 8.0)
    costs = {f"u{number}": [1.0] for number in range(100)}
    progress = Progress(costs, 2, lambda: now, load.cores_for(2))
    console = Console(file=target, force_terminal=terminal, width=80)
    assumed = assumption(2, load)
    with ProgressView(progress, console, auto_refresh=False, assumed=assumed) as view:
        view.feed("@@0 100 1 1 0.0@@u0")
        first = progress.snapshot().remaining
        assert first == pytest.approx(250)
        said = "100 actions to run, about 4 min 15 s with 2 jobs on 2 cores, beside 8 processes\n"
        assert said in target.getvalue()
        assert len(said) <= 80
        # the others end: what is measured corrects it
        for number in range(50):
            now += 0.5
            view.feed(f"@@{number + 1} 100 1 {number + 1} 0.0@@u{number}")
        remaining = progress.snapshot().remaining
        assert remaining is not None
        assert 25 <= remaining < 35
    assert target.getvalue().count("beside") == 1


def test_little_work_is_begun_at_once(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without looking at load and speed, which takes a moment."""
    loads = iter([Load(2, 2, 0.0)])
    monkeypatch.setattr("orchestrator.commands.views.present_load", lambda: next(loads))
    monkeypatch.setattr("orchestrator.commands.views.core_speed", lambda: 2.0)
    for cost in (3.0, 30.0):
        with progress_view(quiet=False)({"a": [cost], "b": [cost]}, 2) as view:
            view.feed("@@0 2 1 1 0.0@@a")
    with progress_view(quiet=True)({"a": [300.0]}, 2) as view:
        view.feed("@@0 1 1 1 0.0@@a")
    told = capsys.readouterr().err.splitlines()
    assert [line for line in told if "to run" in line] == [
        "2 actions to run, about 3 s",
        "2 actions to run, about 15 s with 2 jobs on 2 cores",
    ]
