"""Label patterns on the command line, and the apps that they name."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Collection, Sequence

from orchestrator.errors import OrchestratorError
from orchestrator.load.declared import Workspace
from orchestrator.load.validate import raise_all
from orchestrator.values.labels import Label, Pattern, resolve


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
    patterns: Sequence[str], workspace: Workspace, say: Callable[[str], None]
) -> tuple[Label, ...]:
    """The labels that the patterns name, sorted; raises the faults of apps that are among them.

    Of an app that is broken and not asked for, `say` is told.
    """
    labels, faults = what_is_right(patterns, workspace, say)
    raise_all(faults)
    return labels


def what_is_right(
    patterns: Sequence[str], workspace: Workspace, say: Callable[[str], None]
) -> tuple[tuple[Label, ...], tuple[OrchestratorError, ...]]:
    """The same for those who go on with the others: labels, and the faults of broken apps."""
    parsed = {text: Pattern.parse(text) for text in patterns}
    asked = {pattern.app for pattern in parsed.values()}
    named = {app for app in workspace.broken if app in asked or None in asked}
    warn_of_broken(workspace, say, without=named)
    faults = tuple(fault for app in sorted(named) for fault in workspace.broken[app])
    left = [text for text, pattern in parsed.items() if pattern.app not in named]
    offered = {*workspace.toolchains, *workspace.groups}
    try:
        return resolve(left, workspace.targets, workspace.groups, offered), faults
    except OrchestratorError:
        # a broken app may be what the pattern means
        raise_all(faults)
        raise


def warn_of_broken(
    workspace: Workspace, say: Callable[[str], None], without: Collection[str] = ()
) -> None:
    """Tell of each broken app in a line."""
    for app, (first, *more) in workspace.broken.items():
        if app not in without:
            others = f", and {len(more)} more" if more else ""
            say(f"warning: //apps/{app} is skipped: {first.place}: {first.what}{others}")
