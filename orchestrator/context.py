"""What every command is given: the folders it may write to, and the environment it may read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Context:
    """The edges of one invocation, passed in so that tests need to patch nothing.

    root    the workspace: the folder that holds `WORKSPACE`
    cache   the user's cache folder, shared by all workspaces (sources, generated trees, objects)
    state   this workspace's own scratch (`<root>/.orchestrator`: build.ninja, its log, links)
    dist    where deliverables appear (`<root>/dist/<app>/<abi>/`)
    env     the process environment, never read from `os.environ` below the CLI
    """

    root: Path
    cache: Path
    state: Path
    dist: Path
    env: Mapping[str, str]
