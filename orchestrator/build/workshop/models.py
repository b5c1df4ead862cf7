"""Facts about the apps' models: from their files, and from their files and runtimes together."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from orchestrator.build.workshop.loadable import require_loadable
from orchestrator.build.workshop.offers import other_offers
from orchestrator.build.workshop.runtimes import Runtimes
from orchestrator.build.workshop.trace_identity import inputs_digest, tracer_digest
from orchestrator.canonical.lock import Shipped, shipped_model
from orchestrator.load.declared import App, Workspace
from orchestrator.models.checks import (
    Misfit,
    file_operators,
    forbidden_operators,
    misfits,
    require_allowed,
    require_inputs,
    require_no_files,
)
from orchestrator.models.coverage import unrun_methods
from orchestrator.models.info import ModelInfo, read_archive_version, read_model
from orchestrator.models.listing import Listing, read_listings
from orchestrator.models.methods import recorded_call
from orchestrator.models.source_lines import operator_places
from orchestrator.pytorch.dialects import dialect_of
from orchestrator.select.backends import upgradable, upgraded
from orchestrator.system.reading import file_sha256, parse_json
from orchestrator.values.config.app import ModelConfig
from orchestrator.values.methods import Call
from orchestrator.values.operators import OperatorName
from orchestrator.values.own_sources import OwnClass
from orchestrator.values.trace import Trace, TraceIdentity
from orchestrator.verify.inputs_file import read_inputs_file


@dataclass(frozen=True)
class _Read:
    """A model that its runtime loads. left_out: as `Models.left_out`."""

    info: ModelInfo
    left_out: frozenset[OperatorName]


class Models:
    """The apps' models. A file is read once, on first use."""

    def __init__(self, workspace: Workspace, runtimes: Runtimes) -> None:
        self._workspace = workspace
        self._runtimes = runtimes
        self._shipped: dict[tuple[str, str], Shipped] = {}
        self._read: dict[tuple[str, Path], _Read] = {}
        self._tracers: dict[bool, str] = {}

    def tracer(self, *, own_sources: bool) -> str:
        """`tracer_digest`, part of every trace's identity: of apps with sources of their own, or of
        those without."""
        if own_sources not in self._tracers:
            self._tracers[own_sources] = tracer_digest(own_sources=own_sources)
        return self._tracers[own_sources]

    def shipped(self, app: App, model: ModelConfig) -> Shipped:
        """The model's file that is traced and verified: the declared one, or its canonical one.

        Raises what `shipped_model` and `read_inputs_file` raise, and of a file of inputs what
        `read_model` raises.
        """
        key = (app.name, model.name)
        if key not in self._shipped:
            self._shipped[key] = self._with_inputs(
                app, model, shipped_model(app, model, self._workspace.root)
            )
        return self._shipped[key]

    def _with_inputs(self, app: App, model: ModelConfig, shipped: Shipped) -> Shipped:
        """With the inputs of a file beside the model, where app.yaml names one."""
        path = app.inputs_path(model)
        if path is None:
            return shipped
        versions = dialect_of(self._workspace.config.pins[app.runtime].pytorch).models
        info = read_model(shipped.path, versions, name=self._shown(shipped.path))
        inputs = read_inputs_file(path, self._shown(path), info.own_methods)
        return replace(shipped, inputs=inputs)

    def _shown(self, path: Path) -> str:
        return path.relative_to(self._workspace.root).as_posix()

    def info(self, app: App, model: ModelConfig) -> ModelInfo:
        """The model's facts, read and checked against its app's runtime.

        Raises what orchestrator.models raises.
        """
        return self._checked(app, model).info

    def left_out(self, app: App, model: ModelConfig) -> frozenset[OperatorName]:
        """The operators that the model names, its runtime does not have, and no input reaches.

        Raises what `info` raises.
        """
        return self._checked(app, model).left_out

    def _checked(self, app: App, model: ModelConfig) -> _Read:
        shipped, runtime = self.shipped(app, model), self._runtimes.of(app.name)
        path = shipped.path
        if (app.name, path) not in self._read:
            info = read_model(path, runtime.dialect.models, name=self._shown(path))
            opening = file_operators(info, app.config.extra)
            places = {
                **operator_places(shipped.declared, opening),
                **operator_places(path, opening),
            }
            require_no_files(info, opening, places)
            given = model.inputs != "bundled" or shipped.inputs is not None
            require_inputs(info, declared=given)
            version = runtime.version
            left_out = require_loadable(
                info,
                runtime.kernels,
                version,
                other_offers(self._workspace, version.version),
                app.place.file,
                runtime.own_classes,
                # torch knows no operators of an app's own
                shipped.is_canonical or app.config.sources is not None,
                path=path,
            )
            found = forbidden_operators(info, app.config.forbid)
            # a canonical file has no debug information: what it was made of may have some
            places = {**operator_places(shipped.declared, found), **operator_places(path, found)}
            require_allowed(info, found, places)
            self._read[app.name, path] = _Read(info, left_out)
        return self._read[app.name, path]

    def listings(self, app: App, model: ModelConfig) -> tuple[Listing, ...]:
        """The model's instructions, with the lines of its source; none where it cannot be read."""
        return read_listings(self.shipped(app, model).path)

    def bundled_call(self, app: App, model: ModelConfig) -> Call | None:
        """A call with the first of the inputs in the declared file or beside it, where it is
        known."""
        shipped = self.shipped(app, model)
        if shipped.inputs is not None and (model.is_program or model.inputs_file):
            return recorded_call(parse_json(shipped.inputs)[0])
        if not shipped.is_canonical:
            return self.info(app, model).bundled_call
        versions = self._runtimes.of(app.name).dialect.models
        name = self._shown(shipped.declared)
        return read_model(shipped.declared, versions, name=name).bundled_call

    def misfits(self, app: App, model: ModelConfig) -> tuple[Misfit, ...]:
        """The model's calls that pass another number of arguments than the runtime's operator
        takes. Such a model loads, and fails where the call is reached."""
        return misfits(self.info(app, model), self._runtimes.of(app.name).arguments)

    def trace_identity(self, app: App, model: ModelConfig) -> TraceIdentity:
        """Digests of all that a trace of this model depends on, for a trace made now: a lock with
        another identity is stale. Hashes the model's file. Raises what `shipped` and
        `Runtimes.sources` raise."""
        shipped, config = self.shipped(app, model), self._workspace.config
        inputs = inputs_digest(model)
        if shipped.inputs is not None:
            inputs = hashlib.sha256(shipped.inputs).hexdigest()
        sources = self._runtimes.sources(app.name)
        return TraceIdentity(
            model=file_sha256(shipped.path),
            runtime=config.pins[app.runtime].tree,
            inputs=inputs,
            backends=config.defaults.backends,
            tracer=self.tracer(own_sources=sources is not None),
            sources="" if sources is None else sources.digest,
        )

    def upgraded(self, app: App, traces: Iterable[Trace]) -> frozenset[OperatorName]:
        """The operators by which models of an app mean what an earlier PyTorch did; of those with
        these traces. Raises what reading the models raises."""
        known = {one.name: one for one in app.config.models}
        version = self._runtimes.of(app.name).version
        named = {one.model: upgradable(version).intersection(one.root_operators) for one in traces}
        return frozenset(
            operator
            for model, operators in named.items()
            if operators
            for operator in upgraded(version, operators, self._archive_of(app, known[model]))
        )

    def _archive_of(self, app: App, model: ModelConfig) -> int:
        path = self.shipped(app, model).path
        return read_archive_version(path, self._shown(path))

    def unrun_units(self, app: App, traces: Iterable[Trace]) -> Mapping[str, frozenset[str]]:
        """Model -> own units with a class of which the model calls a method that its inputs never
        ran, as far as the names of methods tell."""
        own_classes = self._runtimes.of(app.name).own_classes
        if not own_classes:
            return {}
        traced = {trace.model: trace for trace in traces}
        return {
            one.name: units_of(
                unrun_methods(self.info(app, one).functions, traced[one.name].coverage),
                own_classes.values(),
            )
            for one in app.config.models
            if one.name in traced
        }


def units_of(methods: Collection[str], classes: Iterable[OwnClass]) -> frozenset[str]:
    """The own units that register a class which may have one of these methods."""
    return frozenset(
        one.place.file
        for one in classes
        if one.place is not None and any(map(one.may_have, methods))
    )
