"""`orchestrator select`: shows, merges and compares files of selected operators."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path
from typing import get_args

from orchestrator.context import Context
from orchestrator.errors import ExitCode, OrchestratorError, visible
from orchestrator.trace.reading import named_text
from orchestrator.trace.selected import Form, read_selected, selected_text, selected_value
from orchestrator.values.selected import Selected, changes_of, merge_selected

NAME = "select"
HELP = """\
Shows, merges and compares files of selected operators: our locks, PyTorch's selected-operators
YAML (both formats), ExecuTorch's selected_operators.yaml. `show` prints one as PyTorch's
SelectiveBuilder reads it, or in another format with `--as`. `merge` prints the union of several,
and keeps who asked for each operator (debug_info). `diff` prints the entries that only the second
file has (+) or only the first (-). The order of files does not matter, nor does naming one
twice."""
EXAMPLE = """\
./orchestrate select show apps/camera/traces/classifier.yaml
./orchestrate select merge apps/camera/traces/*.yaml upstream.yaml
./orchestrate select diff old.yaml new.yaml"""


class SelectionMissingError(OrchestratorError):
    """A file of selected operators cannot be read."""


class FilesMiscountedError(OrchestratorError):
    """An action takes another number of files."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the action, the files, --as and --json."""
    parser.add_argument("action", choices=["show", "merge", "diff"], help="what to do")
    parser.add_argument("files", nargs="+", metavar="FILE", help="files of selected operators")
    parser.add_argument(
        "--as", choices=get_args(Form), default="pytorch", dest="form", help="the format to write"
    )
    parser.add_argument("--json", action="store_true", help="print the same as JSON")


def run(arguments: argparse.Namespace, context: Context) -> int:
    """Read the files and print."""
    wanted = {"show": 1, "diff": 2}.get(arguments.action, len(arguments.files))
    if len(arguments.files) != wanted:
        raise FilesMiscountedError(
            f"`select {arguments.action}` takes {'one file' if wanted == 1 else 'two files'}",
            seen=f"{len(arguments.files)}",
            hint="write `select diff OLD NEW`" if wanted == 2 else "`select merge` takes several",
        )
    files = [_read(Path(name)) for name in arguments.files]
    if arguments.action == "diff":
        changes = changes_of(*files)
        if arguments.json:
            print(json.dumps({"format": 1, "changes": list(map(asdict, changes))}, indent=2))
            return ExitCode.OK
        for one in changes:
            print(visible(f"{'+' if one.added else '-'} {one.part} {one.name}"))
    elif arguments.json:
        selection = selected_value(merge_selected(files), arguments.form)
        print(json.dumps({"format": 1, "form": arguments.form, "selection": selection}, indent=2))
    else:
        print(selected_text(merge_selected(files), arguments.form), end="")
    return ExitCode.OK


def _read(path: Path) -> Selected:
    text = named_text(path, SelectionMissingError, "file", "a file of selected operators")
    return read_selected(text, str(path))
