"""`orchestrator why`: explains which model needs something, and by which path."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict, replace

from orchestrator.build.explaining.explain import why
from orchestrator.build.explaining.size import bytes_of
from orchestrator.build.workshop.invocation import load
from orchestrator.build.workshop.traced import require_traced
from orchestrator.commands.patterns import resolve_patterns
from orchestrator.commands.views import stderr_logger
from orchestrator.context import Context
from orchestrator.errors import ExitCode, visible
from orchestrator.system.workspace_lock import cache_in_use

NAME = "why"
HELP = """\
Explains why something is in a variant: an operator, a unit (its path in PyTorch's tree), a kernel
tag, a custom class, a build feature, or a mangled symbol. An operator without an overload stands
for all of its overloads. Prints the models that need it, and the shortest path from a root to it: a
chain of functions, each of which references the next. With `--bytes` also what it takes of the
library that was built, and what that would lose without it. Of an operator that is not in it, it
tells which models do not ask for it, and which overloads are there."""
EXAMPLE = """\
./orchestrate why //apps/camera aten::conv2d
./orchestrate why //apps/camera:linux-x86_64 aten/src/ATen/native/Linear.cpp
./orchestrate why //apps/camera:linux-x86_64 aten::conv2d --bytes"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the label, the subject and --json."""
    parser.add_argument("label", metavar="LABEL", help="//apps/camera, or one ABI of it")
    parser.add_argument(
        "subject", metavar="NAME", help="the operator, unit, tag, class, feature or symbol"
    )
    parser.add_argument(
        "--bytes", action="store_true", help="tell what it takes of the library, once that is built"
    )
    parser.add_argument("--json", action="store_true", help="print the answer as JSON")


def run(arguments: argparse.Namespace, context: Context) -> int:
    """Explain and print."""
    log = stderr_logger(arguments.quiet)
    here = load(context, log)
    # what is selected is the same for every ABI of an app
    label = resolve_patterns([arguments.label], here.workspace, log)[0]
    require_traced(here, [label])
    with cache_in_use(context.cache, log):
        answer = why(here, label, arguments.subject)
        if arguments.bytes and answer.lines:
            answer = replace(answer, bytes=bytes_of(here, label, arguments.subject))
            if answer.bytes is None:
                log(
                    f"no bytes are known of `{visible(arguments.subject)}`: only of operators,"
                    " classes, and units and symbols that are not inlined"
                )
    if arguments.json:
        answered: dict[str, object] = {"label": str(label), "subject": answer.subject}
        answered["lines"] = list(answer.lines)
        if answer.absent:
            answered["absent"] = list(answer.absent)
        if answer.bytes is not None:
            answered["bytes"] = asdict(answer.bytes)
        print(json.dumps({"format": 1, "present": bool(answer.lines), **answered}, indent=2))
    else:
        print(answer.text(), end="")
    return ExitCode.OK
