"""`orchestrator matrix`: lists the app x ABI jobs that a change affects, for a CI system."""

from __future__ import annotations

import argparse
import sys

from orchestrator.ci.jobs import GITHUB_MOST
from orchestrator.ci.matrix import matrix_since
from orchestrator.commands.patterns import warn_of_broken
from orchestrator.commands.views import stderr_logger
from orchestrator.context import Context
from orchestrator.errors import ExitCode
from orchestrator.load.workspace import load_workspace

NAME = "matrix"
HELP = """\
Lists the variants that a change affects, with the reasons for each: an app's declaration, model or
trace, its toolchain, WORKSPACE's pin or defaults, or the orchestrator itself. Declarations are
compared as values, so that a comment affects nothing. Uncommitted changes count too. An app.yaml
that the change has broken is an error; one that was broken before is only a warning. For GitHub
it prints lines for $GITHUB_OUTPUT (`matrix`, `any`, `count`), for GitLab a child pipeline."""
EXAMPLE = """\
./orchestrate matrix --since origin/main
./orchestrate matrix --since "$BASE" --format github >> "$GITHUB_OUTPUT"
./orchestrate matrix --since "$CI_COMMIT_BEFORE_SHA" --format gitlab > libtorch.yml"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add --since, --format, --also and --template."""
    parser.add_argument(
        "--since", required=True, metavar="REVISION", help="the commit to compare with"
    )
    parser.add_argument(
        "--format", choices=("github", "gitlab", "json"), default="json", help="default: json"
    )
    parser.add_argument(
        "--json", action="store_const", const="json", dest="format", help="the same as by default"
    )
    parser.add_argument(
        "--also",
        action="append",
        default=[],
        metavar="FILE",
        help="a file of the workspace whose changes affect everything, such as the one"
        " that pins the orchestrator; may be given again",
    )
    parser.add_argument(
        "--template",
        default=".gitlab/libtorch.yml",
        metavar="FILE",
        help="for gitlab: the file that has the job `.libtorch` (default: %(default)s)",
    )


def run(arguments: argparse.Namespace, context: Context) -> int:
    """Compare and print."""
    workspace = load_workspace(context.root, context.env)
    matrix = matrix_since(context, workspace, arguments.since, arguments.also)
    warn_of_broken(workspace, stderr_logger(arguments.quiet))
    if arguments.format == "github":
        if len(matrix.jobs) > GITHUB_MOST:
            print(
                f"{len(matrix.jobs)} jobs exceed the limit of {GITHUB_MOST} in one GitHub matrix",
                file=sys.stderr,
            )
        print(matrix.to_github(), end="")
    elif arguments.format == "gitlab":
        print(matrix.to_gitlab(arguments.template), end="")
    else:
        print(matrix.to_json(), end="")
    return ExitCode.OK
