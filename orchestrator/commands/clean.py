"""`orchestrator clean`: removes build outputs, and nothing else."""

from __future__ import annotations

import argparse
import json
from contextlib import ExitStack
from pathlib import Path

from orchestrator.context import Context
from orchestrator.deliver.files import RECORD
from orchestrator.deliver.record import FOLDER, our_packages
from orchestrator.errors import ExitCode, visible
from orchestrator.system.folders import folder_size, refuse_foreign, remove_folder
from orchestrator.system.workspace_lock import RUNS, cache_alone, workspace_lock

NAME = "clean"
HELP = """\
Removes the workspace's .orchestrator and dist folders; with --cache also the user's cache folder,
which other workspaces share; it refuses to do so while another process uses the cache. Folders
without the orchestrator's marker are refused too, symbolic links are never followed, and files in
dist/<app>/packages/ that builds did not write are kept."""
EXAMPLE = """\
./orchestrate clean
./orchestrate clean --cache --dry-run"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add --cache, --dry-run and --json."""
    parser.add_argument(
        "--cache",
        action="store_true",
        help="also remove the cache that all workspaces share: sources, headers, objects",
    )
    parser.add_argument(
        "--dry-run",
        "-n",
        action="store_true",
        help="show what would be removed, and remove nothing",
    )
    parser.add_argument("--json", action="store_true", help="print what was removed as JSON")


def run(arguments: argparse.Namespace, context: Context) -> int:
    """Remove the folders and print the bytes freed; raises what `remove_folder` raises."""
    folders = [context.dist, context.state] + ([context.cache] if arguments.cache else [])
    present = [folder for folder in folders if folder.is_symlink() or folder.exists()]
    for folder in present:
        if folder == context.cache:
            refuse_foreign(folder, "set ORCHESTRATOR_CACHE to the cache that is meant")
        else:
            refuse_foreign(folder)
    # Running commands hold these locks, so that their files do not vanish.
    with ExitStack() as locks:
        if context.state in present:
            runs = context.state / RUNS
            for state in (context.state, *([runs] if runs.is_dir() else [])):
                locks.enter_context(workspace_lock(state, wait=False, on_wait=print))
        if context.cache in present:
            locks.enter_context(cache_alone(context.cache))
        kept = _not_ours(context.dist) if context.dist in present else []
        dry = bool(arguments.dry_run)
        work = folder_size if dry else remove_folder
        freed = {
            folder: work(folder, keep=kept if folder == context.dist else ()) for folder in present
        }
    if arguments.json:
        removed = [{"folder": str(folder), "bytes": size} for folder, size in freed.items()]
        answer = {"format": 1, "is_dry_run": dry, "removed": removed, "kept": list(map(str, kept))}
        print(json.dumps(answer | {"bytes": sum(freed.values())}, indent=2))
    elif not arguments.quiet or dry:
        for folder, size in freed.items():
            print(f"{'would remove' if dry else 'removed'} {folder} ({size:,} bytes)")
        for path in kept:
            print(
                f"{'would keep' if dry else 'kept'} {visible(str(path))},"
                " which the orchestrator did not write"
            )
        total = f"{'would free' if dry else 'freed'} {sum(freed.values()):,} bytes"
        print(total if freed else "nothing to remove")
    return ExitCode.OK


def _not_ours(dist: Path) -> list[Path]:
    """Files in package folders that no build has written, or that were modified since."""
    kept: list[Path] = []
    for folder in sorted(dist.glob(f"*/{FOLDER}")):
        if folder.is_symlink() or not folder.is_dir():
            kept.append(folder)
            continue
        ours = {RECORD, *our_packages(folder)}
        kept += sorted(path for path in folder.iterdir() if path.name not in ours)
    return kept
