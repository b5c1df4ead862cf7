"""Finds the supported PyTorch versions that an app's models can run on, by their operators."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from orchestrator.build.workshop.loadable import unreachable_in
from orchestrator.build.workshop.runtime_index import shipped_index
from orchestrator.canonical.lock import shipped_model
from orchestrator.errors import OrchestratorError
from orchestrator.load.declared import Workspace
from orchestrator.models.info import read_model
from orchestrator.models.listing import read_listings
from orchestrator.models.offers import Offer, advice, offering
from orchestrator.pytorch.dialect import Dialect
from orchestrator.pytorch.dialects import DIALECTS, dialect_of
from orchestrator.values.config.workspace import RuntimePin
from orchestrator.values.operators import OperatorName


@dataclass(frozen=True)
class ReadModel:
    """An app's model, and the operators that it names, or why they cannot be read.

    version, declared  of the app: its runtime's version, and its app.yaml
    own_sources        whether the app has sources of its own operators
    """

    app: str
    model: str
    version: str
    declared: str
    operators: frozenset[OperatorName] = frozenset()
    own_sources: bool = False
    fault: OrchestratorError | None = field(default=None, compare=False)

    @property
    def name(self) -> str:
        """The model's name among all apps: `camera/classifier`."""
        return f"{self.app}/{self.model}"

    def asks(self, offers: Iterable[Offer]) -> frozenset[OperatorName]:
        """Its operators that PyTorch must have.

        Those that no version has are left to the app's own sources, if it has some: whether they
        define them is known once they are compiled.
        """
        if not self.own_sources:
            return self.operators
        return self.operators & frozenset().union(*(offer.operators for offer in offers))


@dataclass(frozen=True)
class VersionUse:
    """A supported version, and the models that were read, by their names.

    names      as WORKSPACE pins it; none where it does not
    able       models of which it has all operators
    unable     the others
    needed_by  those of `able` that another supported version cannot run
    """

    version: str
    names: tuple[str, ...]
    able: tuple[str, ...]
    unable: tuple[str, ...]
    needed_by: tuple[str, ...]


@dataclass(frozen=True)
class Unfit:
    """A model that names operators which its app's runtime does not have.

    do  what to do, where another runtime has them
    """

    model: ReadModel
    missing: tuple[str, ...]
    do: str | None


def read_models(
    workspace: Workspace, offers: Iterable[Offer], dialects: Mapping[str, Dialect] = DIALECTS
) -> Iterator[ReadModel]:
    """All apps' models; those of an app whose runtime is not supported are left out. What no input
    of a model reaches is looked at where its own runtime lacks an operator."""
    known = {offer.version: offer.operators for offer in offers}
    for name, app in workspace.apps.items():
        version = workspace.config.pins[app.runtime].pytorch
        if version not in dialects:
            continue
        for model in app.config.models:
            at = (name, model.name, version, app.place.file)
            try:
                path = shipped_model(app, model, workspace.root).path
                shown = path.relative_to(workspace.root).as_posix()
                info = read_model(path, dialects[version].models, name=shown)
            except OrchestratorError as fault:
                yield ReadModel(*at, fault=fault)
            else:
                operators = frozenset(info.root_operators)
                if not operators <= known.get(version, operators):
                    operators -= unreachable_in(info, dialects[version].facts, read_listings(path))
                yield ReadModel(*at, operators, own_sources=app.config.sources is not None)


def uses(models: Iterable[ReadModel], offers: Sequence[Offer]) -> tuple[VersionUse, ...]:
    """For each supported version: the models that it has all operators of, those that it has not,
    and of the former those that another version lacks operators of. Models that could not be read
    do not count. Pure."""
    read = [model for model in models if model.fault is None]
    able = {model.name: offering(model.asks(offers), offers) for model in read}
    return tuple(
        VersionUse(
            offer.version,
            offer.names,
            tuple(name for name, those in able.items() if offer in those),
            tuple(name for name, those in able.items() if offer not in those),
            tuple(
                name for name, those in able.items() if offer in those and len(those) < len(offers)
            ),
        )
        for offer in offers
    )


def unfit(models: Iterable[ReadModel], offers: Sequence[Offer]) -> tuple[Unfit, ...]:
    """The models that their own runtime cannot run; one whose version offers nothing is not
    known to. Pure."""
    known = {offer.version: offer.operators for offer in offers}
    found = []
    for model in models:
        asked = model.asks(offers)
        missing = asked - known.get(model.version, asked)
        if missing:
            do = advice(missing, offers, model.declared)
            found.append(Unfit(model, tuple(sorted(map(str, missing))), do))
    return tuple(found)


def unusable(
    pins: Mapping[str, RuntimePin],
    offers: Iterable[Offer],
    dialects: Mapping[str, Dialect] = DIALECTS,
) -> Mapping[str, OrchestratorError]:
    """Pinned runtimes that nothing can be planned with, and why: not supported, or its index is
    missing, or of another tree."""
    usable = {name for offer in offers for name in offer.names}
    faults = {}
    for name in sorted(pins.keys() - usable):
        try:
            shipped_index(dialect_of(pins[name].pytorch, dialects), pins[name].tree, name)
        except OrchestratorError as fault:
            faults[name] = fault
    return faults
