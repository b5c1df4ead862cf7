"""The `orchestrator` command: finds the verb, runs it, turns every failure into text and a code.

This is the only place that reads the process's environment and arguments, and that catches all
exceptions. Exit codes are those of `orchestrator.errors.ExitCode`. Imports are few on purpose:
`orchestrator --help` must not pay for the pipeline.
"""

from __future__ import annotations

import argparse
import errno
import os
import sys
import traceback
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Final, NoReturn

from orchestrator.commands import COMMANDS, CommandModule
from orchestrator.commands.unchanged import told_again
from orchestrator.context import Context, usable
from orchestrator.errors import ExitCode, OrchestratorError, visible
from orchestrator.system.environment import SIGNING_PASSWORD, Environment
from orchestrator.system.interrupts import is_interrupt

PROGRAM: Final = "orchestrator"
_NO_SPACE: Final = (errno.ENOSPC, errno.EDQUOT)
_NO_ACCESS: Final = (errno.EACCES, errno.EPERM)
_SHOWN: Final = 200


class UsageError(OrchestratorError):
    """The command line is wrong."""


class NoSpaceError(OrchestratorError):
    """The disk, or the user's share of it, is full."""


class ReadOnlyError(OrchestratorError):
    """A file system is mounted read-only."""


class NoAccessError(OrchestratorError):
    """The user may not read or write something."""


class NameTooLongError(OrchestratorError):
    """A file system takes no name of this length."""


class NoSuchFolderError(OrchestratorError):
    """`--workspace` names no folder."""


class _Parser(argparse.ArgumentParser):
    """argparse whose complaints are our errors."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(message, hint=f"see `{self.prog} --help`")


def main(
    argv: Sequence[str] | None = None,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> int:
    """Run one command line and return its exit code; the defaults are this process's own."""
    words = list(sys.argv[1:] if argv is None else argv)
    if env is None:
        env = Environment(os.environ)
        for name in env.secrets:  # what is started without an environment of its own has this one
            os.environ.pop(name, None)
    env = env if isinstance(env, Environment) else Environment(env)
    cwd = Path.cwd() if cwd is None else cwd
    try:
        code = _run(words, env, cwd)
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        return _interrupted()
    except BrokenPipeError:
        return _pipe_closed()
    except Exception as error:
        return _interrupted() if is_interrupt(error) else _failed(error, words, cwd)


def make_context(arguments: argparse.Namespace, env: Mapping[str, str], cwd: Path) -> Context:
    """The folders of one invocation: `--workspace`, else the workspace around `cwd`."""
    from orchestrator.load.workspace import cache_folder, find_root, load_config

    try:
        start = cwd / Path(arguments.workspace or "").expanduser()
    except RuntimeError:  # `~` of a user that this machine does not know
        start = cwd / arguments.workspace
    if not start.is_dir():
        raise NoSuchFolderError("--workspace names no folder", seen=str(start))
    root = usable(find_root(start.resolve()), "workspace", "rename or move its folder")
    config, places = load_config(root)
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


def _run(words: Sequence[str], env: Mapping[str, str], cwd: Path) -> int:
    chosen = _parsed(_main_parser(), words or ["--help"])
    if chosen is None:
        return ExitCode.OK
    if chosen.verb is None:
        raise UsageError("no verb is given", hint=f"see `{PROGRAM} --help`")
    if chosen.verb not in COMMANDS:
        like = get_close_matches(chosen.verb, COMMANDS, n=1)
        raise UsageError(
            f"there is no verb `{chosen.verb}`",
            expected=", ".join(sorted(COMMANDS)),
            hint=f"did you mean `{like[0]}`?" if like else f"see `{PROGRAM} --help`",
        )
    if chosen.verb == "build" and not chosen.workspace and told_again(words, env, cwd):
        return ExitCode.OK
    module = COMMANDS[chosen.verb].load()
    arguments = _parsed(_verb_parser(module), chosen.rest, chosen)
    if arguments is None:
        return ExitCode.OK
    arguments.words = tuple(words)
    return module.run(arguments, make_context(arguments, env, cwd))


def _parsed(
    parser: argparse.ArgumentParser,
    words: Sequence[str],
    namespace: argparse.Namespace | None = None,
) -> argparse.Namespace | None:
    """The arguments, or None where help was asked for and printed."""
    try:
        return parser.parse_args(words, namespace=namespace)
    except SystemExit:
        # argparse leaves this way after help; `_Parser` raises for everything else.
        return None


def _main_parser() -> argparse.ArgumentParser:
    verbs = "\n".join(f"  {name:<10}{COMMANDS[name].help}" for name in sorted(COMMANDS))
    parser = _Parser(
        prog=PROGRAM,
        usage=f"{PROGRAM} [--workspace DIR] [--quiet] [--traceback] VERB ...",
        description="Cuts real PyTorch into one small, proven libtorch per app and ABI.",
        epilog=(
            f"verbs:\n{verbs}\n\n`{PROGRAM} VERB --help` tells more.\n\n"
            "example:\n  ./orchestrate build //..."
        ),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    _add_global_options(parser, default=None)
    parser.add_argument("verb", nargs="?", help=argparse.SUPPRESS)
    parser.add_argument("rest", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    return parser


def _verb_parser(module: CommandModule) -> argparse.ArgumentParser:
    example = "\n".join(f"  {line}" for line in module.EXAMPLE.strip().splitlines())
    parser = _Parser(
        prog=f"{PROGRAM} {module.NAME}",
        description=module.HELP,
        epilog=f"example:\n{example}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
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
    group.add_argument("--quiet", action="store_true", default=flag, help="print results only")
    group.add_argument(
        "--traceback", action="store_true", default=flag, help="show Python's traceback of an error"
    )


def _interrupted() -> int:
    print("interrupted", file=sys.stderr)
    return ExitCode.INTERRUPTED


def _failed(error: Exception, words: Sequence[str], cwd: Path) -> int:
    if "--traceback" in words:
        traceback.print_exception(error)
    told = error if isinstance(error, OrchestratorError) else _known(error)
    if told:
        print(told.render(), file=sys.stderr)
        return ExitCode.USER_ERROR
    summary = "".join(traceback.format_exception_only(error)).strip().splitlines()[-1]
    print(
        f"error: a bug in {PROGRAM}: {visible(summary)}"
        f" (traceback in {_keep_traceback(error, cwd)})",
        file=sys.stderr,
    )
    return ExitCode.BUG


def _known(error: Exception) -> OrchestratorError | None:
    """What the machine refused, told as an error of the user's; None for a bug of ours."""
    if not isinstance(error, OSError):
        return None
    path = str(error.filename) if error.filename is not None else "a file"
    seen = error.strerror
    if error.errno in _NO_SPACE:
        return NoSpaceError(
            f"no space left to write {path}",
            seen=seen,
            hint="free some space, `./orchestrate clean` helps, or set ORCHESTRATOR_CACHE to a"
            " folder on another disk; then run the same command again",
        )
    if error.errno == errno.EROFS:
        return ReadOnlyError(
            f"{path} is on a read-only file system",
            seen=seen,
            hint="set ORCHESTRATOR_CACHE to a folder that can be written",
        )
    if error.errno == errno.ENAMETOOLONG:
        return NameTooLongError(
            "a file's name or path is too long for the file system",
            seen=path if len(path) <= _SHOWN else f"{path[:_SHOWN]}...",
            hint="shorten it, or move the workspace or ORCHESTRATOR_CACHE to a shorter path",
        )
    if error.errno in _NO_ACCESS:
        return NoAccessError(
            f"no permission for {path}",
            seen=seen,
            hint="correct its owner or mode, or set ORCHESTRATOR_CACHE to a folder of yours",
        )
    return None


def _keep_traceback(error: Exception, cwd: Path) -> Path | str:
    """Write the traceback beside the workspace's state, or into the temporary folder."""
    import tempfile

    text = "".join(traceback.format_exception(error))
    states = [folder / ".orchestrator" for folder in (cwd, *cwd.parents)]
    for folder in [*(state for state in states if state.is_dir()), Path(tempfile.gettempdir())]:
        file = folder / f"traceback-{os.getpid()}.txt"
        try:
            file.write_text(text, encoding="utf-8")
        except OSError:
            continue
        return file
    return "no file: none could be written"


def _pipe_closed() -> int:
    """The reader of our output went away, as `| head` does: nothing to tell, and no one to."""
    # Python flushes stdout once more at exit; let that go nowhere.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return ExitCode.USER_ERROR
