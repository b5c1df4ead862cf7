"""One invocation's view of the workspace: declarations, runtimes, toolchains, models.

Everything here is found on first use and kept, so that quick verbs pay for nothing that they do not
need.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import get_args

from orchestrator.build.libraries import PreparedLibrary, prepare_library
from orchestrator.build.prepare import NATIVE, PreparedRuntime, prepare_runtime
from orchestrator.cache.pruning import note_workspace
from orchestrator.compilers.host import host_abi, required_host, this_machine
from orchestrator.compilers.resolve import ResolvedToolchain, resolve_toolchain
from orchestrator.compilers.run_prefix import Running
from orchestrator.context import Context
from orchestrator.index.model import RuntimeIndex
from orchestrator.libraries.features import asked_by_operators, load_entries
from orchestrator.libraries.index import LibraryIndex
from orchestrator.load.declared import App, Workspace
from orchestrator.load.workspace import load_workspace
from orchestrator.models.checks import (
    Misfit,
    check_classes,
    check_lapack,
    check_operators,
    misfits,
    require_inputs,
    require_no_named_tuples,
)
from orchestrator.models.info import ModelInfo, read_model
from orchestrator.plan.own_folders import in_own_folders
from orchestrator.plan.planner import Planner
from orchestrator.pytorch.arguments import argument_counts
from orchestrator.pytorch.versions import VersionData
from orchestrator.select.backends import reachable_backends, tensor_kinds
from orchestrator.select.closure import Registry, registry
from orchestrator.system.folders import ensure_folder
from orchestrator.trace.form import Vocabulary
from orchestrator.values.action import Compile
from orchestrator.values.config import KernelPart, ModelConfig, ToolchainConfig
from orchestrator.values.operators import Arguments, OperatorName
from orchestrator.values.trace import TraceIdentity

_VARIABLE = re.compile(r"\$(\w+)")


@dataclass
class Session:
    """Lazily found facts of one invocation that hold for every runtime; `say` takes a line of
    progress. What hangs on a runtime is asked of `on` one, or `of` the app that is cut from it."""

    context: Context
    say: Callable[[str], None]
    _toolchains: dict[str, ResolvedToolchain] = field(default_factory=dict)
    _running: dict[str, Running] = field(default_factory=dict)
    _prepared: dict[str, PreparedRuntime] = field(default_factory=dict)
    _on: dict[str, RuntimeSession] = field(default_factory=dict)

    @cached_property
    def workspace(self) -> Workspace:
        return load_workspace(self.context.root, self.context.env)

    def kernel_parts(self, app: str) -> frozenset[KernelPart]:
        """What an app wants a library's kernels for."""
        choice = self.workspace.apps[app].kernels
        if choice == "native":
            return frozenset()
        return frozenset(get_args(KernelPart) if choice == "auto" else choice)

    @cached_property
    def tracer(self) -> str:
        return tracer_digest()

    @property
    def backends(self) -> tuple[str, ...]:
        return self.workspace.config.defaults.backends

    @cached_property
    def own_abi(self) -> str | None:
        """The ABI of this machine, where a toolchain compiles for it: one of the workspace's own
        before one that we ship."""
        declared = self.workspace.toolchains
        own = {abi: one.config for abi, one in declared.items() if not one.built_in}
        machine = this_machine()
        return host_abi(own, machine) or host_abi(self._toolchain_configs, machine)

    @property
    def host(self) -> str:
        """The ABI of this machine, on which tracers run. Raises NoHostToolchainError."""
        return self.own_abi or required_host(self._toolchain_configs, this_machine())

    @property
    def _toolchain_configs(self) -> Mapping[str, ToolchainConfig]:
        return {abi: one.config for abi, one in self.workspace.toolchains.items()}

    def toolchain(self, abi: str) -> ResolvedToolchain:
        """The resolved toolchain of an ABI."""
        if abi not in self._toolchains:
            declared = self.workspace.toolchains[abi]
            self._toolchains[abi] = resolve_toolchain(
                declared.config, declared.place, self.context.cache, self.context.env
            )
        return self._toolchains[abi]

    def running(self, abi: str) -> Running:
        """How an ABI's binaries run on this machine."""
        if abi not in self._running:
            toolchain = self.toolchain(abi)
            self._running[abi] = toolchain.running(self.context.cache, self.say)
        return self._running[abi]

    def on(self, name: str) -> RuntimeSession:
        """The invocation with the runtime that WORKSPACE pins by this name."""
        if name not in self._on:
            shared = {one.name: getattr(self, one.name) for one in fields(Session)}
            self._on[name] = RuntimeSession(**shared, name=name)
            self._on[name].workspace = self.workspace
        return self._on[name]

    def of(self, app: str) -> RuntimeSession:
        """The invocation with an app's runtime."""
        return self.on(self.workspace.apps[app].runtime)

    @property
    def default(self) -> RuntimeSession:
        """The invocation with the runtime of apps that name none."""
        return self.on(self.workspace.config.default_runtime)

    def prepare(self, apps: Iterable[str]) -> None:
        """Fetch and generate what the apps' runtimes need, before a command takes the workspace's
        lock."""
        for name in sorted({self.workspace.apps[app].runtime for app in apps}):
            _ = self.on(name).runtime

    @property
    def prepared(self) -> tuple[PreparedRuntime, ...]:
        """The runtimes that were asked for so far, by name."""
        return tuple(self._prepared[name] for name in sorted(self._prepared))

    @property
    def folders(self) -> Mapping[str, str]:
        """Ninja variable -> folder of this machine, of the runtimes that were asked for."""
        if len(self._prepared) == 1:  # nearly always, and asked for each object of a plan
            return next(iter(self._prepared.values())).folders
        return {one: path for runtime in self.prepared for one, path in runtime.folders.items()}

    def fill(self, text: str) -> str:
        """A text with its `$variables` (folders of this machine) filled in."""
        folders = self.folders
        # in one pass: a folder's own name may hold what looks like a variable
        return _VARIABLE.sub(lambda match: folders.get(match[1], match[0]), text)


@dataclass
class RuntimeSession(Session):
    """An invocation with one of the runtimes that WORKSPACE pins, by its `name`."""

    name: str = field(kw_only=True)
    _kernels: dict[tuple[str, ...], Registry] = field(default_factory=dict)
    _models: dict[Path, ModelInfo] = field(default_factory=dict)

    @cached_property
    def runtime(self) -> PreparedRuntime:
        ensure_folder(self.context.cache, "cache")
        ensure_folder(self.context.state, "state")
        note_workspace(self.context.cache, self.context.root)
        found = prepare_runtime(self.workspace, self.name, self.context, self.say)
        self._prepared[self.name] = found
        return found

    @cached_property
    def library(self) -> PreparedLibrary | None:
        """The library of kernels that is pinned with it, if one is."""
        return prepare_library(self.runtime)

    def library_index(self, abi: str) -> LibraryIndex | None:
        """The library's index for an ABI, where there is one. Raises IndexUnreadableError."""
        processor = self.workspace.toolchains[abi].config.processor
        return None if self.library is None else self.library.index(processor)

    def cpu_levels(self, abi: str) -> tuple[str, ...]:
        """The lower levels of an ABI's processors that the library's kernels are chosen by."""
        if self.library is None:
            return ()
        return self.library.data.levels.get(self.workspace.toolchains[abi].config.processor, ())

    def asked_features(
        self, abi: str, app: str, root_operators: Collection[str], called: Collection[str]
    ) -> frozenset[str] | None:
        """The kernels that call a library, of those that operators ask for, which models name or
        have called; None where the app's variant for the ABI has none, whatever it computes."""
        parts = self.kernel_parts(app)
        shipped = load_entries(self.runtime.dialect)
        if not parts or not shipped or self.library_index(abi) is None:
            return None
        return asked_by_operators(root_operators, called, parts)

    @cached_property
    def planner(self) -> Planner:
        return Planner(self.runtime.index, self.runtime.facts)

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """What traces may name: all that the runtime has, under any backend."""
        return vocabulary_of(self.runtime.index, self.runtime.version)

    @cached_property
    def tag_users(self) -> Mapping[str, tuple[str, ...]]:
        """Kernel tag -> the units that mention it."""
        users: dict[str, list[str]] = {}
        for unit in self.runtime.index.units:
            for tag in unit.tags:
                users.setdefault(tag, []).append(unit.path)
        return {tag: tuple(paths) for tag, paths in users.items()}

    @cached_property
    def kernels(self) -> Registry:
        return registry(self.runtime.index, self.backends, self.runtime.dialect.keys)

    @cached_property
    def _arguments(self) -> Mapping[str, Arguments]:
        return argument_counts(Path(self.runtime.folders["tree"]))

    def kernels_for(self, root_operators: Iterable[str]) -> Registry:
        """The registrations that models with these root operators can reach."""
        backends = reachable_backends(self.backends, root_operators)
        if backends not in self._kernels:
            keys = self.runtime.dialect.keys
            self._kernels[backends] = registry(self.runtime.index, backends, keys)
        return self._kernels[backends]

    def cut_units(self, root_operators: Iterable[str]) -> frozenset[str]:
        """The units that no tensor of models with these root operators can enter."""
        kinds = tensor_kinds(root_operators)
        return frozenset(r.unit for r in self.runtime.version.cuts if r.unless not in kinds)

    def lean_units(self, root_operators: Iterable[str]) -> frozenset[str]:
        """The units of which models with these root operators need less: see `include`."""
        roots = frozenset(root_operators)
        rules = self.runtime.version.include
        return frozenset(r.unit for r in rules if r.unless and roots.isdisjoint(r.unless))

    def model(self, app: App, model: ModelConfig) -> ModelInfo:
        """The model's facts, read and checked against the runtime.

        Raises what orchestrator.models raises.
        """
        path = app.model_path(model)
        if path not in self._models:
            shown = path.relative_to(self.context.root).as_posix()
            versions = self.runtime.dialect.models
            info = read_model(path, versions, name=shown)
            require_inputs(info, declared=model.inputs != "bundled")
            require_loadable(info, self.kernels, self.runtime.version)
            self._models[path] = info
        return self._models[path]

    def misfits(self, app: App, model: ModelConfig) -> tuple[Misfit, ...]:
        """The model's calls that the runtime loads and cannot make."""
        return misfits(self.model(app, model), self._arguments)

    def trace_identity(self, app: App, model: ModelConfig) -> TraceIdentity:
        """What a trace of this model, made now, would depend on."""
        return TraceIdentity(
            model=hashlib.sha256(app.model_path(model).read_bytes()).hexdigest(),
            runtime=self.workspace.config.pins[self.name].tree,
            inputs=inputs_digest(model),
            backends=self.backends,
            tracer=self.tracer,
        )

    @property
    def folders(self) -> Mapping[str, str]:
        """As for all; where its own folder differs from the default's, its own."""
        renamed = self.runtime.renamed
        every = super().folders
        return {**every, **{one: every[its] for one, its in renamed.items()}} if renamed else every

    def placed(self, action: Compile) -> Compile:
        """A planned compilation, with the variables that ninja has for the runtime's folders."""
        return in_own_folders(action, self.runtime.renamed)


def require_loadable(info: ModelInfo, kernels: Registry, version: VersionData) -> None:
    """Raises what orchestrator.models raises of a model that the runtime does not load."""
    require_no_named_tuples(info)
    known = {OperatorName.parse(name) for name in kernels.by_operator}
    check_operators(info, known, version.version)
    check_lapack(info, version.lapack, version.version)
    check_classes(info, version.custom_classes, version.version)


def vocabulary_of(index: RuntimeIndex, version: VersionData) -> Vocabulary:
    """What traces may name of a runtime."""
    mentioned = {tag for unit in index.units for tag in unit.tags}
    return Vocabulary(
        version.version,
        frozenset(registration.operator for registration in index.registrations),
        frozenset(mentioned.union(*version.computed_tags.values())),
    )


def inputs_digest(model: ModelConfig) -> str:
    """`bundled`, or sha256 of the declared inputs."""
    if model.inputs == "bundled":
        return "bundled"
    text = json.dumps([run.model_dump(mode="json") for run in model.inputs], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def tracer_digest() -> str:
    """Digest of what decides what a tracer records: the recorder and the set-up calls."""
    digest = hashlib.sha256()
    for path in sorted((NATIVE / "tracer").glob("*")):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]
