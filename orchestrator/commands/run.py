"""`orchestrator run`: runs a model in the development library."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from orchestrator.build.development.run import RanModel, run_in_development
from orchestrator.build.development.subject import Subject, app_subjects, file_subject
from orchestrator.build.executing.launch import check_launcher
from orchestrator.build.workshop.invocation import Invocation, load
from orchestrator.build.workshop.runtime import Runtime
from orchestrator.build.workshop.store_in_use import store_in_use
from orchestrator.commands.jobs import add_jobs
from orchestrator.commands.patterns import resolve_patterns
from orchestrator.commands.runtimes import chosen
from orchestrator.commands.views import progress_view, stderr_logger
from orchestrator.context import Context
from orchestrator.errors import ExitCode, OrchestratorError
from orchestrator.load.declared import App, Workspace
from orchestrator.report.run import EstimatedLibrary, MadeLibrary, MadeShard, RunReport
from orchestrator.system.workspace_lock import RUNS
from orchestrator.values.labels import LabelSyntaxError, meant_app

NAME = "run"
HELP = """\
Runs a model in this machine's development library: PyTorch without kernels, plus shards with the
operators that the model calls. If an operator is missing, it is compiled and the model runs again;
later runs take it from the cache. It prints the outputs, the operators with their own time in the
first run, what was compiled, and about how large a library would be: the app's, or one of this
model alone; for an app's models, also whether the outputs match the traced ones. It writes no
trace, and nothing into dist/. The exit code is 1 if a model does not run, or if its outputs differ
from the traced ones."""
EXAMPLE = """\
./orchestrate run new.ptl
./orchestrate run new.ptl --input image.npy --repeat 30
./orchestrate run //apps/camera"""


class RunSubjectError(OrchestratorError):
    """`run` is asked for several apps, or for an app on a runtime that is not its own."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the model or app, --input, --repeat, --runtime, --json and --jobs."""
    add_subject(parser)
    parser.add_argument(
        "--repeat",
        type=_count,
        metavar="N",
        help="run each method's first input N times in a library as a build would deliver it, and"
        " print the median and the minimum time",
    )
    parser.add_argument("--json", action="store_true", help="print the results as JSON")
    add_jobs(parser)


def add_subject(parser: argparse.ArgumentParser) -> None:
    """Add the model or app, --input and --runtime: what is run."""
    parser.add_argument(
        "what", metavar="MODEL|//apps/APP", help="a .ptl or .pt2 file, or an app's models"
    )
    parser.add_argument(
        "--input",
        action="append",
        default=[],
        dest="inputs",
        metavar="FILE|YAML",
        help="one .json or .npz file, or a .npy or .png file for each argument of forward; or calls"
        " as under `inputs:` in app.yaml: '[{shape: [1, 8], fill: zeros}]'"
        " (default: the inputs bundled in the model, or declared for it)",
    )
    parser.add_argument("--runtime", metavar="NAME", help="a runtime of WORKSPACE, for a model")


def _count(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or not 0 < int(text[:8]) <= 1_000_000:
        raise argparse.ArgumentTypeError(f"`{text}` is not a number from 1 to 1,000,000")
    return int(text)


def run(arguments: argparse.Namespace, context: Context) -> int:
    """Run and print, model by model."""
    log = stderr_logger(arguments.quiet)
    # a part of the state that no build reads: neither waits for the other
    here = load(context.in_part(RUNS), log)
    check_launcher(here)
    inputs = [Path(name) for name in arguments.inputs]
    reports = []
    with store_in_use(here):
        runtime, subjects = _subjects(here, arguments, inputs)
        for subject in subjects:
            ran = run_in_development(
                here,
                runtime,
                subject,
                repeat=arguments.repeat,
                jobs=arguments.jobs or here.workspace.config.jobs,
                view=progress_view(arguments.quiet, arguments.verbose),
                estimate=True,
            )
            reports.append(report_of(ran))
            if not arguments.json:
                print(reports[-1].text(), end="", flush=True)
    if arguments.json:
        rows = [report.to_value() for report in reports]
        print(json.dumps({"format": 1, "models": rows}, indent=2))
    sys.stdout.flush()
    differ = any(one.verdict is not None and one.verdict.failures for one in reports)
    return ExitCode.USER_ERROR if differ else ExitCode.OK


def _subjects(
    here: Invocation, arguments: argparse.Namespace, inputs: list[Path]
) -> tuple[Runtime, tuple[Subject, ...]]:
    if not arguments.what.startswith("//"):
        name = chosen(here.workspace, arguments.runtime)
        path = model_path(here.workspace, arguments.what)
        runtime = here.runtimes.on(name)
        subject = file_subject(here, runtime, path, inputs)
        return here.runtimes.with_shipped(runtime, subject.roots), (subject,)
    app = chosen_app(here, arguments)
    subjects = app_subjects(here, app, inputs)
    return here.runtimes.of(app.name), subjects


def model_path(workspace: Workspace, what: str) -> Path:
    """The path that a text is. Raises LabelSyntaxError where it means an app: `vad`, `apps/vad`."""
    path, app = Path(what), meant_app(what)
    if not path.is_file() and (app in workspace.apps or app in workspace.broken):
        raise LabelSyntaxError(
            f"`{what}` is neither a model file nor a label",
            expected="the path of a .ptl or .pt2 file, or //apps/<app>",
            hint=f"write //apps/{app}",
        )
    return path


def chosen_app(here: Invocation, arguments: argparse.Namespace) -> App:
    """The app that a label names.

    Raises RunSubjectError, UnknownRuntimeError, and what resolving labels raises.
    """
    what, name = arguments.what, arguments.runtime
    _ = chosen(here.workspace, name)
    labels = resolve_patterns([what], here.workspace, here.log)
    apps = here.workspace.apps_of(labels)
    if len(apps) != 1:
        raise RunSubjectError(
            "a run is of one app",
            expected="a label such as //apps/camera",
            seen=", ".join(f"//apps/{app.name}" for app in apps) or what,
        )
    (app,) = apps
    if name not in (None, app.runtime):
        raise RunSubjectError(
            f"//apps/{app.name} has another runtime",
            expected=app.runtime,
            seen=name,
            hint="run the model's file to run it in another one",
        )
    return app


def report_of(ran: RanModel) -> RunReport:
    """Return the printed report of a model that ran."""
    return RunReport(
        model=ran.subject.name,
        path=str(ran.subject.path),
        pytorch=ran.pytorch,
        roots=len(ran.subject.roots),
        base_units=ran.base.units,
        base_compiled=ran.base.compiled,
        shards=tuple(
            MadeShard(
                operators=len(one.shard.operators),
                units=one.shard.units,
                bytes=one.shard.bytes,
                compiled=one.shard.compiled,
                missing=one.missing,
                made_seconds=one.seconds[0],
                ran_seconds=one.seconds[1],
            )
            for one in ran.attempts
        ),
        timed=None
        if ran.timed is None
        else MadeLibrary(ran.timed.library.units, ran.timed.library.compiled, ran.timed.seconds),
        result=ran.result,
        verdict=ran.verdict,
        growth=ran.growth,
        library=None
        if ran.estimate is None
        else EstimatedLibrary(ran.estimate.abi, ran.estimate.bytes, ran.estimate.of_app),
    )
