"""The development library: a base that no operator's kernel is part of, shared by all models, and
shards with what a model calls, each an add-on for that base.

Both are in the user's cache, under the digest of all that they are made of, and with that of their
content in their names: see `cache/store.py`. What is there is checked before it is opened.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Final

from orchestrator.binary.elf import exported_symbols as exported_by
from orchestrator.build.development.addon_link import (
    AddonLinkError,
    AddonObjects,
    Extended,
    addon_link_parts,
    addon_objects,
    compile_objects,
    lacks_of_cxx,
    link_addon,
    link_flags,
)
from orchestrator.build.development.shard_contents import InBase
from orchestrator.build.development.shard_files import forget_old, forget_old_bases
from orchestrator.build.development.shard_parts import (
    BaseHas,
    known_groups,
    parts_of,
    remember_groups,
)
from orchestrator.build.executing.execute import View, execute_linked
from orchestrator.build.planning.links import DevelopmentLinks, development_links
from orchestrator.build.planning.variants import (
    VariantRequest,
    plan_objects,
    registration_units,
    spec_of,
    takes_addons,
)
from orchestrator.build.workshop.invocation import Invocation, Prepared
from orchestrator.build.workshop.runtime import Runtime
from orchestrator.codegen.units import unit_of
from orchestrator.compilers.relink import EXPORTED
from orchestrator.compilers.resolve import ResolvedToolchain
from orchestrator.compilers.zig_cxx import ALONE, FIRST, SELDOM
from orchestrator.errors import OrchestratorError
from orchestrator.index.model import aliases
from orchestrator.plan.cxx_together import Together, compiled_together
from orchestrator.plan.development import (
    NAME,
    NOT_INLINE,
    RECORDING,
    BasePlan,
    every_dtype,
    exported_symbols,
    groups_of,
    keeping_text,
    of_tags,
    own_operators,
    plan_base,
    usual_dtypes,
)
from orchestrator.plan.extension import exports_file, version_script
from orchestrator.plan.graph import (
    VariantObjects,
    registration_compiles,
    unwritten,
)
from orchestrator.plan.unoptimised import unoptimised
from orchestrator.plan.variant import VariantSpec
from orchestrator.pytorch.dialect import Layout
from orchestrator.system.staging import write_bytes
from orchestrator.values.action import Compile, count_units
from orchestrator.values.fingerprint import fingerprint
from orchestrator.values.operators import OperatorName

# Raised by one when shards of an earlier release must not be opened any more.
_FORMAT: Final = 1
_WHO: Final = frozenset({NAME})
# What runs for each operator or number of a model, besides kernels: of PyTorch and of ours.
_OFTEN: Final = (
    *("aten/src/ATen/core/dispatch/", "generated/operators.cpp"),
    *("native/capi/capi.cpp", "native/development/observer.cpp"),
)
# Of a shard: typed entry points, and registrations, of which each process runs all; and the
# interpreter's operators, of which only the optimiser drops what no model names
# (TORCH_SELECTIVE_SCHEMA).
_OFTEN_IN_SHARDS: Final = ("generated/", "torch/csrc/jit/")
# On which a model has run in it.
_PROCESSORS: Final = frozenset({"x86_64"})


class NoDevelopmentLibraryError(OrchestratorError):
    """This machine, or what is to be run, has no development library."""


@dataclass(frozen=True)
class Base:
    """The base, ready to be linked against and to run.

    folder    has the library and its model runner
    units     how many it is made of
    compiled  the names of those that were compiled now; None: it came from the store
    """

    extended: Extended
    runner: Path
    called: frozenset[OperatorName]
    units: int
    compiled: tuple[str, ...] | None


@dataclass(frozen=True)
class Shard:
    """A shard, checked and ready to be opened.

    units     how many of PyTorch's it has, without registrations
    compiled  the names of the units, ours among them, that were compiled now; None: it came from
              the store
    own       the app's own units
    """

    path: Path
    operators: frozenset[OperatorName]
    units: int
    bytes: int
    compiled: tuple[str, ...] | None
    own: tuple[str, ...] = ()


@dataclass
class Development:
    """The development library of one runtime, for this machine.

    runtime  one that WORKSPACE pins, or an app's, whose own sources are in each shard
    The caller holds the workspace's lock while it asks for `base` or `shard`.
    """

    here: Invocation
    runtime: Runtime
    jobs: int | None
    view: View

    @property
    def available(self) -> bool:
        """True if the host's toolchain can link a library that loads add-ons."""
        toolchain = self._toolchain
        return toolchain.config.processor in _PROCESSORS and takes_addons(toolchain)

    def require(self) -> None:
        """Raise NoDevelopmentLibraryError where there is none for this machine."""
        toolchain = self._toolchain
        if not self.available:
            raise NoDevelopmentLibraryError(
                f"there is no development library yet for {toolchain.abi}",
                place=toolchain.place,
                expected="linux on x86_64, and a toolchain of zig",
                seen=f"{toolchain.config.system} on {toolchain.config.processor},"
                f" {toolchain.driver.kind}",
                hint="trace the model here: ./orchestrate trace //apps/<app>",
            )

    @property
    def _toolchain(self) -> ResolvedToolchain:
        return self.here.toolchains.of(self.here.toolchains.host)

    @cached_property
    def prepared(self) -> Prepared:
        """The host's toolchain and the runtime, with all effects that planning needs."""
        return self.here.prepare(self.runtime, [self.here.toolchains.host])

    @cached_property
    def plain(self) -> Prepared:
        """The same without an app's own sources: the base has nothing of them."""
        return replace(self.prepared, runtime=self.runtime.base or self.runtime)

    @cached_property
    def request(self) -> VariantRequest:
        """As a tracer: it tells observers of operators, and a tracer's objects are the base's."""
        runtime = self.plain.runtime
        selection = every_dtype(runtime.index, runtime.kernels)
        return VariantRequest(
            self.here.toolchains.host,
            selection,
            runtime.kernels,
            "tracer",
            optimize="size",
            app=NAME,
            self_relocation=False,
            extensible=True,
        )

    @cached_property
    def base_plan(self) -> BasePlan:
        """The units of the base, and the registrations that it has itself. Raises
        UnitUnknownError."""
        runtime, spec = self.plain.runtime, spec_of(self.plain, self.request)
        return plan_base(runtime.planner, runtime.kernels, spec, self.exported)

    @cached_property
    def exported(self) -> tuple[str, ...]:
        """The symbols of PyTorch that the base exports, sorted: those of any library that takes
        add-ons, and what the app's own sources may call besides."""
        plain, layered = self.plain.runtime, self.runtime.extension_symbols
        return exported_symbols(plain.index, plain.extension_symbols, layered)

    @cached_property
    def base(self) -> Base:
        """The base library and its model runner, from the store or else compiled and linked now.

        Raises ActionFailedError, TorchgenFailedError.
        """
        runtime, plan = self.plain.runtime, self.base_plan
        objects = self._base_objects(plan)
        # a tracer's code calls more of other units than the index knows
        index = runtime.index
        nodes = index.defining(plan.plan.spec.entry)
        entry = {name for n in nodes for name in aliases(index.names[n].split("@", 1)[0])}
        symbols = {*self.exported, *entry, *RECORDING, *NOT_INLINE}
        script = version_script(NAME, tuple(sorted(symbols)))
        exports = exports_file(script)
        objects = replace(objects, texts={**objects.texts, exports: script})
        links = development_links(self.plain, NAME, objects, exports)
        library, runner = (Path(runtime.fill(link.output)) for link in (links.shared, links.runner))
        store = self.here.store
        stored = {
            _stored(f"{links.build_id}-base", ".so"): library,
            _stored(f"{links.build_id}-driver", ".run"): runner,
        }
        restored = store.restore(stored)
        self._report_damaged(restored.damaged)
        compiled = None
        if restored.present != stored.keys():
            compiled = self._make_base(objects, links)
            for name, path in stored.items():
                store.put(name, path)
        if not runner.stat().st_mode & stat.S_IXUSR:  # it was copied
            runner.chmod(0o755)
        # its time is now: it was restored or made
        forget_old_bases(library.parent.parent)
        names = frozenset(n for n in exported_by(library) if n.startswith(EXPORTED))
        version = runtime.version.version
        return Base(
            Extended(NAME, library, names, links.build_id, f"development, PyTorch {version}"),
            runner,
            plan.called,
            count_units(plan.plan.compiles),
            compiled,
        )

    def _base_objects(self, base: BasePlan) -> VariantObjects:
        runtime, plan = self.plain.runtime, base.plan
        planned = (replace(plan, request=one) for one in (base.own, base.entries))
        made = registration_units(self.plain, planned, generate=True)
        units = [unit for unit in made[base.own] if unit.name != "operators"]
        units += [unit for unit in made[base.entries] if unit.name == "operators"]
        (objects,) = plan_objects(
            self.plain, {NAME: self.request}, {NAME: plan}, {plan.request: tuple(units)}
        ).values()
        cache = self.here.context.texts
        keeping = unit_of(
            "kept", keeping_text((*base.kept, *RECORDING, *NOT_INLINE)), cache / "kept"
        )
        compiles = registration_compiles(runtime.facts, plan.spec, [keeping], cache)
        library, layout = _together(objects.cxx_library), runtime.dialect.layout
        registrations = (*objects.registrations, *map(runtime.placed, compiles))
        return replace(
            objects,
            plan=replace(
                objects.plan,
                whole=_unoptimised(objects.plan.whole, layout),
                on_demand=_unoptimised(objects.plan.on_demand, layout),
            ),
            registrations=_unoptimised(registrations, layout),
            native=_unoptimised(objects.native, layout),
            cxx_library=_without_seldom(library.compiles),
            texts={**objects.texts, **unwritten([keeping], cache), **library.texts},
        )

    def _make_base(self, objects: VariantObjects, links: DevelopmentLinks) -> tuple[str, ...]:
        return execute_linked(
            self.here,
            objects,
            links.all,
            links.runner_compiles,
            name=NAME,
            jobs=self.jobs,
            view=self.view,
        ).compiled

    def shard(
        self,
        roots: Collection[OperatorName],
        operators: Collection[OperatorName],
        wide: Collection[str],
    ) -> Shard:
        """The shard that registers `operators`, for a model with these root operators; it has the
        kernel tags in `wide`, and an app's own, in all dtypes, and in the usual ones those that
        code of the shard can reach without a call of another operator.

        Raises ActionFailedError, TorchgenFailedError, AddonLinkError.
        """
        runtime = self.runtime
        kernels, own = runtime.kernels_for(roots), runtime.facts.app_units
        index = runtime.index
        mine = own_operators(index, kernels, operators, own)
        file = self._groups_file
        groups = groups_of(frozenset(operators) - mine, known_groups(file, kernels))
        parts = parts_of(runtime, kernels, roots, groups, self._has)
        every = every_dtype(index, kernels) if own else self.request.selection
        theirs = {tag for unit in index.units if unit.path in own for tag in unit.tags}
        reached = {tag for part in parts for tag in part.needs.tags}
        selection = of_tags(usual_dtypes(every, {*wide, *theirs}), {*reached, *wide, *theirs})
        selection = replace(selection, operators=dict.fromkeys(sorted(operators), _WHO))
        objects = addon_objects(
            self.prepared, self._shard_spec(roots), selection, kernels, parts, frozenset()
        )
        library = _together(objects.library)
        objects = replace(
            objects, library=library.compiles, texts={**objects.texts, **library.texts}
        )
        computing = {
            unit.path
            for unit in index.units
            if unit.path in own or not reached.isdisjoint(unit.tags)
        }
        remember_groups(file, kernels, groups)
        path, compiled = self._made(objects, computing)
        os.utime(path)
        forget_old(path.parent)
        units = len({unit for part in parts for unit in part.needs.units})
        size = path.stat().st_size
        return Shard(path, frozenset(operators), units, size, compiled, tuple(sorted(own)))

    def _made(
        self, objects: AddonObjects, computing: Collection[str]
    ) -> tuple[Path, tuple[str, ...] | None]:
        """A shard of these objects, and the names of the units that were compiled now: see `Shard`.
        computing: units with loops.

        An unoptimised object can refer to what the index, made of optimised ones, does not know:
        where the shard does not link, all are as the index knows them.
        """
        often = (*_OFTEN_IN_SHARDS, *self.runtime.dialect.layout.loops)
        quick = objects.with_compiles(lambda one: _unless_often(one, often, computing))
        now = list[str]()
        try:
            path, stored = self._put_by_key(quick, now)
        except AddonLinkError:
            self.here.log("units compiled without optimisation do not link: compiling with it")
            path, stored = self._put_by_key(objects, now)
        return path, None if stored and not now else tuple(sorted(now))

    def _put_by_key(self, objects: AddonObjects, now: list[str]) -> tuple[Path, bool]:
        toolchain = self._toolchain
        key = fingerprint(
            {
                "format": str(_FORMAT),
                "base": self.base.extended.build_id,
                "objects": [c.fingerprint for c in (*objects.compiles, *objects.library)],
                "flags": link_flags(toolchain, "", as_tracer=True),
                "toolchain": toolchain.identity,
                "link": toolchain.link_flags,
                **addon_link_parts(),
            }
        )
        path = self.here.context.state / NAME / "shards" / f"lib{NAME}_{key[:40]}.so"
        return path, self._put(key, path, objects, now)

    def _put(self, key: str, path: Path, objects: AddonObjects, now: list[str]) -> bool:
        """Have the shard of this key at `path`: from the store, else made. Whether it came from the
        store; `now` gets the names of the units that are compiled."""
        base = self.base
        store, name = self.here.store, _stored(key, ".so")
        restored = store.restore({name: path})
        self._report_damaged(restored.damaged)
        if restored.present:
            return True
        objects = self._compiled(objects, now)
        scratch = self.here.context.state / NAME / "link"
        # nobody else links in this workspace: what is there is of a process that was killed
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir(parents=True)
        try:
            # its kernels compute what a tracer's do, to the last bit
            made = link_addon(
                self.here,
                self._toolchain.abi,
                base.extended,
                objects,
                path.name,
                scratch,
                as_tracer=True,
            )
            write_bytes(path, made.read_bytes())
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
        store.put(name, path)
        return False

    def _compiled(self, objects: AddonObjects, now: list[str]) -> AddonObjects:
        """The objects that a shard is linked of, compiled: of the C++ library what few programs
        refer to is among them where something does."""
        usual = replace(objects, library=_without_seldom(objects.library))
        now += compile_objects(self.here, usual, self.jobs, self.view)
        if not lacks_of_cxx(self.here, self.base.extended, usual):
            return usual
        now += compile_objects(self.here, objects, self.jobs, self.view)
        return objects

    def _shard_spec(self, roots: Collection[OperatorName]) -> VariantSpec:
        request = replace(self.request, extensible=False, cut=self.runtime.cut_units(roots))
        return spec_of(self.prepared, request)

    @property
    def _has(self) -> BaseHas:
        units = {unit for c in self.base_plan.plan.compiles for unit in c.units}
        return BaseHas(frozenset(units), self.base.extended.exports, self.base.called)

    @property
    def in_base(self) -> InBase:
        """The base, as guesses of a shard's operators need it."""
        has = self._has
        return InBase(has.units, has.called)

    @property
    def _groups_file(self) -> Path:
        return self.here.context.shared / NAME / f"groups-{self.runtime.index.tree}.json"

    def _report_damaged(self, damaged: Sequence[str]) -> None:
        for name in damaged:
            self.here.log(f"{name[:12]}... in the store is damaged: removed, and made again")


def _unoptimised(compiles: Iterable[Compile], layout: Layout) -> tuple[Compile, ...]:
    """The base's compilations: unoptimised but for what runs for each operator, such as kernels."""
    often = (*_OFTEN, *layout.running, *layout.kernels)
    return tuple(_unless_often(one, often) for one in compiles)


def _unless_often(one: Compile, often: tuple[str, ...], computing: Collection[str] = ()) -> Compile:
    """The compilation unoptimised, unless one of its units begins like one of `often`, or is among
    those that compute."""
    runs_often = any(unit.startswith(often) or unit in computing for unit in one.units)
    return one if runs_often else unoptimised(one)


def _together(library: Iterable[Compile]) -> Together:
    """The C++ library in few compilations; what is seldom used stays one by one."""
    return compiled_together(library, alone=ALONE | SELDOM, first=FIRST)


def _without_seldom(library: Iterable[Compile]) -> tuple[Compile, ...]:
    """The C++ library without what PyTorch refers to nothing of."""
    return tuple(one for one in library if one.unit not in SELDOM)


def _stored(name: str, suffix: str) -> str:
    """Name in the store of a file of the development library."""
    return f"shards/{name[:2]}/{name}{suffix}"
