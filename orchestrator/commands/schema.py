"""`orchestrator schema`: prints a JSON schema of the files and answers."""

from __future__ import annotations

import argparse
import sys

from orchestrator.context import Context
from orchestrator.errors import ExitCode
from orchestrator.load.workspace import BUILT_IN

NAME = "schema"
HELP = """\
Prints the JSON schema (draft 2020-12) of app.yaml, WORKSPACE, a file in toolchains/, or of what
verbs print with --json. Editors complete and check files with it; programs check answers."""
EXAMPLE = """\
./orchestrate schema app > schemas/app.schema.json
./orchestrate schema output > schemas/output.schema.json"""

_SUFFIX = ".schema.json"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the schema's name."""
    parser.add_argument("name", choices=names(), help="what it is the schema of")


def run(arguments: argparse.Namespace, context: Context) -> int:
    """Print the schema."""
    file = BUILT_IN / "schemas" / f"{arguments.name}{_SUFFIX}"
    sys.stdout.write(file.read_text(encoding="utf-8"))
    return ExitCode.OK


def names() -> tuple[str, ...]:
    """The schemas that this package has, sorted."""
    files = (BUILT_IN / "schemas").glob(f"*{_SUFFIX}")
    return tuple(sorted(file.name.removesuffix(_SUFFIX) for file in files))
