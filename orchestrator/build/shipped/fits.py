"""Checks whether a model fits libraries that have shipped: by their manifests, and by running it.

Builds nothing, and unpacks only a library that is to run. A package is a program: its library runs
here only if it was built in this workspace, or if the caller asks for it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Literal

from orchestrator.binary.elf_symbols import needed_libraries
from orchestrator.build.delivering.verify import runner_path
from orchestrator.build.planning.selected import OtherSelectionError, require_selection
from orchestrator.build.workshop.fetch import tree_folder
from orchestrator.build.workshop.invocation import Invocation
from orchestrator.build.workshop.programs import loadable
from orchestrator.build.workshop.runtime_index import known_runtime
from orchestrator.canonical.lock import canonical_path
from orchestrator.deliver.manifest import Manifest
from orchestrator.errors import OrchestratorError, Place
from orchestrator.load.declared import App
from orchestrator.models.checks import (
    check_classes,
    check_lapack,
    check_packings,
    misfits,
    require_no_enums,
    require_no_named_tuples,
    require_types,
)
from orchestrator.models.coverage import unreachable_operators
from orchestrator.models.info import ModelInfo, UnreadableModelError, read_model
from orchestrator.models.listing import read_listings
from orchestrator.models.source_lines import operator_places
from orchestrator.packagers.contents import Packaged, read_packages, take_library
from orchestrator.platforms import PLATFORMS
from orchestrator.pytorch.arguments import argument_counts
from orchestrator.pytorch.dialects import DIALECTS
from orchestrator.report.fits import FitRow, FitsReport
from orchestrator.select.backends import upgraded
from orchestrator.select.fits import KnownRuntime, ModelFacts, Offer, added, judge
from orchestrator.size.estimate import code_of, grown_bytes
from orchestrator.system.limits import usable_cores
from orchestrator.system.reading import file_sha256, read_text
from orchestrator.trace.lock import changes, lock_path, parse_lock, read_runs
from orchestrator.trace.reading import LONGEST, named_text
from orchestrator.values.config.app import ModelConfig
from orchestrator.values.fits import Judgement, Lack
from orchestrator.values.labels import VariantLabel
from orchestrator.values.operators import OperatorName
from orchestrator.values.packages import library_name
from orchestrator.values.trace import Trace
from orchestrator.values.versions import ModelVersions
from orchestrator.verify.model_runner import run_model
from orchestrator.verify.verdict import VerifyResult, verify

# `own`: libraries that were built in this workspace; see the top
Runs = Literal["own", "all", "none"]
_MOST_METHODS: Final = 3
# What packages are read with; all of it is decompressing and hashing.
_READERS: Final = 4


class NoPackageError(OrchestratorError):
    """No library was named to compare a model with."""


class UnreadableLockError(OrchestratorError):
    """A trace that was named cannot be read."""


class OtherModelError(OrchestratorError):
    """A trace that was named is of another model."""


@dataclass(frozen=True)
class _Known:
    """Facts about a model in addition to its file, if an app of the workspace has it.

    trace   its trace, if that is current; else None, and `why_not` says why
    inputs  inputs recorded beside a canonical model, which holds none
    """

    app: App | None = None
    config: ModelConfig | None = None
    trace: Trace | None = None
    lock: Path | None = None
    why_not: str = "it has no trace"
    inputs: bytes | None = None


def fits(
    here: Invocation,
    model: Path,
    packages: Sequence[Path],
    *,
    lock: Path | None = None,
    runs: Runs = "own",
) -> FitsReport:
    """Judge whether a model fits each library in the packages, in their order.

    lock: its trace, where the workspace has none of it. Raises NoPackageError, OtherModelError, and
    what reading the model and the trace raise; errors about a package are in its row.
    """
    if not packages:
        raise NoPackageError(
            "no library is named",
            expected="a folder of dist/, or packages",
            hint="run: ./orchestrate fits MODEL.ptl --in dist/<app>/<abi>",
        )
    try:
        made = loadable(here, model)
        info = read_model(made.path, every_version(), name=str(model))
    except UnreadableModelError as error:
        error.hint = "check the path, and the file's permissions"
        raise
    known = _known(here, info, lock)
    if made.inputs is not None and known.inputs is None:
        known = replace(known, inputs=made.inputs)
    fitting = _Fitting(here, made.path, info, known)
    with ThreadPoolExecutor(min(_READERS, usable_cores())) as pool:
        read = [pool.submit(_read, path) for path in packages]
        rows = tuple(
            row
            for path, future in zip(packages, read, strict=True)
            for row in fitting.rows(path, future.result(), runs)
        )
    return FitsReport(
        model=str(model),
        sha256=info.sha256,
        operators=len(info.root_operators),
        trace=None if known.trace is None else _shown(here, known.lock),
        no_trace="" if known.trace is not None else known.why_not,
        rows=rows,
    )


def _shown(here: Invocation, lock: Path | None) -> str:
    """A lock's path, relative to the workspace where it is in that."""
    root = here.context.root
    return str(lock.relative_to(root) if lock and lock.is_relative_to(root) else lock)


@dataclass(frozen=True)
class Held:
    """A model compared with one library.

    app, config  where the workspace has the model
    trace        its lock as the library needs it, if it still holds; else `why_not`
    """

    info: ModelInfo
    app: App | None
    config: ModelConfig | None
    trace: Trace | None
    why_not: str
    offer: Offer
    judged: Judgement
    runtime: KnownRuntime | None

    @property
    def roots(self) -> frozenset[OperatorName]:
        """The operators that the library must have to load the model."""
        known = () if self.trace is None else self.trace.unreachable_operators
        return frozenset(self.info.root_operators).difference(known)


def hold(here: Invocation, model: Path, one: Packaged) -> Held:
    """Compares a model with a library, without running it there. Raises what `fits` raises."""
    info = read_model(model, every_version())
    known = _known(here, info, None)
    fitting = _Fitting(here, model, info, known)
    offer = _offer(one)
    runtime = fitting._runtime(offer)
    judged = judge(fitting._facts_for(offer), offer, lambda: runtime)
    trace = known.trace and known.trace.loaded_by(offer.left_out)
    return Held(info, known.app, known.config, trace, known.why_not, offer, judged, runtime)


def _read(path: Path) -> tuple[Packaged, ...] | OrchestratorError:
    try:
        return read_packages(path)
    except OrchestratorError as error:
        return error


def every_version() -> ModelVersions:
    """Versions of models that any of our runtimes loads; each library states those that it loads
    itself."""
    every = [dialect.models for dialect in DIALECTS.values()]
    return ModelVersions(
        range(min(m.bytecode.start for m in every), max(m.bytecode.stop for m in every)),
        range(min(m.archive.start for m in every), max(m.archive.stop for m in every)),
    )


def _known(here: Invocation, info: ModelInfo, lock: Path | None) -> _Known:
    """The model's trace: the one that is named, else that of an app with the same file."""
    if lock is not None:
        expected = "a lock that `orchestrator trace` wrote"
        text = named_text(lock, UnreadableLockError, "trace", expected)
        trace = parse_lock(text, str(lock))
        if trace.identity.model != info.sha256:
            raise OtherModelError(
                "this trace is of another model",
                place=Place(str(lock)),
                expected=info.sha256,
                seen=trace.identity.model,
                hint="name the lock of this file",
            )
        return _current(here, _Known(lock=lock), trace)
    for app in here.workspace.apps.values():
        for config in app.config.models:
            path = lock_path(app.folder, config.name)
            if not path.is_file() or info.sha256 not in (text := read_text(path, LONGEST)):
                continue
            try:
                trace = parse_lock(text, str(path))
            except OrchestratorError as error:
                return _Known(why_not=f"its trace cannot be read: {error.what}")
            if trace.identity.model == info.sha256:
                found = _Known(app, config, lock=path, inputs=_recorded(here, app, config))
                return _current(here, found, trace)
    return _Known(why_not=_why_no_trace(here, info))


def _recorded(here: Invocation, app: App, config: ModelConfig) -> bytes | None:
    """The inputs that belong to an app's canonical model, while its lock holds."""
    try:
        return here.models.shipped(app, config).inputs
    except OrchestratorError:
        return None


def _why_no_trace(here: Invocation, info: ModelInfo) -> str:
    """Reason why a model has no trace; names the canonical model if the file is one that a
    canonical model was made from, since an app traces and ships that instead."""
    root = here.context.root
    for app in here.workspace.apps.values():
        for config in filter(app.is_canonical, app.config.models):
            declared = app.model_path(config)
            if declared.is_file() and file_sha256(declared) == info.sha256:
                ships = canonical_path(app, config).relative_to(root).as_posix()
                return f"it has no trace: //apps/{app.name} ships {ships} instead"
    return _Known().why_not


def _current(here: Invocation, found: _Known, trace: Trace) -> _Known:
    """A trace counts where it would be made again: of these inputs, by this tracer."""
    tracer = here.models.tracer(own_sources=bool(trace.identity.sources))
    wanted = replace(trace.identity, tracer=tracer)
    if found.app is not None and found.config is not None:
        try:
            wanted = here.models.trace_identity(found.app, found.config)
        except OrchestratorError as error:
            # a canonical model that is stale, for one
            return replace(found, why_not=f"its trace may be stale: {error.what}")
        wanted = replace(wanted, model=trace.identity.model, runtime=trace.identity.runtime)
        # backends are compared with each library's
        wanted = replace(wanted, backends=trace.identity.backends)
    stale = changes(trace.identity, wanted)
    if stale:
        return replace(found, why_not=f"its trace is stale: {', '.join(stale)} changed since")
    return replace(found, trace=trace, why_not="")


@dataclass
class _Fitting:
    """One model, held against libraries."""

    here: Invocation
    path: Path
    info: ModelInfo
    known: _Known
    _runtimes: dict[tuple[str, str], KnownRuntime | None] = field(default_factory=dict)
    _facts: dict[tuple[object, ...], ModelFacts] = field(default_factory=dict)
    _callers: dict[tuple[object, ...], tuple[OperatorName, ...]] = field(default_factory=dict)

    def rows(
        self, path: Path, read: tuple[Packaged, ...] | OrchestratorError, runs: Runs
    ) -> Iterator[FitRow]:
        if isinstance(read, OrchestratorError):
            yield FitRow(str(path), error=read)
            return
        for one in read:
            yield self._row(one, runs)

    def _row(self, one: Packaged, runs: Runs) -> FitRow:
        manifest = one.manifest
        offer = _offer(one)
        judged = judge(self._facts_for(offer), offer, lambda: self._runtime(offer))
        row = FitRow(
            str(one.path),
            manifest.app,
            manifest.abi,
            manifest.version,
            manifest.runtime.pytorch,
            judged.verdict,
            judged.reason,
        )
        try:
            ran, not_run = self._run(one, runs)
        except OtherSelectionError as error:
            return FitRow(str(one.path), error=error)
        if ran is not None and ran.status in ("ok", "ok in part"):
            return replace(row, verdict="proven", reason=_how(ran, self.known), ran=ran)
        if ran is not None:
            row = replace(row, verdict="does not fit", reason="it ran there, and failed", ran=ran)
        return self._explained(replace(row, not_run=not_run), judged, offer, manifest)

    def _explained(
        self, row: FitRow, judged: Judgement, offer: Offer, manifest: Manifest
    ) -> FitRow:
        """With who asks for what lacks, where, and how large it is."""
        if not judged.lacks and not judged.unknown:
            return row
        runtime = self._runtime(offer)
        lacks = tuple(self._with_places(one, offer, runtime) for one in judged.lacks)
        unknown = tuple(self._with_places(one, offer, runtime) for one in judged.unknown)
        total = None
        if runtime is not None and judged.lacks:
            facts = self._facts_for(offer)
            sizes, bound = added(facts, offer, judged.lacks, runtime)
            lacks = tuple(
                replace(one, bytes=sizes[lack][0], at_most=sizes[lack][1]) if lack in sizes else one
                for one, lack in zip(lacks, judged.lacks, strict=True)
            )
            if bound is not None:
                every = (*judged.lacks, *judged.unknown)
                total = grown_by(manifest, offer, every, runtime, facts.roots, facts.trace)
        return replace(
            row,
            lacks=lacks,
            unknown=unknown,
            added_bytes=total,
            estimated_bytes=None if total is None else _with_more(manifest, total),
        )

    def _with_places(self, lack: Lack, offer: Offer, runtime: KnownRuntime | None) -> Lack:
        if lack.kind not in ("operator", "kernel tag"):
            return lack
        asked_by: tuple[OperatorName, ...] = ()
        names: tuple[OperatorName, ...] = (OperatorName(lack.name),)
        if lack.name not in self._roots and runtime is not None:
            key = (lack.kind, lack.name, offer.pytorch, offer.tree, offer.backends)
            if key not in self._callers:
                self._callers[key] = runtime.callers(lack, self._roots, offer)
            names = asked_by = self._callers[key]
        places = (place for name in names for place in self._places.get(name, ()))
        methods = (method for name in names for method in self._methods.get(name, ()))
        return replace(
            lack,
            asked_by=asked_by,
            methods=tuple(dict.fromkeys(methods))[:_MOST_METHODS],
            places=tuple(dict.fromkeys(places))[:_MOST_METHODS],
        )

    @cached_property
    def _roots(self) -> frozenset[OperatorName]:
        return frozenset(self.info.root_operators)

    @cached_property
    def _unreachable(self) -> frozenset[OperatorName]:
        """The operators that it names only in calls that no input can reach."""
        found = unreachable_operators(read_listings(self.path))
        return frozenset(map(OperatorName.known, found))

    @cached_property
    def _places(self) -> Mapping[OperatorName, tuple[Place, ...]]:
        return operator_places(self.path, self.info.root_operators)

    @cached_property
    def _methods(self) -> Mapping[OperatorName, tuple[str, ...]]:
        found: dict[OperatorName, dict[str, None]] = {}
        for function in self.info.functions:
            for use in function.operators:
                found.setdefault(use.operator, {})[function.name] = None
        return {name: tuple(methods) for name, methods in found.items()}

    def _facts_for(self, offer: Offer) -> ModelFacts:
        key = (offer.pytorch, offer.tree, offer.left_out)
        if key not in self._facts:
            self._facts[key] = self._make_facts(offer)
        return self._facts[key]

    def _make_facts(self, offer: Offer) -> ModelFacts:
        info, trace = self.info, self.known.trace
        trace = trace and trace.loaded_by(offer.left_out)
        old = self._upgraded(offer)
        # also without a trace: a model that was trained again has the same branches
        only_named = frozenset() if old else offer.left_out & self._unreachable
        # what was traced with this runtime passed them all
        traced = trace is not None and trace.identity.runtime == offer.tree
        faults, unchecked = ((), "") if traced else self._checked(offer)
        return ModelFacts(
            sha256=info.sha256,
            bytecode=info.bytecode_version,
            archive=info.archive_version,
            roots=self._roots - only_named,
            classes=frozenset(name.rpartition(".")[2] for name in info.custom_classes),
            trace=trace,
            no_trace=self.known.why_not,
            faults=faults,
            unchecked=unchecked,
            upgraded=old,
        )

    def _upgraded(self, offer: Offer) -> frozenset[OperatorName]:
        dialect = DIALECTS.get(offer.pytorch)
        if dialect is None:
            return frozenset()
        return upgraded(dialect.facts, self._roots, self.info.archive_version)

    def _checked(self, offer: Offer) -> tuple[tuple[str, ...], str]:
        """Check the model against a runtime: reasons why it cannot run, and what could not be
        checked."""
        dialect = DIALECTS.get(offer.pytorch)
        if dialect is None:
            return (), f"PyTorch {offer.pytorch} is none that we know"
        version = dialect.facts
        checks: tuple[Callable[[], None], ...] = (
            lambda: require_no_enums(self.info),
            lambda: require_no_named_tuples(self.info),
            lambda: require_types(self.info),
            lambda: check_lapack(self.info, version.lapack, version.version),
            lambda: check_classes(self.info, version.custom_classes, version.version),
            lambda: check_packings(self.info, version.packings, version.version),
        )
        faults = []
        for check in checks:
            try:
                check()
            except OrchestratorError as error:
                faults.append(f"{error.what}: {error.seen}")
        tree = tree_folder(self.here.context.cache, offer.pytorch, offer.tree)
        try:
            wrong = misfits(self.info, argument_counts(tree))
        except OSError:
            return tuple(faults), "the library's PyTorch is not here to compare arguments with"
        unchecked = f"PyTorch {version.version} does not take {wrong[0]}" if wrong else ""
        return tuple(faults), unchecked

    def _runtime(self, offer: Offer) -> KnownRuntime | None:
        key = (offer.pytorch, offer.tree)
        if key not in self._runtimes:
            self._runtimes[key] = known_runtime(*key)
        return self._runtimes[key]

    def _run(self, one: Packaged, runs: Runs) -> tuple[VerifyResult | None, str]:
        """Run the model in a library; return its result, or None and the reason why it did not run.
        Raises OtherSelectionError."""
        why_not = self._why_not(one, runs)
        if why_not:
            return None, why_not
        abi = one.manifest.abi
        try:
            running = self.here.toolchains.running(abi)
        except OrchestratorError as error:
            return None, f"no toolchain for {abi} here: {error.what}"
        if running.prefix is None:
            return None, running.why_not
        program = self._runner(one)
        if program is None:
            return None, f"no model runner for {abi} here: build any app of the workspace for it"
        with tempfile.TemporaryDirectory(prefix="orchestrator-") as folder:
            try:
                for name in needed_libraries(program):
                    # whatever app the runner was linked with
                    if name.endswith(library_name("") + ".so"):
                        take_library(one, Path(folder) / name)
            except OrchestratorError as error:
                return None, error.what
            return self._result([*running.prefix, str(program)], Path(folder), one), ""

    def _why_not(self, one: Packaged, runs: Runs) -> str:
        if runs == "none":
            return "not asked for"
        if one.manifest.library.is_static:
            return "a static library"
        if runs == "own" and not self._is_own(one):
            return "a package is a program of its author's: with --run it runs here"
        if one.manifest.abi not in self.here.workspace.toolchains:
            return f"no toolchain for {one.manifest.abi} here"
        declared = self.known.config is not None and self.known.config.inputs != "bundled"
        if not (self.info.has_bundled_inputs or declared or self.known.inputs is not None):
            return "the model holds no inputs, and no app declares any"
        return ""

    def _is_own(self, one: Packaged) -> bool:
        """True if the library is in the delivered folder of this workspace, and its model runner is
        here."""
        if one.path.resolve() != (self.here.context.dist / one.manifest.label.delivered).resolve():
            return False
        return runner_path(self.here, one.manifest.label).is_file()

    def _runner(self, one: Packaged) -> Path | None:
        """A model runner for the ABI: of the same app if there is one."""
        others = VariantLabel("*", one.manifest.abi).linked
        every = [
            runner_path(self.here, one.manifest.label),
            *sorted(self.here.context.state.glob(f"{others}/driver")),
        ]
        return next((path for path in every if path.is_file()), None)

    def _result(self, argv: Sequence[str], libraries: Path, one: Packaged) -> VerifyResult:
        config = self.known.config or ModelConfig(file=self.path.name)
        context = self.here.context
        seen = run_model(
            argv,
            self.path,
            config,
            context.env,
            libraries=libraries,
            recorded=self.known.inputs,
            threads=1,
            runner=context.runner,
        )
        require_selection(one.manifest.selection_digest, seen, Place(str(one.path)))
        return verify(self.path.stem, self._expected or seen.result or {"runs": []}, seen)

    @cached_property
    def _expected(self) -> Mapping[str, Any] | None:
        """The recorded runs, where the workspace has them."""
        app, trace = self.known.app, self.known.trace
        if app is None or trace is None:
            return None
        try:
            return read_runs(app.folder, trace, self.here.context.root)
        except OrchestratorError:
            return None


def _how(ran: VerifyResult, known: _Known) -> str:
    runs = "once" if ran.runs == 1 else f"{ran.runs} times"
    compared = "with the recorded outputs" if known.app and known.trace else "without an error"
    return f"it ran there {runs}, {compared}"


def grown_by(
    manifest: Manifest,
    offer: Offer,
    lacks: Collection[Lack],
    runtime: KnownRuntime,
    roots: Collection[OperatorName],
    trace: Trace | None,
) -> int | None:
    """Estimate by how many bytes a library grows with what it lacks for a model, as `plan` does;
    None for a processor for which no library was measured. roots, trace: the model's."""
    relative = PLATFORMS[manifest.system].sizes.get(manifest.processor)
    if relative is None:
        return None
    dtypes = {tag: set(of) for tag, of in offer.kernel_dtypes.items()}
    for one in lacks:
        if one.kind == "kernel tag":
            dtypes.setdefault(one.name, set()).update(one.dtypes)
    new = {OperatorName(one.name) for one in lacks if one.kind == "operator"} & runtime.operators
    before, after = runtime.grown(new, dtypes, offer, roots, trace)
    more = runtime.dialect.facts.estimates.operator * len(new & {*roots})
    grown = grown_bytes(code_of(*before, 0, 0), code_of(*after, 0, more), relative.scale)
    return max(grown, 0)


def _with_more(manifest: Manifest, more: int) -> int | None:
    """Bytes of a library that grows; None of a static one, of which apps link a part."""
    if manifest.library.is_static:
        return None
    return manifest.files[manifest.library.file].bytes + more


def _offer(one: Packaged) -> Offer:
    manifest, selected = one.manifest, one.manifest.selection
    return Offer(
        pytorch=manifest.runtime.pytorch,
        tree=manifest.runtime.tree,
        operators=frozenset(map(OperatorName.known, selected.operators)),
        kernel_dtypes={tag: frozenset(d) for tag, d in selected.kernel_dtypes.items()},
        classes=frozenset(selected.custom_classes),
        features=frozenset(selected.build_features),
        roots=_set(selected.root_operators),
        resolved=_set(selected.resolved_operators),
        backends=selected.backends,
        bytecode=manifest.runtime.bytecode,
        archive=manifest.runtime.archive,
        models=frozenset(model.sha256 for model in manifest.models),
        left_out=frozenset(map(OperatorName.known, selected.left_out_operators)),
    )


def _set(names: Iterable[str] | None) -> frozenset[OperatorName] | None:
    return None if names is None else frozenset(map(OperatorName.known, names))
