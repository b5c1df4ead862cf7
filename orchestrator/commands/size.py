"""`orchestrator size`: tells what the bytes of libraries are there for."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import get_args

from orchestrator.build.delivering.since import sizes_since
from orchestrator.build.explaining.kept_sizes import sizes_in
from orchestrator.build.explaining.size import measured
from orchestrator.build.workshop.invocation import load
from orchestrator.build.workshop.traced import require_traced
from orchestrator.commands.jobs import count
from orchestrator.commands.patterns import resolve_patterns
from orchestrator.commands.views import progress_view, stderr_logger
from orchestrator.context import Context
from orchestrator.errors import ExitCode, OrchestratorError
from orchestrator.report.events import last_events, read_events
from orchestrator.report.size import By, sizes_json, sizes_text
from orchestrator.report.size_changes import as_json, markdown, text
from orchestrator.size.changes import Comparison, compared, grown
from orchestrator.system.workspace_lock import cache_in_use
from orchestrator.values.config.forms import parse_size
from orchestrator.values.labels import VariantLabel

NAME = "size"
HELP = """\
Tells what every byte of a delivered library is there for; the rows add up to the file. Of an
operator, `bytes` is what the library has for it alone, and would lose without it; `shared` is what
other operators need too. Keeps the result in dist/<app>/sizes/<abi>.json. Compiles nothing: build
the libraries first. Of a static library for iOS it counts what an app's linker keeps.

With OLD and NEW in place of patterns it compares two builds: files or folders that `size` kept,
dist/ or a part of it, packages. --since builds the workspace as it was at a commit, beside it, and
compares that with what is in dist/. --growth fails if a library grew by more."""
EXAMPLE = """\
./orchestrate size //apps/camera:linux-x86_64
./orchestrate size //apps/camera --by operator
./orchestrate size old/dist dist
./orchestrate size //... --since origin/main --growth 20kB --format markdown > comment.md"""


class NothingToCompareError(OrchestratorError):
    """A comparison is asked for without two builds."""


class GrownError(OrchestratorError):
    """Libraries grew by more than they may."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add patterns, --by, --top, --since, --growth, --format and --json."""
    parser.add_argument(
        "what",
        nargs="*",
        default=["//..."],
        metavar="PATTERN",
        help="as of `build` (default: //...); or OLD NEW, two paths",
    )
    parser.add_argument(
        "--by", choices=get_args(By), default="area", help="what a row stands for (default: area)"
    )
    parser.add_argument(
        "--top", type=count, default=20, metavar="N", help="rows of a table (default: 20)"
    )
    parser.add_argument("--since", metavar="REVISION", help="the commit to compare with")
    parser.add_argument(
        "--growth",
        type=_size,
        metavar="SIZE",
        help="of a comparison: by how much a library may grow, such as 20kB",
    )
    parser.add_argument(
        "--format",
        choices=("text", "json", "markdown"),
        default="text",
        help="markdown: of a comparison, a comment for a pull request (default: text)",
    )
    parser.add_argument(
        "--json", action="store_const", const="json", dest="format", help="print values as JSON"
    )


def _size(text: str) -> int:
    try:
        return parse_size(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"not a size, such as 20kB: {text!r}") from None


def run(arguments: argparse.Namespace, context: Context) -> int:
    """Attribute or compare, and print."""
    log = stderr_logger(arguments.quiet)
    paths = [text for text in arguments.what if not text.startswith("//")]
    if len(paths) == len(arguments.what) == 2 and not arguments.since:
        before, after = (sizes_in(Path(path)) for path in paths)
        return _compare(arguments, compared(before, after))
    _require_two_builds(arguments, [path for path in paths if Path(path).exists()])
    here = load(context, log)
    labels = resolve_patterns(arguments.what, here.workspace, log)
    require_traced(here, labels)
    with cache_in_use(context.cache, log):
        found = [measured(here, label) for label in labels]
        if arguments.since:
            view = progress_view(arguments.quiet)
            old = sizes_since(here, arguments.since, labels, view)
            new = {(one.attribution.app, one.attribution.abi): one.attribution for one in found}
            return _compare(arguments, compared(old, new), _verified(context, labels))
    if arguments.format == "json":
        answers = [sizes_json(one.attribution, one.graph, arguments.by) for one in found]
        print(json.dumps({"format": 1, "libraries": answers}, indent=2))
    else:
        tables = (
            sizes_text(one.attribution, one.graph, arguments.by, arguments.top) for one in found
        )
        print("\n".join(tables), end="")
    return ExitCode.OK


def _require_two_builds(arguments: argparse.Namespace, paths: Sequence[str]) -> None:
    """Refuse options and paths of a comparison if there is none."""
    options = {
        "--growth": arguments.growth is not None,
        "--format markdown": arguments.format == "markdown",
    }
    asked = [option for option, given in options.items() if given and not arguments.since]
    if asked or paths:
        raise NothingToCompareError(
            f"{asked[0] if asked else paths[0]} goes with a comparison of two builds",
            expected="two paths, OLD NEW, or patterns with --since REVISION",
            seen=" ".join([*arguments.what, *(["--since"] if arguments.since else [])]),
            hint="./orchestrate size old/dist dist",
        )


def _verified(context: Context, labels: Sequence[VariantLabel]) -> dict[str, str]:
    """Read how the last build here verified libraries, by label; nothing where it is not known."""
    try:
        text = last_events(context.state).read_text(encoding="utf-8")
        told = {one.name: one.said for one in read_events(text) if one.event == "verified"}
    except (OSError, ValueError, TypeError):
        return {}
    return {str(label): told[str(label)] for label in labels if str(label) in told}


def _compare(
    arguments: argparse.Namespace,
    found: Sequence[Comparison],
    verified: Mapping[str, str] | None = None,
) -> int:
    much = () if arguments.growth is None else grown(found, arguments.growth)
    if arguments.format == "json":
        print(json.dumps({"format": 1, "changes": as_json(found, much)}, indent=2))
        # an error would be a second document
        return ExitCode.USER_ERROR if much else ExitCode.OK
    if arguments.format == "markdown":
        print(markdown(found, arguments.growth, verified), end="")
    else:
        print(text(found, arguments.top), end="")
    if much:
        sys.stdout.flush()
        worst = max(much, key=lambda one: one.size.difference)
        raise GrownError(
            f"{len(much)} librar{'y' if len(much) == 1 else 'ies'} grew by more than allowed",
            expected=f"at most {arguments.growth:,} bytes more",
            seen=f"{worst.size.difference:,} bytes more in {worst.label}",
            hint="see what grew above, or allow more: --growth",
        )
    return ExitCode.OK
