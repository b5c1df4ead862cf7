"""One invocation's view of the workspace: declarations, runtimes, toolchains, models.

Everything here is computed on first use and cached, so that quick verbs pay only for what they
need.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import get_args

from orchestrator.build.elementwise import all_sources
from orchestrator.build.libraries import PreparedLibrary, prepare_library
from orchestrator.build.loadable import require_loadable
from orchestrator.build.offers import offers
from orchestrator.build.own_sources import OwnLayer, own_layer
from orchestrator.build.prepare import Prepared, PreparedRuntime, prepare_runtime
from orchestrator.build.trace_identity import inputs_digest, tracer_digest, vocabulary_of
from orchestrator.cache.pruning import note_workspace
from orchestrator.canonical.lock import Shipped, shipped_model
from orchestrator.compilers.host import host_abi, required_host, this_machine
from orchestrator.compilers.resolve import ResolvedToolchain, resolve_toolchain
from orchestrator.compilers.run_prefix import Running
from orchestrator.context import Context
from orchestrator.deliver.headers import HeaderFile
from orchestrator.errors import OrchestratorError
from orchestrator.libraries.declared import CpuLevelData
from orchestrator.libraries.features import asked_by_operators, load_entries
from orchestrator.libraries.index import LibraryIndex
from orchestrator.libraries.levels import levels_of, require_levels
from orchestrator.load.declared import App, Workspace
from orchestrator.load.workspace import load_workspace
from orchestrator.models.checks import (
    Misfit,
    forbidden_operators,
    misfits,
    require_allowed,
    require_inputs,
)
from orchestrator.models.coverage import unrun_methods
from orchestrator.models.info import ModelInfo, read_archive_version, read_model
from orchestrator.models.listing import Listing, read_listings
from orchestrator.models.offers import Offer
from orchestrator.models.source_lines import operator_places
from orchestrator.plan.extension import extension_symbols
from orchestrator.plan.graph import CommonObjects
from orchestrator.plan.own_folders import in_own_folders
from orchestrator.plan.planner import Planner
from orchestrator.plan.variant import VariantSpec
from orchestrator.pytorch.arguments import argument_counts
from orchestrator.select.backends import (
    cut_units,
    lean_units,
    reachable_backends,
    upgradable,
    upgraded,
)
from orchestrator.select.closure import Registry, registry
from orchestrator.select.why import overloads
from orchestrator.system.folders import ensure_folder
from orchestrator.system.reading import file_sha256
from orchestrator.trace.form import Vocabulary
from orchestrator.values.action import Compile
from orchestrator.values.config import (
    CpuLevel,
    KernelChoice,
    KernelPart,
    ModelConfig,
    ToolchainConfig,
)
from orchestrator.values.methods import Call
from orchestrator.values.names import did_you_mean
from orchestrator.values.operators import Arguments
from orchestrator.values.own_sources import OwnClass, OwnSources
from orchestrator.values.trace import Trace, TraceIdentity

_VARIABLE = re.compile(r"\$(\w+)")


class UnknownExtraError(OrchestratorError):
    """An app adds an operator that the runtime does not have."""


@dataclass
class _Found:
    """What one invocation has found so far, whichever session of it asked."""

    context: Context
    toolchains: dict[str, ResolvedToolchain] = field(default_factory=dict)
    running: dict[str, Running] = field(default_factory=dict)
    prepared: dict[str, PreparedRuntime] = field(default_factory=dict)
    shipped: dict[tuple[str, str], Shipped] = field(default_factory=dict)
    on: dict[str, RuntimeSession] = field(default_factory=dict)
    of: dict[str, AppSession] = field(default_factory=dict)
    stored_in: set[Path] = field(default_factory=set)

    @cached_property
    def workspace(self) -> Workspace:
        return load_workspace(self.context.root, self.context.env)


class Session:
    """Facts of one invocation that hold for every runtime, found on first use. What depends on a
    runtime is asked of `on` one, or `of` an app, which uses one.

    log: takes a line of progress
    """

    def __init__(
        self, context: Context, log: Callable[[str], None], found: _Found | None = None
    ) -> None:
        self.context = context
        self.log = log
        self._found = _Found(context) if found is None else found

    @property
    def workspace(self) -> Workspace:
        """The validated declarations, loaded on first use. Raises what `load_workspace` raises."""
        return self._found.workspace

    @property
    def stored_in(self) -> set[Path]:
        """The folders of the store to which this invocation has added files."""
        return self._found.stored_in

    def kernel_parts(self, app: str) -> frozenset[KernelPart]:
        """The parts of models for which an app takes kernels of the kernel library: all for `auto`,
        none for `native`, else those that `kernels:` in app.yaml lists."""
        return parts_chosen(self.workspace.apps[app].kernels)

    def shipped(self, app: App, model: ModelConfig) -> Shipped:
        """The model's file that is traced and verified: the declared one, or its canonical one.

        Raises what `shipped_model` raises.
        """
        key = (app.name, model.name)
        if key not in self._found.shipped:
            self._found.shipped[key] = shipped_model(app, model, self.context.root)
        return self._found.shipped[key]

    @cached_property
    def tracer(self) -> str:
        """`tracer_digest`: part of every trace's identity."""
        return tracer_digest()

    @property
    def backends(self) -> tuple[str, ...]:
        """The dispatch keys whose kernels count, as WORKSPACE lists them under `defaults:
        backends:`."""
        return self.workspace.config.defaults.backends

    @property
    def runtime_names(self) -> Mapping[str, str]:
        """Digest of a runtime's tree -> its name; of several names the last."""
        return {pin.tree: name for name, pin in self.workspace.config.pins.items()}

    def other_offers(self, version: str) -> Iterator[Offer]:
        """The operators of every supported version but `version`, for hints about models that it
        cannot run."""
        return offers(self.workspace.config.pins, self.backends, without=version)

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
        """The toolchain of an ABI, resolved on first use. Raises what `resolve_toolchain` raises,
        and KeyError for an ABI that the workspace does not have."""
        if abi not in self._found.toolchains:
            self._found.toolchains[abi] = self._resolved(abi)
        return self._found.toolchains[abi]

    def require_compilers(self, abis: Iterable[str]) -> None:
        """Raise what `resolve_toolchain` raises now, of toolchains that were found before.

        Ask it when something that they should have made failed: of a compiler that was removed or
        replaced since, a shell says only that a file is not found.
        """
        for abi in sorted(set(abis)):
            self._resolved(abi)

    def _resolved(self, abi: str) -> ResolvedToolchain:
        declared = self.workspace.toolchains[abi]
        return resolve_toolchain(
            declared.config,
            declared.place,
            self.context.cache,
            self.context.env,
            self.context.runner,
            self.context.state,
        )

    def running(self, abi: str) -> Running:
        """How an ABI's binaries run on this machine: directly, with an emulator or not at all.

        The first call for a toolchain links a program and runs it; the answer is kept in the cache.
        """
        if abi not in self._found.running:
            toolchain = self.toolchain(abi)
            self._found.running[abi] = toolchain.running(self.context.cache, self.log)
        return self._found.running[abi]

    def on(self, name: str) -> RuntimeSession:
        """The session of the runtime that WORKSPACE pins under this name; one for each name.
        Nothing is fetched until `runtime` is asked for."""
        if name not in self._found.on:
            self._found.on[name] = RuntimeSession(self.context, self.log, self._found, name)
        return self._found.on[name]

    def of(self, app: str) -> RuntimeSession:
        """The invocation with an app's runtime, and with the app's own sources in it."""
        declared = self.workspace.apps[app]
        if declared.config.sources is None:
            return self.on(declared.runtime)
        if app not in self._found.of:
            name = declared.runtime
            self._found.of[app] = AppSession(self.context, self.log, self._found, name, app)
        return self._found.of[app]

    def grouped(self, apps: Iterable[str]) -> tuple[tuple[RuntimeSession, tuple[str, ...]], ...]:
        """The invocations with these apps' runtimes, by name, and the apps that each is of."""
        groups: dict[tuple[str, str], tuple[RuntimeSession, list[str]]] = {}
        for app in sorted(set(apps)):
            on = self.of(app)
            key = (on.name, app if isinstance(on, AppSession) else "")
            groups.setdefault(key, (on, []))[1].append(app)
        return tuple((groups[key][0], tuple(groups[key][1])) for key in sorted(groups))

    @property
    def default(self) -> RuntimeSession:
        """The invocation with the runtime of apps that name none."""
        return self.on(self.workspace.config.default_runtime)

    def prepare(self, apps: Iterable[str]) -> None:
        """Fetch and generate what the apps' runtimes need, before a command takes the workspace's
        lock."""
        for session, _apps in self.grouped(apps):
            _ = session.runtime

    @property
    def prepared(self) -> tuple[PreparedRuntime, ...]:
        """The runtimes that have been prepared so far, by name."""
        return tuple(self._found.prepared[name] for name in sorted(self._found.prepared))

    @property
    def folders(self) -> Mapping[str, str]:
        """Ninja variable -> folder of this machine, of the runtimes that were asked for."""
        if len(self._found.prepared) == 1:  # nearly always, and asked for each object of a plan
            return next(iter(self._found.prepared.values())).folders
        return {one: path for runtime in self.prepared for one, path in runtime.folders.items()}

    def fill(self, text: str) -> str:
        """A text with its `$variables` (folders of this machine) filled in."""
        folders = self.folders
        # in one pass: a folder's own name may hold what looks like a variable
        return _VARIABLE.sub(lambda match: folders.get(match[1], match[0]), text)


class RuntimeSession(Session):
    """An invocation with one of the runtimes that WORKSPACE pins, by its `name`."""

    def __init__(
        self, context: Context, log: Callable[[str], None], found: _Found, name: str
    ) -> None:
        super().__init__(context, log, found)
        self.name = name
        # ABI -> what `build.public_headers` has found
        self.public_headers: dict[str, tuple[HeaderFile, ...]] = {}
        # (specification, threads) -> what `build.variants` has planned for all such variants
        self.common_objects: dict[tuple[VariantSpec, int], CommonObjects] = {}
        self._kernels: dict[tuple[str, ...], Registry] = {}
        # the registries' results, in one place: see `Registry`
        self._needs: dict[object, object] = {}
        self._models: dict[Path, ModelInfo] = {}

    @cached_property
    def runtime(self) -> PreparedRuntime:
        """The pinned trees, generated headers and index: fetched and generated on first use.

        Makes the cache and state folders, and notes in the cache that the workspace uses it. Raises
        what `prepare_runtime` raises.
        """
        ensure_folder(self.context.cache, "cache")
        ensure_folder(self.context.state, "state")
        note_workspace(self.context.cache, self.context.root)
        found = prepare_runtime(self.workspace, self.name, self.context, self.log)
        self._found.prepared[self.name] = found
        return found

    def prepare_planning(self, abis: Iterable[str]) -> Prepared:
        """Fetch, verify and generate what `runtime` needs, find the ABIs' compilers, and try what
        they can do: all that has effects before a plan, which reads the result.

        Raises what fetching, generating, finding and trying raise.
        """
        _ = self.runtime
        toolchains = {abi: self.toolchain(abi) for abi in sorted(set(abis))}
        for toolchain in toolchains.values():
            _ = toolchain.capabilities
        return Prepared(toolchains)

    @cached_property
    def library(self) -> PreparedLibrary | None:
        """The library of kernels that is pinned with it, if one is."""
        return prepare_library(self.runtime)

    def library_index(self, abi: str) -> LibraryIndex | None:
        """The library's index for an ABI, where there is one. Raises IndexUnreadableError."""
        processor = self.workspace.toolchains[abi].config.processor
        return None if self.library is None else self.library.index(processor)

    def cpu_levels(self, abi: str) -> tuple[CpuLevelData, ...]:
        """The CPU levels of the kernel library's units for an ABI, lowest first; none without the
        library."""
        if self.library is None:
            return ()
        config = self.workspace.toolchains[abi].config
        return levels_of(self.library.data, config.processor, config.system)

    def declared_levels(self, app: str, abi: str) -> tuple[CpuLevel, ...] | None:
        """The CPU levels that an app declares for an ABI; None where it leaves them to us.

        Raises CpuLevelUnknownError, CpuLevelMissingError.
        """
        declared, choice = self.workspace.apps[app], self.workspace.apps[app].config.cpu
        if choice == "auto" or self.library is None:
            return None
        processor = self.workspace.toolchains[abi].config.processor
        name = next((name for name in (abi, processor) if name in choice), None)
        if name is None:
            return None
        place = declared.places.value(("cpu", name))
        require_levels(abi, self.cpu_levels(abi), choice[name], place)
        return choice[name]

    def asked_features(
        self, abi: str, app: str, root_operators: Collection[str], called: Collection[str]
    ) -> frozenset[str] | None:
        """The kernels that call a library, of those that operators ask for, which models name or
        have called; None where the app's variant for the ABI has none, whatever it computes."""
        return self.features_of(abi, self.kernel_parts(app), root_operators, called)

    def features_of(
        self,
        abi: str,
        parts: frozenset[KernelPart],
        root_operators: Collection[str],
        called: Collection[str],
    ) -> frozenset[str] | None:
        """As `asked_features`, for these parts of models."""
        shipped = load_entries(self.runtime.dialect)
        if not parts or not shipped or self.library_index(abi) is None:
            return None
        return asked_by_operators(root_operators, called, parts)

    @cached_property
    def planner(self) -> Planner:
        """One planner for all variants of the runtime: it remembers what selections need."""
        return Planner(self.runtime.index, self.runtime.facts, self._needs)

    @cached_property
    def unit_paths(self) -> tuple[str, ...]:
        """The paths of the index's units, in its order."""
        return tuple(unit.path for unit in self.runtime.index.units)

    def forget_plans(self) -> None:
        """Free what only the next plan would need; all of it is found again on first use.

        Registries and `unit_paths` stay, without what plans have kept in them: deliveries ask for
        them, and finding them again would read the index.
        """
        self.__dict__.pop("planner", None)
        self.common_objects.clear()
        self._needs.clear()
        _ = self.kernels, self.unit_paths

    @cached_property
    def extension_symbols(self) -> tuple[str, ...]:
        """What a library that takes add-ons exports of PyTorch, where it has it."""
        return extension_symbols(self.runtime.index)

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """The names that a trace of this runtime may contain, whatever its backend: locks are
        untrusted input."""
        return vocabulary_of(self.runtime.index, self.runtime.version)

    @cached_property
    def tag_users(self) -> Mapping[str, tuple[str, ...]]:
        """Kernel tag (as in AT_DISPATCH) -> the paths of the units that mention it, in the index's
        order."""
        users: dict[str, list[str]] = {}
        for unit in self.runtime.index.units:
            for tag in unit.tags:
                users.setdefault(tag, []).append(unit.path)
        return {tag: tuple(paths) for tag, paths in users.items()}

    @cached_property
    def kernels(self) -> Registry:
        """The registrations of all of the workspace's backends; `kernels_for` has those of some
        models."""
        keys = self.runtime.dialect.keys
        return registry(self.runtime.index, self.backends, keys, self._needs)

    @cached_property
    def arguments(self) -> Mapping[str, Arguments]:
        """Operator (`aten::add.out`) -> its argument counts, from the tree's native_functions.yaml;
        operators that it does not declare are missing."""
        return argument_counts(Path(self.folders["tree"]))

    def kernels_for(self, root_operators: Iterable[str]) -> Registry:
        """The registrations that models with these root operators can reach: those of the
        workspace's backends, but for quantised and sparse ones that no tensor of such models
        enters. Remembered by backends."""
        backends = reachable_backends(self.backends, root_operators)
        if backends not in self._kernels:
            keys = self.runtime.dialect.keys
            self._kernels[backends] = registry(self.runtime.index, backends, keys, self._needs)
        return self._kernels[backends]

    def cut_units(self, root_operators: Iterable[str]) -> frozenset[str]:
        """The units that no tensor of models with these root operators can enter."""
        return cut_units(self.runtime.version, root_operators)

    def lean_units(self, upgraded: Iterable[str]) -> frozenset[str]:
        """The units of which models need less, by what is upgraded in them: see `include`."""
        return lean_units(self.runtime.version, upgraded)

    def upgraded(self, app: App, traces: Iterable[Trace]) -> frozenset[str]:
        """The operators by which models of an app mean what an earlier PyTorch did; of those with
        these traces. Raises what reading the models raises."""
        known, version = {one.name: one for one in app.config.models}, self.runtime.version
        named = {one.model: upgradable(version).intersection(one.root_operators) for one in traces}
        return frozenset(
            operator
            for model, operators in named.items()
            if operators
            for operator in upgraded(version, operators, self._archive_of(app, known[model]))
        )

    def _archive_of(self, app: App, model: ModelConfig) -> int:
        path = self.shipped(app, model).path
        return read_archive_version(path, path.relative_to(self.context.root).as_posix())

    def model(self, app: App, model: ModelConfig) -> ModelInfo:
        """The model's facts, read and checked against the runtime.

        Raises what orchestrator.models raises.
        """
        shipped = self.shipped(app, model)
        path = shipped.path
        if path not in self._models:
            shown = path.relative_to(self.context.root).as_posix()
            info = read_model(path, self.runtime.dialect.models, name=shown)
            given = model.inputs != "bundled" or shipped.inputs is not None
            require_inputs(info, declared=given)
            version = self.runtime.version
            others = self.other_offers(version.version)
            require_loadable(
                info,
                self.kernels,
                version,
                others,
                app.place.file,
                self.own_classes,
                # torch knows no operators of an app's own
                shipped.is_canonical or app.config.sources is not None,
            )
            found = forbidden_operators(info, app.config.forbid)
            # a canonical file has no debug information: what it was made of may have some
            places = {**operator_places(shipped.declared, found), **operator_places(path, found)}
            require_allowed(info, found, places)
            self._models[path] = info
        return self._models[path]

    def extra_operators(self, app: App) -> tuple[str, ...]:
        """The operators that the app adds to those of its models, with overloads; sorted.

        Raises UnknownExtraError.
        """
        if not app.config.extra:
            return ()
        known, lapack = self.kernels.by_operator, self.runtime.version.lapack
        found = set[str]()
        for name in app.config.extra:
            named = overloads(name, known)
            if not named or name.partition(".")[0] in lapack:
                raise UnknownExtraError(
                    f"PyTorch {self.runtime.version.version} as it is built here has no operator"
                    f" {name}",
                    place=app.places.key(("extra", name)),
                    expected="an operator that a model could name",
                    seen=f"{name}, which LAPACK computes" if named else name,
                    hint=None if named else did_you_mean(name, known),
                )
            found.update(named)
        return tuple(sorted(found))

    def listings(self, app: App, model: ModelConfig) -> tuple[Listing, ...]:
        """The model's instructions, with the lines of its source; none where it cannot be read."""
        return read_listings(self.shipped(app, model).path)

    def bundled_call(self, app: App, model: ModelConfig) -> Call | None:
        """A call with the first of the inputs in the declared file, where it is known."""
        shipped = self.shipped(app, model)
        if not shipped.is_canonical:
            return self.model(app, model).bundled_call
        shown = shipped.declared.relative_to(self.context.root).as_posix()
        return read_model(shipped.declared, self.runtime.dialect.models, name=shown).bundled_call

    def misfits(self, app: App, model: ModelConfig) -> tuple[Misfit, ...]:
        """The model's calls that pass another number of arguments than the runtime's operator
        takes. Such a model loads, and fails where the call is reached."""
        return misfits(self.model(app, model), self.arguments)

    def trace_identity(self, app: App, model: ModelConfig) -> TraceIdentity:
        """Digests of all that a trace of this model depends on, for a trace made now: a lock with
        another identity is stale. Hashes the model's file. Raises what `shipped` raises."""
        shipped = self.shipped(app, model)
        inputs = inputs_digest(model)
        if shipped.inputs is not None:
            inputs = hashlib.sha256(shipped.inputs).hexdigest()
        return TraceIdentity(
            model=file_sha256(shipped.path),
            runtime=self.workspace.config.pins[self.name].tree,
            inputs=inputs,
            backends=self.backends,
            tracer=self.tracer,
            sources="" if self.sources is None else self.sources.digest,
        )

    @property
    def sources(self) -> OwnSources | None:
        """The sources of an app of its own."""
        return None

    @property
    def own_classes(self) -> Mapping[str, OwnClass]:
        """The classes that they register, by name."""
        return {}

    def unrun_units(self, app: App, traces: Iterable[Trace]) -> Mapping[str, frozenset[str]]:
        """Model -> own units with a class of which the model calls a method that its inputs never
        ran, as far as the names of methods tell."""
        return {}

    @property
    def folders(self) -> Mapping[str, str]:
        """As for all; where its own folder differs from the default's, its own."""
        renamed = self.runtime.renamed
        every = super().folders
        return {**every, **{one: every[its] for one, its in renamed.items()}} if renamed else every

    def placed(self, action: Compile) -> Compile:
        """A planned compilation, with the variables that ninja has for the runtime's folders."""
        return in_own_folders(action, self.runtime.renamed)


class AppSession(RuntimeSession):
    """An invocation with the runtime of one app that has sources of its own: they are a layer over
    the runtime's index, and their units are in each of the app's plans."""

    def __init__(
        self, context: Context, log: Callable[[str], None], found: _Found, name: str, app: str
    ) -> None:
        super().__init__(context, log, found, name)
        self.app = app

    @cached_property
    def runtime(self) -> PreparedRuntime:
        return self._layer.over(self.on(self.name).runtime)

    @cached_property
    def _layer(self) -> OwnLayer:
        on = self.on(self.name)
        return own_layer(
            self.sources, on.runtime, self.toolchain(self.host), self.context, on.fill, self.log
        )

    @cached_property
    def sources(self) -> OwnSources:
        """Raises what `all_sources` raises."""
        found = all_sources(self.workspace.apps[self.app])
        assert found is not None
        return found

    @property
    def own_classes(self) -> Mapping[str, OwnClass]:
        return self._layer.classes

    def unrun_units(self, app: App, traces: Iterable[Trace]) -> Mapping[str, frozenset[str]]:
        if not self.own_classes:
            return {}
        traced = {trace.model: trace for trace in traces}
        return {
            one.name: units_of(
                unrun_methods(self.model(app, one).functions, traced[one.name].coverage),
                self.own_classes.values(),
            )
            for one in app.config.models
            if one.name in traced
        }


def parts_chosen(choice: KernelChoice) -> frozenset[KernelPart]:
    """The parts of models that `kernels:` names, in app.yaml or WORKSPACE's defaults."""
    if choice == "native":
        return frozenset()
    return frozenset(get_args(KernelPart) if choice == "auto" else choice)


def units_of(methods: Collection[str], classes: Iterable[OwnClass]) -> frozenset[str]:
    """The own units that register a class which may have one of these methods."""
    return frozenset(
        one.place.file
        for one in classes
        if one.place is not None and any(map(one.may_have, methods))
    )
