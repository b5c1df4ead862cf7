"""Runs ninja on a written build.ninja: effects are one process, and lines handed to a view."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from orchestrator.errors import OrchestratorError
from orchestrator.execute.ninja_progress import STATUS_FORMAT, NinjaStream, parse_status
from orchestrator.system.process import LOCAL, Command, CommandRunner

_FAILED = re.compile(r"^FAILED: (?:\[code=(\d+)\] )?(.*)$")
# ninja's and the commands' colours, which it passes on to a terminal.
_COLOUR = re.compile(r"\x1b\[[0-9;]*[mK]")
_ERROR = re.compile(r"\b(?:fatal )?error: |undefined symbol|undefined reference")
_MOST_ERRORS = 8
# In place of an output's path: ninja's own errors, a full disk for example.
NINJA = "ninja"
# A build that the kernel killed for lack of memory prints nothing else.
_KILLED = re.compile(r"\bKilled\b|signal: 9|signal 9")


class ActionFailedError(OrchestratorError):
    """A compiler or linker failed; everything that was built stays in the cache."""


@dataclass(frozen=True)
class NinjaResult:
    """Result of a ninja run: number of actions, and failures (output path -> text)."""

    actions: int
    failures: Mapping[str, str]


def ninja_binary() -> str:
    """The ninja that the `ninja` package brings."""
    return str(Path(sys.executable).with_name("ninja"))


def run_ninja(
    build_file: Path,
    targets: Sequence[str],
    *,
    env: Mapping[str, str],
    folder: Path,
    jobs: int,
    keep_going: bool,
    feed: Callable[[str], None],
    runner: CommandRunner = LOCAL,
) -> NinjaResult:
    """Run ninja in `folder` to completion; every line that is not about a failure goes to `feed`.

    KeyboardInterrupt (or what `feed` raises) passes through after ninja has stopped its commands;
    ninja removes what was half written, so that the next run goes on from there.
    """
    argv = [ninja_binary(), "-f", str(build_file), "-j", str(jobs)]
    argv += ["-k", "0"] if keep_going else []
    stream, lines, actions = NinjaStream(), list[str](), 0

    def take(chunk: bytes) -> None:
        nonlocal actions
        for line in stream.feed(chunk):
            lines.append(line)
            status = parse_status(line)
            if status is not None:
                actions = status.finished
                feed(line)

    # On a terminal alone it says what it starts.
    status_env = {"NINJA_STATUS": STATUS_FORMAT, "TERM": "xterm"}
    command = Command([*argv, *targets], {**env, **status_env}, folder, terminal=True)
    code = runner.stream(command, take)
    lines = [_COLOUR.sub("", line) for line in [*lines, *stream.end()]]
    failures = _failures(lines)
    if code and not failures:
        said = [line for line in lines if parse_status(line) is None]
        failures = {NINJA: "\n".join(said[-20:])}
    return NinjaResult(actions, failures)


def _failures(lines: Sequence[str]) -> dict[str, str]:
    found: dict[str, list[str]] = {}
    current: list[str] | None = None
    for line in lines:
        match = _FAILED.match(line)
        if match:
            current = found.setdefault(match[2].strip(), [])
        elif parse_status(line) is not None or line.startswith("ninja: "):
            current = None
        elif current is not None:
            current.append(line)
    return {output: "\n".join(text) for output, text in found.items()}


def failure_error(
    result: NinjaResult,
    names: Mapping[str, str],
    total: int,
    log: Path,
    about: Collection[str] | None = None,
) -> ActionFailedError:
    """The error for a failed run; the whole text of every failure goes to `log`.

    names: output path -> the unit that it is made of.  about: the outputs that the error reports.
    """
    log.write_text(
        "\n".join(f"{output}\n{text}\n" for output, text in result.failures.items()),
        encoding="utf-8",
    )
    output = next(path for path in result.failures if about is None or path in about)
    text = result.failures[output]
    # an action's text begins with its command, ninja's own has none
    rest = text if output == NINJA else text.partition("\n")[2]
    lines = rest.splitlines() or text.splitlines() or ["ninja failed without output"]
    errors = [line for line in lines if _ERROR.search(line)] or lines
    first = errors[0]
    if all(_KILLED.search(line) for line in errors):
        first = "the compiler was killed: probably not enough memory"
    others = f"; {len(result.failures)} of {total} actions failed" if total > 1 else ""
    return ActionFailedError(
        f"{names.get(output, output)} failed to build",
        seen=first[:300],
        hint=f"the command and all its output are in {log}; what was built is kept" + others,
        details="\n".join(errors[:_MOST_ERRORS]),
    )
