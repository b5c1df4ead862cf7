"""`orchestrator export`: exports a PyTorch module into an app, or a plan to another build
system."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from orchestrator.build.authoring.export_model import (
    ExportedModel,
    ModelExport,
    app_of,
    export_model,
)
from orchestrator.build.bazel.export import export_bazel
from orchestrator.build.workshop.invocation import Invocation, load
from orchestrator.build.workshop.traced import require_traced
from orchestrator.canonical.python import VARIABLE
from orchestrator.commands.patterns import add_patterns, resolve_patterns
from orchestrator.commands.views import stderr_logger
from orchestrator.context import Context
from orchestrator.errors import ExitCode, OrchestratorError, visible
from orchestrator.load.inputs import parse_run
from orchestrator.report.canonical import rewrite_value
from orchestrator.system.workspace_lock import cache_in_use

NAME = "export"
HELP = """\
export model: turns a PyTorch module into an app's .ptl, canonical and with example inputs, in
apps/NAME/models/; creates the app if it does not exist. The module goes through torch.export, with
all sizes open, or is scripted where its way depends on values; and the model is compared with it on
the inputs, on other sizes and on random values. torch runs in a separate Python environment.
export bazel: writes the plan of the apps and ABIs that the patterns name into a folder, as a Bazel
workspace: a target for every compilation and link, with its inputs, and `//apps/<app>:<abi>` for
each library. The folder contains all sources and the compiler, so that it builds on other machines
and with a remote cache. The export replaces an earlier one, and refuses a folder with any other
contents."""
EXAMPLE = """\
./orchestrate export model apps/vad --module models.vad:Detector --inputs models.vad:examples
./orchestrate export model apps/vad --module models.vad:Detector --input \
'[{shape: [1, 160], fill: normal}]'
./orchestrate export bazel ~/libtorch-bazel //...
cd ~/libtorch-bazel && bazel build //apps/camera:linux-x86_64"""
# Options of `model` that have no default.
_MODELS: Final = (
    *("module", "name", "weights", "inputs", "input", "method", "via", "dynamic", "fixed"),
    *("fixed_sizes", "path", "python"),
)
_WAYS: Final = ("export", "script", "trace")


class ExportArgumentsError(OrchestratorError):
    """Arguments that `export` needs, or that are not for what is exported."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the format, its place, patterns, --json, and what `model` takes."""
    parser.add_argument("format", choices=("bazel", "model"), help="what to export")
    parser.add_argument(
        "place",
        metavar="DIR|APP",
        help="with `bazel`, the folder to write; with `model`, apps/NAME",
    )
    add_patterns(parser)
    parser.add_argument("--json", action="store_true", help="print what was written as JSON")
    _add_model(parser.add_argument_group("with `model`"))


def _add_model(parser: argparse._ArgumentGroup) -> None:
    parser.add_argument(
        "--module",
        metavar="PACKAGE:NAME",
        help="a torch.nn.Module, or a class or function that makes one without arguments",
    )
    parser.add_argument("--name", help="the model's name (default: the module's, in lower case)")
    parser.add_argument(
        "--weights",
        type=Path,
        metavar="FILE",
        help="the module's state_dict(), by torch.save",
    )
    inputs = parser.add_mutually_exclusive_group()
    inputs.add_argument(
        "--inputs",
        metavar="PACKAGE:NAME",
        help="a list of calls, each a tuple of arguments, or such lists by method; or a function"
        " that returns one",
    )
    inputs.add_argument(
        "--input",
        action="append",
        default=[],
        metavar="YAML",
        help="a call, as under `inputs:` in app.yaml, or its list of arguments; repeatable",
    )
    parser.add_argument(
        "--method",
        action="append",
        default=[],
        metavar="NAME=PACKAGE:NAME",
        help="a method to export, with its calls as for --inputs; repeatable",
    )
    parser.add_argument(
        "--via",
        choices=_WAYS,
        help="how: torch.export, TorchScript's compiler, or its tracer (default: export, else"
        " script)",
    )
    parser.add_argument(
        "--dynamic",
        action="append",
        default=[],
        metavar="NAME:DIM[=LEAST..MOST]",
        help="with torch.export, leave a dimension open, in these limits; repeatable",
    )
    parser.add_argument(
        "--fixed",
        action="append",
        default=[],
        metavar="NAME[:DIM]",
        help="with torch.export, keep a dimension as in the example; repeatable",
    )
    parser.add_argument(
        "--fixed-sizes",
        action="store_true",
        help="keep all dimensions as in the example, but for those of --dynamic",
    )
    parser.add_argument(
        "--canonical",
        choices=("static", "off"),
        default="static",
        help="off: keep the operators that torch wrote (default: static)",
    )
    parser.add_argument(
        "--path",
        action="append",
        type=Path,
        default=[],
        metavar="DIR",
        help="a folder to import from, before this one and the workspace's root; repeatable",
    )
    parser.add_argument(
        "--python",
        metavar="PROGRAM",
        help=f"a Python that has torch; default: ${VARIABLE}, else the orchestrator's own",
    )


def run(arguments: argparse.Namespace, context: Context) -> int:
    """Export and print what was written."""
    log = stderr_logger(arguments.quiet)
    here = load(context, log)
    if arguments.format == "model":
        return _run_model(arguments, here)
    if given := [f"--{name.replace('_', '-')}" for name in _MODELS if getattr(arguments, name)]:
        raise ExportArgumentsError(
            "these arguments are not for `export bazel`", seen=", ".join(given)
        )
    labels = resolve_patterns(arguments.patterns, here.workspace, log)
    require_traced(here, labels)
    folder = Path.cwd() / Path(arguments.place).expanduser()
    with cache_in_use(context.cache, log):
        here.runtimes.prepare(label.app for label in labels)
        export_bazel(here, labels, folder)
    if arguments.json:
        variants = [{"app": label.app, "abi": label.abi} for label in labels]
        print(json.dumps({"format": 1, "folder": str(folder), "variants": variants}, indent=2))
    else:
        print(f"{folder}: {len(labels)} variant{'' if len(labels) == 1 else 's'}")
    return ExitCode.OK


def _run_model(arguments: argparse.Namespace, here: Invocation) -> int:
    context = here.context
    _require_model_arguments(arguments)
    app = app_of(arguments.place)
    asked = ModelExport(
        module=arguments.module,
        name=arguments.name,
        weights=arguments.weights,
        inputs=arguments.inputs,
        runs=tuple(parse_run(text, "--input") for text in arguments.input),
        via=arguments.via or "any",
        fixed_sizes=arguments.fixed_sizes,
        methods=_methods(arguments.method),
        dynamic=arguments.dynamic,
        fixed=arguments.fixed,
        canonical=arguments.canonical == "static",
        paths=arguments.path,
        python=arguments.python,
    )
    with cache_in_use(context.cache, here.log):
        if app in here.workspace.apps:
            here.runtimes.prepare([app])
        made = export_model(here, app, asked, Path.cwd())
    if arguments.json:
        print(json.dumps(_to_json(made), indent=2))
    else:
        print(*map(visible, _text(made)), sep="\n")
    return ExitCode.OK


def _require_model_arguments(arguments: argparse.Namespace) -> None:
    missing = [] if arguments.module else ["--module PACKAGE:NAME"]
    if not arguments.inputs and not arguments.input and not arguments.method:
        missing.append("--inputs PACKAGE:NAME or --input YAML")
    if missing:
        raise ExportArgumentsError("`export model` needs more", expected=" and ".join(missing))
    if arguments.patterns != ["//..."]:
        raise ExportArgumentsError(
            "`export model` takes one app", seen=" ".join(arguments.patterns)
        )


def _methods(texts: Sequence[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for text in texts:
        name, _, calls = text.partition("=")
        if not name.isidentifier() or not calls or name in found:
            raise ExportArgumentsError(
                "this is no method with its calls, or there are two",
                expected="--method NAME=PACKAGE:NAME, each name once",
                seen=text,
            )
        found[name] = calls
    return found


def _text(made: ExportedModel) -> Sequence[str]:
    counts, largest = _compared(made), made.result.largest
    operators = len(made.info.root_operators)
    lines = [
        f"{made.file}: {operators} operators, {made.info.size:,} bytes"
        + (f"; created //apps/{made.app}" if made.created else ""),
        f"  {counts['same']} calls compared with the module, largest difference"
        f" {f'{largest:.0e}' if largest else '0'}",
    ]
    if counts["not_taken"]:
        lines.append(f"  {counts['not_taken']} more were not: the module takes no such inputs")
    if counts["refused"]:
        why = ", ".join(sorted({call.why for call in made.result.comparison if call.why}))
        lines.append(f"  {counts['refused']} more were not: the model does not take them: {why}")
    if counts["unsteady"]:
        lines.append(
            f"  {counts['unsteady']} more were not: the module gives other values each time"
        )
    if counts["flat"]:
        lines.append(
            f"  {counts['flat']} more prove little: the module gives one number everywhere"
        )
    if counts["too_small"]:
        lines.append(
            f"  {counts['too_small']} more prove nothing: the numbers are as small as the tolerance"
        )
    lines.append(f"  inputs: {made.inputs}")
    lines += [f"  {one}" for one in (*made.result.notes, *made.rewrites, *made.left)]
    return [*lines, "next:", *(f"  {step}" for step in _steps(made))]


def _compared(made: ExportedModel) -> dict[str, int]:
    """Number of calls for each result of the comparison."""
    calls = made.result.comparison
    return {
        "same": sum(call.result == "same" for call in calls),
        "not_taken": sum(call.result == "not taken" for call in calls),
        "refused": sum(call.result == "refused" for call in calls),
        "unsteady": sum(call.result == "differs by itself" for call in calls),
        "flat": sum(call.result == "flat" for call in calls),
        "too_small": sum(call.result == "too small" for call in calls),
    }


def _steps(made: ExportedModel) -> list[str]:
    declare = f"declare {made.file.rpartition('/')[2]} under `models:` in apps/{made.app}/app.yaml"
    below = made.inputs.removeprefix(f"apps/{made.app}/")
    feed = (
        f"declare `inputs: {below}` for {made.file.rpartition('/')[2]} in apps/{made.app}/app.yaml"
    )
    return [
        *([] if made.declared else [declare]),
        *([] if made.fed else [feed]),
        f"./orchestrate trace //apps/{made.app}",
        f"./orchestrate build //apps/{made.app}",
    ]


def _to_json(made: ExportedModel) -> dict[str, Any]:
    return {
        "format": 1,
        "app": made.app,
        "file": made.file,
        "inputs": made.inputs,
        "created": made.created,
        "declared": made.declared,
        "operators": [*made.info.root_operators],
        "bytes": made.info.size,
        "via": made.result.via,
        "notes": [*made.result.notes],
        "compared": _compared(made),
        "largest": made.result.largest,
        "rewrites": [rewrite_value(line) for line in made.rewrites],
        "left_out": [asdict(one) for one in made.left],
        "next": _steps(made),
    }
