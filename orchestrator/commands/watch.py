"""`orchestrator watch`: runs a model in the development library whenever it is saved."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from orchestrator.build.development.run import RanModel, run_in_development
from orchestrator.build.development.subject import Subject
from orchestrator.build.development.watch import (
    Round,
    Watched,
    app_round,
    file_round,
    is_traced,
    is_whole,
    watched,
)
from orchestrator.build.executing.launch import check_launcher
from orchestrator.build.tracing.trace import trace_apps
from orchestrator.build.workshop.invocation import Invocation, load
from orchestrator.build.workshop.runtime import Runtime
from orchestrator.build.workshop.store_in_use import store_in_use
from orchestrator.commands.jobs import add_jobs
from orchestrator.commands.run import add_subject, chosen_app, model_path, report_of
from orchestrator.commands.runtimes import chosen
from orchestrator.commands.trace import print_traced
from orchestrator.commands.views import View, progress_view, stderr_logger
from orchestrator.context import Context
from orchestrator.errors import ExitCode, OrchestratorError
from orchestrator.load.declared import App
from orchestrator.report.watch import compare_runs
from orchestrator.system.file_watcher import Watcher
from orchestrator.system.terminal import shown
from orchestrator.system.workspace_lock import workspace_lock

NAME = "watch"
HELP = """\
Runs a model, or an app's models, as `run` does, and again whenever one is saved. Prints how outputs
and operators differ from the run before, and what the app's library would grow by. An app's
declaration, canonical models and own sources are watched too, and the files of --input. Files are
polled four times a second; one that is still being written is waited for. A model that cannot be
read or run is reported, and watching goes on. Ctrl-C ends it. Without --trace it writes no trace,
and it writes nothing into dist/."""
EXAMPLE = """\
./orchestrate watch //apps/camera
./orchestrate watch //apps/camera --trace
./orchestrate watch new.ptl --input image.npy"""


class WatchTraceError(OrchestratorError):
    """Traces are asked for of what has no lock: a model's file, or inputs that are not the
    model's own."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the model or app, --input, --runtime, --trace and --jobs."""
    add_subject(parser)
    parser.add_argument(
        "--trace",
        action="store_true",
        help="trace the app after each round in which all models ran, as `trace` does, unless its"
        " locks are current",
    )
    add_jobs(parser)


def run(arguments: argparse.Namespace, context: Context) -> int:
    """Run, print and wait, until Ctrl-C. Raises WatchTraceError."""
    if arguments.trace:
        _require_traceable(arguments)
    watch = _Watch(arguments, context)
    try:
        watch.loop()
    except KeyboardInterrupt:
        watch.log("stopped")
    return ExitCode.OK


def _require_traceable(arguments: argparse.Namespace) -> None:
    seen = arguments.what
    if seen.startswith("//"):
        if not arguments.inputs:
            return
        seen += f" with --input {arguments.inputs[0]}"
    raise WatchTraceError(
        "--trace is for an app's models on their own inputs",
        expected="//apps/<app>, without --input",
        seen=seen,
        hint="declare the model in an app.yaml, with `inputs:` where its file has none",
    )


@dataclass
class _Watch:
    arguments: argparse.Namespace
    context: Context
    watcher: Watcher = field(default_factory=lambda: Watcher(is_whole))
    before: dict[str, RanModel] = field(default_factory=dict)
    watched: Watched = field(default_factory=Watched)

    @property
    def inputs(self) -> list[Path]:
        return [Path(name) for name in self.arguments.inputs]

    def log(self, text: str) -> None:
        stderr_logger(self.arguments.quiet)(text)

    def loop(self) -> None:
        """Raises what hinders the first round: a wrong label, no development library."""
        changed = None
        while True:
            # before anything is read: what is saved from here on makes another round
            self.watcher.take(self.watched.files())
            try:
                here = load(self.context, self.log)
                app, model = self._subject(here)
                self.watched = watched(here, app, model, self.inputs)
                self.watcher.follow(self.watched.files())
                with store_in_use(here):
                    ran = True
                    for one in self._round(here, app, model, changed):
                        self._report(one)
                        ran = ran and one.ran is not None
                    if self.arguments.trace and app is not None and ran:
                        self._trace(here, app)
            except OrchestratorError as error:
                if changed is None:
                    raise
                self._report_error(error)
            self.log(f"waiting for {self.arguments.what} to be saved; Ctrl-C ends this")
            changed = self.watcher.changed(self.watched.files)
            names = (os.path.relpath(path, self.context.root) for path in sorted(changed))
            self.log(f"saved: {', '.join(names)}")

    def _subject(self, here: Invocation) -> tuple[App | None, Path | None]:
        what = self.arguments.what
        if what.startswith("//"):
            return chosen_app(here, self.arguments), None
        return None, model_path(here.workspace, what).absolute()

    def _round(
        self,
        here: Invocation,
        app: App | None,
        model: Path | None,
        changed: Collection[Path] | None,
    ) -> Iterator[Round]:
        check_launcher(here)
        if app is not None:
            return app_round(here, app, changed, self.inputs, self._run)
        assert model is not None
        name = chosen(here.workspace, self.arguments.runtime)
        return file_round(here, name, model, self.inputs, self._run)

    def _run(self, here: Invocation, runtime: Runtime, subject: Subject) -> RanModel:
        return run_in_development(
            here,
            runtime,
            subject,
            repeat=None,
            jobs=self._jobs(here),
            view=self._view,
            with_arguments=True,
        )

    def _jobs(self, here: Invocation) -> int | None:
        return self.arguments.jobs or here.workspace.config.jobs

    @property
    def _view(self) -> View:
        return progress_view(self.arguments.quiet, self.arguments.verbose)

    def _trace(self, here: Invocation, app: App) -> None:
        """Trace the app where its locks are not current. What hinders it is reported."""
        try:
            if is_traced(here, app):
                return
            with workspace_lock(self.context.state, True, self.log, NAME):
                (traced,) = trace_apps(here, [app], jobs=self._jobs(here), view=self._view)
        except OrchestratorError as error:
            self._report_error(error)
            return
        print_traced(traced)
        sys.stdout.flush()
        for refused in traced.errors:
            self._report_error(refused)

    def _report(self, one: Round) -> None:
        if one.error is not None:
            self._report_error(one.error)
        if one.ran is None:
            return
        before = self.before.get(one.model)
        text = report_of(one.ran).text(table=before is None)
        if before is not None:
            text += compare_runs(before.result, one.ran.result).text()
        self.before[one.model] = one.ran
        print(text, end="", flush=True)

    def _report_error(self, error: OrchestratorError) -> None:
        print(shown(error.render(), sys.stderr, self.context.env), file=sys.stderr, flush=True)
