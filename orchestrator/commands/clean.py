"""`orchestrator clean`: removes what builds have made, and only that."""

from __future__ import annotations

import argparse
from contextlib import nullcontext

from orchestrator.context import Context
from orchestrator.errors import ExitCode
from orchestrator.execute.folders import refuse_foreign, remove_folder
from orchestrator.execute.lock import workspace_lock

NAME = "clean"
HELP = """\
Removes the workspace's .orchestrator and dist folders; with --cache also the user's cache folder,
which other workspaces share. A folder without our marker is refused, and symbolic links are never
followed."""
EXAMPLE = """\
./orchestrate clean
./orchestrate clean --cache"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add --cache."""
    parser.add_argument(
        "--cache",
        action="store_true",
        help="also the cache of sources, headers and objects, shared by all workspaces",
    )


def run(arguments: argparse.Namespace, context: Context) -> int:
    """Remove the folders and tell the bytes freed; raises what `remove_folder` raises."""
    folders = [context.dist, context.state] + ([context.cache] if arguments.cache else [])
    present = [folder for folder in folders if folder.is_symlink() or folder.exists()]
    for folder in present:
        refuse_foreign(folder)
    # A build that runs holds the lock; its files are not pulled from under it.
    guard = (
        workspace_lock(context.state, wait=False, on_wait=print)
        if context.state in present
        else nullcontext()
    )
    with guard:
        freed = {folder: remove_folder(folder) for folder in present}
    if not arguments.quiet:
        for folder, size in freed.items():
            print(f"removed {folder} ({size:,} bytes)")
        print(f"freed {sum(freed.values()):,} bytes" if freed else "nothing to remove")
    return ExitCode.OK
