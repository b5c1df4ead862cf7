"""`orchestrator fetch`: gets the pinned source trees, verifies them, and shows their folders."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from orchestrator.build.workshop.fetch import (
    FetchedRuntime,
    disk_errors_translated,
    fetch_runtimes,
    read_marker,
)
from orchestrator.cache.checks import remove_damaged
from orchestrator.context import Context
from orchestrator.errors import ExitCode
from orchestrator.load.workspace import load_workspace
from orchestrator.pytorch.dialects import load_version
from orchestrator.system.folders import ensure_folder
from orchestrator.system.workspace_lock import cache_in_use
from orchestrator.values.config.workspace import RuntimePin

NAME = "fetch"
HELP = """\
Gets the PyTorch source trees that WORKSPACE pins, and their third-party sources, from the first of
the listed sources that is available here; verifies them; and unpacks them once into the user's
cache folder. Existing trees are not fetched again. An interrupted fetch leaves nothing behind."""
EXAMPLE = """\
./orchestrate fetch
./orchestrate fetch --verify
PYTORCH_2_6_SOURCE=~/src/pytorch-2.6.0 ./orchestrate fetch --json"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add --verify and --json."""
    parser.add_argument(
        "--verify",
        action="store_true",
        help="hash the contents of the cache, and fetch damaged sources again; damaged objects and"
        " generated files are removed, and created again by the next build that needs them",
    )
    parser.add_argument("--json", action="store_true", help="print the trees as JSON")


def run(arguments: argparse.Namespace, context: Context) -> int:
    """Fetch and print; raises what `load_workspace` and `fetch_runtimes` raise."""
    config = load_workspace(context.root, context.env).config
    pins = [config.pins[config.default_runtime]]
    pins += [pin for pin in config.pins.values() if pin != pins[0]]
    room = max(load_version(pin.pytorch).disk_mb for pin in pins)
    with disk_errors_translated(context.cache, room):
        ensure_folder(context.cache, "cache")
    progress = _quiet if arguments.quiet else _log
    with cache_in_use(context.cache, progress):
        runtimes = fetch_runtimes(pins, context, progress, verify=arguments.verify)
        damaged = remove_damaged(context.cache) if arguments.verify else ()
        for path in damaged:
            progress(f"damaged, removed: {path}")
        trees = _trees(zip(pins, runtimes, strict=True))
    if arguments.json:
        print(json.dumps({"format": 1, "pytorch": pins[0].pytorch, "trees": trees}, indent=2))
    else:
        for tree in trees:
            print(f"{tree['name']:<16}{tree['folder']}")
            print(f"{'':<16}tree {tree['digest']}")
            print(f"{'':<16}{tree['files']:,} files, {tree['bytes']:,} bytes, from {tree['way']}")
    return ExitCode.OK


def _trees(fetched: Iterable[tuple[RuntimePin, FetchedRuntime]]) -> list[dict[str, Any]]:
    """The trees' names, folders and markers, each runtime's PyTorch first."""
    folders: dict[Path, str] = {}
    for pin, runtime in fetched:
        folders.setdefault(runtime.tree, f"pytorch {runtime.version}")
        for name, include in sorted(runtime.third_party.items()):
            depth = len(Path(pin.third_party[name].include).parts)
            folders.setdefault(include.parents[depth - 1], name)
        for name, folder in sorted(runtime.libraries.items()):
            folders.setdefault(folder, name)
    trees = []
    for folder, name in folders.items():
        marker = read_marker(folder)
        assert marker, "fetched just now"
        trees.append({"name": name, "folder": str(folder), **asdict(marker)})
    return trees


def _log(text: str) -> None:
    print(text, file=sys.stderr)


def _quiet(text: str) -> None:
    """Drop the message: --quiet."""
