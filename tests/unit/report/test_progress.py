from __future__ import annotations

import fcntl
import io
import os
import pty
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from threading import Event

import pytest
from rich.console import Console

from orchestrator.execute.ninja_progress import (
    STATUS_FORMAT,
    NinjaStream,
    Progress,
    Snapshot,
    Status,
    human_seconds,
    parse_status,
)
from orchestrator.report.progress_view import (
    ProgressView,
    beat_line,
    exact_seconds,
    live_line,
)


@dataclass
class Clock:
    now: float = 100.0

    def __call__(self) -> float:
        return self.now


def test_status_line() -> None:
    assert parse_status("@@3 10 2 5 1.250@@CXX a b.cpp") == Status(3, 10, 2, 5, 1.25, "CXX a b.cpp")


@pytest.mark.parametrize("line", ["", "FAILED: x.o", "warning: @@3 10 2 5 1.0@@ x", "@@1 2@@"])
def test_other_lines(line: str) -> None:
    assert parse_status(line) is None


def pipe_lines(*steps: tuple[int, str]) -> Iterator[str]:
    """What ninja writes to a pipe with two jobs and four actions: a line at each end."""
    for finished, description in steps:
        yield f"@@{finished} 4 2 {min(finished + 1, 4)} 0.0@@{description}"


def test_before_anything_nothing_is_claimed() -> None:
    progress = Progress({"a": [1.0]}, 2, Clock())
    assert progress.snapshot() == Snapshot(0, 0, (), 0.0, None)


def test_estimate_weighs_actions_by_their_cost() -> None:
    clock = Clock()
    progress = Progress({"quick": [1], "small": [1], "slow": [28], "last": [10]}, 2, clock)
    lines = pipe_lines((1, "quick"), (2, "small"), (3, "slow"), (4, "last"))
    progress.feed(next(lines))
    # 39 CPU seconds to go on two cores, at the speed that was guessed and 1 s was seen to confirm.
    assert progress.snapshot().remaining == pytest.approx(39 / ((20 + 1) / 10))
    clock.now += 1
    progress.feed(next(lines))
    assert progress.snapshot().remaining == pytest.approx(38 / ((20 + 2) / 11))
    clock.now += 14
    progress.feed(next(lines))
    assert progress.snapshot().remaining == pytest.approx(10 / ((20 + 30) / 25))
    clock.now += 5
    progress.feed(next(lines))
    assert progress.snapshot() == Snapshot(4, 4, (), 20.0, 0.0, "last")


def test_estimate_follows_a_slow_machine() -> None:
    """Each action takes ten times what was expected: the estimate must come to say so."""
    clock = Clock()
    costs = {f"u{i}": [1.0] for i in range(100)}
    progress = Progress(costs, 1, clock)
    progress.feed("@@0 100 1 1 0.0@@u0")
    for i in range(50):
        clock.now += 10
        progress.feed(f"@@{i + 1} 100 1 {i + 1} 0.0@@u{i}")
    remaining = progress.snapshot().remaining
    assert remaining is not None
    assert 400 < remaining < 500


def test_actions_that_are_up_to_date_do_not_count() -> None:
    """Costs name ten actions, ninja runs two of them."""
    clock = Clock()
    progress = Progress({f"u{i}": [5.0] for i in range(10)}, 2, clock)
    progress.feed("@@0 2 1 1 0.0@@u3")
    assert progress.snapshot().remaining == pytest.approx(10 / 2)


def test_actions_of_one_name_are_counted_one_by_one() -> None:
    """A unit of two ABIs, and links, whose descriptions have paths of this machine."""
    clock = Clock()
    costs = {"a.cpp": [10.0, 10.0], "precompile": [6.0], "link": [1.0, 1.0], "b.cpp": [2.0]}
    progress = Progress(costs, 1, clock)
    lines = ["precompile x.h", "a.cpp", "a.cpp", "b.cpp", "link '/w 1/x.so'", "link /w/y.so"]
    left = [30.0]
    progress.feed(f"@@0 6 1 1 0.0@@{lines[0]}")
    for number, line in enumerate(lines, 1):
        progress.feed(f"@@{number} 6 0 {number} 0.0@@{line}")
        remaining = progress.snapshot().remaining
        assert remaining is not None
        # of a speed that grows, since the clock stands still
        left.append(remaining)
    assert left == pytest.approx([30, 24 / 1.6, 14 / 2.6, 4 / 3.6, 2 / 3.8, 1 / 3.9, 0])


def test_the_running_ones_of_one_name_are_two() -> None:
    clock = Clock()
    progress = Progress({"a.cpp": [10.0, 10.0]}, 2, clock)
    progress.feed("@@0 2 1 1 0.0@@a.cpp")
    progress.feed("@@0 2 2 2 0.0@@a.cpp")
    assert progress.snapshot().running == ("a.cpp", "a.cpp")
    progress.feed("@@1 2 1 2 0.0@@a.cpp")
    assert progress.snapshot().running == ("a.cpp",)


def test_unknown_actions_cost_the_mean() -> None:
    clock = Clock()
    progress = Progress({}, 1, clock)
    progress.feed("@@1 3 1 2 0.0@@x")
    assert progress.snapshot().remaining == pytest.approx(2 / 1.1)


def test_one_long_action_is_not_spread_over_the_cores() -> None:
    clock = Clock()
    progress = Progress({"long": [60.0]}, 4, clock)
    progress.feed("@@0 1 1 1 0.0@@long")
    assert progress.snapshot().remaining == pytest.approx(60.0)
    clock.now += 30
    remaining = progress.snapshot().remaining
    assert remaining is not None
    assert 30 <= remaining <= 70


def test_running_actions_are_known_on_a_terminal() -> None:
    clock = Clock()
    progress = Progress({}, 2, clock)
    for line in (
        "@@0 3 1 1 0.0@@a",
        "@@0 3 2 2 0.0@@b",
        "@@1 3 1 2 0.3@@a",
        "@@1 3 2 3 0.3@@c",
    ):
        clock.now += 1
        assert progress.feed(line)
    assert progress.snapshot().running == ("b", "c")


def test_chunks_are_cut_into_lines_wherever_they_end() -> None:
    data = (
        b"\r@@0 2 1 1 0.0@@a\x1b[K\r@@1 2 1 1 0.1@@a\x1b[K\r\n"
        b"FAILED: a \xc3\xa4\r\nerror: boom\r\nninja: build stopped."
    )
    expected = [
        "@@0 2 1 1 0.0@@a",
        "@@1 2 1 1 0.1@@a",
        "FAILED: a ä",
        "error: boom",
        "ninja: build stopped.",
    ]
    for size in range(1, len(data) + 1):
        stream = NinjaStream()
        lines: list[str] = []
        for start in range(0, len(data), size):
            lines += stream.feed(data[start : start + size])
        assert lines + stream.end() == expected, size


NINJA = """\
rule touch
  command = touch $out
  description = CXX $out
rule fail
  command = echo 'x.cpp:1: error: boom' && false
  description = CXX $out
build a.o: touch
build b.o: fail
build c.o: touch
"""


def run_ninja(folder: Path, terminal: bool) -> list[str]:
    (folder / "build.ninja").write_text(NINJA)
    command = [str(Path(sys.executable).parent / "ninja"), "-C", str(folder), "-k0", "-j1"]
    env = {**os.environ, "NINJA_STATUS": STATUS_FORMAT, "TERM": "xterm"}
    stream = NinjaStream()
    if not terminal:
        run = subprocess.run(command, env=env, capture_output=True, check=False)
        return stream.feed(run.stdout) + stream.end()
    main, other = pty.openpty()
    fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 10_000, 0, 0))
    process = subprocess.Popen(command, env=env, stdout=other, stderr=other)
    os.close(other)
    lines: list[str] = []
    try:
        while chunk := os.read(main, 65536):
            lines += stream.feed(chunk)
    except OSError:
        # Linux tells the end of a pseudo terminal as an input/output error.
        pass
    os.close(main)
    process.wait()
    return lines + stream.end()


@pytest.mark.parametrize("terminal", [False, True])
def test_real_ninja_is_understood(terminal: bool, tmp_path: Path) -> None:
    progress = Progress({}, 1, Clock())
    others = []
    running = []
    for line in run_ninja(tmp_path, terminal):
        if not progress.feed(line):
            others.append(line)
        running.append(progress.snapshot().running)
    state = progress.snapshot()
    assert (state.finished, state.total, state.running) == (3, 3, ())
    assert "x.cpp:1: error: boom" in others
    assert not [line for line in others if line.startswith("@@")]
    assert (("CXX b.o",) in running) == terminal


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.2, "1 s"),
        (8.4, "8 s"),
        (12, "10 s"),
        (53, "55 s"),
        (56, "1 min"),
        (68, "1 min 15 s"),
        (170, "2 min 45 s"),
        (284, "4 min 45 s"),
        (285, "5 min"),
        (3599, "1 h"),
        (4800, "1 h 20 min"),
    ],
)
def test_human_seconds(seconds: float, text: str) -> None:
    assert human_seconds(seconds) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.04, "0.0 s"), (9.94, "9.9 s"), (12.3, "12 s"), (185.2, "3 min 05 s"), (59.7, "1 min 00 s")],
)
def test_exact_seconds(seconds: float, text: str) -> None:
    assert exact_seconds(seconds) == text


def test_away_from_a_terminal_one_line_at_start_and_end() -> None:
    clock, target = Clock(), io.StringIO()
    console = Console(file=target, width=20)
    with ProgressView(Progress({"a": [60.0], "b": [60.0]}, 2, clock), console) as view:
        view.feed("@@0 2 1 1 0.0@@a")
        clock.now += 30
        view.feed("@@1 2 1 2 0.0@@a")
        view.feed("a long warning of the compiler [with brackets] that is not broken")
        clock.now += 31.5
        view.feed("@@2 2 1 2 0.0@@b")
    assert target.getvalue() == (
        "2 actions to run, about 1 min\n"
        "a long warning of the compiler [with brackets] that is not broken\n"
        "2 actions run in 1 min 02 s\n"
    )


def test_nothing_to_do_says_nothing() -> None:
    target = io.StringIO()
    with ProgressView(Progress({}, 2, Clock()), Console(file=target)) as view:
        view.feed("ninja: no work to do.")
    assert target.getvalue() == "ninja: no work to do.\n"


def test_an_interrupted_build_says_how_far_it_came() -> None:
    target = io.StringIO()
    view = ProgressView(Progress({}, 2, Clock()), Console(file=target))

    def interrupted() -> None:
        with view:
            view.feed("@@1 9 1 2 0.0@@a")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert target.getvalue().splitlines()[-1] == (
        "1 of 9 actions run in 0.0 s; the next run goes on from there"
    )


def test_line_on_a_terminal() -> None:
    state = Snapshot(34, 173, ("aten/src/ATen/native/Add.cpp", "link lib/x.so"), 60.0, 130.0)
    assert live_line(state).plain == (
        "━━━───────────────── 34/173, about 2 min 15 s  Add.cpp, link x.so"
    )
    assert live_line(Snapshot(0, 0, (), 0.0, None)).plain == "checking for changes"


def test_a_path_with_a_blank_is_cut_at_its_folders() -> None:
    running = ("link '/w 1/a b_torch.so'", "aten/my op.cpp", "archive /w/libx.a")
    line = beat_line(Snapshot(1, 4, running, 30.0, 20.0))
    assert (
        line
        == "1 of 4 actions run after 30 s, about 20 s: link a b_torch.so, my op.cpp, archive libx.a"
    )


def test_live_line_goes_away_and_messages_stay() -> None:
    target = io.StringIO()
    console = Console(file=target, force_terminal=True, width=80)
    with ProgressView(Progress({}, 1, Clock()), console, auto_refresh=False) as view:
        view.feed("@@0 1 1 1 0.0@@CXX src/Add.cpp")
        view.feed("\x1b[1mwarning\x1b[0m: x")
        view.feed("@@1 1 1 1 0.0@@CXX src/Add.cpp")
    text = target.getvalue()
    assert "0/1" in text
    assert "\x1b[1mwarning\x1b[0m: x" in text
    assert text.endswith("1 action run in 0.0 s\n")


def test_where_there_is_no_terminal_it_is_told_that_work_goes_on() -> None:
    told = Event()

    class Target(io.StringIO):
        def write(self, text: str) -> int:
            if "after" in text:
                told.set()
            return super().write(text)

    target, clock = Target(), Clock()
    progress = Progress({"a/Add.cpp": [60.0], "link x": [60.0]}, 2, clock)
    with ProgressView(progress, Console(file=target), beat=0.01) as view:
        view.feed("@@0 2 1 1 0.0@@a/Add.cpp")
        view.feed("@@1 2 1 1 0.0@@a/Add.cpp")
        view.feed("@@1 2 1 2 0.0@@link x")
        clock.now += 30
        assert told.wait(10)
    assert "1 of 2 actions run after 30 s, about 20 s: link x\n" in target.getvalue()
    assert target.getvalue().endswith("1 of 2 actions run in 30 s\n")


def test_what_a_beat_tells() -> None:
    assert beat_line(Snapshot(0, 0, (), 0.0, None)) == "checking for changes"
    assert beat_line(Snapshot(3, 9, (), 61.0, None)) == "3 of 9 actions run after 1 min 01 s"


def test_each_command_is_told_where_that_is_asked_for() -> None:
    target = io.StringIO()
    with ProgressView(Progress({}, 1, Clock()), Console(file=target), verbose=True) as view:
        view.feed("@@0 2 1 1 0.0@@CXX src/Add.cpp")
        view.feed("@@1 2 0 1 0.0@@CXX src/Add.cpp")
        view.feed("@@2 2 0 2 0.0@@link x")
    assert target.getvalue() == (
        "2 actions to run, about 2 s\n[1/2] CXX src/Add.cpp\n[2/2] link x\n2 actions run in 0.0 s\n"
    )
