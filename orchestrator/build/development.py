"""The development library: a base that no operator's kernel is part of, shared by all models, and
shards with what a model calls, each an add-on for that base.

Both are in the user's cache, under the digest of all that they are made of, and with that of their
content in their names: see `cache/store.py`. What is there is checked before it is opened.
"""

from __future__ import annotations

import json
import os
import stat
import tempfile
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Final

from orchestrator.binary.elf import exported_symbols
from orchestrator.build.addon_link import (
    AddonObjects,
    AddonPart,
    Extended,
    addon_objects,
    compile_objects,
    link_addon,
    link_flags,
)
from orchestrator.build.build import View
from orchestrator.build.execute import carry_out, object_store, require_success
from orchestrator.build.links import DevelopmentLinks, development_links
from orchestrator.build.prepare import Prepared
from orchestrator.build.session import RuntimeSession
from orchestrator.build.variants import (
    Wanted,
    plan_objects,
    registration_units,
    spec_of,
    takes_addons,
)
from orchestrator.codegen.units import unit_of
from orchestrator.compilers.relink import EXPORTED
from orchestrator.errors import OrchestratorError
from orchestrator.index.model import aliases
from orchestrator.plan.addon import AddonNeeds, AddonRoots, addon_needs
from orchestrator.plan.development import (
    NAME,
    RECORDING,
    BasePlan,
    every_dtype,
    groups_of,
    keeping_text,
    plan_base,
)
from orchestrator.plan.extension import exports_file, version_script
from orchestrator.plan.graph import (
    VariantObjects,
    action_graph,
    registration_compiles,
    texts_of,
    unwritten,
)
from orchestrator.plan.variant import VariantSpec
from orchestrator.select.closure import Registry
from orchestrator.system.staging import write_bytes, write_if_changed
from orchestrator.values.action import count_units
from orchestrator.values.fingerprint import fingerprint

# Raised by one when shards of an earlier release must not be opened any more.
_FORMAT: Final = 1
# How many groups of operators are remembered, the newest first.
_MOST_GROUPS: Final = 64
_LONGEST: Final = 2**20
# How many shards a workspace links, those that were used last.
_MOST_SHARDS: Final = 16
_WHO: Final = frozenset({NAME})
_NONE: Final = frozenset[str]()


class NoDevelopmentLibraryError(OrchestratorError):
    """This machine, or what is to be run, has no development library."""


@dataclass(frozen=True)
class Base:
    """The base, ready to be linked against and to run.

    folder    has the library and its model runner
    units     that it is made of, and `compiled` of them now; None: it came from the store
    """

    extended: Extended
    driver: Path
    called: frozenset[str]
    units: int
    compiled: int | None


@dataclass(frozen=True)
class Shard:
    """A shard, checked and ready to be opened.

    units     of PyTorch's, without registrations; `compiled` objects now; None: from the store
    """

    path: Path
    operators: frozenset[str]
    units: int
    bytes: int
    compiled: int | None


@dataclass
class Development:
    """The development library of one runtime, for this machine.

    The caller holds the workspace's lock while it asks for `base` or `shard`.
    """

    session: RuntimeSession
    jobs: int | None
    view: View

    def require(self) -> None:
        """Raise NoDevelopmentLibraryError where there can be none."""
        session = self.session
        toolchain = session.toolchain(session.host)
        if not takes_addons(toolchain):
            raise NoDevelopmentLibraryError(
                f"there is no development library yet for {session.host}",
                place=toolchain.place,
                expected="linux on x86_64, and a toolchain of zig",
                seen=f"{toolchain.config.system} on {toolchain.config.processor},"
                f" {toolchain.driver.kind}",
                hint="trace the model on such a machine: ./orchestrate trace //apps/<app>",
            )
        version = session.runtime.version
        if not version.development:
            raise NoDevelopmentLibraryError(
                f"there is no development library yet of PyTorch {version.version}",
                expected="an app or a --runtime of another version",
                seen=f"the runtime {session.name}",
                hint="trace the model: ./orchestrate trace //apps/<app>",
            )
        if session.sources is not None:
            raise NoDevelopmentLibraryError(
                "there is no development library yet with an app's own sources",
                expected="an app without `sources:`",
                seen=", ".join(sorted(session.sources.units)),
                hint="trace it: ./orchestrate trace //apps/<app>",
            )

    @cached_property
    def prepared(self) -> Prepared:
        return self.session.prepare_planning([self.session.host])

    @cached_property
    def wanted(self) -> Wanted:
        """As a tracer: it tells observers of operators, and a tracer's objects are the base's."""
        session = self.session
        selection = every_dtype(session.runtime.index, session.kernels)
        return Wanted(
            NAME,
            session.host,
            selection,
            session.kernels,
            "tracer",
            optimize="size",
            app=NAME,
            self_relocation=False,
            extensible=True,
        )

    @cached_property
    def base_plan(self) -> BasePlan:
        session = self.session
        spec = spec_of(session, self.prepared, self.wanted)
        return plan_base(session.planner, session.kernels, spec, session.extension_symbols)

    @cached_property
    def base(self) -> Base:
        """Raises ActionFailedError, TorchgenFailedError."""
        session, plan = self.session, self.base_plan
        objects = self._base_objects(plan)
        # a tracer's code calls more of other units than the index knows
        index = session.runtime.index
        nodes = index.defining(plan.plan.spec.entry)
        entry = {name for n in nodes for name in aliases(index.names[n].split("@", 1)[0])}
        symbols = {*session.extension_symbols, *entry, *RECORDING}
        script = version_script(NAME, tuple(sorted(symbols)))
        exports = exports_file(script)
        objects = replace(objects, texts={**objects.texts, exports: script})
        links = development_links(session, self.prepared, NAME, objects, exports)
        library, driver = (Path(session.fill(link.output)) for link in (links.shared, links.driver))
        store = object_store(session)
        stored = {
            _stored(f"{links.build_id}-base", ".so"): library,
            _stored(f"{links.build_id}-driver", ".run"): driver,
        }
        given = store.give(stored)
        self._tell_damaged(given.damaged)
        compiled = None
        if given.present != stored.keys():
            compiled = self._make_base(objects, links)
            for name, path in stored.items():
                store.take(name, path)
        if not driver.stat().st_mode & stat.S_IXUSR:  # it was copied
            driver.chmod(0o755)
        names = frozenset(n for n in exported_symbols(library) if n.startswith(EXPORTED))
        version = session.runtime.version.version
        return Base(
            Extended(NAME, library, names, links.build_id, f"development, PyTorch {version}"),
            driver,
            plan.called,
            count_units(plan.plan.compiles),
            compiled,
        )

    def _base_objects(self, base: BasePlan) -> VariantObjects:
        session, plan = self.session, base.plan
        planned = (replace(plan, request=one) for one in (base.own, base.entries))
        made = registration_units(session, planned, generate=True)
        units = [unit for unit in made[base.own] if unit.name != "operators"]
        units += [unit for unit in made[base.entries] if unit.name == "operators"]
        (objects,) = plan_objects(
            session, self.prepared, [self.wanted], {NAME: plan}, {plan.request: tuple(units)}
        ).values()
        cache = session.context.cache
        keeping = unit_of("kept", keeping_text(base.kept), cache / "kept")
        compiles = registration_compiles(session.runtime.facts, plan.spec, [keeping], cache)
        return replace(
            objects,
            registrations=(*objects.registrations, *map(session.placed, compiles)),
            texts={**objects.texts, **unwritten([keeping], cache)},
        )

    def _make_base(self, objects: VariantObjects, links: DevelopmentLinks) -> int:
        session = self.session
        graph = action_graph([objects], links.all)
        drivers = {c.object: c for c in links.driver_compiles}
        graph = replace(graph, compiles={**graph.compiles, **drivers})
        carried = carry_out(
            session,
            graph,
            texts_of([objects]),
            name=NAME,
            jobs=self.jobs,
            keep_going=False,
            view=self.view,
        )
        require_success(session, graph, carried)
        return count_units(c for c in graph.compiles.values() if c.object in carried.compiled)

    def shard(self, roots: Collection[str], operators: Collection[str]) -> Shard:
        """The shard that registers `operators`, for a model with these root operators.

        Raises ActionFailedError, TorchgenFailedError, AddonLinkError.
        """
        session, base = self.session, self.base
        kernels = session.kernels_for(roots)
        groups = groups_of(operators, self._known_groups(kernels))
        parts = self._parts(kernels, session.cut_units(roots), groups)
        selection = replace(self.wanted.selection, operators=dict.fromkeys(sorted(operators), _WHO))
        objects = addon_objects(
            session, self.prepared, self._shard_spec(roots), selection, kernels, parts, frozenset()
        )
        toolchain = session.toolchain(session.host)
        key = fingerprint(
            {
                "format": str(_FORMAT),
                "base": base.extended.build_id,
                "objects": [c.fingerprint for c in (*objects.compiles, *objects.library)],
                "flags": link_flags(toolchain, ""),
                "toolchain": toolchain.identity,
            }
        )
        self._remember_groups(groups)
        path = session.context.state / NAME / "shards" / f"lib{NAME}_{key[:40]}.so"
        compiled = self._put(key, path, objects)
        os.utime(path)
        forget_old(path.parent)
        units = len({unit for part in parts for unit in part.needs.units})
        return Shard(path, frozenset(operators), units, path.stat().st_size, compiled)

    def _put(self, key: str, path: Path, objects: AddonObjects) -> int | None:
        """Have the shard of this key at `path`: from the store, else made."""
        session, base = self.session, self.base
        store, name = object_store(session), _stored(key, ".so")
        given = store.give({name: path})
        self._tell_damaged(given.damaged)
        if given.present:
            return None
        compiled = compile_objects(session, objects, self.jobs, self.view)
        with tempfile.TemporaryDirectory(prefix="orchestrator-") as folder:
            made = link_addon(
                session, session.host, base.extended, objects, path.name, Path(folder)
            )
            write_bytes(path, made.read_bytes())
        store.take(name, path)
        return compiled

    def _shard_spec(self, roots: Collection[str]) -> VariantSpec:
        session = self.session
        wanted = replace(self.wanted, extensible=False, cut=session.cut_units(roots))
        return spec_of(session, self.prepared, wanted)

    def _parts(
        self, kernels: Registry, cut: frozenset[str], groups: Sequence[frozenset[str]]
    ) -> tuple[AddonPart, ...]:
        """What each group needs that the base and the groups before it do not have."""
        session, base, plan = self.session, self.base, self.base_plan.plan
        index, dialect = session.runtime.index, session.runtime.dialect
        numbers = {unit.path: number for number, unit in enumerate(index.units)}
        there = frozenset(numbers[unit] for c in plan.compiles for unit in c.units)
        operators, before = set[str](), AddonNeeds()
        parts = []
        for group in groups:
            operators |= group
            found = addon_needs(
                index,
                dialect,
                kernels,
                AddonRoots(
                    operators=tuple(sorted(operators)),
                    has=base.extended.exports,
                    entered=base.called,
                    own=frozenset(),
                    cut=frozenset(numbers[path] for path in cut),
                    by_hand=True,
                    there=there,
                ),
            )
            more = AddonNeeds(
                units=found.units - before.units,
                called=found.called - before.called,
                direct=found.direct - before.direct,
                stubs=found.stubs - before.stubs,
            )
            parts.append(AddonPart(tuple(sorted(group)), more, more.called))
            before = found
        return tuple(parts)

    def _known_groups(self, kernels: Registry) -> tuple[frozenset[str], ...]:
        """The groups of earlier runs, of operators that there are; none where they cannot be
        read: then everything is one group."""
        try:
            with self._groups_file.open("rb") as file:
                rows = json.loads(file.read(_LONGEST))
            groups = [frozenset(map(str, row)) for row in rows["groups"]]
        except (OSError, ValueError, TypeError, KeyError):
            return ()
        known = kernels.by_operator.keys()
        return tuple(group for group in groups[:_MOST_GROUPS] if group and group <= known)

    def _remember_groups(self, groups: Iterable[frozenset[str]]) -> None:
        used = list(groups)
        rest = [one for one in self._known_groups(self.session.kernels) if one not in used]
        rows = [sorted(one) for one in (*used, *rest)][:_MOST_GROUPS]
        write_if_changed(self._groups_file, json.dumps({"format": 1, "groups": rows}) + "\n")

    @property
    def _groups_file(self) -> Path:
        return self.session.context.state / NAME / f"groups-{self.session.runtime.index.tree}.json"

    def _tell_damaged(self, damaged: Sequence[str]) -> None:
        for name in damaged:
            self.session.say(f"{name[:12]}... in the store is damaged: removed, and made again")


def forget_old(folder: Path) -> None:
    """Remove a workspace's shards but for those that were used last: the cache has them still, and
    prunes none that a workspace links."""
    used = sorted(folder.glob(f"lib{NAME}_*.so"), key=lambda path: path.stat().st_mtime)
    for path in used[:-_MOST_SHARDS]:
        path.unlink(missing_ok=True)


def _stored(name: str, suffix: str) -> str:
    """What the store calls a file of the development library."""
    return f"shards/{name[:2]}/{name}{suffix}"
