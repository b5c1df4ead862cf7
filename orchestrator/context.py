"""The context of every command: the folders it may write to, and the environment it may read."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from orchestrator.errors import OrchestratorError, visible
from orchestrator.system.process import LOCAL, CommandRunner


class UnusableFolderError(OrchestratorError):
    """A folder whose path cannot be written into build files and scripts."""


@dataclass(frozen=True)
class Context:
    """The edges of one invocation, passed in so that tests need to patch nothing.

    root    the workspace: the folder that holds `WORKSPACE`
    cache   the user's cache folder, shared by all workspaces (sources, generated trees, objects)
    state   this workspace's own scratch (`<root>/.orchestrator`: build.ninja, its log, links)
    dist    where deliverables appear (`<root>/dist/<app>/<abi>/`)
    env     the process environment, never read from `os.environ` below the CLI
    runner  starts every process that is started below the CLI
    signing_password  of the key for packages; not in `env`, with which compilers and models run
    whole   where `state` is a part of it with a lock of its own: the workspace's scratch
    """

    root: Path
    cache: Path
    state: Path
    dist: Path
    env: Mapping[str, str]
    runner: CommandRunner = LOCAL
    signing_password: str | None = field(default=None, repr=False)
    whole: Path | None = None

    def in_part(self, name: str) -> Context:
        """The context of a command that writes into a part of the state, beside a build."""
        return replace(self, state=self.state / name, whole=self.state)

    @property
    def shared(self) -> Path:
        """The state folder for files that commands share, whatever locks they hold."""
        return self.whole or self.state

    @property
    def texts(self) -> Path:
        """Folder for generated texts, `$cache` in actions: the cache, or a folder of the workspace
        if the cache belongs to another user or is read-only."""
        folders = (self.cache, self.cache / "staging")
        mine = all(os.access(folder, os.W_OK) for folder in folders if folder.exists())
        return self.cache if mine else self.state / "texts"


_MISREAD: Final = frozenset("\\%")


def usable(folder: Path, what: str, hint: str) -> Path:
    """The folder, if generated files can name it: ninja files cannot express a newline, its reader
    of depfiles and the archivers' response files take backslashes for escapes, and LLVM's archiver
    replaces percent signs in the name of its temporary file.

    Raises UnusableFolderError.
    """
    if visible(str(folder)) != str(folder) or not _MISREAD.isdisjoint(str(folder)):
        raise UnusableFolderError(
            f"the {what}'s path contains a character that generated files cannot hold",
            expected="a path in UTF-8 without control characters, `\\` or `%`",
            seen=str(folder),
            hint=hint,
        )
    return folder
