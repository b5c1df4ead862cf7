"""`--runtime`: the pinned runtime that a maintainer's verb works on."""

from __future__ import annotations

import argparse

from orchestrator.load.checks import unknown_runtime
from orchestrator.load.declared import Workspace


def add_runtime(parser: argparse.ArgumentParser) -> None:
    """Add --runtime."""
    parser.add_argument(
        "--runtime",
        metavar="NAME",
        help="a name under `runtimes` in WORKSPACE; default: its default",
    )


def chosen(workspace: Workspace, name: str | None) -> str:
    """The name of the runtime that is asked for: none is prepared yet. Raises UnknownRuntimeError.

    name: what --runtime says; None for the default
    """
    config = workspace.config
    if name is None:
        return config.default_runtime
    if name not in config.pins:
        raise unknown_runtime(name, config.pins)
    return name
