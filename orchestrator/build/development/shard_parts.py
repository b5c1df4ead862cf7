"""Divides a shard into parts: groups of operators, each with what it needs beyond the base and the
groups before it.

A group's operators are registered by objects of its own, and the workspace remembers the groups: a
model with one operator more compiles the registration of that one. An app's own units are a part of
their own, the last: they register what they have, whatever the model calls.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from orchestrator.build.development.addon_link import AddonPart
from orchestrator.build.workshop.runtime import Runtime
from orchestrator.plan.addon import AddonNeeds, AddonRoots, addon_needs
from orchestrator.select.closure import Registry
from orchestrator.system.reading import read_json
from orchestrator.system.staging import write_if_changed
from orchestrator.values.operators import OperatorName

# How many groups of operators are remembered, the newest first.
_MOST_GROUPS: Final = 64
_LONGEST: Final = 2**20


@dataclass(frozen=True)
class BaseHas:
    """Contents of the base that a shard can use.

    units    paths of the units that it has whole
    exports  True for a symbol that it exports
    called   the operators whose typed entry points it defines
    """

    units: frozenset[str]
    exports: Callable[[str], bool]
    called: frozenset[OperatorName]


def parts_of(
    runtime: Runtime,
    kernels: Registry,
    roots: Collection[OperatorName],
    groups: Sequence[frozenset[OperatorName]],
    base: BaseHas,
) -> tuple[AddonPart, ...]:
    """The parts of a shard for a model with these root operators, in the order of `groups`."""
    index, dialect = runtime.index, runtime.dialect
    numbers = {unit.path: number for number, unit in enumerate(index.units)}
    own = frozenset(numbers[path] for path in runtime.facts.app_units)
    steps = [(group, frozenset[int]()) for group in groups]
    if own:
        steps.append((frozenset(), own))
    operators, before = set[OperatorName](), AddonNeeds()
    parts = []
    for group, whole in steps:
        operators |= group
        found = addon_needs(
            index,
            dialect,
            kernels,
            AddonRoots(
                operators=tuple(sorted(operators)),
                has=base.exports,
                entered=base.called,
                own=frozenset(),
                cut=frozenset(numbers[path] for path in runtime.cut_units(roots)),
                by_hand=True,
                there=frozenset(numbers[path] for path in base.units),
                whole=whole,
            ),
        )
        more = AddonNeeds(
            units=found.units - before.units,
            called=found.called - before.called,
            direct=found.direct - before.direct,
            stubs=found.stubs - before.stubs,
            tags=found.tags - before.tags,
        )
        parts.append(AddonPart(tuple(sorted(group)), more, more.called))
        before = found
    return tuple(parts)


def known_groups(file: Path, kernels: Registry) -> tuple[frozenset[OperatorName], ...]:
    """The groups of earlier runs, of operators that there are; none where they cannot be read: then
    everything is one group."""
    try:
        rows = read_json(file, _LONGEST)
        groups = [frozenset(map(OperatorName, row)) for row in rows["groups"]]
    except (OSError, ValueError, TypeError, KeyError):
        return ()
    known = kernels.by_operator.keys()
    return tuple(group for group in groups[:_MOST_GROUPS] if group and group <= known)


def remember_groups(
    file: Path, kernels: Registry, groups: Iterable[frozenset[OperatorName]]
) -> None:
    """Record which operators were missing together: this run's groups before those of earlier runs,
    each once, at most `_MOST_GROUPS`. A later shard takes a group as a whole."""
    used = list(groups)
    rest = [one for one in known_groups(file, kernels) if one not in used]
    rows = [sorted(one) for one in (*used, *rest)][:_MOST_GROUPS]
    write_if_changed(file, json.dumps({"format": 1, "groups": rows}) + "\n")
