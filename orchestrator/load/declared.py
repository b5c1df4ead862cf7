"""The declarations in memory: apps, toolchains, and the workspace that holds them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from orchestrator.errors import OrchestratorError, Place
from orchestrator.load.yaml import PlaceIndex
from orchestrator.values.config.app import AppConfig, MadeKind, ModelConfig
from orchestrator.values.config.forms import KernelChoice, Optimize, SelectionPolicy
from orchestrator.values.config.toolchain import ToolchainConfig, ToolchainGroup
from orchestrator.values.config.workspace import WorkspaceConfig
from orchestrator.values.labels import VariantLabel


@dataclass(frozen=True)
class App:
    """An app: its declaration, completed with the workspace's defaults.

    config  its `targets` and `budgets` name ABIs only: groups are replaced by their members
    folder  `<root>/apps/<name>`; models' files and traces are relative to it
    place   its app.yaml
    """

    name: str
    folder: Path
    config: AppConfig
    place: Place
    optimize: Optimize
    runtime: str
    selection: SelectionPolicy
    kernels: KernelChoice
    threads: int
    package_name: str
    maven_group: str | None
    places: PlaceIndex = field(compare=False, repr=False)

    def model_path(self, model: ModelConfig) -> Path:
        """The model's file, as it is declared: a .ptl or a .pt2."""
        return self.folder / model.file

    def inputs_path(self, model: ModelConfig) -> Path | None:
        """The file of a model's inputs, where app.yaml names one."""
        return None if model.inputs_file is None else self.folder / model.inputs_file

    def canonical_kind(self, model: ModelConfig) -> MadeKind:
        """Return the conversion that makes a model's canonical file; `off`: it has none."""
        if model.is_program:
            return "exported"
        return model.canonical or self.config.canonical

    def is_canonical(self, model: ModelConfig) -> bool:
        """True if the canonical file is traced, verified and shipped in place of the declared
        one."""
        return self.canonical_kind(model) != "off"

    def declines_canonical(self, model: ModelConfig) -> bool:
        """True if app.yaml declares `canonical: off` for the model, rather than nothing."""
        if model.is_program:
            return False
        if model.canonical is not None:
            return model.canonical == "off"
        return self.config.canonical == "off" and "canonical" in self.config.model_fields_set


@dataclass(frozen=True)
class Toolchain:
    """A toolchain's declaration; `place` is its file, `built_in` whether we ship it."""

    config: ToolchainConfig
    place: Place
    places: PlaceIndex = field(compare=False, repr=False)
    built_in: bool = field(default=False, compare=False)


@dataclass(frozen=True)
class Group:
    """A target that is a group of ABIs; `place` is its file."""

    config: ToolchainGroup
    place: Place
    places: PlaceIndex = field(compare=False, repr=False)


@dataclass(frozen=True)
class Workspace:
    """All declarations; `apps` by name and `toolchains` by ABI, both sorted.

    apps    the valid ones
    cache   the user's cache folder, as `cache_folder` finds it
    groups  target -> the ABIs that it stands for
    broken  the other apps: name -> their faults
    """

    root: Path
    config: WorkspaceConfig
    cache: Path
    apps: Mapping[str, App]
    toolchains: Mapping[str, Toolchain]
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    broken: Mapping[str, tuple[OrchestratorError, ...]] = field(default_factory=dict)

    @property
    def targets(self) -> Mapping[str, tuple[str, ...]]:
        """ABIs by app, as labels are resolved with."""
        return {name: app.config.targets for name, app in self.apps.items()}

    def apps_of(self, labels: Iterable[VariantLabel]) -> list[App]:
        """The apps that labels name, each once, by name."""
        return [self.apps[name] for name in sorted({label.app for label in labels})]
