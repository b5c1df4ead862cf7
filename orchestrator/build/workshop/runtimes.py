"""The runtimes that a workspace pins, and those of apps with sources of their own."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Mapping

from orchestrator.build.workshop.elementwise import all_sources, shipped_sources
from orchestrator.build.workshop.own_sources import own_layer
from orchestrator.build.workshop.prepare import prepare_runtime
from orchestrator.build.workshop.runtime import Runtime
from orchestrator.build.workshop.toolchains import Toolchains
from orchestrator.cache.pruning import note_workspace
from orchestrator.context import Context
from orchestrator.load.declared import Workspace
from orchestrator.plan.own_folders import filled
from orchestrator.system.folders import ensure_folder
from orchestrator.values.config.app import SHIPPED_OPERATORS
from orchestrator.values.operators import OperatorName
from orchestrator.values.own_sources import OwnSources


class Runtimes:
    """Runtimes by name, and by the app that uses one.

    One is fetched, generated and indexed when it is first asked for: a command that takes the
    workspace's lock calls `prepare` before.

    log    takes a line of progress
    ready  runtimes that are prepared already
    """

    def __init__(
        self,
        workspace: Workspace,
        context: Context,
        toolchains: Toolchains,
        log: Callable[[str], None],
        ready: Iterable[Runtime] = (),
    ) -> None:
        self._workspace = workspace
        self._context = context
        self._toolchains = toolchains
        self._log = log
        self._pinned = {one.name: one for one in ready}
        self._of_apps: dict[str, Runtime] = {}
        self._sources: dict[str, OwnSources | None] = {}

    @property
    def names(self) -> Mapping[str, str]:
        """Digest of a runtime's tree -> its name; of several names the last."""
        return {pin.tree: name for name, pin in self._workspace.config.pins.items()}

    @property
    def default(self) -> Runtime:
        """The runtime of apps that name none."""
        return self.on(self._workspace.config.default_runtime)

    def on(self, name: str) -> Runtime:
        """The runtime that WORKSPACE pins under this name.

        Makes the cache and state folders, and notes in the cache that the workspace uses it. Raises
        what `prepare_runtime` raises.
        """
        if name not in self._pinned:
            context = self._context
            ensure_folder(context.cache, "cache")
            for folder in (context.shared, context.state):
                ensure_folder(folder, "state")
            note_workspace(context.cache, context.root)
            self._pinned[name] = prepare_runtime(self._workspace, name, context, self._log)
        return self._pinned[name]

    def of(self, app: str) -> Runtime:
        """An app's runtime, with the app's own sources in it. Raises what `on`, `sources` and
        `own_layer` raise."""
        on = self.on(self._workspace.apps[app].runtime)
        sources = self.sources(app)
        if sources is None:
            return on
        if app not in self._of_apps:
            self._of_apps[app] = self._with(on, sources)
        return self._of_apps[app]

    def with_shipped(self, runtime: Runtime, operators: Collection[OperatorName]) -> Runtime:
        """A pinned runtime with those of the operators that we have the C++ of, for a model of no
        app, which could switch them on. Raises what `own_layer` raises."""
        ours = SHIPPED_OPERATORS.intersection(operators)
        if not ours:
            return runtime
        return self._with(runtime, shipped_sources([*map(str, ours)]))

    def _with(self, runtime: Runtime, sources: OwnSources) -> Runtime:
        analysing = self._toolchains.analysing
        return own_layer(sources, runtime, analysing, self._context, self._log).over(runtime)

    def sources(self, app: str) -> OwnSources | None:
        """An app's own sources; None where it has none. Raises what `all_sources` raises."""
        if app not in self._sources:
            self._sources[app] = all_sources(self._workspace.apps[app])
        return self._sources[app]

    def grouped(self, apps: Iterable[str]) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """Names of runtimes, and apps that share one with the same units, sorted by both. Fetches
        nothing: `of` any of a group's apps is the runtime of all."""
        groups: dict[tuple[str, str], list[str]] = {}
        for app in sorted(set(apps)):
            declared = self._workspace.apps[app]
            own = "" if declared.config.sources is None else app
            groups.setdefault((declared.runtime, own), []).append(app)
        return tuple((name, tuple(groups[name, own])) for name, own in sorted(groups))

    def prepare(self, apps: Iterable[str]) -> None:
        """Fetch and generate what the apps' runtimes need, before a command takes the workspace's
        lock."""
        for _name, (app, *_others) in self.grouped(apps):
            self.of(app)

    @property
    def prepared(self) -> tuple[Runtime, ...]:
        """The pinned runtimes that have been prepared so far, by name."""
        return tuple(self._pinned[name] for name in sorted(self._pinned))

    @property
    def folders(self) -> Mapping[str, str]:
        """Ninja variable -> folder of this machine, of the runtimes that were asked for."""
        if len(self._pinned) == 1:  # nearly always, and asked for each object of a plan
            return next(iter(self._pinned.values())).folders
        return {one: path for runtime in self.prepared for one, path in runtime.folders.items()}

    def fill(self, text: str) -> str:
        """A text with its `$variables` (folders of this machine) filled in, as ninja does."""
        return filled(text, self.folders)

    def stored_name(self, output: str) -> str:
        """Name in the store of an object or precompiled header (`$state/...`, `$pch/...`)."""
        if output.startswith("$state/"):
            return output.removeprefix("$state/")
        folder, _, name = output.partition("/")
        return f"{os.path.relpath(self.fill(folder), self._context.state)}/{name}"
