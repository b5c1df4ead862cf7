"""`orchestrate new-app`: adds an app to the workspace."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from orchestrator.build.authoring.add_app import AppRequest, NewApp, NewModel, add_app
from orchestrator.build.workshop.invocation import load
from orchestrator.commands.patterns import warn_of_broken
from orchestrator.commands.views import stderr_logger
from orchestrator.context import Context
from orchestrator.errors import ExitCode, visible
from orchestrator.report.devices import devices_line
from orchestrator.system.workspace_lock import cache_in_use

NAME = "new-app"
HELP = """\
Makes apps/NAME/ with copies of the models and an app.yaml for them, and prints a summary of the
models and the next steps. Models that the runtime cannot load are refused. For a model without
bundled inputs, app.yaml gets a call of each of its methods, in which you fill in the shapes."""
EXAMPLE = """\
./orchestrate new-app vad --model ~/exported/vad.ptl
./orchestrate new-app vad --model vad.ptl --target linux-arm64 --target android-arm64-v8a"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the name, --model, --target, --runtime, --canonical and --json."""
    parser.add_argument("name", metavar="NAME", help="the app's name: its label is //apps/NAME")
    parser.add_argument(
        "--model",
        action="append",
        required=True,
        metavar="FILE",
        help="a .ptl or .pt2 file to copy; repeatable",
    )
    parser.add_argument(
        "--target",
        action="append",
        default=[],
        metavar="ABI",
        help="an ABI to build for; repeatable (default: this machine's own)",
    )
    parser.add_argument(
        "--runtime",
        metavar="NAME",
        help="a runtime that WORKSPACE pins, for `runtime:` (default: the workspace's)",
    )
    parser.add_argument(
        "--canonical",
        action="store_true",
        help="with `canonical: static`: the models' canonical files are traced and shipped",
    )
    parser.add_argument("--json", action="store_true", help="print the new app as JSON")


def run(arguments: argparse.Namespace, context: Context) -> int:
    """Add the app and print a summary. Raises what `add_app` raises."""
    log = stderr_logger(arguments.quiet)
    here = load(context, log)
    warn_of_broken(here.workspace, log)
    asked = AppRequest(
        arguments.name,
        [Path(file) for file in arguments.model],
        arguments.target,
        arguments.runtime,
        arguments.canonical,
    )
    with cache_in_use(context.cache, log):
        added = add_app(here, asked, Path.cwd())
    if arguments.json:
        print(json.dumps(_to_json(added), indent=2))
        return ExitCode.OK
    print(f"created {added.place}, for {', '.join(added.targets)}")
    for model in added.models:
        print(f"  {visible(_facts(model))}")
        if model.devices:
            print(f"    {devices_line(model.devices)}")
    print("next:", *(f"  {step}" for step in _steps(added)), sep="\n")
    return ExitCode.OK


def _facts(model: NewModel) -> str:
    """`models/vad.ptl: 14 operators; forward with 3 inputs inside, embed without`."""
    counts = model.inputs
    methods = []
    for name in model.methods:
        if name not in counts:
            methods.append(f"{name} without inputs")
        else:
            count = counts[name]
            methods.append(f"{name} with {'' if count is None else f'{count} '}inputs inside")
    return f"{model.file}: {len(model.info.root_operators)} operators; {', '.join(methods)}"


def _steps(added: NewApp) -> list[str]:
    label = f"//apps/{added.name}"
    made = added.canonical or any(model.is_program for model in added.models)
    fill = [f"fill in the input shapes in {added.place}"]
    return [
        *(fill if any(model.example for model in added.models) else []),
        *([f"./orchestrate canonical {label} --write"] if made else []),
        f"./orchestrate trace {label}",
        f"./orchestrate build {label}",
    ]


def _to_json(added: NewApp) -> dict[str, Any]:
    return {
        "format": 1,
        "app": added.name,
        "file": added.place.file,
        "targets": list(added.targets),
        "models": [
            {
                "file": model.file,
                "operators": [*model.info.root_operators],
                "methods": list(model.methods),
                "inputs": model.inputs,
                "example_inputs": model.example,
                "foreign_devices": list(model.devices),
            }
            for model in added.models
        ],
        "next": _steps(added),
    }
