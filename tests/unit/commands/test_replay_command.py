"""The fast path of a build: what it must notice, and that it says that it is a replay."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from orchestrator import cli
from orchestrator.build.delivering.inputs_read import InputsRead
from orchestrator.commands import replay as unchanged
from orchestrator.commands.replay import difference, forget, keep, replay_last_build, started
from orchestrator.report.events import chrome_trace, read_events
from orchestrator.system.environment import Environment

ARGV = ("build", "//...")
REPORT = "camera ok\n"
FILES = ("WORKSPACE", "apps/camera/app.yaml", "elsewhere/camera.ptl", "bin/g++")
OBJECT = "objects/a.o"
MADE = ("cache/generated", "dist/camera/linux-x86_64/lib/libcamera_torch.so")
NEVER = 2**63
NINJA = "rule copy\n  command = cp $in $out\nbuild made: copy given\n"


class Workspace:
    """A workspace of which a report is kept, and the environment that it was built in."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.env = {"PATH": "/usr/bin:/bin", "HOME": "/home/somebody", "TERM": "xterm"}
        for name in (*FILES, *MADE, OBJECT):
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(name)
        (root / ".orchestrator").mkdir()
        (root / ".orchestrator/build.ninja").write_text(NINJA)
        (root / "given").touch()
        ninja = str(Path(sys.executable).with_name("ninja"))
        argv = [ninja, "-f", str(root / ".orchestrator/build.ninja")]
        subprocess.run(argv, cwd=root, check=True, capture_output=True)
        self.read = InputsRead(
            read=frozenset(root / name for name in FILES),
            sought=frozenset([root / "first/g++"]),
            made=frozenset([*(root / name for name in MADE), root / "dist/camera/linux-x86_64"]),
            objects=frozenset([root / OBJECT]),
            patterns=((root, "apps/*/app.y*ml"), (root, "toolchains/*.y*ml")),
        )

    def keep(self, *looked_up: str, since: int = NEVER) -> bool:
        env = Environment(self.env)
        env.looked_up.update(looked_up)
        return keep(self.root, ARGV, env, self.read, REPORT, folder=self.root, since=since)

    def kept(self) -> str:
        return (self.root / ".orchestrator/last-build.json").read_text()

    def differs(self, argv: tuple[str, ...] = ARGV) -> str | None:
        found = difference(json.loads(self.kept()), self.root, argv, self.env, self.root)
        return found and found.replace(str(self.root), "$root")

    def told(self) -> bool:
        return replay_last_build(ARGV, self.env, self.root)


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path)


def test_nothing_has_changed(workspace: Workspace, capsys: pytest.CaptureFixture[str]) -> None:
    assert workspace.keep("HOME", "JAVA_HOME")
    assert workspace.differs() is None
    assert replay_last_build(ARGV, workspace.env, workspace.root / "apps/camera")
    assert capsys.readouterr().out == REPORT


@pytest.mark.parametrize("name", [*FILES, *MADE])
@pytest.mark.parametrize("change", ["deleted", "written", "replaced", "of its old size and time"])
def test_every_file_counts(name: str, change: str, workspace: Workspace) -> None:
    workspace.keep()
    path = workspace.root / name
    if change == "deleted":
        path.unlink()
    elif change == "written":
        path.write_text("of another length")
    elif change == "replaced":
        path.with_name("new").write_text(name)
        path.with_name("new").replace(path)
    else:
        times = (path.stat().st_atime_ns, path.stat().st_mtime_ns)
        path.write_text(name.swapcase())
        os.utime(path, ns=times)
    # an app that goes, goes from the list of apps first
    at = "apps/*/app.y*ml" if change == "deleted" and name.endswith("app.yaml") else name
    assert workspace.differs() == f"$root/{at}"
    assert not workspace.told()


@pytest.mark.parametrize("change", ["deleted", "written", "replaced"])
def test_objects_count(change: str, workspace: Workspace) -> None:
    workspace.keep()
    path = workspace.root / OBJECT
    if change == "written":
        path.write_text("of another length")
    else:
        path.rename(path.with_name("old"))
        if change == "replaced":
            shutil.copy2(path.with_name("old"), path)
    assert workspace.differs() == f"$root/{OBJECT}"


def test_another_workspace_may_link_an_object(workspace: Workspace) -> None:
    workspace.keep()
    time.sleep(0.05)
    (workspace.root / "another.o").hardlink_to(workspace.root / OBJECT)
    assert workspace.differs() is None


def change_env(name: str, value: str | None) -> Callable[[Workspace], None]:
    def change(workspace: Workspace) -> None:
        workspace.env.pop(name, None)
        if value is not None:
            workspace.env[name] = value

    return change


def write(name: str) -> Callable[[Workspace], None]:
    def change(workspace: Workspace) -> None:
        path = workspace.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)

    return change


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        # what compilers get of the whole environment
        (change_env("PATH", "/opt/bin:/usr/bin:/bin"), "PATH"),
        (change_env("CPATH", "/opt/include"), "CPATH"),
        (change_env("CCACHE_DIR", "/tmp"), "CCACHE_DIR"),
        (change_env("CCC_OVERRIDE_OPTIONS", "+-O0"), "CCC_OVERRIDE_OPTIONS"),
        # what models' runs get of it
        (change_env("LTA_CPU_LEVEL", "baseline"), "LTA_CPU_LEVEL"),
        (change_env("LTA_THREADS", "1"), "LTA_THREADS"),
        # what was looked up, set or not
        (change_env("HOME", "/home/other"), "HOME"),
        (change_env("HOME", None), "HOME"),
        (change_env("PINNED", "/src"), "PINNED"),
        # what was not there
        (write("apps/new/app.yaml"), "$root/apps/*/app.y*ml"),
        (write("apps/camera/app.yml"), "$root/apps/*/app.y*ml"),
        (write("toolchains/linux.yaml"), "$root/toolchains/*.y*ml"),
        (write("first/g++"), "$root/first/g++"),
        # a folder's names
        (write("dist/camera/linux-x86_64/more"), "$root/dist/camera/linux-x86_64"),
    ],
)
def test_what_else_counts(
    change: Callable[[Workspace], None], expected: str, workspace: Workspace
) -> None:
    workspace.keep("HOME", "PINNED")
    change(workspace)
    assert workspace.differs() == expected
    assert not workspace.told()


def test_what_does_not_count(workspace: Workspace) -> None:
    workspace.keep("HOME")
    workspace.env["TERM"] = "dumb"
    workspace.env["SHLVL"] = "3"
    write("apps/camera/notes.txt")(workspace)
    assert workspace.differs() is None


def test_other_words_are_another_build(workspace: Workspace) -> None:
    workspace.keep()
    assert workspace.differs((*ARGV, "--json")) == "command"


@pytest.mark.parametrize("words", [("--trace", "ran.json"), ("--trace=ran.json",)])
def test_files_of_events_tell_that_nothing_was_done(
    words: tuple[str, ...], workspace: Workspace
) -> None:
    workspace.keep()
    argv = ("build", *words, "//...", "--events", str(workspace.root / "ran.jsonl"))
    assert workspace.differs(argv) is None
    folder = workspace.root / "apps"
    assert replay_last_build(argv, workspace.env, folder)
    events = read_events((workspace.root / "ran.jsonl").read_text())
    assert [one.event for one in events] == ["begun", "stage", "ended"]
    assert events[-1].said == "up to date; report replayed"
    told, as_built = json.loads((folder / "ran.json").read_text()), json.loads(chrome_trace(events))
    assert [row.keys() for row in told["traceEvents"]] == [
        row.keys() for row in as_built["traceEvents"]
    ]
    (told["traceEvents"][0]["dur"], as_built["traceEvents"][0]["dur"]) = (0, 0)
    assert told == as_built
    # what cannot be written is the build's to tell
    assert not replay_last_build((*ARGV, "--trace", "no/such/folder"), workspace.env, folder)


def test_another_folder_counts_where_path_depends_on_it(workspace: Workspace) -> None:
    workspace.env["PATH"] = "bin:/usr/bin"
    workspace.keep()
    kept = json.loads(workspace.kept())
    assert difference(kept, workspace.root, ARGV, workspace.env, Path.cwd()) is None
    assert difference(kept, workspace.root, ARGV, workspace.env, workspace.root) == "command"


def test_a_copied_workspace_is_another_one(workspace: Workspace, tmp_path: Path) -> None:
    workspace.keep()
    copy = tmp_path / "copy"
    shutil.copytree(workspace.root, copy, ignore=shutil.ignore_patterns("copy"))
    assert not replay_last_build(ARGV, workspace.env, copy)


def test_the_orchestrators_own_files_count(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    package = tmp_path / "package"
    (package / "__pycache__").mkdir(parents=True)
    (package / "cli.py").write_text("1")
    monkeypatch.setattr(unchanged, "_PACKAGE", package)
    workspace.keep()
    (package / "__pycache__/cli.pyc").write_text("2")
    assert workspace.differs() is None
    (package / "new.py").write_text("2")
    assert workspace.differs() == "$root/package"


def test_ninja_has_the_last_word(workspace: Workspace) -> None:
    workspace.keep()
    assert workspace.told()
    os.utime(workspace.root / "given", (time.time() + 9, time.time() + 9))
    assert workspace.differs() is None
    assert not workspace.told()


@pytest.mark.parametrize(
    "name", ["elsewhere/camera.ptl", "apps/new/app.yaml", "first/g++", "apps/camera/app.yaml"]
)
def test_what_changed_while_it_was_built_is_not_kept(name: str, workspace: Workspace) -> None:
    time.sleep(0.05)
    since = started(workspace.root)
    assert workspace.keep(since=since)
    forget(workspace.root)
    time.sleep(0.05)
    write(name)(workspace)
    assert not workspace.keep(since=since)
    assert not (workspace.root / ".orchestrator/last-build.json").exists()


def test_what_was_read_and_is_gone_is_not_kept(workspace: Workspace) -> None:
    (workspace.root / "elsewhere/camera.ptl").unlink()
    assert not workspace.keep()


def test_what_the_build_made_may_be_new(workspace: Workspace) -> None:
    time.sleep(0.05)
    since = started(workspace.root)
    time.sleep(0.05)
    (workspace.root / MADE[0]).write_text("compiled")
    assert workspace.keep(since=since)


def test_a_file_of_the_future_does_not_slow_every_build(workspace: Workspace) -> None:
    """Whatever time was set on it: when it was set counts."""
    os.utime(workspace.root / FILES[0], (2**33, 2**33))
    time.sleep(0.05)
    assert workspace.keep(since=started(workspace.root))


def test_a_secret_is_not_written(workspace: Workspace) -> None:
    workspace.env |= {"SCCACHE_WEBDAV_PASSWORD": "hunter2", "ASKED": "hunter3"}
    workspace.keep("ASKED")
    assert "SCCACHE_WEBDAV_PASSWORD" in workspace.kept()
    assert "ASKED" in workspace.kept()
    assert "hunter" not in workspace.kept()


@pytest.mark.parametrize("text", ["", "{}", "[]", "null", '{"format": 1}', "{", '{"format": 2}'])
def test_a_damaged_record_is_none(text: str, workspace: Workspace) -> None:
    (workspace.root / ".orchestrator/last-build.json").write_text(text)
    assert not workspace.told()


@pytest.mark.parametrize("part", ["command", "environment", "paths", "patterns", "folder"])
def test_a_record_with_another_part_is_none(part: str, workspace: Workspace) -> None:
    workspace.keep()
    kept = {**json.loads(workspace.kept()), part: 7}
    (workspace.root / ".orchestrator/last-build.json").write_text(json.dumps(kept))
    assert not workspace.told()


def test_a_build_begins_without_a_record(workspace: Workspace) -> None:
    workspace.keep()
    forget(workspace.root)
    forget(workspace.root)
    assert not workspace.told()


def test_odd_names_are_kept_and_found(workspace: Workspace) -> None:
    odd = workspace.root / os.fsdecode(b"a\xff\nb")
    odd.touch()
    workspace.env["PATH"] = os.fsdecode(b"/usr/bin:/a\xff")
    workspace.read = replace(workspace.read, read=workspace.read.read | {odd})
    assert workspace.keep()
    assert workspace.differs() is None
    odd.write_text("x")
    assert workspace.differs() == "$root/a\udcff\nb"


def test_the_command_line_tells_it(
    workspace: Workspace, capsys: pytest.CaptureFixture[str]
) -> None:
    workspace.keep()
    assert cli.main(ARGV, env=workspace.env, cwd=workspace.root) == 0
    assert capsys.readouterr() == (REPORT, "")


def test_the_fast_path_imports_little() -> None:
    """Of the standard library too: what takes its time is imported where it is needed."""
    code = (
        "import sys, os; from pathlib import Path; from orchestrator.cli import main;"
        "from orchestrator.commands.replay import replay_last_build;"
        "replay_last_build(['build'], os.environ, Path('/'));"
        "print(','.join(sorted(m for m in sys.modules if m.startswith('orchestrator.')"
        " or m in ('shutil', 'datetime', 'secrets', 'yaml', 'pydantic', 'rich'))))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip().split(",") == [
        "orchestrator.cli",
        "orchestrator.commands",
        "orchestrator.commands.replay",
        "orchestrator.context",
        "orchestrator.errors",
        "orchestrator.system",
        "orchestrator.system.environment",
        "orchestrator.system.interrupts",
        "orchestrator.system.process",
        "orchestrator.system.reading",
        "orchestrator.system.terminal",
    ]
