"""The `orchestrator` command: finds the verb, runs it, turns every failure into text and a code.

Only this module reads the process's arguments, passes its environment on, and catches all
exceptions. Exit codes are those of `orchestrator.errors.ExitCode`. It imports little on purpose:
`orchestrator --help` must not pay for the pipeline.
"""

from __future__ import annotations

import argparse
import errno
import json
import os
import re
import sys
import traceback
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Final, NoReturn

from orchestrator.commands import COMMANDS, CommandModule
from orchestrator.commands.replay import replay_last_build
from orchestrator.context import Context, usable
from orchestrator.errors import ExitCode, OrchestratorError, visible
from orchestrator.system.environment import SIGNING_PASSWORD, Environment
from orchestrator.system.interrupts import noted_interrupts
from orchestrator.system.terminal import shown

PROGRAM: Final = "orchestrator"
# As all guides, and the scripts that `init` writes, have it.
COMMAND: Final = "./orchestrate"
_NO_SPACE: Final = (errno.ENOSPC, errno.EDQUOT)
_NO_ACCESS: Final = (errno.EACCES, errno.EPERM)
_WRONG_KIND: Final = {
    errno.EISDIR: "a folder is where a file should be",
    errno.ENOTDIR: "a file is where a folder should be",
    errno.EEXIST: "something else is where a folder should be",
    errno.ELOOP: "links lead to each other",
}
_SHOWN: Final = 200
# Options and verbs of other tools, and their counterparts here.
_ELSEWHERE: Final = {
    **dict.fromkeys(
        ("--abi", "--target", "--platform", "--arch", "--cpu"),
        "an ABI is part of the label: //apps/<app>:<abi>",
    ),
    **dict.fromkeys(
        ("--force", "--rebuild", "--clean", "--no-cache"),
        "what has changed is built again, and nothing else; `clean` removes all outputs",
    ),
    **dict.fromkeys(("--output", "--out", "-o"), "libraries go to dist/<app>/<abi>/"),
    **dict.fromkeys(("--config", "--optimize", "-O2", "-O3", "-Os"), "see `optimize` in app.yaml"),
    **dict.fromkeys(("--color", "--no-color"), "NO_COLOR=1 in the environment prints no colour"),
    "--fix": "`doctor` names what to install, and nothing here installs it",
    "--dry-run": "`plan` shows what a build would do",
    "--format": "`--json` prints values",
    "--offline": "name local copies of the sources: see the `path` entries in WORKSPACE",
    "--version": "write it without a verb",
    "-V": "`--version` prints it",
}
# What a verb says of a word that it does not take.
_NO_WORDS: Final = {
    "cache": "`cache --prune` frees space in it, and `clean --cache` removes it",
    "clean": "`clean` removes the outputs of all apps, and takes no label",
    "doctor": "`doctor` checks what all builds need, and takes no label",
    "init": "`init` takes the current folder, and `init --workspace DIR` another one that exists",
}
_REQUIRED: Final = "the following arguments are required: "
_NO_VERBS: Final = {
    "version": "--version",
    "prune": "cache --prune",
    "gc": "cache --prune",
    **dict.fromkeys(("list", "ls", "size", "info", "graph", "status"), "plan"),
    **dict.fromkeys(("test", "check", "run"), "verify"),
    **dict.fromkeys(("make", "compile", "package", "report", "deliver"), "build"),
    **dict.fromkeys(("add", "add-app", "new", "create"), "new-app"),
    **dict.fromkeys(("download", "sync"), "fetch"),
}


class UsageError(OrchestratorError):
    """The command line is wrong."""


class NoSpaceError(OrchestratorError):
    """The disk, or the user's share of it, is full."""


class FileTooLargeError(OrchestratorError):
    """A file is larger than the process, or the file system, may write."""


class ReadOnlyError(OrchestratorError):
    """A file system is mounted read-only."""


class NoAccessError(OrchestratorError):
    """The user may not read or write something."""


class NameTooLongError(OrchestratorError):
    """A file system takes no name of this length."""


class WrongKindError(OrchestratorError):
    """A folder is where a file should be, or the other way round."""


class NoSuchFolderError(OrchestratorError):
    """`--workspace` names no folder."""


class _Parser(argparse.ArgumentParser):
    """argparse that raises our errors. `example`: a line of a verb that is complete."""

    example = ""

    def error(self, message: str) -> NoReturn:
        message = re.sub("ignored explicit argument .*", "it takes no value", message)
        raise UsageError(message, hint=f"{self._meant(message)}see `{self.prog} --help`")

    def _meant(self, message: str) -> str:
        """Advice for an unknown option: its counterpart, or the nearest one; and for what is
        missing an example."""
        if message.startswith(_REQUIRED) and self.example:
            return f"for example `{self.example}`; "
        unknown = message.removeprefix("unrecognized arguments: ")
        if unknown == message:
            return ""
        if not unknown.startswith("-"):
            advice = _NO_WORDS.get(self.prog.removeprefix(f"{COMMAND} "))
            return f"{advice}; " if advice else ""
        word = unknown.split()[0].partition("=")[0]
        if word == "--json":
            return (
                "write it behind the verb; "
                if self.prog == COMMAND
                else "this verb has no --json; "
            )
        if word in _ELSEWHERE and word not in self._option_string_actions:
            return f"{_ELSEWHERE[word]}; "
        if not word.startswith("--"):
            return ""
        like = get_close_matches(word, self._option_string_actions, n=1, cutoff=0.7)
        return f"did you mean `{like[0]}`? " if like else ""


class _Version(argparse.Action):
    """argparse's own computes the text in advance, which reads the disk."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object, **__: object) -> NoReturn:
        from importlib.metadata import version

        print(f"{PROGRAM} {version('libtorch-orchestrator')}")
        parser.exit()


def main(
    argv: Sequence[str] | None = None,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> int:
    """Run one command line and return its exit code; the defaults are this process's own."""
    argv = list(sys.argv[1:] if argv is None else argv)
    if env is None:
        env = Environment(os.environ)
        for name in env.secrets:  # what is started without an environment of its own has this one
            os.environ.pop(name, None)
    env = env if isinstance(env, Environment) else Environment(env)
    cwd = Path.cwd() if cwd is None else cwd
    with noted_interrupts() as interrupted:
        try:
            code = _run(argv, env, cwd)
            sys.stdout.flush()
            return code
        except KeyboardInterrupt:
            return _interrupted(argv)
        except BrokenPipeError:
            return _pipe_closed()
        except Exception as error:
            # whatever the error: a library may have made it of the interrupt
            return _interrupted(argv, error) if interrupted() else _failed(error, argv, env, cwd)


def make_context(
    arguments: argparse.Namespace, env: Mapping[str, str], cwd: Path, in_workspace: bool = True
) -> Context:
    """The folders of one invocation: `--workspace`, else the workspace around `cwd`; or that very
    folder, with the WORKSPACE that it would have."""
    from orchestrator.load.workspace import BUILT_IN, cache_folder, find_root, load_config

    try:
        start = cwd / Path(arguments.workspace or "").expanduser()
    except RuntimeError:  # `~` of a user that this machine does not know
        start = cwd / arguments.workspace
    if not start.is_dir():
        raise NoSuchFolderError(
            "--workspace is not a folder",
            seen=str(start),
            hint="check the path; for a new workspace make the folder first",
        )
    start = start.resolve()
    found = find_root(start) if in_workspace else start
    root = usable(found, "workspace", "rename or move its folder")
    config, places = load_config(root if in_workspace else BUILT_IN)
    cache = cache_folder(config, places, root, env)
    secrets = env.secrets if isinstance(env, Environment) else {}
    return Context(
        root=root,
        cache=usable(cache, "cache folder", "set ORCHESTRATOR_CACHE to another one"),
        state=root / ".orchestrator",
        dist=root / "dist",
        env=env,
        signing_password=secrets.get(SIGNING_PASSWORD),
    )


def _run(argv: Sequence[str], env: Mapping[str, str], cwd: Path) -> int:
    chosen = _parsed(_main_parser(), argv or ["--help"])
    if chosen is None:
        return ExitCode.OK
    if chosen.verb == "help":
        return _help(chosen.rest)
    if chosen.verb is None:
        raise UsageError("no verb given", hint=f"see `{COMMAND} --help`")
    if chosen.verb not in COMMANDS:
        raise _no_verb(chosen.verb)
    if chosen.verb == "build" and not chosen.workspace and replay_last_build(argv, env, cwd):
        return ExitCode.OK
    command = COMMANDS[chosen.verb]
    module = command.load()
    arguments = _parsed(_verb_parser(module), chosen.rest, chosen)
    if arguments is None:
        return ExitCode.OK
    arguments.argv = tuple(argv)
    context = make_context(arguments, env, cwd, command.in_workspace)
    from orchestrator.system.heartbeat import heartbeat

    try:
        with heartbeat(arguments.quiet or command.waits):
            return module.run(arguments, context)
    except OSError as error:
        known = _known(error, context.cache)
        if known is None:
            raise
        raise known from error


def _help(argv: Sequence[str]) -> int:
    """`help`, `help VERB`: what `--help` prints there."""
    if argv and argv[0] not in COMMANDS:
        raise _no_verb(argv[0])
    parser = _verb_parser(COMMANDS[argv[0]].load()) if argv else _main_parser()
    parser.print_help()
    return ExitCode.OK


def _no_verb(verb: str) -> UsageError:
    known = (*COMMANDS, "help")
    like = get_close_matches(verb, known, n=1)
    if verb in _NO_VERBS:
        hint = f"did you mean `{_NO_VERBS[verb]}`?"
    else:
        hint = f"did you mean `{like[0]}`?" if like else f"see `{COMMAND} --help`"
    return UsageError(f"unknown verb `{verb}`", expected=", ".join(sorted(known)), hint=hint)


def _parsed(
    parser: argparse.ArgumentParser,
    argv: Sequence[str],
    namespace: argparse.Namespace | None = None,
) -> argparse.Namespace | None:
    """The arguments, or None where help was asked for and printed."""
    # a verb's options may stand between its patterns; before it, the rest of the line is the verb's
    parse = parser.parse_args if namespace is None else parser.parse_intermixed_args
    try:
        return parse(argv, namespace=namespace)
    except SystemExit:
        # argparse leaves this way after help; `_Parser` raises for everything else.
        return None


def _main_parser() -> argparse.ArgumentParser:
    width = max(map(len, COMMANDS)) + 1
    verbs = "\n".join(f"  {name:<{width}}{COMMANDS[name].help}" for name in sorted(COMMANDS))
    parser = _Parser(
        prog=COMMAND,
        usage=f"{COMMAND} [--workspace DIR] [-q | -v] [--traceback] VERB ...",
        description="Builds one small, verified libtorch per app and ABI from the PyTorch sources.",
        epilog=(
            f"verbs:\n{verbs}\n\n`{COMMAND} VERB --help` shows details.\n\n"
            "example:\n  ./orchestrate build //..."
        ),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    _add_global_options(parser, default=None)
    parser.add_argument(
        "--version", action=_Version, nargs=0, help="print the orchestrator's version and exit"
    )
    parser.add_argument("verb", nargs="?", help=argparse.SUPPRESS)
    parser.add_argument("rest", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    return parser


def _verb_parser(module: CommandModule) -> argparse.ArgumentParser:
    example = "\n".join(f"  {line}" for line in module.EXAMPLE.strip().splitlines())
    parser = _Parser(
        prog=f"{COMMAND} {module.NAME}",
        description=module.HELP,
        epilog=f"example:\n{example}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.example = example.splitlines()[0].strip().rstrip("\\").rstrip()
    module.add_arguments(parser)
    # An option before the verb must not be reset by its default after it.
    _add_global_options(parser, default=argparse.SUPPRESS)
    return parser


def _add_global_options(parser: argparse.ArgumentParser, default: str | None) -> None:
    group = parser.add_argument_group("everywhere")
    flag = default if default is not None else False
    group.add_argument(
        "--workspace",
        metavar="DIR",
        default=default,
        help="a folder of the workspace; default: the current one",
    )
    group.add_argument(
        "--quiet", "-q", action="store_true", default=flag, help="print results only"
    )
    group.add_argument(
        "--verbose",
        "-v",
        action="store_true",
        default=flag,
        help="print every command that was run",
    )
    group.add_argument(
        "--traceback",
        action="store_true",
        default=flag,
        help="show the Python traceback of an error",
    )


def _interrupted(argv: Sequence[str], error: Exception | None = None) -> int:
    if error and "--traceback" in argv:
        traceback.print_exception(error)
    print("interrupted", file=sys.stderr)
    _print_json(argv, OrchestratorError("interrupted"), "INTERRUPTED")
    return ExitCode.INTERRUPTED


def _failed(error: Exception, argv: Sequence[str], env: Mapping[str, str], cwd: Path) -> int:
    if "--traceback" in argv:
        traceback.print_exception(error)
    known = error if isinstance(error, OrchestratorError) else _known(error)
    if known:
        print(shown(known.render(), sys.stderr, env), file=sys.stderr)
        _print_json(argv, known)
        return ExitCode.USER_ERROR
    summary = "".join(traceback.format_exception_only(error)).strip().splitlines()[-1]
    print(
        f"error: a bug in {PROGRAM}: {visible(summary)} ({_keep_traceback(error, cwd)})",
        file=sys.stderr,
    )
    _print_json(argv, OrchestratorError(f"a bug in {PROGRAM}: {visible(summary)}"), "BUG")
    return ExitCode.BUG


def _print_json(argv: Sequence[str], error: OrchestratorError, code: str | None = None) -> None:
    """With --json print a failure as well: {"format": 1, "error": `to_json` of the error}."""
    if "--json" in argv:
        value = error.to_json() | ({"code": code} if code else {})
        print(json.dumps({"format": 1, "error": value}, indent=2), flush=True)


def _known(error: Exception, cache: Path | None = None) -> OrchestratorError | None:
    """A failure of the operating system as an error of the user's; None for a bug of ours.

    The hint depends on whether the file is in the cache, which can be moved.
    """
    if not isinstance(error, OSError):
        return None
    path = str(error.filename) if error.filename is not None else "a file"
    seen = error.strerror
    # or a folder that would have to be made for it: with HOME=/ that is /.cache
    in_cache = cache is not None and (
        Path(path).is_relative_to(cache) or cache.is_relative_to(path)
    )
    if error.errno in _NO_SPACE:
        return NoSpaceError(
            f"no space left to write {path}",
            seen=seen,
            hint="free some space, `./orchestrate clean` helps, or set ORCHESTRATOR_CACHE to a"
            " folder on another disk; then run the same command again",
        )
    if error.errno == errno.EFBIG:
        return FileTooLargeError(
            f"{path} would be larger than this process or the file system may write",
            seen=seen,
            hint="lift the limit, `ulimit -f unlimited`, or move the workspace and"
            " ORCHESTRATOR_CACHE to another file system; then run the same command again",
        )
    if error.errno == errno.EROFS:
        return ReadOnlyError(
            f"{path} is on a read-only file system",
            seen=seen,
            hint="set ORCHESTRATOR_CACHE to a writable folder"
            if in_cache
            else "mount it writable, or work in a copy of the workspace elsewhere",
        )
    if error.errno == errno.ENAMETOOLONG:
        return NameTooLongError(
            "a file's name or path is too long for the file system",
            seen=path if len(path) <= _SHOWN else f"{path[:_SHOWN]}...",
            hint="shorten it, or move the workspace or ORCHESTRATOR_CACHE to a shorter path",
        )
    if error.errno in _WRONG_KIND:
        # of rename(2) and link(2), the second name is the one that is in the way
        path = path if error.filename2 is None else str(error.filename2)
        return WrongKindError(
            f"{path} cannot be used: {_WRONG_KIND[error.errno]}",
            seen=seen,
            hint="remove what is there, then run the same command again",
        )
    if error.errno in _NO_ACCESS:
        return NoAccessError(
            f"permission denied: {path}",
            seen=seen,
            hint="correct its owner or mode, or set ORCHESTRATOR_CACHE to a folder that you own"
            if in_cache
            else "correct its owner or mode",
        )
    return None


def _keep_traceback(error: Exception, cwd: Path) -> str:
    """Write the traceback to the workspace's state or the temporary folder; says where it is."""
    import tempfile

    text = "".join(traceback.format_exception(error))
    states = [folder / ".orchestrator" for folder in (cwd, *cwd.parents)]
    for folder in [*(state for state in states if state.is_dir()), Path(tempfile.gettempdir())]:
        file = folder / f"traceback-{os.getpid()}.txt"
        try:
            file.write_text(text, encoding="utf-8")
        except OSError:
            continue
        return f"traceback in {file}"
    return "the traceback could not be written"


def _pipe_closed() -> int:
    """The reader of our output went away, as `| head` does: there is nothing to report."""
    # Python flushes stdout once more at exit; let that go nowhere.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return ExitCode.USER_ERROR
