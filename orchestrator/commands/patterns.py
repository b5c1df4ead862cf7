"""Label patterns on the command line, and the apps that they name."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Collection, Sequence

from orchestrator.errors import OrchestratorError
from orchestrator.load.declared import Workspace
from orchestrator.load.validate import faults_of, raise_all
from orchestrator.values.labels import Pattern, VariantLabel, resolve


def add_patterns(parser: argparse.ArgumentParser) -> None:
    """Add the positional patterns; none means everything."""
    parser.add_argument(
        "patterns",
        nargs="*",
        default=["//..."],
        metavar="PATTERN",
        help="//apps/camera:linux-x86_64, //apps/camera, //apps/... or //... (default: //...)",
    )


def resolve_patterns(
    patterns: Sequence[str], workspace: Workspace, log: Callable[[str], None]
) -> tuple[VariantLabel, ...]:
    """The labels that the patterns name, sorted; raises the faults of apps that are among them.

    Broken apps that the patterns do not name are reported to `log`.
    """
    labels, faults = valid_labels(patterns, workspace, log)
    raise_all(faults)
    return labels


def valid_labels(
    patterns: Sequence[str], workspace: Workspace, log: Callable[[str], None]
) -> tuple[tuple[VariantLabel, ...], tuple[OrchestratorError, ...]]:
    """The same for commands that continue with valid apps: labels, and the faults of the others."""
    parsed = {text: Pattern.parse(text) for text in patterns}
    asked = {pattern.app for pattern in parsed.values()}
    named = {app for app in workspace.broken if app in asked or None in asked}
    warn_of_broken(workspace, log, without=named)
    faults = tuple(fault for app in sorted(named) for fault in workspace.broken[app])
    left = [text for text, pattern in parsed.items() if pattern.app not in named]
    offered = {*workspace.toolchains, *workspace.groups}
    try:
        targets, groups = workspace.targets, workspace.groups
        return resolve(left, targets, groups, offered, workspace.broken), faults
    except OrchestratorError:
        # the pattern may name a broken app
        raise_all(faults)
        raise


def warn_of_broken(
    workspace: Workspace, log: Callable[[str], None], without: Collection[str] = ()
) -> None:
    """Print a line about each broken app."""
    for app, (first, *more) in workspace.broken.items():
        if app not in without:
            others = f", and {sum(map(faults_of, more)):,} more" if more else ""
            log(f"warning: //apps/{app} is skipped: {first.place}: {first.what}{others}")
