"""Gets a source tree from a git remote: one tag, one commit deep, never interactive.

The files that count are outside submodules (see `tree.py`), so none is cloned. The remote is first
asked for the tag, which is quick: a machine without a network fails within seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from orchestrator.system.process import (
    LOCAL,
    Command,
    CommandRunner,
    Finished,
    SourceUnavailableError,
)
from orchestrator.values.config.workspace import GitSource

ASK_SECONDS: Final = 30
CLONE_SECONDS: Final = 1800


def clone(
    source: GitSource,
    into: Path,
    root: Path,
    env: Mapping[str, str],
    progress: Callable[[str], None],
    runner: CommandRunner = LOCAL,
) -> None:
    """Check `source.tag` (a tag or branch) out into the new folder `into`.

    A remote that is a relative path counts from `root`. Raises `SourceUnavailableError`.
    """
    progress(f"git: asking {source.remote} for {source.tag}")
    refs = [f"refs/tags/{source.tag}", f"refs/heads/{source.tag}"]
    argv = ["ls-remote", "--", source.remote, *refs]
    asked = _git(argv, root, env, ASK_SECONDS, runner)
    if asked.code != 0:
        raise SourceUnavailableError(f"{source.remote}: {asked.reason()}")
    if not asked.out.strip():
        raise SourceUnavailableError(f"{source.remote} has no tag {source.tag}")
    progress(f"git: cloning {source.tag}")
    options = ["--quiet", "--depth=1", "--no-recurse-submodules", f"--branch={source.tag}"]
    argv = ["clone", *options, "--", source.remote, str(into)]
    cloned = _git(argv, root, env, CLONE_SECONDS, runner)
    if cloned.code != 0:
        raise SourceUnavailableError(f"{source.remote}: {cloned.reason()}")


def _git(
    argv: list[str], cwd: Path, env: Mapping[str, str], seconds: float, runner: CommandRunner
) -> Finished:
    quiet = {
        **env,
        "LC_ALL": "C",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ASKPASS": "true",
        "GIT_SSH_COMMAND": "ssh -oBatchMode=yes -oConnectTimeout=15",
        "GIT_LFS_SKIP_SMUDGE": "1",
    }
    # a stalled transfer ends; line endings are those of the repository, whatever the user's are
    options = ["http.lowSpeedLimit=1000", "http.lowSpeedTime=30", "core.autocrlf=false"]
    head = ["git", *(word for option in options for word in ("-c", option))]
    try:
        return runner.run(Command([*head, *argv], quiet, cwd, seconds))
    except FileNotFoundError:
        raise SourceUnavailableError("git is not installed") from None
