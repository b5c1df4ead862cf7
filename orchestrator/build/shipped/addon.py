"""Add-ons: a shared library with only what a shipped library lacks for a model. It registers itself
in that library.

The shipped library is read from its package: the manifest has its selection, its dynamic symbols
what it exports. The add-on is linked against it, and both run together before anything is written.
"""

from __future__ import annotations

import hashlib
import json
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from orchestrator.binary.elf import ElfRules, check, exported_symbols
from orchestrator.binary.elf_strip import split
from orchestrator.build.delivering.licences import licences
from orchestrator.build.delivering.verify import runner_path
from orchestrator.build.development.addon_link import (
    AddonObjects,
    AddonPart,
    Extended,
    addon_objects,
    compile_objects,
    link_addon,
)
from orchestrator.build.executing.execute import View
from orchestrator.build.planning.variants import (
    VariantRequest,
    compile_spec,
    hot_units,
    takes_addons,
)
from orchestrator.build.shipped.addon_models import (
    NotHere,
    Proof,
    Ready,
    library_models,
    no_proof,
    proof,
    require_all_here,
    settled,
)
from orchestrator.build.shipped.fits import Held, grown_by, hold
from orchestrator.build.workshop.invocation import Invocation, Prepared
from orchestrator.build.workshop.programs import loadable
from orchestrator.build.workshop.runtime import Runtime
from orchestrator.codegen.projection import projection_text
from orchestrator.compilers.relink import EXPORTED
from orchestrator.deliver.files import File, replacing_folder
from orchestrator.errors import OrchestratorError, Place
from orchestrator.load.declared import App
from orchestrator.packagers.addons import AddonFiles, pack_addon
from orchestrator.packagers.contents import Packaged, read_packages, take_library
from orchestrator.plan.addon import AddonNeeds, AddonRoots, addon_needs
from orchestrator.plan.variant import VariantSpec
from orchestrator.platforms import PLATFORMS
from orchestrator.platforms.platform import SharedLibrary
from orchestrator.report.table import human_bytes
from orchestrator.select.backends import tensor_kinds, upgraded
from orchestrator.select.fits import KnownRuntime
from orchestrator.select.policy import select
from orchestrator.trace.lock import read_runs
from orchestrator.values.action import Compile
from orchestrator.values.config.forms import NAME
from orchestrator.values.fits import Lack
from orchestrator.values.labels import VariantLabel
from orchestrator.values.operators import OperatorName
from orchestrator.values.packages import library_name
from orchestrator.values.selection import Selection
from orchestrator.verify.model_runner import run_model, told_inputs
from orchestrator.verify.verdict import RunnerResult, require_verified

_WHO: Final = frozenset({"the library"})
_ADDABLE: Final = frozenset({"operator", "kernel tag"})
# An add-on without operators, and what registers one (0059, 0088).
_EMPTY: Final = 16_500
_REGISTERED: Final = 2_500
_SHIP_AGAIN: Final = "build the app with the model, and ship it again"


class NoAddonError(OrchestratorError):
    """No add-on can be made for this library, or of what this model needs."""


@dataclass(frozen=True)
class Addon:
    """An add-on that was made, and has run where its ABI's binaries run here.

    folder      below dist/
    packages    the archive of it first
    operators   those that it registers
    bytes       of the stripped add-on
    proofs      its model's, then one for each model of the library's manifest
    """

    folder: Path
    packages: tuple[Path, ...]
    library: str
    operators: tuple[OperatorName, ...]
    bytes: int
    compiled: int
    proofs: tuple[Proof, ...]


@dataclass(frozen=True)
class Fits:
    """The library already runs the model."""

    library: str
    reason: str


@dataclass(frozen=True)
class _Base:
    """The library that an add-on is for.

    path  its file, unpacked
    has   the names that it exports for add-ons
    """

    one: Packaged
    path: Path
    has: frozenset[str]

    @property
    def app(self) -> str:
        return self.one.manifest.app

    @property
    def abi(self) -> str:
        return self.one.manifest.abi

    @property
    def described(self) -> str:
        manifest = self.one.manifest
        return f"{manifest.app} {manifest.version} for {manifest.abi}"

    @property
    def extended(self) -> Extended:
        build_id = self.one.manifest.library.build_id
        assert build_id is not None
        namespace = PLATFORMS[self.one.manifest.system].cxx_namespace
        return Extended(self.app, self.path, self.has, build_id, self.described, namespace)


def addon(
    here: Invocation,
    package: Path,
    model: Path,
    *,
    abi: str | None = None,
    name: str | None,
    unverified: bool = False,
    jobs: int | None,
    view: View,
) -> Addon | Fits:
    """Make the add-on for the library in a package that a model lacks, and run both together, with
    the model and with each that the library was built for.

    abi: which of the package's; None: it has one. name: what it is called; None: as the model.
    unverified: whether models of the library may be missing here, which then do not run. Raises
    NoAddonError, UnverifiedAddonError, AddonLinkError, ActionFailedError, VerificationFailedError,
    and what reading the package and the models raise.
    """
    one = _only(read_packages(package), abi)
    _require_kind(here, one)
    model = loadable(here, model).path
    held = hold(here, model, one)
    base_name = f"{one.manifest.app} {one.manifest.version} for {one.manifest.abi}"
    if held.judged.verdict == "by manifest":
        return Fits(base_name, held.judged.reason)
    _require_addable(one, held, here.runtimes.names)
    called = _name(name or model.stem)
    with tempfile.TemporaryDirectory(prefix="orchestrator-") as folder:
        path = Path(folder) / Path(one.manifest.library.soname or "").name
        take_library(one, path)
        names = frozenset(n for n in exported_symbols(path) if n.startswith(EXPORTED))
        if not names:
            raise NoAddonError(
                f"{base_name} takes no add-ons",
                place=Place(str(package)),
                expected="a library that was built with `extensible: true`",
                seen="one that exports only the C API",
                hint="add `extensible: true` to app.yaml, and build and ship the app again",
            )
        base = _Base(one, path, names)
        proving = _proving(here, base, held, model, Path(folder), unverified=unverified)
        return _Making(here, base, held, called, proving, Path(folder)).make(jobs, view)


def _only(found: Sequence[Packaged], abi: str | None) -> Packaged:
    wanted = [one for one in found if abi in (None, one.manifest.abi)]
    if len(wanted) == 1:
        return wanted[0]
    raise NoAddonError(
        f"the package has no library for {abi}"
        if abi and not wanted
        else "an add-on is for the library of one ABI",
        place=Place(str(found[0].path)),
        expected="a library of one ABI",
        seen=", ".join(one.manifest.abi for one in found),
        hint="say which one: --abi ABI",
    )


def _name(text: str) -> str:
    if re.fullmatch(NAME, text):
        return text
    raise NoAddonError(
        "this is not a valid name of an add-on",
        expected=f"a name that matches {NAME}",
        seen=text,
        hint="name it: --name NAME",
    )


def _require_kind(here: Invocation, one: Packaged) -> None:
    """That this workspace makes add-ons for such a library."""
    manifest, abi = one.manifest, one.manifest.abi
    place = Place(str(one.path))
    library = PLATFORMS[manifest.system].library
    if not isinstance(library, SharedLibrary):
        raise NoAddonError(
            f"apps for {manifest.system} cannot load code that was not in the reviewed app",
            place=place,
            expected="a shared library",
            seen=f"a static library for {abi}",
            hint=_SHIP_AGAIN,
        )
    if manifest.processor not in library.addons:
        raise NoAddonError(
            f"there are no add-ons yet for {abi}",
            place=place,
            expected=", ".join(
                f"{name} on {processor}"
                for name, platform in sorted(PLATFORMS.items())
                if isinstance(platform.library, SharedLibrary)
                for processor in sorted(platform.library.addons)
            ),
            seen=f"{manifest.system}, {manifest.processor}",
            hint=_SHIP_AGAIN,
        )
    if abi not in here.workspace.toolchains:
        raise NoAddonError(
            f"there is no toolchain for {abi} here",
            place=place,
            expected="one of " + ", ".join(here.workspace.toolchains),
            seen=abi,
        )
    toolchain = here.toolchains.of(abi)
    if manifest.toolchain.identity != toolchain.identity:
        raise NoAddonError(
            f"the library was built with another toolchain than the one for {abi} here",
            place=place,
            expected=f"{manifest.toolchain.compiler} {manifest.toolchain.version}"
            f" ({manifest.toolchain.identity[:12]})",
            seen=f"{toolchain.driver.kind} {toolchain.version} ({toolchain.identity[:12]})",
            hint="use the release of the orchestrator that built it",
        )
    trees = {pin.tree for pin in here.workspace.config.pins.values()}
    if manifest.runtime.tree not in trees:
        raise NoAddonError(
            "the library was built from another PyTorch than this workspace pins",
            place=place,
            expected=f"PyTorch {manifest.runtime.pytorch}, tree {manifest.runtime.tree[:12]}",
            seen=", ".join(sorted(tree[:12] for tree in trees)),
            hint="pin it in WORKSPACE, under `runtimes`",
        )
    if manifest.threads != 1:
        raise NoAddonError(
            "there are no add-ons yet for libraries with threads",
            place=place,
            expected="`threads: 1`",
            seen=f"`threads: {manifest.threads}`",
        )
    if not takes_addons(toolchain):
        raise NoAddonError(
            "add-ons are linked by zig or an Android NDK, but the toolchain declares another"
            " compiler",
            place=toolchain.place,
            expected="a toolchain of zig or of an NDK",
            seen=toolchain.driver.kind,
        )


def _require_addable(one: Packaged, held: Held, runtimes: Mapping[str, str]) -> None:
    """That what lacks can be brought by an add-on; by name.

    runtimes: digest of a runtime's tree -> its name here
    """
    if held.trace is None or held.app is None or held.config is None:
        raise NoAddonError(
            "an add-on has what a model used when it ran, and it must be run together with it",
            expected="the model in an app of this workspace, with its trace",
            seen=held.why_not or "no app here has it",
            hint="add it to an app and trace that: ./orchestrate trace //apps/<app>",
        )
    traced = held.trace.identity.runtime
    if traced != one.manifest.runtime.tree:
        wanted = runtimes.get(one.manifest.runtime.tree, "...")
        raise NoAddonError(
            "an add-on is of the library's runtime, and the model was traced with another",
            place=held.app.place,
            expected=f"a trace made with runtime {wanted}",
            seen=f"one of runtime {runtimes.get(traced, traced[:12])}",
            hint=f"say `runtime: {wanted}` there, and run: ./orchestrate trace"
            f" //apps/{held.app.name}",
        )
    if held.judged.verdict != "does not fit" or held.offer.roots is None:
        raise NoAddonError(
            "it is not known what the library lacks",
            place=Place(str(one.path)),
            expected="a manifest and a trace that show what to add",
            seen=held.judged.reason,
        )
    runtime = held.runtime
    assert runtime is not None
    known = runtime.operators
    wrong = [
        lack
        for lack in held.judged.lacks
        if lack.kind not in _ADDABLE
        or (lack.kind == "operator" and lack.name not in known)
        or (lack.kind == "kernel tag" and lack.has)
    ]
    if own := _of_own_sources(held.app, runtime, wrong):
        raise NoAddonError(
            "an add-on cannot bring what an app's own sources register",
            place=held.app.places.key(("sources",)),
            expected="operators of PyTorch",
            seen="; ".join(f"{lack.kind} {lack.name}" for lack in own),
            hint=_SHIP_AGAIN,
        )
    if wrong:
        raise NoAddonError(
            "an add-on cannot provide all that the library lacks",
            place=Place(str(one.path)),
            expected="operators and kernels that the library lacks completely",
            seen="; ".join(map(_shown, wrong)),
            hint=_SHIP_AGAIN,
        )
    roots = held.roots
    old = upgraded(runtime.dialect.facts, roots, held.info.archive_version)
    if old or tensor_kinds(held.offer.roots | roots) != tensor_kinds(held.offer.roots):
        raise NoAddonError(
            "the library omits code that only models with other operators reach",
            place=Place(str(one.path)),
            expected="a model with the library's kinds of tensors, of a current PyTorch",
            seen=", ".join(sorted(old or roots - held.offer.roots)),
            hint=_SHIP_AGAIN,
        )


def _of_own_sources(app: App, runtime: KnownRuntime, lacks: Iterable[Lack]) -> list[Lack]:
    """Lacks out of `lacks` that the app's own sources may register: they cannot register in
    PyTorch's namespaces."""
    if app.config.sources is None:
        return []
    namespaces = {name.namespace for name in runtime.operators}
    classes = {name.rpartition(".")[2] for name in runtime.dialect.facts.custom_classes}
    return [
        lack
        for lack in lacks
        if (lack.kind == "operator" and OperatorName(lack.name).namespace not in namespaces)
        or (lack.kind == "custom class" and lack.name not in classes)
    ]


def _shown(lack: Lack) -> str:
    if lack.kind == "kernel tag":
        return f"dtype {', '.join(lack.dtypes)} of {lack.name}, which it has for other dtypes"
    return f"{lack.kind} {lack.name}" + (f" ({lack.note})" if lack.note else "")


@dataclass
class _Making:
    """One add-on on its way."""

    here: Invocation
    base: _Base
    held: Held
    name: str
    proving: _Proving
    folder: Path

    @property
    def runtime(self) -> Runtime:
        manifest = self.base.one.manifest
        return self.here.runtimes.on(self.here.runtimes.names[manifest.runtime.tree])

    def make(self, jobs: int | None, view: View) -> Addon:
        here, prepared = self.here, self.here.prepare(self.runtime, [self.base.abi])
        selection, wanted = self._selection()
        spec = self._spec(prepared, wanted)
        assert self.held.runtime is not None
        there = self.held.offer.operators | self.held.runtime.promoted
        lacking = wanted.operators.keys() - there
        called = self._only_called()
        operators = tuple(sorted(lacking | called))
        own = frozenset(self._own_units(selection, wanted))
        roots = self._roots(operators, spec, own)
        needs = self._needs(roots, wanted)
        self._require_generated(needs)
        # their kernels are all the library's
        once = frozenset(
            one for one in called if not self._needs(replace(roots, operators=(one,)), wanted).units
        )
        part = AddonPart(operators, needs, wanted.operators, once)
        objects = self._objects(spec, wanted, part, own, prepared)
        about = self._estimate(len(operators))
        if about is not None:
            plural = "" if len(operators) == 1 else "s"
            here.log(f"about {human_bytes(about)} for {len(operators)} operator{plural}")
        compiled = len(compile_objects(here, objects, jobs, view))
        linked = self._link(objects)
        return self._deliver(linked, operators, objects.compiles, compiled)

    def _estimate(self, operators: int) -> int | None:
        """About how large the add-on will be: what the library would grow by, and what every
        add-on has."""
        held = self.held
        assert held.runtime is not None
        grown = grown_by(
            self.base.one.manifest,
            held.offer,
            (*held.judged.lacks, *held.judged.unknown),
            held.runtime,
            held.roots,
            held.trace,
        )
        return None if grown is None else _EMPTY + _REGISTERED * operators + grown

    def _only_called(self) -> frozenset[OperatorName]:
        """The operators that the model names, and that have kernels in the library but no
        registration, since only code calls them there (0041)."""
        return self.held.roots & (self.held.offer.resolved or frozenset())

    def _roots(
        self, operators: tuple[OperatorName, ...], spec: VariantSpec, own: frozenset[int]
    ) -> AddonRoots:
        units = enumerate(self.runtime.index.units)
        return AddonRoots(
            operators=operators,
            has=self.base.extended.exports,
            entered=self.held.offer.operators,
            own=own,
            cut=frozenset(number for number, unit in units if unit.path in spec.cut),
        )

    def _needs(self, roots: AddonRoots, wanted: Selection) -> AddonNeeds:
        runtime = self.runtime
        kernels = runtime.kernels_for(wanted.root_operators)
        return addon_needs(runtime.index, runtime.dialect, kernels, roots)

    def _selection(self) -> tuple[Selection, Selection]:
        """The library's selection, and the same merged with the model's."""
        fact = self.base.one.manifest.selection
        base = Selection(
            operators=dict.fromkeys(map(OperatorName.known, fact.operators), _WHO),
            root_operators=frozenset(map(OperatorName.known, fact.root_operators or ())),
            kernel_dtypes={t: dict.fromkeys(d, _WHO) for t, d in fact.kernel_dtypes.items()},
            custom_classes=dict.fromkeys(fact.custom_classes, _WHO),
            build_features=dict.fromkeys(fact.build_features, _WHO),
        )
        trace = self.held.trace
        assert trace is not None
        kernels = self.runtime.kernels_for(trace.root_operators)
        policy = self.held.app.selection if self.held.app else "guarded"
        layouts = self.runtime.version.layouts
        more = select(self.runtime.index, kernels, [trace], policy, layouts=layouts)
        return base, base.merge(more)

    def _spec(self, prepared: Prepared, selection: Selection) -> VariantSpec:
        trace, runtime = self.held.trace, self.runtime
        assert trace is not None
        app = self.held.app
        wanted = VariantRequest(
            abi=self.base.abi,
            selection=selection,
            kernels=runtime.kernels_for(selection.root_operators),
            purpose="release",
            optimize=app.optimize if app else "balanced",
            hot=hot_units(runtime, trace.hot_tags),
            lean=runtime.lean_units(()),
            cut=runtime.cut_units(selection.root_operators),
        )
        # objects are rewritten, which bitcode is not
        return replace(compile_spec(prepared, wanted), lto=False, precompile=False)

    def _own_units(self, base: Selection, merged: Selection) -> Iterator[int]:
        """The units whose objects differ from the library's."""
        for number, unit in enumerate(self.runtime.index.units):
            if projection_text(unit, base) != projection_text(unit, merged):
                yield number

    def _require_generated(self, needs: AddonNeeds) -> None:
        if needs.by_hand:
            raise NoAddonError(
                "there are no add-ons yet for operators that PyTorch registers by hand",
                expected="operators that torchgen registers",
                seen=", ".join(f"{name} ({unit})" for name, unit in sorted(needs.by_hand.items())),
                hint=_SHIP_AGAIN,
            )

    def _objects(
        self,
        spec: VariantSpec,
        selection: Selection,
        part: AddonPart,
        own: frozenset[int],
        prepared: Prepared,
    ) -> AddonObjects:
        kernels = self.runtime.kernels_for(selection.root_operators)
        return addon_objects(prepared, spec, selection, kernels, (part,), own)

    def _link(self, objects: AddonObjects) -> Path:
        """The add-on, unstripped, with its note."""
        extended = self.base.extended
        return link_addon(self.here, self.base.abi, extended, objects, self._file, self.folder)

    @property
    def _file(self) -> str:
        return f"lib{library_name(self.base.app)}_{self.name}.so"

    def _deliver(
        self,
        linked: Path,
        operators: tuple[OperatorName, ...],
        compiles: Sequence[Compile],
        compiled: int,
    ) -> Addon:
        """Checks the add-on, runs it, and writes its folder and archive."""
        base, here = self.base, self.here
        parts = split(linked.read_bytes(), f"{self._file}.debug")
        stripped = self.folder / "stripped" / self._file
        stripped.parent.mkdir()
        stripped.write_bytes(parts.stripped)
        stripped.with_name(f"{self._file}.debug").write_bytes(parts.debug)
        check(stripped, self._rules())
        proofs = self.proving.proofs(stripped)
        ran = (one.result for one in proofs if one.result is not None)
        named = f"the add-on {self.name} for {base.described}"
        require_verified(named, ran, hint=_SHIP_AGAIN)
        units = [unit for one in compiles for unit in one.units]
        library = base.one.manifest.library
        facts = {
            "format": 2,
            "name": self.name,
            "library": {
                "app": base.app,
                "version": base.one.manifest.version,
                "abi": base.abi,
                "soname": library.soname,
                "build_id": library.build_id,
            },
            "operators": list(operators),
            "model": {"name": proofs[0].model, "sha256": proofs[0].sha256},
            "build_id": parts.build_id,
            "bytes": len(parts.stripped),
            "verified": [one.fact for one in proofs],
            "sha256": hashlib.sha256(parts.stripped).hexdigest(),
        }
        texts = (
            File(f"share/doc/{self.name}/{part.component}/{text}", content)
            for part in licences(here, self.runtime, base.abi, units, linked)
            for text, content in part.texts.items()
        )
        files = [
            File(f"lib/{self._file}", parts.stripped, executable=True),
            File(f"symbols/{self._file}.debug", parts.debug),
            File("addon.json", (json.dumps(facts, indent=2, sort_keys=True) + "\n").encode()),
            *texts,
        ]
        dist = here.context.dist / base.app / "addons"
        folder = dist / base.abi / self.name
        with replacing_folder(folder, files):
            pass
        packed = AddonFiles(self.name, base.one.manifest, tuple(files))
        return Addon(
            folder=folder,
            packages=pack_addon(packed, dist),
            library=base.described,
            operators=operators,
            bytes=len(parts.stripped),
            compiled=compiled,
            proofs=proofs,
        )

    def _rules(self) -> ElfRules:
        toolchain = self.here.toolchains.of(self.base.abi)
        library = PLATFORMS[toolchain.config.system].library
        assert isinstance(library, SharedLibrary)
        manifest = self.base.one.manifest
        needed = library.system_libraries[toolchain.driver.c_library]
        if not toolchain.driver.links_cxx_library:
            needed |= library.cxx_libraries
        return ElfRules(
            soname=self._file,
            processor=manifest.processor,
            exports=frozenset({"lta_addon_register"}),
            system_libraries=needed | {str(manifest.library.soname)},
            page_size=library.page_sizes[manifest.processor],
            relocated=library.relocated,
        )


@dataclass(frozen=True)
class _Proving:
    """The models that an add-on is proven with, and how they run.

    models   its own first, then the library's
    argv     the model runner; None where nothing runs the ABI's binaries here, and `why_not`
    """

    here: Invocation
    base: _Base
    models: tuple[Ready | NotHere, ...]
    argv: tuple[str, ...] | None
    why_not: str

    def proofs(self, addon: Path) -> tuple[Proof, ...]:
        """Run each model in the library with the add-on, and return the results."""
        return tuple(
            proof(one, self.run(one, addon))
            if self.argv is not None and isinstance(one, Ready)
            else no_proof(one, self.why_not)
            for one in self.models
        )

    def fed(self, one: Ready | NotHere) -> Ready | NotHere:
        """A model with the inputs of the file that it takes them from."""
        if isinstance(one, NotHere) or one.like is None:
            return one
        inputs = told_inputs(self.run(replace(one, path=one.like), with_arguments=True))
        if inputs is None:
            reason = "it holds no inputs, and the library does not run the file that has some"
            return NotHere(one.model, one.sha256, reason)
        return replace(one, inputs=inputs)

    def run(
        self, one: Ready, addon: Path | None = None, *, with_arguments: bool = False
    ) -> RunnerResult:
        """A model's result in the library, alone or with the add-on."""
        assert self.argv is not None
        return run_model(
            self.argv,
            one.path,
            one.config,
            self.here.context.env,
            libraries=self.base.path.parent,
            recorded=one.inputs,
            threads=1,
            addon=addon,
            with_arguments=with_arguments,
            runner=self.here.context.runner,
        )


def _proving(
    here: Invocation, base: _Base, held: Held, model: Path, folder: Path, *, unverified: bool
) -> _Proving:
    """All that an add-on is to be proven with, found before anything is compiled.

    model: the file that the add-on is for; folder: for what is unpacked. Raises NoAddonError,
    UnverifiedAddonError.
    """
    unpacked = folder / "models"
    unpacked.mkdir()
    running = here.toolchains.running(base.abi)
    own = _own_model(here, held, model)
    models = (own, *library_models(here, base.one, unpacked))
    if here.toolchains.of(base.abi).config.run == "none":
        return _Proving(here, base, models, None, running.why_not)
    label = VariantLabel(base.app, base.abi)
    runner = runner_path(here, label)
    if running.prefix is None or not runner.is_file():
        raise NoAddonError(
            f"the add-on cannot be run for {base.abi} here, and is not written",
            expected=f"the model runner of {label}, and a way to run it",
            seen=running.why_not or "no model runner",
            hint=f"run: ./orchestrate build {label}",
        )
    proving = _Proving(here, base, models, (*running.prefix, str(runner)), "")
    models = tuple(proving.fed(one) for one in models)
    models = settled(models, proving.run)
    place = Place(str(base.one.path))
    require_all_here(models, base.described, place, unverified=unverified)
    return replace(proving, models=models)


def _own_model(here: Invocation, held: Held, model: Path) -> Ready:
    """The model that an add-on is for: this very file, whatever its app declares by now."""
    assert held.app is not None
    assert held.config is not None
    assert held.trace is not None
    return Ready(
        of="add-on",
        model=held.config.name,
        sha256=held.info.sha256,
        path=model,
        config=held.config,
        inputs=here.models.shipped(held.app, held.config).inputs,
        expected=read_runs(held.app.folder, held.trace, here.context.root),
        basis="recorded outputs",
    )
