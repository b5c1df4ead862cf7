"""Label patterns on the command line."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from orchestrator.load.declared import Workspace
from orchestrator.values.labels import Label, resolve


def add_patterns(parser: argparse.ArgumentParser) -> None:
    """Add the positional patterns; none means everything."""
    parser.add_argument(
        "patterns",
        nargs="*",
        default=["//..."],
        metavar="PATTERN",
        help="//apps/camera:linux-x86_64, //apps/camera, //apps/... or //... (default: //...)",
    )


def resolve_patterns(patterns: Sequence[str], workspace: Workspace) -> tuple[Label, ...]:
    """The labels that the patterns name, sorted."""
    offered = {*workspace.toolchains, *workspace.groups}
    return resolve(patterns, workspace.targets, workspace.groups, offered)
