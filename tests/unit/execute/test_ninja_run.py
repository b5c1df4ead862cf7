"""Running ninja for real: what it reports, what it leaves after a failure or an interruption."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
from core_toy import ROOT
from golden_files import Golden

from orchestrator.execute.ninja_progress import parse_status
from orchestrator.execute.ninja_run import (
    ActionFailedError,
    NinjaResult,
    failure_error,
    ninja_binary,
    run_ninja,
)

CASES = ROOT / "tests/failing/build"
# `cc` of the cases: SOURCE OUT copies; a source that says `!` fails, with that line as its text.
CC = """\
#!/bin/sh
if grep -q '^!' "$1"; then sed -n 's/^!//p' "$1" >&2; exit 1; fi
if grep -q '^killed' "$1"; then kill -9 $$; fi
cp "$1" "$2"
"""


def workspace(folder: Path, sources: dict[str, str]) -> Path:
    """A folder with a build.ninja that compiles every source, then links them all."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "cc").write_text(CC)
    (folder / "cc").chmod(0o755)
    lines = ["rule cc", "  command = ./cc $in $out", "  description = $unit"]
    lines += ["rule link", "  command = cat $in > $out", "  description = link $out"]
    for name, text in sources.items():
        (folder / name).write_text(text)
        lines += [f"build {name}.o: cc {name} | cc", f"  unit = src/{name}"]
    lines += ["build all: link " + " ".join(f"{name}.o" for name in sources), "default all"]
    (folder / "build.ninja").write_text("\n".join(lines) + "\n")
    return folder / "build.ninja"


def run(
    file: Path,
    monkeypatch: pytest.MonkeyPatch,
    keep_going: bool = False,
    targets: tuple[str, ...] = (),
) -> tuple[NinjaResult, list[str]]:
    monkeypatch.chdir(file.parent)
    fed: list[str] = []
    result = run_ninja(
        file, targets, env=os.environ, folder=Path(), jobs=1, keep_going=keep_going, feed=fed.append
    )
    return result, fed


def described(fed: list[str]) -> list[str]:
    """What finished, in order."""
    found = [status for line in fed if (status := parse_status(line))]
    before = [0, *(status.finished for status in found)]
    return [
        status.description.strip()
        for status, count in zip(found, before, strict=False)
        if status.finished > count
    ]


def test_starts_are_told_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, fed = run(workspace(tmp_path, {"a.c": "a\n"}), monkeypatch)
    found = [status for line in fed if (status := parse_status(line))]
    assert [(one.description, one.started, one.finished) for one in found] == [
        ("src/a.c", 1, 0),
        ("src/a.c", 1, 1),
        ("link all", 2, 1),
        ("link all", 2, 2),
    ]


def test_where_there_is_no_pseudo_terminal_ends_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none() -> None:
        raise OSError("out of pty devices")

    monkeypatch.setattr("os.openpty", none)
    file = workspace(tmp_path, {"a.c": "a\n", "b.c": "!b.c:1:1: error: no\n"})
    result, fed = run(file, monkeypatch, keep_going=True)
    assert result == NinjaResult(2, {"b.c.o": "./cc b.c b.c.o\nb.c:1:1: error: no"})
    assert described(fed) == ["src/a.c", "src/b.c"]
    assert len(fed) == 2


def test_what_was_done_and_then_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = workspace(tmp_path, {"a.c": "a\n", "b.c": "b\n"})
    result, fed = run(file, monkeypatch)
    assert result == NinjaResult(3, {})
    assert described(fed) == ["src/a.c", "src/b.c", "link all"]
    assert (tmp_path / "all").read_text() == "a\nb\n"
    assert run(file, monkeypatch) == (NinjaResult(0, {}), [])


def test_targets_are_a_part_of_the_graph(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = workspace(tmp_path, {"a.c": "a\n", "b.c": "b\n"})
    assert run(file, monkeypatch, targets=("b.c.o",))[0] == NinjaResult(1, {})
    assert not (tmp_path / "a.c.o").exists()


@pytest.mark.parametrize("case", sorted(p.name for p in CASES.iterdir()))
def test_the_error_of_a_failed_action(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, golden: Golden
) -> None:
    """A case is a folder of sources and the whole error text."""
    sources = {p.name: p.read_text() for p in sorted((CASES / case).glob("*.c"))}
    file = workspace(tmp_path / "work", sources)
    result, _ = run(file, monkeypatch, keep_going=True)
    names = {f"{name}.o": f"native/{name}" for name in sources}
    log = tmp_path / "failures.log"
    error = failure_error(result, names, result.actions, log)
    assert isinstance(error, ActionFailedError)
    seen = error.render().replace(str(tmp_path), "<folder>") + "\n"
    golden(CASES / case / "expected.txt", seen)
    for name in result.failures:
        assert f"{name}\n./cc {name.removesuffix('.o')} {name}" in log.read_text()


def test_what_did_not_fail_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = workspace(tmp_path, {"a.c": "a\n", "b.c": "!b.c:1:1: error: no\n", "c.c": "c\n"})
    result, _ = run(file, monkeypatch, keep_going=True)
    # with the command, and without what ninja says of the next one
    assert result.failures == {"b.c.o": "./cc b.c b.c.o\nb.c:1:1: error: no"}
    assert not (tmp_path / "b.c.o").exists()
    (tmp_path / "b.c").write_text("b\n")
    assert described(run(file, monkeypatch)[1]) == ["src/b.c", "link all"]


def test_colours_are_left_out_of_errors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = workspace(tmp_path, {"a.c": "!a.c:1: \x1b[1;31merror:\x1b[0m no\x1b[K\n"})
    result, _ = run(file, monkeypatch)
    assert result.failures == {"a.c.o": "./cc a.c a.c.o\na.c:1: error: no"}


def test_without_keep_going_the_first_failure_ends_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = workspace(tmp_path, {"a.c": "!error: a\n", "b.c": "!error: b\n"})
    result, _ = run(file, monkeypatch)
    assert list(result.failures) == ["a.c.o"]


def test_ninjas_own_complaints_are_failures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = workspace(tmp_path, {"a.c": "a\n"})
    (tmp_path / "a.c").unlink()
    result, _ = run(file, monkeypatch)
    error = failure_error(result, {}, result.actions, tmp_path / "log")
    assert error.what == "ninja failed to build"
    assert error.seen == (
        "ninja: error: 'a.c', needed by 'a.c.o', missing and no known rule to make it"
    )


def test_ninjas_first_complaint_is_told(tmp_path: Path) -> None:
    text = "ninja: error: mkdir(/c/objects): Read-only file system\nninja: build stopped: ."
    error = failure_error(NinjaResult(0, {"ninja": text}), {}, 0, tmp_path / "log")
    assert error.seen == "ninja: error: mkdir(/c/objects): Read-only file system"


def test_a_ninja_that_is_stopped_tells_its_own_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No action failed: its progress is not the reason."""
    file = workspace(tmp_path, {"a": "a\n", "b": "stop\n"})
    (tmp_path / "cc").write_text(CC.replace("'^killed'", "'^stop'").replace("-9 $$", "-INT $PPID"))
    result, fed = run(file, monkeypatch)
    assert fed
    assert result.failures == {"ninja": "ninja: build stopped: interrupted by user."}


def test_a_ninja_that_dies_silently(tmp_path: Path) -> None:
    error = failure_error(NinjaResult(0, {"ninja": ""}), {}, 0, tmp_path / "log")
    assert (error.what, error.seen) == ("ninja failed to build", "ninja failed without output")


def test_the_ninja_is_the_packages_own() -> None:
    done = subprocess.run([ninja_binary(), "--version"], capture_output=True, check=True, text=True)
    assert re.fullmatch(r"1\.\d+\.\d+.*", done.stdout.strip())


def test_a_view_that_fails_stops_ninja(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing goes on in the background."""
    file = workspace(tmp_path, {"a.c": "a\n", "b.c": "b\n"})
    slow = (tmp_path / "cc").read_text().replace('cp "$1" "$2"', 'cp "$1" "$2"; sleep 0.3')
    (tmp_path / "cc").write_text(slow)

    def feed(line: str) -> None:
        raise BrokenPipeError

    monkeypatch.chdir(tmp_path)
    with pytest.raises(BrokenPipeError):
        run_ninja(file, [], env=os.environ, folder=Path(), jobs=1, keep_going=False, feed=feed)
    time.sleep(0.5)
    assert not (tmp_path / "all").exists()


# A process of its own, as `orchestrator build` is, that is interrupted in the middle.
PROGRAM = """
import os, sys
from pathlib import Path
from orchestrator.execute.ninja_run import run_ninja
try:
    run_ninja(
        Path("build.ninja"),
        [],
        env=os.environ,
        folder=Path(),
        jobs=1,
        keep_going=False,
        feed=print,
    )
except KeyboardInterrupt:
    sys.exit(130)
"""


def test_an_interruption_stops_ninja_and_the_next_run_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = workspace(tmp_path, {"a.c": "a\n", "b.c": "b\n", "c.c": "c\n"})
    good = (tmp_path / "cc").read_text()
    # b hangs, its output half written
    (tmp_path / "cc").write_text(
        good.replace('cp "$1"', 'if [ "$1" = b.c ]; then echo half > "$2"; sleep 60; fi\ncp "$1"')
    )
    stamp = (tmp_path / "cc").stat()
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(PROGRAM)], cwd=tmp_path, env=environment
    )
    deadline = time.monotonic() + 30
    while not (tmp_path / "b.c.o").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    started = time.monotonic()
    # to the orchestrator alone, as `kill -INT` does; a terminal's Ctrl-C reaches ninja as well
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=30) == 130
    assert time.monotonic() - started < 20
    assert (tmp_path / "a.c.o").read_text() == "a\n"
    assert not (tmp_path / "b.c.o").exists()
    (tmp_path / "cc").write_text(good)
    os.utime(tmp_path / "cc", ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    assert described(run(file, monkeypatch)[1]) == ["src/b.c", "src/c.c", "link all"]
    shutil.rmtree(tmp_path)
