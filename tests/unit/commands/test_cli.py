"""The command line: help, usage errors, and every kind of failure with its text and exit code."""

from __future__ import annotations

import argparse
import errno
import io
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from orchestrator import cli
from orchestrator.commands import COMMANDS, Command, CommandModule
from orchestrator.context import Context
from orchestrator.errors import OrchestratorError, Place

WORKSPACE = f"""\
version: 1
runtime:
  pytorch: 1.13.1
  tree: "{"0" * 64}"
  sources: [path: here]
"""


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    (tmp_path / "WORKSPACE").write_text(WORKSPACE)
    return tmp_path


class _Verb:
    """A verb whose work is a function."""

    NAME = "work"
    HELP = "Works."
    EXAMPLE = "./orchestrate work 3"

    def __init__(self, work: Callable[[argparse.Namespace, Context], int]) -> None:
        self.run = work

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("number", type=int, nargs="?")
        parser.add_argument("--json", action="store_true")


@pytest.fixture
def verb(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Register a verb `work` that does what is given."""

    def register(work: Callable[..., int], waits: bool = False) -> None:
        command = SimpleNamespace(
            help="work", load=lambda: _Verb(work), in_workspace=True, waits=waits
        )
        monkeypatch.setattr(cli, "COMMANDS", {"work": command})

    return register


def _raise(error: BaseException) -> Callable[..., int]:
    def work(arguments: argparse.Namespace, context: Context) -> int:
        raise error

    return work


def test_a_verb_that_waits_for_its_user_may_be_silent(
    workspace: Path, verb: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[bool] = []

    def heartbeat(quiet: bool) -> AbstractContextManager[None]:
        asked.append(quiet)
        return nullcontext()

    monkeypatch.setattr("orchestrator.system.heartbeat.heartbeat", heartbeat)
    for waits in (False, True):
        verb(lambda arguments, context: 0, waits)
        assert cli.main(["work"], env={}, cwd=workspace) == 0
    assert asked == [False, True]
    assert [name for name, command in COMMANDS.items() if command.waits] == ["watch"]


def test_help_names_every_verb(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--help"], env={}) == 0
    out = capsys.readouterr().out
    for name, command in COMMANDS.items():
        assert re.search(rf"^  {name} +{re.escape(command.help)}$", out, re.MULTILINE)
    assert cli.main([], env={}) == 0
    assert capsys.readouterr().out == out


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_each_verb_has_help_with_an_example(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    module: CommandModule = COMMANDS[name].load()
    assert name == module.NAME
    assert cli.main([name, "--help"], env={}) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"usage: ./orchestrate {name} ")
    assert module.HELP in out
    assert f"\nexample:\n  ./orchestrate {name}" in out


def test_help_is_fast() -> None:
    """It must not import the pipeline; the time allows for a busy machine."""
    code = (
        "import sys; from orchestrator.cli import main; main(['--help']);"
        "sys.stderr.write(','.join(m for m in ('pydantic', 'yaml', 'rich', 'jinja2')"
        " if m in sys.modules))"
    )
    before = os.times().children_user
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    assert os.times().children_user - before < 0.5


def test_run_does_not_load_what_delivers() -> None:
    """Bills of materials and signatures take longer to import than a shard to plan."""
    code = (
        "import sys, orchestrator.commands.run;"
        "sys.stderr.write(','.join(m for m in ('cyclonedx', 'minisign') if m in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == ""


def test_options_stand_between_patterns() -> None:
    parser = cli._verb_parser(COMMANDS["plan"].load())
    words = ["//apps/camera", "--json", "//apps/scanner", "--quiet"]
    found = cli._parsed(parser, words, argparse.Namespace())
    assert found is not None
    assert (found.patterns, found.json, found.quiet) == ([words[0], words[2]], True, True)


def test_options_go_before_or_after_the_verb(
    workspace: Path, verb: Callable[[Callable[..., int]], None]
) -> None:
    seen: list[tuple[Any, ...]] = []

    def work(arguments: argparse.Namespace, context: Context) -> int:
        seen.append((arguments.quiet, arguments.number, context.root))
        return 0

    verb(work)
    elsewhere = Path("/")
    for words in (
        ["--quiet", "--workspace", str(workspace), "work", "3"],
        ["work", "--workspace", str(workspace), "3", "--quiet"],
    ):
        assert cli.main(words, env={}, cwd=elsewhere) == 0
    assert seen == [(True, 3, workspace)] * 2


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (
            ["clen"],
            "error: unknown verb `clen`\n"
            f"  expected: {', '.join(sorted((*COMMANDS, 'help')))}\n"
            "  do:       did you mean `clean`?\n",
        ),
        (
            ["zzzz"],
            "error: unknown verb `zzzz`\n"
            f"  expected: {', '.join(sorted((*COMMANDS, 'help')))}\n"
            "  do:       see `./orchestrate --help`\n",
        ),
        (
            ["clean", "--cach"],
            "error: unrecognized arguments: --cach\n"
            "  do:       did you mean `--cache`? see `./orchestrate clean --help`\n",
        ),
        (["--quiet"], "error: no verb given\n  do:       see `./orchestrate --help`\n"),
        (
            ["--nope"],
            "error: unrecognized arguments: --nope\n  do:       see `./orchestrate --help`\n",
        ),
    ],
)
def test_usage_errors(
    words: list[str], text: str, workspace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(words, env={}, cwd=workspace) == 1
    assert capsys.readouterr().err == text


def test_no_workspace(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["clean"], env={}, cwd=tmp_path) == 1
    assert capsys.readouterr().err == (
        "error: no workspace found\n"
        "  expected: a file WORKSPACE in this folder or a parent folder\n"
        f"  seen:     {tmp_path}\n"
        "  do:       change to a workspace, pass --workspace DIR, or create one here:"
        " orchestrate init\n"
    )


def test_a_workspace_that_is_no_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["clean", "--workspace", "nowhere"], env={}, cwd=tmp_path) == 1
    assert capsys.readouterr().err == (
        f"error: --workspace is not a folder\n  seen:     {tmp_path}/nowhere\n"
        "  do:       check the path; for a new workspace make the folder first\n"
    )


@pytest.mark.parametrize(
    ("declared", "env", "cache"),
    [
        ("", {"HOME": "/home/me"}, "/home/me/.cache/libtorch-orchestrator"),
        ("", {"HOME": "/h", "XDG_CACHE_HOME": "/xdg"}, "/xdg/libtorch-orchestrator"),
        ("", {"HOME": "/h", "XDG_CACHE_HOME": "rel"}, "/h/.cache/libtorch-orchestrator"),
        ("cache: mine", {"XDG_CACHE_HOME": "/xdg"}, "{root}/mine"),
        ("cache: ~/mine", {"HOME": "/home/me"}, "/home/me/mine"),
        ("cache: ${FAST}/mine", {"FAST": "/fast"}, "/fast/mine"),
        ("cache: mine", {"ORCHESTRATOR_CACHE": "/first"}, "/first"),
        ("cache: mine", {"ORCHESTRATOR_CACHE": "near"}, "{root}/near"),
        # as a CI system's file has it, for which no shell expands it
        ("", {"ORCHESTRATOR_CACHE": "~/x", "HOME": "/home/me"}, "/home/me/x"),
        ("", {"ORCHESTRATOR_CACHE": "$FAST/x", "FAST": "/fast"}, "/fast/x"),
        ("", {"ORCHESTRATOR_CACHE": "/a$$FAST/$$$$x", "FAST": "/fast"}, "/a$FAST/$$x"),
    ],
)
def test_the_cache_folder(declared: str, env: dict[str, str], cache: str, workspace: Path) -> None:
    (workspace / "WORKSPACE").write_text(WORKSPACE + declared)
    below = workspace / "apps" / "camera"
    below.mkdir(parents=True)
    context = cli.make_context(argparse.Namespace(workspace=None), env, below)
    assert context == Context(
        root=workspace,
        cache=Path(cache.format(root=workspace)),
        state=workspace / ".orchestrator",
        dist=workspace / "dist",
        env=env,
    )


def test_a_cache_with_an_unset_variable(
    workspace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (workspace / "WORKSPACE").write_text(WORKSPACE + "cache: $FAST/mine\n")
    assert cli.main(["clean"], env={}, cwd=workspace) == 1
    assert capsys.readouterr().err == (
        "WORKSPACE:6:8: error: the cache folder's path uses an unset variable\n"
        "  seen:     $FAST/mine\n"
        "  do:       set it, or set ORCHESTRATOR_CACHE\n"
    )


@pytest.mark.parametrize(
    ("declared", "env", "told"),
    [
        (
            "",
            {"ORCHESTRATOR_CACHE": "~me/x"},
            "error: `~user` is not supported\n"
            "  expected: an absolute path, or one with `~/` or `$VARIABLE`\n"
            "  seen:     ORCHESTRATOR_CACHE=~me/x\n",
        ),
        (
            "",
            {"ORCHESTRATOR_CACHE": "$NOPE/x"},
            "error: the cache folder's path uses an unset variable\n"
            "  seen:     ORCHESTRATOR_CACHE=$NOPE/x\n"
            "  do:       set it, or write the path out\n",
        ),
        (
            "",
            {"ORCHESTRATOR_CACHE": "/a\nb"},
            "error: the cache folder's path contains a character that generated files cannot hold\n"
            "  expected: a path in UTF-8 without control characters, `\\` or `%`\n"
            "  seen:     /a\\nb\n"
            "  do:       set ORCHESTRATOR_CACHE to another one\n",
        ),
        (
            "cache: ~me/x",
            {"HOME": "/home/me"},
            "WORKSPACE:6:8: error: `~user` is not supported\n"
            "  expected: an absolute path, or one with `~/` or `$VARIABLE`\n"
            "  seen:     ~me/x\n",
        ),
        (
            "",
            {"HOME": "me"},
            "error: the home folder is not known\n"
            "  expected: an absolute path in HOME\n"
            "  seen:     me\n"
            "  do:       set HOME, or ORCHESTRATOR_CACHE\n",
        ),
    ],
)
def test_a_cache_folder_that_nobody_meant(
    declared: str,
    env: dict[str, str],
    told: str,
    workspace: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (workspace / "WORKSPACE").write_text(WORKSPACE + declared)
    before = sorted(workspace.rglob("*"))
    assert cli.main(["plan", "//..."], env=env, cwd=workspace) == 1
    assert capsys.readouterr().err == told
    assert sorted(workspace.rglob("*")) == before


def test_a_cache_of_a_relative_name_that_begins_oddly(workspace: Path) -> None:
    env = {"ORCHESTRATOR_CACHE": "./~/x"}
    context = cli.make_context(argparse.Namespace(workspace=None), env, workspace)
    assert context.cache == workspace / "~/x"


@pytest.mark.parametrize(
    ("name", "shown"),
    [("a\nb", "a\\nb"), ("\udcff", "\\udcff"), ("a\\b", "a\\b"), ("100%", "100%")],
)
def test_a_workspace_that_generated_files_cannot_name(
    name: str, shown: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / name
    folder.mkdir()
    (folder / "WORKSPACE").write_text(WORKSPACE)
    assert cli.main(["build", "//..."], env={"HOME": "/home/me"}, cwd=folder) == 1
    assert capsys.readouterr().err == (
        "error: the workspace's path contains a character that generated files cannot hold\n"
        "  expected: a path in UTF-8 without control characters, `\\` or `%`\n"
        f"  seen:     {tmp_path}/{shown}\n"
        "  do:       rename or move its folder\n"
    )


def test_a_user_that_this_machine_does_not_know(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["clean", "--workspace", "~nobody-here"], env={}, cwd=tmp_path) == 1
    assert capsys.readouterr().err == (
        f"error: --workspace is not a folder\n  seen:     {tmp_path}/~nobody-here\n"
        "  do:       check the path; for a new workspace make the folder first\n"
    )


def _os_error(number: int) -> OSError:
    return OSError(number, os.strerror(number), "/some/file")


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (
            OrchestratorError("it went wrong", place=Place("f", 1, 2), hint="do it right"),
            1,
            "f:1:2: error: it went wrong\n  do:       do it right\n",
        ),
        (KeyboardInterrupt(), 130, "interrupted\n"),
        (
            _os_error(errno.ENOSPC),
            1,
            "error: no space left to write /some/file\n"
            "  seen:     No space left on device\n"
            "  do:       free some space, `./orchestrate clean` helps, or set ORCHESTRATOR_CACHE to"
            " a folder on another disk; then run the same command again\n",
        ),
        (
            # of a write, Python does not say which file
            OSError(errno.EFBIG, "File too large"),
            1,
            "error: a file would be larger than this process or the file system may write\n"
            "  seen:     File too large\n"
            "  do:       lift the limit, `ulimit -f unlimited`, or move the workspace and"
            " ORCHESTRATOR_CACHE to another file system; then run the same command again\n",
        ),
        (
            _os_error(errno.EROFS),
            1,
            "error: /some/file is on a read-only file system\n"
            "  seen:     Read-only file system\n"
            "  do:       mount it writable, or work in a copy of the workspace"
            " elsewhere\n",
        ),
        (
            _os_error(errno.ENAMETOOLONG),
            1,
            "error: a file's name or path is too long for the file system\n"
            "  seen:     /some/file\n"
            "  do:       shorten it, or move the workspace or ORCHESTRATOR_CACHE to a shorter"
            " path\n",
        ),
        (
            _os_error(errno.EACCES),
            1,
            "error: permission denied: /some/file\n"
            "  seen:     Permission denied\n"
            "  do:       correct its owner or mode\n",
        ),
        (
            OSError(errno.EISDIR, "Is a directory", "/some/.part", None, "/some/file"),
            1,
            "error: /some/file cannot be used: a folder is where a file should be\n"
            "  seen:     Is a directory\n"
            "  do:       remove what is there, then run the same command again\n",
        ),
        (
            _os_error(errno.ENOTDIR),
            1,
            "error: /some/file cannot be used: a file is where a folder should be\n"
            "  seen:     Not a directory\n"
            "  do:       remove what is there, then run the same command again\n",
        ),
    ],
)
def test_failures(
    error: BaseException,
    code: int,
    text: str,
    workspace: Path,
    verb: Callable[[Callable[..., int]], None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    verb(_raise(error))
    assert cli.main(["work"], env={}, cwd=workspace) == code
    assert capsys.readouterr() == ("", text)


# A process of its own, with a verb in which a library makes something else of Ctrl-C.
TRANSLATED = """\
import os, signal, sys, time
from orchestrator import cli
from orchestrator.commands import plan
from orchestrator.errors import OrchestratorError
from orchestrator.system.process import LOCAL, Command
def run(arguments, context):
    try:
        print("ready", flush=True)
        {waits}
    except BaseException:
        pass
    raise {error}
plan.run = run
sys.exit(cli.main(sys.argv[1:]))
"""
SLEEPS = "time.sleep(60)"
# where `kept_interrupts` holds the signal back, and lets it through
RUNS = "LOCAL.run(Command(['sleep', '60'], os.environ))"
BUG = "KeyError('of a library')"


@pytest.mark.parametrize(
    ("waits", "error"),
    [
        (SLEEPS, BUG),
        (SLEEPS, "OrchestratorError('it looks wrong')"),
        (RUNS, BUG),
    ],
    ids=["as a bug", "as a wrong value", "while a program runs"],
)
def test_an_interrupt_that_a_library_translates(waits: str, error: str, workspace: Path) -> None:
    with _translating(waits, error, workspace) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=30) == ("", "interrupted\n")
    assert process.returncode == 130


def test_the_error_that_a_library_made_of_an_interrupt_can_be_seen(workspace: Path) -> None:
    interrupted = "signal.raise_signal(signal.SIGINT)"
    with _translating(interrupted, BUG, workspace, "--traceback") as process:
        _, told = process.communicate(timeout=30)
    assert process.returncode == 130
    assert told.startswith("Traceback")
    assert told.endswith("\nKeyError: 'of a library'\ninterrupted\n")


def test_the_handler_of_interrupts_is_the_one_before(
    workspace: Path, verb: Callable[[Callable[..., int]], None]
) -> None:
    verb(_raise(KeyError("gone")))
    assert cli.main(["work"], env={}, cwd=workspace) == 3
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def _translating(waits: str, error: str, workspace: Path, *arguments: str) -> subprocess.Popen[str]:
    program = TRANSLATED.format(waits=waits, error=error)
    return subprocess.Popen(
        [sys.executable, "-P", "-c", program, *arguments, "plan", "//..."],
        cwd=workspace,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize(
    ("number", "advice"),
    [
        (errno.EROFS, "set ORCHESTRATOR_CACHE to a writable folder"),
        (
            errno.EACCES,
            "correct its owner or mode, or set ORCHESTRATOR_CACHE to a folder that you own",
        ),
    ],
)
def test_what_is_of_the_cache_can_be_elsewhere(
    number: int,
    advice: str,
    workspace: Path,
    verb: Callable[[Callable[..., int]], None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    verb(_raise(OSError(number, "no", "/my/cache/objects/x")))
    assert cli.main(["work"], env={"ORCHESTRATOR_CACHE": "/my/cache"}, cwd=workspace) == 1
    assert capsys.readouterr().err.endswith(f"  do:       {advice}\n")


def test_a_folder_that_the_cache_would_be_made_in_is_of_the_cache(
    workspace: Path,
    verb: Callable[[Callable[..., int]], None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    """As with HOME=/, where nobody named a folder."""
    verb(_raise(OSError(errno.EACCES, "no", "/.cache")))
    assert cli.main(["work"], env={"HOME": "/"}, cwd=workspace) == 1
    assert "or set ORCHESTRATOR_CACHE to a folder that you own" in capsys.readouterr().err


FAILURE = OrchestratorError(
    "it went wrong", place=Place("f", 1, 2), seen="x", hint="do it right", facts={"bytes": 7}
)


@pytest.mark.parametrize(
    ("error", "code", "told"),
    [
        (
            FAILURE,
            1,
            {
                "code": "ORCHESTRATOR",
                "message": "it went wrong",
                "place": {"file": "f", "line": 1, "column": 2},
                "expected": None,
                "seen": "x",
                "hint": "do it right",
                "details": None,
                "facts": {"bytes": 7},
                "errors": [],
            },
        ),
        (_os_error(errno.ENOSPC), 1, {"code": "NO_SPACE", "seen": "No space left on device"}),
        (KeyboardInterrupt(), 130, {"code": "INTERRUPTED", "message": "interrupted"}),
        (
            KeyError("gone"),
            3,
            {"code": "BUG", "message": "a bug in orchestrator: KeyError: 'gone'"},
        ),
    ],
)
def test_with_json_a_failure_is_an_answer(
    error: BaseException,
    code: int,
    told: dict[str, Any],
    workspace: Path,
    verb: Callable[[Callable[..., int]], None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    (workspace / ".orchestrator").mkdir()
    verb(_raise(error))
    assert cli.main(["work", "--json"], env={}, cwd=workspace) == code
    captured = capsys.readouterr()
    answer = json.loads(captured.out)
    assert list(answer) == ["format", "error"]
    assert {key: answer["error"][key] for key in told} == told
    assert captured.err


def test_usage_errors_are_answers_too(workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["build", "--jsn", "--json"], env={}, cwd=workspace) == 1
    told = json.loads(capsys.readouterr().out)["error"]
    assert (told["code"], told["hint"]) == (
        "USAGE",
        "did you mean `--json`? see `./orchestrate build --help`",
    )


def test_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--version"], env={}) == 0
    assert capsys.readouterr().out == f"orchestrator {version('libtorch-orchestrator')}\n"


def test_help_is_a_verb_too(capsys: pytest.CaptureFixture[str]) -> None:
    def printed(*words: str) -> str:
        assert cli.main(words, env={}) == 0
        return capsys.readouterr().out

    assert printed("help") == printed("--help")
    assert printed("help", "build") == printed("build", "--help")
    assert cli.main(["help", "buidl"], env={}) == 1
    assert "did you mean `build`?" in capsys.readouterr().err


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("stream", "env", "is_red"),
    [
        (_Terminal(), {"TERM": "xterm"}, True),
        (_Terminal(), {"TERM": "xterm", "NO_COLOR": "1"}, False),
        (_Terminal(), {"TERM": "dumb"}, False),
        (_Terminal(), {}, False),
        (io.StringIO(), {"TERM": "xterm"}, False),
    ],
)
def test_errors_are_red_on_a_terminal(
    stream: io.StringIO,
    env: dict[str, str],
    is_red: bool,
    workspace: Path,
    verb: Callable[[Callable[..., int]], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    verb(_raise(OrchestratorError("an error: of x", place=Place("a b"), seen="error: no")))
    with monkeypatch.context() as patch:
        patch.setattr("sys.stderr", stream)
        assert cli.main(["work"], env=env, cwd=workspace) == 1
    word = "\x1b[1;31merror:\x1b[0m" if is_red else "error:"
    assert stream.getvalue() == f"a b: {word} an error: of x\n  seen:     error: no\n"


def test_a_bug_keeps_its_traceback_in_the_state_folder(
    workspace: Path,
    verb: Callable[[Callable[..., int]], None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    (workspace / ".orchestrator").mkdir()
    verb(_raise(KeyError("gone")))
    assert cli.main(["work"], env={}, cwd=workspace) == 3
    file = workspace / ".orchestrator" / f"traceback-{os.getpid()}.txt"
    assert capsys.readouterr().err == (
        f"error: a bug in orchestrator: KeyError: 'gone' (traceback in {file})\n"
    )
    assert file.read_text().startswith("Traceback (most recent call last):")


def test_a_bug_without_a_state_folder(
    workspace: Path,
    verb: Callable[[Callable[..., int]], None],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    temporary = workspace / "temporary"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    verb(_raise(_os_error(errno.ENOENT)))
    assert cli.main(["work"], env={}, cwd=workspace) == 3
    file = temporary / f"traceback-{os.getpid()}.txt"
    assert capsys.readouterr().err == (
        "error: a bug in orchestrator: FileNotFoundError: [Errno 2] No such file or directory:"
        f" '/some/file' (traceback in {file})\n"
    )
    file.unlink()
    temporary.rmdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    assert cli.main(["work"], env={}, cwd=workspace) == 3
    assert "(the traceback could not be written)\n" in capsys.readouterr().err


def test_a_traceback_only_when_asked(
    workspace: Path,
    verb: Callable[[Callable[..., int]], None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    verb(_raise(OrchestratorError("it went wrong")))
    assert cli.main(["--traceback", "work"], env={}, cwd=workspace) == 1
    err = capsys.readouterr().err
    assert err.startswith("Traceback (most recent call last):")
    assert err.endswith("error: it went wrong\n")


@pytest.mark.parametrize("buffered", [True, False])
@pytest.mark.parametrize("words", [["clean"], ["clean", "--quiet"]])
def test_a_closed_pipe_is_quiet(words: list[str], buffered: bool, workspace: Path) -> None:
    env = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    if not buffered:
        env["PYTHONUNBUFFERED"] = "1"
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-m", "orchestrator", "--workspace", str(workspace), *words],
        stdout=writer,
        stderr=subprocess.PIPE,
        text=True,
        env=env,
        check=False,
    )
    os.close(writer)
    # What prints nothing does not notice.
    assert (done.returncode, done.stderr) == (0 if "--quiet" in words else 1, "")


def test_a_command_is_loaded_by_name() -> None:
    module = Command("clean", "").load()
    assert (module.NAME, callable(module.run)) == ("clean", True)
