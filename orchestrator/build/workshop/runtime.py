"""A runtime that is ready on this machine: its trees and its index, and what follows from them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Final

from orchestrator.build.workshop.fetch import FetchedRuntime
from orchestrator.build.workshop.libraries import PreparedLibrary, prepare_library
from orchestrator.build.workshop.runtime_index import whole_index
from orchestrator.build.workshop.trace_identity import vocabulary_of
from orchestrator.deliver.headers import HeaderFile
from orchestrator.errors import OrchestratorError
from orchestrator.index.entry import load_entry, loader_symbols, recording_symbols
from orchestrator.index.layers import LayerUnit, layered
from orchestrator.index.model import RuntimeIndex
from orchestrator.libraries.declared import CpuLevelData
from orchestrator.libraries.features import asked_by_operators, load_entries
from orchestrator.libraries.index import LibraryIndex
from orchestrator.libraries.levels import levels_of, require_levels
from orchestrator.load.declared import App
from orchestrator.plan.extension import extension_symbols
from orchestrator.plan.graph import CommonObjects
from orchestrator.plan.native_files import NativeFiles
from orchestrator.plan.own_folders import filled, in_own_folders
from orchestrator.plan.planner import Planner
from orchestrator.plan.variant import RuntimeFacts, VariantSpec
from orchestrator.pytorch.arguments import argument_counts
from orchestrator.pytorch.dialect import Dialect
from orchestrator.pytorch.versions import LayoutsData, VersionData
from orchestrator.select.backends import cut_units, lean_units, reachable_backends
from orchestrator.select.closure import Registry, registry
from orchestrator.select.why import overloads
from orchestrator.trace.form import Vocabulary
from orchestrator.values.action import Compile
from orchestrator.values.config.app import CpuLevel
from orchestrator.values.config.forms import KernelPart
from orchestrator.values.config.toolchain import ToolchainConfig
from orchestrator.values.config.workspace import RuntimePin
from orchestrator.values.names import did_you_mean
from orchestrator.values.operators import Arguments, OperatorName
from orchestrator.values.own_sources import OwnClass, OwnSources

# The parts of models whose layers call none of PyTorch's operators.
_LAYERS: Final[frozenset[KernelPart]] = frozenset({"convolution", "linear"})


class UnknownExtraError(OrchestratorError):
    """An app adds an operator that the runtime does not have."""


@dataclass(frozen=True)
class Runtime:
    """A pinned PyTorch on this machine, ready to plan and compile with: made by `prepare_runtime`.

    What follows from its index is found on first use, and remembered; `forget_plans` and
    `forget_index` free it.

    name      as WORKSPACE has it
    pin       what it pins by that name
    folders   ninja variable -> absolute folder
    renamed   variables of all runtimes' actions -> its own, where its folders are not the default's
    facts     what the planner needs besides the index
    native    our own C and C++ files
    parts     what `facts.identity` is the digest of
    backends  the dispatch keys whose kernels count
    base, own_units, own_classes  of an app with sources of its own: the runtime without, and the
              units and the classes (by name) that they add to its index
    public_headers, common_objects  memos of `build.public_headers` (by ABI) and `build.variants`
    """

    name: str
    pin: RuntimePin
    dialect: Dialect
    fetched: FetchedRuntime
    generated: Path
    configured: Path
    folders: Mapping[str, str]
    renamed: Mapping[str, str]
    facts: RuntimeFacts
    native: NativeFiles
    parts: Mapping[str, object]
    backends: tuple[str, ...]
    base: Runtime | None = None
    own_units: tuple[LayerUnit, ...] = ()
    own_classes: Mapping[str, OwnClass] = field(default_factory=dict)
    public_headers: dict[str, tuple[HeaderFile, ...]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    common_objects: dict[tuple[VariantSpec, int], CommonObjects] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    _kernels: dict[tuple[str, ...], Registry] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    # the registries' results, in one place: see `Registry`
    _needs: dict[object, object] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    @property
    def version(self) -> VersionData:
        """The facts about its version."""
        return self.dialect.facts

    @property
    def sources(self) -> OwnSources | None:
        """The app's own sources that are in it, if it is of an app that has some."""
        return self.facts.app

    @cached_property
    def index(self) -> RuntimeIndex:
        """The shipped index, with units of ours that register operators.

        Raises IndexUnreadableError where it is not of this source tree.
        """
        if self.base is not None:
            return layered(self.base.index, self.own_units)
        return whole_index(self.dialect, self.fetched.digest, self.name)

    def forget_index(self) -> None:
        """Free the index's memory, some 40 MB. `index` reads it again, which takes 0.2 s."""
        self.__dict__.pop("index", None)

    @cached_property
    def entry(self) -> frozenset[str]:
        """The symbols that every variant's own native code references, and roots that nothing
        references."""
        if self.base is not None:
            return self.base.entry
        loaders = loader_symbols(self.index, self.dialect.symbols)
        return load_entry(self.dialect).library | loaders

    @cached_property
    def tracer_entry(self) -> frozenset[str]:
        """More of them, of a tracer."""
        if self.base is not None:
            return self.base.tracer_entry
        recording = recording_symbols(self.index, self.dialect.symbols)
        return load_entry(self.dialect).tracer | recording

    @cached_property
    def planner(self) -> Planner:
        """One planner for all of its variants: it remembers what selections need."""
        return Planner(self.index, self.facts, self._needs)

    @cached_property
    def unit_paths(self) -> tuple[str, ...]:
        """The paths of the index's units, in its order."""
        return tuple(unit.path for unit in self.index.units)

    @cached_property
    def tag_users(self) -> Mapping[str, tuple[str, ...]]:
        """Kernel tag (as in AT_DISPATCH) -> the paths of the units that mention it, in the index's
        order."""
        users: dict[str, list[str]] = {}
        for unit in self.index.units:
            for tag in unit.tags:
                users.setdefault(tag, []).append(unit.path)
        return {tag: tuple(paths) for tag, paths in users.items()}

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
    def kernels(self) -> Registry:
        """The registrations of all of the workspace's backends; `kernels_for` has those of some
        models."""
        return registry(self.index, self.backends, self.dialect.keys, self._needs)

    def kernels_for(self, root_operators: Iterable[OperatorName]) -> Registry:
        """The registrations that models with these root operators can reach: those of the
        workspace's backends, but for quantised and sparse ones that no tensor of such models
        enters. Remembered by backends."""
        backends = reachable_backends(self.backends, root_operators)
        if backends not in self._kernels:
            found = registry(self.index, backends, self.dialect.keys, self._needs)
            self._kernels[backends] = found
        return self._kernels[backends]

    def cut_units(self, root_operators: Iterable[OperatorName]) -> frozenset[str]:
        """The units that no tensor of models with these root operators can enter."""
        return cut_units(self.version, root_operators)

    def lean_units(self, upgraded: Iterable[OperatorName]) -> frozenset[str]:
        """The units of which models need less, by what is upgraded in them: see `include`."""
        return lean_units(self.version, upgraded)

    def layouts(self, parts: frozenset[KernelPart]) -> LayoutsData:
        """Needs of models for other sizes and layouts of tensors; with those of PyTorch's own
        layers unless an app's kernels replace all of these."""
        data = self.version.layouts
        return data if parts >= _LAYERS else data.with_native()

    @cached_property
    def extension_symbols(self) -> tuple[str, ...]:
        """Symbols of PyTorch that an extensible library exports if it defines them."""
        return extension_symbols(self.index)

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """The names that one of its traces may contain, whatever its backend: locks are untrusted
        input."""
        return vocabulary_of(self.index, self.version)

    @cached_property
    def arguments(self) -> Mapping[str, Arguments]:
        """Operator (`aten::add.out`) -> its argument counts, from the tree's native_functions.yaml;
        operators that it does not declare are missing."""
        return argument_counts(self.fetched.tree)

    def extra_operators(self, app: App) -> tuple[OperatorName, ...]:
        """The operators that an app adds to those of its models, with overloads; sorted.

        Raises UnknownExtraError.
        """
        if not app.config.extra:
            return ()
        known, lapack = self.kernels.by_operator, self.version.lapack
        found = set[OperatorName]()
        for name in app.config.extra:
            named = overloads(name, known)
            if not named or OperatorName(name).qualified in lapack:
                raise UnknownExtraError(
                    f"PyTorch {self.version.version} as it is built here has no operator {name}",
                    place=app.places.key(("extra", name)),
                    expected="an operator that a model could name",
                    seen=f"{name}, which LAPACK computes" if named else name,
                    hint=None if named else did_you_mean(name, known),
                )
            found.update(named)
        return tuple(sorted(found))

    @cached_property
    def library(self) -> PreparedLibrary | None:
        """The library of kernels that is pinned with it, if one is."""
        return prepare_library(self.pin, self.fetched)

    def library_index(self, config: ToolchainConfig) -> LibraryIndex | None:
        """The library's index for an ABI, where there is one. Raises IndexUnreadableError."""
        return None if self.library is None else self.library.index(config.processor)

    def cpu_levels(self, config: ToolchainConfig) -> tuple[CpuLevelData, ...]:
        """The CPU levels of the kernel library's units for an ABI, lowest first; none without the
        library."""
        if self.library is None:
            return ()
        return levels_of(self.library.data, config.processor, config.system)

    def declared_levels(self, app: App, config: ToolchainConfig) -> tuple[CpuLevel, ...] | None:
        """The CPU levels that an app declares for an ABI; None where it leaves them to us.

        Raises CpuLevelUnknownError, CpuLevelMissingError.
        """
        choice = app.config.cpu
        if choice == "auto" or self.library is None:
            return None
        name = next((name for name in (config.abi, config.processor) if name in choice), None)
        if name is None:
            return None
        place = app.places.value(("cpu", name))
        require_levels(config.abi, self.cpu_levels(config), choice[name], place)
        return choice[name]

    def features_of(
        self,
        config: ToolchainConfig,
        parts: frozenset[KernelPart],
        root_operators: Collection[OperatorName],
        called: Collection[OperatorName],
    ) -> frozenset[str] | None:
        """The kernels that call a library, of those that operators ask for, which models name or
        have called; None where a variant for the ABI has none, whatever it computes.

        parts: of models, for which its app takes such kernels
        """
        shipped = load_entries(self.dialect)
        if not parts or not shipped or self.library_index(config) is None:
            return None
        return asked_by_operators(root_operators, called, parts)

    @cached_property
    def own_folders(self) -> Mapping[str, str]:
        """`folders` by the variables that all runtimes' actions have: none of them is renamed."""
        back = {own: one for one, own in self.renamed.items()}
        return {back.get(name, name): folder for name, folder in self.folders.items()}

    def fill(self, text: str) -> str:
        """A text with its `$variables` (folders of this machine) filled in, whether or not they are
        renamed."""
        return filled(text, self._every_variable)

    @cached_property
    def _every_variable(self) -> Mapping[str, str]:
        return {**self.own_folders, **self.folders}

    def placed(self, action: Compile) -> Compile:
        """A planned compilation, with the variables that ninja has for the runtime's folders."""
        return in_own_folders(action, self.renamed)
