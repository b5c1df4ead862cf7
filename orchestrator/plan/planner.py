"""Plans variants: from a selection to the units it needs, each with its projection and flags.

Pure: an index, a selection and a specification in; a `VariantPlan` out.  A `Planner` plans many
variants over one index and caches what they share: what an app's selection needs is computed once
for all of its ABIs, and equal compilations of two apps are one value.

A plan is sound: the units that it compiles, generates and stubs define everything that its link
keeps, which is the transitive closure of what live code references.  `tests/support/link_rule.py`
states the rule and checks plans with a different traversal.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypedDict

from orchestrator.codegen.projection import mentions_selection, projection_digest
from orchestrator.codegen.requests import RegistrationRequest
from orchestrator.errors import OrchestratorError
from orchestrator.index.model import RuntimeIndex, UnitFacts
from orchestrator.plan.native_files import variable_path
from orchestrator.plan.unity import can_share, shard_compile, shards
from orchestrator.plan.variant import RuntimeFacts, VariantPlan, VariantSpec, compilation
from orchestrator.pytorch.dialect import Dialect, DispatchKeys, Symbols
from orchestrator.select.closure import (
    GENERATED,
    Reach,
    Registry,
    reach,
    registry,
)
from orchestrator.select.needs import Needed, needed
from orchestrator.values.action import Compile, identified
from orchestrator.values.operators import OperatorName
from orchestrator.values.same import Same
from orchestrator.values.selection import Selection

# Registered by what has no Register<key>.cpp: markers of the index.
_WITHOUT_FILE = frozenset({"schema", "catchall"})


class UnitUnknownError(OrchestratorError):
    """The version's data names a unit that the index does not have: a bug in our data."""


@dataclass(frozen=True)
class _Reached:
    """Closure of a selection, and the numbers of the units that are linked for it."""

    needed: Needed
    units: frozenset[int]


@dataclass(frozen=True)
class _AppNeeds:
    """Needs of a selection, the same for every ABI.

    whole, on_demand  numbers of units, in order
    projections       unit -> digest of its projection, for op-bearing units
    bearing           digest of a projection -> a unit that has it
    """

    needed: Needed
    whole: tuple[int, ...]
    on_demand: tuple[int, ...]
    request: RegistrationRequest
    projections: Mapping[int, str]
    bearing: Mapping[str, UnitFacts]


# How a unit is compiled at some level: its number, the digest of its projection, whether it is hot,
# and whether it is lean.
_UnitKey = tuple[int, str | None, bool, bool]


@dataclass(frozen=True)
class _Shard:
    """Units, by number, that are compiled together."""

    units: frozenset[int]
    compile: Compile


class _Roots(TypedDict):
    """The arguments of a walk."""

    entry: list[int]
    operators: Iterable[OperatorName]
    units: list[int]
    cut: list[int]
    follow_calls: bool


class Planner:
    """Plans variants of one runtime."""

    def __init__(
        self, index: RuntimeIndex, facts: RuntimeFacts, kept: dict[object, object] | None = None
    ) -> None:
        """kept: where the registries to plan with keep their results, if they share a place."""
        self._kept = kept
        self.index = index
        self.facts = facts
        self._numbers = {unit.path: number for number, unit in enumerate(index.units)}
        self._entries: dict[frozenset[str], list[int]] = {}
        self._reached: dict[tuple[object, ...], _Reached] = {}
        self._apps: dict[tuple[object, ...], _AppNeeds] = {}
        self._keys: dict[tuple[Same, frozenset[str], frozenset[str]], dict[int, _UnitKey]] = {}
        self._units: dict[VariantSpec, _Units] = {}
        self._shards: dict[tuple[VariantSpec, frozenset[str]], tuple[_Shard, ...]] = {}

    def plan(self, kernels: Registry, selection: Selection, spec: VariantSpec) -> VariantPlan:
        """The plan of one variant: its units, their projections and the registrations to generate.

        Needs are remembered by selection and compilations by specification: variants of many apps
        share them. Raises UnitUnknownError where the version's data names a unit that the index
        does not have.
        """
        app = self._app(kernels, selection, spec)
        level = spec.level
        if level not in self._units:
            parallel = self._parallel if level.threaded else frozenset[int]()
            self._units[level] = _Units(self.index, self.facts, level, parallel)
        units, keys = self._units[level], self._keys_of(app, spec)
        together, alone = self._together(spec, units, app.on_demand)
        return VariantPlan(
            spec=spec,
            needed=app.needed,
            whole=units.compiles([keys[n] for n in app.whole]),
            on_demand=(*together, *units.compiles([keys[n] for n in alone])),
            request=app.request,
            selection=selection,
            bearing=app.bearing,
        )

    def forget_apps(self) -> None:
        """Free what apps need: the selections that were planned are not planned again."""
        self._reached.clear()
        self._apps.clear()
        self._keys.clear()

    def linked(
        self, units: Iterable[str], kernels: Registry, selection: Selection, spec: VariantSpec
    ) -> frozenset[str]:
        """Paths out of `units` that are linked into such a variant; units that the PyTorch version
        does not have are left out. Raises UnitUnknownError."""
        linked = self._reach(kernels, selection, spec).units
        return frozenset(unit for unit in units if self._numbers.get(unit) in linked)

    def walk(self, kernels: Registry, selection: Selection, spec: VariantSpec) -> Reach:
        """Reach of the plan's roots, with a path to each node. Raises UnitUnknownError."""
        return reach(self.index, kernels, **self._roots(selection, spec))

    def _keys_of(self, app: _AppNeeds, spec: VariantSpec) -> dict[int, _UnitKey]:
        """Keys of the compilations that an app needs, by unit number: the same for all of its
        ABIs."""
        key = (Same(app), spec.hot, spec.lean)
        if key not in self._keys:
            hot, lean = self._known(spec.hot), self._known(spec.lean)
            projections = app.projections
            units = (*app.whole, *app.on_demand)
            keys = {n: (n, projections.get(n), n in hot, n in lean) for n in units}
            self._keys[key] = keys
        return self._keys[key]

    def _known(self, paths: Iterable[str]) -> set[int]:
        """The numbers of those units that the index has."""
        return {self._numbers[path] for path in paths if path in self._numbers}

    def _together(
        self, spec: VariantSpec, units: _Units, on_demand: Iterable[int]
    ) -> tuple[list[Compile], list[int]]:
        """The shards of which a variant has all members, and its remaining units."""
        left, hot = set(on_demand), self._known(spec.hot)
        together = []
        for shard in self._shards_of(spec, units):
            if shard.units <= left and not shard.units & hot:
                together.append(shard.compile)
                left -= shard.units
        return together, sorted(left)

    def _shards_of(self, spec: VariantSpec, units: _Units) -> tuple[_Shard, ...]:
        key = (spec.level, spec.entry)
        if key not in self._shards:
            self._shards[key] = tuple(self._make_shards(spec, units)) if spec.unity else ()
        return self._shards[key]

    def _make_shards(self, spec: VariantSpec, units: _Units) -> Iterator[_Shard]:
        """Shards of what the empty selection needs, then of what the usual operators need in
        addition: a variant that lacks one of these operators compiles their units one by one."""
        rules = self.facts.unity
        taken = {self._number(path) for path in self.facts.always_for(spec.purpose)}
        made: Counter[str] = Counter()
        for operators in (frozenset[OperatorName](), rules.usual):
            found = self._least(operators, spec) - taken
            taken |= found
            members = (n for n in sorted(found) if can_share(rules, self.index.units[n]))
            for shard in shards(rules, (units.serial(n) for n in members)):
                folder = shard[0].unit.partition("/")[0]
                made[folder] += 1
                # what says how to compute in parallel reads a header of its own
                alone = {self._dialect.layout.threads} if spec.threaded else frozenset[str]()
                members_of = [member for member in shard if member.unit not in alone]
                inside = frozenset(self._numbers[member.unit] for member in members_of)
                yield _Shard(inside, units.shard(members_of, inside, f"{folder}-{made[folder]}"))

    @property
    def _dialect(self) -> Dialect:
        return self.facts.dialect

    @cached_property
    def _parallel(self) -> frozenset[int]:
        """The units that compute in parallel, where there are threads."""
        return parallel_units(self.index, self._dialect)

    @cached_property
    def _host_kernels(self) -> Registry:
        """The registrations of the backend that every variant has."""
        keys = self._dialect.keys
        return registry(self.index, (keys.host,), keys, self._kept)

    def _least(self, operators: frozenset[OperatorName], spec: VariantSpec) -> frozenset[int]:
        """The units that these operators need, with all cut that can be: however they are chosen,
        no variant with them has less."""
        selection = Selection({name: frozenset() for name in operators})
        spec = replace(spec.without_features, cut=self.facts.cuttable)
        # shards are every app's, whatever one of them has of its own
        roots = self._roots(selection, spec, own=())
        return needed(self.index, self._host_kernels, **roots).units

    def _roots(
        self, selection: Selection, spec: VariantSpec, own: Iterable[str] | None = None
    ) -> _Roots:
        """own: the app's own units; None: all that there are."""
        own = self.facts.app_units if own is None else own
        return {
            "entry": self._entry(spec.entry | spec.kernel_entry),
            "operators": selection.operators,
            "units": sorted(map(self._number, (*self.facts.always_for(spec.purpose), *own))),
            "cut": sorted(map(self._number, spec.cut)),
            "follow_calls": False,
        }

    def _reach(self, kernels: Registry, selection: Selection, spec: VariantSpec) -> _Reached:
        of_spec = (spec.entry, spec.kernel_entry, spec.purpose, spec.cut)
        key = (Same(kernels), Same(selection), *of_spec)
        if key not in self._reached:
            found = needed(self.index, kernels, **self._roots(selection, spec))
            selected = self._dialect.generated.selected
            paths = ((number, self.index.units[number].path) for number in found.generated)
            others = (number for number, path in paths if not path.startswith(selected))
            self._reached[key] = _Reached(found, found.units.union(others))
        return self._reached[key]

    def _app(self, kernels: Registry, selection: Selection, spec: VariantSpec) -> _AppNeeds:
        of_spec = (spec.entry, spec.kernel_entry, spec.purpose, spec.cut, self._by_name(spec))
        key = (Same(kernels), Same(selection), *of_spec)
        if key not in self._apps:
            self._apps[key] = self._find(kernels, selection, spec)
        return self._apps[key]

    def _find(self, kernels: Registry, selection: Selection, spec: VariantSpec) -> _AppNeeds:
        index = self.index
        reached = self._reach(kernels, selection, spec)
        found, units = reached.needed, reached.units
        generated = self._generated
        always = self._roots(selection, spec)["units"]
        whole = _registering_units(generated, kernels, selection.operators).union(always)
        projections = self._projections(selection, units)
        by_name = self._by_name(spec)
        keys = self._dialect.keys
        resolved = {}
        if by_name is not None:
            resolved = _resolved(generated, keys, kernels, selection, by_name)
        return _AppNeeds(
            needed=found,
            whole=tuple(sorted(units & whole)),
            on_demand=tuple(sorted(units - whole)),
            request=_request(generated, self._dialect, kernels, selection, found, resolved),
            projections=projections,
            bearing={digest: index.units[unit] for unit, digest in projections.items()},
        )

    def _by_name(self, spec: VariantSpec) -> frozenset[str] | None:
        """The operators that a variant looks up by name, in addition to its models'; None if all
        are registered."""
        if spec.dispatch == "table":
            return None
        units = self.facts.by_name.keys() - spec.lean
        return frozenset[str]().union(*(self.facts.by_name[unit] for unit in units))

    @cached_property
    def _generated(self) -> frozenset[int]:
        """The units that torchgen writes."""
        paths = (unit.path for unit in self.index.units)
        return frozenset(n for n, path in enumerate(paths) if path.startswith(GENERATED))

    @cached_property
    def _bearing(self) -> frozenset[int]:
        """The units that have projections."""
        return frozenset(
            number
            for number, unit in enumerate(self.index.units)
            if mentions_selection(unit) and self.facts.is_cxx(unit.path)
        )

    def _projections(self, selection: Selection, units: frozenset[int]) -> dict[int, str]:
        bearing = ((n, self.index.units[n]) for n in sorted(units & self._bearing))
        digests = {number: projection_digest(unit, selection) for number, unit in bearing}
        return {number: digest for number, digest in digests.items() if digest is not None}

    def _entry(self, symbols: frozenset[str]) -> list[int]:
        if symbols not in self._entries:
            self._entries[symbols] = entry_nodes(self.index, symbols, self._dialect.symbols)
        return self._entries[symbols]

    def _number(self, path: str) -> int:
        if path not in self._numbers:
            raise UnitUnknownError(
                f"the runtime index has no unit {path}", hint="run: ./orchestrate runtime index"
            )
        return self._numbers[path]


class _Units:
    """Compilations of units at one level: a specification without what is an app's own."""

    def __init__(
        self,
        index: RuntimeIndex,
        facts: RuntimeFacts,
        level: VariantSpec,
        parallel: frozenset[int],
    ) -> None:
        self.index = index
        self.facts = facts
        self.level = level
        self.parallel = parallel
        self._compilations: dict[tuple[int, bool, bool], Callable[[str | None], Compile]] = {}
        self._compiles: dict[_UnitKey, Compile] = {}

    def compiles(self, keys: Sequence[_UnitKey]) -> tuple[Compile, ...]:
        """The compilations of units, in order; equal ones are one value."""
        known = self._compiles
        for key in keys:
            if key not in known:
                number, projection, hot, lean = key
                known[key] = self._compilation(number, hot, lean)(projection)
        return tuple(map(known.__getitem__, keys))

    def serial(self, number: int) -> Compile:
        """A unit without a projection, as variants without threads have it."""
        return compilation(self.facts, self.level, self.index.units[number])(None)

    def shard(self, members: Sequence[Compile], inside: frozenset[int], name: str) -> Compile:
        """The compilation of a shard: all its members compute with the variant's threads where one
        does, so that shards have the same members with threads and without."""
        header = self.facts.threading
        if header is not None and not self.parallel.isdisjoint(inside):
            flags = (*members[0].flags, "-include", variable_path(header.name))
            members = [
                identified(one, {"serial": one, "header": header.digest}, flags=flags)
                for one in members
            ]
        return shard_compile(self.facts.unity, members, name)

    def _compilation(self, number: int, hot: bool, lean: bool) -> Callable[[str | None], Compile]:
        if (number, hot, lean) not in self._compilations:
            unit = self.index.units[number]
            own, none = frozenset({unit.path}), frozenset[str]()
            spec = replace(self.level, hot=own if hot else none, lean=own if lean else none)
            self._compilations[number, hot, lean] = compilation(
                self.facts, spec, unit, parallel=number in self.parallel
            )
        return self._compilations[number, hot, lean]


def parallel_units(index: RuntimeIndex, dialect: Dialect) -> frozenset[int]:
    """The units whose code asks for threads: itself, or in functions that several units have.

    They are what `at::parallel_for` was made in, which asks even without threads.
    """
    unit = dialect.layout.threads
    wanted = {f"{name}@{unit}" for name in dialect.symbols.threads}
    asking = {node for node, name in enumerate(index.names) if name in wanted}
    callers = index.callers()
    found, waiting = set[int](), list(asking)
    while waiting:
        for node in callers.get(waiting.pop(), ()):
            owner = index.owners[node]
            if owner >= 0:
                found.add(owner)
            elif node not in asking:
                asking.add(node)
                waiting.append(node)
    units = {n for n, one in enumerate(index.units) if one.path == unit}
    return frozenset(found | units)


def entry_nodes(index: RuntimeIndex, symbols: Iterable[str], known: Symbols) -> list[int]:
    """The nodes that define `symbols`, and those of the registering machinery."""
    # generated registrations, which call them, are cut out of the index's graph
    return sorted({*index.defining(symbols), *index.starting_with(known.registering)})


def _registering_units(
    generated: frozenset[int], kernels: Registry, operators: Iterable[OperatorName]
) -> set[int]:
    return {
        registration.unit
        for operator in operators
        for registration in kernels.kernels(operator)
        if registration.unit not in generated
    }


def _resolved(
    generated: frozenset[int],
    known: DispatchKeys,
    kernels: Registry,
    selection: Selection,
    by_name: frozenset[str],
) -> dict[OperatorName, str]:
    """Operators that only code calls, and that have one kernel: with its dispatch key.

    None where a tensor may carry the key of a fallback: every operator would have to heed it.
    """
    if selection.everything:
        return {}
    found = dict[OperatorName, str]()
    for operator in sorted(selection.operators):
        registrations = kernels.kernels(operator)
        # BackendSelect's is no kernel: it finds the backend and calls the operator again
        keys = {one.key for one in registrations} - {"schema", known.backend_select}
        if "fallback" in keys:
            return {}
        only = min(keys) if len(keys) == 1 else ""
        if (
            only in known.direct
            and operator not in selection.root_operators | by_name
            and all(one.unit in generated for one in registrations)
        ):
            found[operator] = only
    return found


def _request(
    generated: frozenset[int],
    dialect: Dialect,
    kernels: Registry,
    selection: Selection,
    found: Needed,
    resolved: Mapping[OperatorName, str],
) -> RegistrationRequest:
    """Registrations of the selected operators, and what live code calls in C++: entry points of
    operators, and kernels themselves."""
    registered = [
        registration
        for operator in sorted(selection.operators)
        if operator not in resolved
        for registration in kernels.kernels(operator)
        if registration.unit in generated
    ]
    kernels_of = _by_key(
        (registration.key, registration.operator)
        for registration in registered
        if registration.key not in {*_WITHOUT_FILE, dialect.keys.backend_select}
    )
    # A BackendSelect kernel redispatches to its own operator.
    redispatched = {r.operator for r in registered if r.key == dialect.keys.backend_select}
    called = {operator: key for operator, key in resolved.items() if operator in found.called}
    return RegistrationRequest(
        operators=tuple(sorted({registration.operator for registration in registered})),
        calls=tuple(
            sorted(found.called | redispatched | {*map(OperatorName, dialect.generated.always)})
        ),
        kernels=kernels_of,
        direct=_by_key(
            (key, operator)
            for key, operator in {*found.direct, *((key, name) for name, key in called.items())}
            if operator not in dict(kernels_of).get(key, ())
        ),
        resolved=tuple(sorted(called.items())),
    )


def _by_key(
    kernels: Iterable[tuple[str, OperatorName]],
) -> tuple[tuple[str, tuple[OperatorName, ...]], ...]:
    """Dispatch keys and operators as a request has them: each key once, all sorted."""
    found: dict[str, set[OperatorName]] = {}
    for key, operator in kernels:
        found.setdefault(key, set()).add(operator)
    return tuple((key, tuple(sorted(found[key]))) for key in sorted(found))
