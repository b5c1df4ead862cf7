"""`orchestrator cache`: what the user's cache folder holds and for whom; makes it smaller."""

from __future__ import annotations

import argparse
import json
import re
import time
from dataclasses import asdict, dataclass
from typing import Any, Final

from pydantic_core import PydanticCustomError

from orchestrator.cache.pruning import (
    PRUNED,
    WORKSPACES,
    Part,
    User,
    entries,
    forget_gone,
    parts,
    remove,
    to_prune,
    workspaces,
)
from orchestrator.commands.views import speaker
from orchestrator.context import Context
from orchestrator.errors import ExitCode, OrchestratorError, visible
from orchestrator.report.table import human_bytes
from orchestrator.system.folders import is_ours, refuse_foreign
from orchestrator.system.workspace_lock import cache_in_use
from orchestrator.values.config import parse_size

NAME = "cache"
HELP = """\
Tells what the user's cache folder holds, how old it is, and which workspaces have used it. With
--prune it removes finished objects and precompiled headers that no workspace has a name of, those
first that were not used for longest. That is safe beside running builds: what is missing is
compiled again. Sources and what was made of them stay; `clean --cache` removes all."""
EXAMPLE = """\
./orchestrate cache
./orchestrate cache --prune --max 5GB --unused 30d
./orchestrate cache --prune --unused 2w --dry-run"""

_WHAT: Final = {
    "debian": "Debian packages: sources, emulators",
    "generated": "what torchgen made of the sources",
    "headers": "which headers the C++ API needs",
    "objects": "compiled units",
    "pch": "precompiled headers",
    "registrations": "generated registrations",
    "runtime": "verified source trees",
    "staging": "leftovers of what was interrupted",
    "toolchains": "compiler wrappers",
    "zig": "start files and compiler-rt, built by zig",
}
_SECONDS: Final = {"h": 3600, "d": 24 * 3600, "w": 7 * 24 * 3600}


class NothingToPruneByError(OrchestratorError):
    """`--prune` without a word on what may go, or such a word without `--prune`."""


@dataclass(frozen=True)
class _Pruned:
    """What was removed, or would be."""

    entries: int
    bytes: int


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add --prune, --max, --unused, --dry-run and --json."""
    parser.add_argument("--prune", action="store_true", help="remove what --max or --unused names")
    parser.add_argument(
        "--max", type=_size, metavar="SIZE", help="the most that the cache may hold, such as 5GB"
    )
    parser.add_argument(
        "--unused", type=_age, metavar="AGE", help="what nobody used for so long: 12h, 30d, 2w"
    )
    parser.add_argument(
        "--dry-run", "-n", action="store_true", help="tell what would be removed, and remove none"
    )
    parser.add_argument("--json", action="store_true", help="print an object for machines")


def run(arguments: argparse.Namespace, context: Context) -> int:
    """Prune, if that is asked for, and tell what is there."""
    wanted = arguments.max is not None or arguments.unused is not None
    if bool(arguments.prune) != wanted:
        raise NothingToPruneByError(
            "--prune goes with --max or --unused",
            hint="write `cache --prune --max 5GB`, or `cache --prune --unused 30d`",
        )
    cache = context.cache
    if not cache.is_dir():
        return _tell(arguments, context, (), (), None)
    if not is_ours(cache):
        refuse_foreign(cache)
    with cache_in_use(cache, speaker(arguments.quiet)):
        found = parts(cache)
        pruned = None
        if arguments.prune:
            pruned = _prune(arguments, context, sum(part.bytes for part in found))
            found = found if arguments.dry_run else parts(cache)
        return _tell(arguments, context, found, workspaces(cache), pruned)


def _prune(arguments: argparse.Namespace, context: Context, total: int) -> _Pruned:
    before = None if arguments.unused is None else time.time() - arguments.unused
    gone = to_prune(entries(context.cache), total=total, most=arguments.max, before=before)
    if not arguments.dry_run:
        forget_gone(context.cache)
    freed = sum(one.bytes for one in gone) if arguments.dry_run else remove(gone)
    return _Pruned(len(gone), freed)


def _tell(
    arguments: argparse.Namespace,
    context: Context,
    found: tuple[Part, ...],
    users: tuple[User, ...],
    pruned: _Pruned | None,
) -> int:
    if arguments.json:
        print(json.dumps(_json(arguments, context, found, users, pruned), indent=2))
        return ExitCode.OK
    total = sum(part.bytes for part in found)
    if pruned:
        print(
            f"{'would remove' if arguments.dry_run else 'removed'} {pruned.entries:,} objects and"
            f" precompiled headers, {human_bytes(pruned.bytes)}"
        )
    if arguments.quiet:
        return ExitCode.OK
    print(f"{visible(str(context.cache))}: {human_bytes(total)}")
    now = time.time()
    for part in sorted(found, key=lambda part: (-part.bytes, part.name)):
        if part.name == WORKSPACES:
            continue
        held = f", {human_bytes(part.held)} of it in workspaces too" if part.name in PRUNED else ""
        age = _ago(now - part.used) if part.files else "-"
        print(
            f"  {part.name:<14}{human_bytes(part.bytes):>8}  {age:>11}"
            f"  {_WHAT.get(part.name, 'small files')}{held}"
        )
    for user in users:
        gone = "" if user.exists else ", which is gone"
        print(f"used {_ago(now - user.used)} by {visible(str(user.root))}{gone}")
    if arguments.prune and arguments.max is not None and not arguments.dry_run:
        _tell_rest(total - arguments.max)
    return ExitCode.OK


def _tell_rest(over: int) -> None:
    if over > 0:
        print(
            f"{human_bytes(over)} above --max stay: sources, what was made of them, and what"
            " workspaces hold; `clean` in those, or `clean --cache`, frees more"
        )


def _json(
    arguments: argparse.Namespace,
    context: Context,
    found: tuple[Part, ...],
    users: tuple[User, ...],
    pruned: _Pruned | None,
) -> dict[str, Any]:
    return {
        "format": 1,
        "folder": str(context.cache),
        "bytes": sum(part.bytes for part in found),
        "parts": [asdict(part) for part in found if part.name != WORKSPACES],
        "workspaces": [{**asdict(user), "root": str(user.root)} for user in users],
        "pruned": pruned and {**asdict(pruned), "is_dry_run": bool(arguments.dry_run)},
    }


def _ago(seconds: float) -> str:
    """`just now`, `5 h ago`, `3 days ago`: rounded down."""
    hours = int(max(seconds, 0) // 3600)
    if hours < 48:
        return f"{hours} h ago" if hours else "just now"
    return f"{hours // 24} days ago"


def _size(text: str) -> int:
    try:
        return parse_size(int(text) if text.isascii() and text.isdecimal() else text)
    except (PydanticCustomError, ValueError):
        raise argparse.ArgumentTypeError(f"`{text}` is not a size, such as 5GB or 500MiB") from None


def _age(text: str) -> int:
    match = re.fullmatch(r"([0-9]{1,6})([hdw])", text)
    if match is None:
        raise argparse.ArgumentTypeError(f"`{text}` is not an age, such as 12h, 30d or 2w")
    return int(match[1]) * _SECONDS[match[2]]
