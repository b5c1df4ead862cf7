"""Unity shards: the op-agnostic units that every variant has, several of them in one compilation.

Parsing headers and instantiating the same templates is most of what these units cost (decision
0024).  A shard has only units that the empty selection or the usual operators need, so every app
shares it, and no app's selection recompiles it.  A variant that lacks a member of a shard, or
compiles one differently (hot), compiles the members one by one.  Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from orchestrator.codegen.projection import mentions_selection
from orchestrator.index.model import UnitFacts
from orchestrator.select.closure import GENERATED
from orchestrator.values.action import FIELD, Compile
from orchestrator.values.fingerprint import fingerprint, text_digest
from orchestrator.values.operators import OperatorName

# A shard's members cost so much less together than one by one: measured, decision 0024.
_SAVES = 0.2


@dataclass(frozen=True)
class UnityRules:
    """The version's data on shards.

    usual  operators that nearly every variant has: what they need makes shards of its own
    cost   members of one shard, compiled one by one, cost about so many user CPU seconds
    undefine  macros that members define for the headers that they read themselves
    alone  units that do not stand others beside them, or would change their meaning
    """

    usual: frozenset[OperatorName] = frozenset()
    cost: float = 50.0
    undefine: tuple[str, ...] = ()
    alone: frozenset[str] = frozenset()


def can_share(rules: UnityRules, unit: UnitFacts) -> bool:
    """True if a unit may be a member of a shard: it is in the source tree, its object does not
    depend on the selection, and the rules do not list it under `alone`."""
    return not (
        mentions_selection(unit) or unit.path in rules.alone or unit.path.startswith(GENERATED)
    )


def shards(rules: UnityRules, compiles: Iterable[Compile]) -> tuple[tuple[Compile, ...], ...]:
    """The members of each shard, in the order of their paths.

    Members of one shard come from one top folder and are compiled in one way; nothing stands alone.
    """
    ordered = sorted((c for c in compiles if c.language == "c++"), key=_way)
    found = []
    for _, group in groupby(ordered, key=_way):
        members = sorted(group, key=lambda c: c.unit)
        found += [part for part in _parts(members, rules.cost) if len(part) > 1]
    return tuple(found)


def _way(action: Compile) -> tuple[str, str, tuple[str, ...]]:
    header = "" if action.pch is None else action.pch.fingerprint
    return action.unit.partition("/")[0], header, action.flags


def _parts(members: Sequence[Compile], cost: float) -> list[tuple[Compile, ...]]:
    """Members in parts of about the same cost, which is at most `cost` for each."""
    total = sum(member.cost for member in members)
    count = max(1, -int(-total // cost))
    if count == 1:  # a total of 0, too
        return [tuple(members)]
    parts: list[list[Compile]] = [[] for _ in range(count)]
    before = 0.0
    for member in members:
        parts[min(count - 1, int(before / total * count))].append(member)
        before += member.cost
    return [tuple(part) for part in parts]


def shard_compile(rules: UnityRules, members: Sequence[Compile], name: str) -> Compile:
    """One compilation of several units; its source includes them, and is named by its text's
    digest.

    The members have the same flags. Its cost is theirs less what headers that are read once save.
    """
    first = members[0]
    text = shard_text(rules, members)
    return Compile(
        unit=f"unity/{name}.cpp",
        source=f"$cache/unity/{text_digest(text)}.cpp",
        language="c++",
        abi=first.abi,
        flags=first.flags,
        projection=None,
        fingerprint=fingerprint(
            {"unity": text, "members": [member.fingerprint for member in members]}
        ),
        cost=sum(member.cost for member in members) * _SAVES,
        pch=first.pch,
        members=tuple(members),
        parts={"unity": text, "members": FIELD},
    )


def shard_text(rules: UnityRules, members: Iterable[Compile]) -> str:
    """The source of a shard: its members by the names that the include path knows."""
    undefine = "".join(f"#undef {name}\n" for name in rules.undefine)
    return "".join(
        f'#include "{member.source.removeprefix("$tree/")}"\n{undefine}' for member in members
    )


def shard_files(rules: UnityRules, compiles: Iterable[Compile]) -> dict[str, str]:
    """Path (`$cache/unity/...`) -> text of the source of every shard among `compiles`."""
    return {
        action.source: shard_text(rules, action.members) for action in compiles if action.members
    }
