"""Changes between two traces of a model. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from orchestrator.values.trace import Trace

# At most so many names of a kind are listed.
_MOST_LISTED = 8


@dataclass(frozen=True)
class Change:
    """Names added to and removed from one part of a lock; none where only numbers or a digest
    changed. `detail` is what else is known of it, as text."""

    part: str
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    detail: str = ""

    def __str__(self) -> str:
        detail = (f"({self.detail})",) if self.detail else ()
        named = (*_listed("+", self.added), *_listed("-", self.removed))
        return " ".join((self.part, *named, *detail))


def changes_between(
    old: Trace, new: Trace, details: Mapping[str, str] = MappingProxyType({})
) -> tuple[Change, ...]:
    """The differences between the locks of `old` and `new`; none where they are equal.

    details: part -> what is known of its change
    """
    names = zip(_names(old).items(), _names(new).values(), strict=True)
    changes = [
        Change(part, tuple(sorted(after - before)), tuple(sorted(before - after)))
        for (part, before), after in names
        if before != after
    ]
    values = zip(_values(old).items(), _values(new).values(), strict=True)
    changes += [Change(part) for (part, before), after in values if before != after]
    return tuple(replace(change, detail=details.get(change.part, "")) for change in changes)


def _names(trace: Trace) -> dict[str, frozenset[str]]:
    """The parts of a lock that are sets of names."""
    pairs = (f"{tag}:{dtype}" for tag, dtypes in trace.kernel_tags.items() for dtype in dtypes)
    return {
        "operators": frozenset((*trace.root_operators, *trace.called_operators)),
        "never ran": frozenset(trace.unrun_operators),
        "kernel dtypes": frozenset(pairs),
        "hot tags": frozenset(trace.hot_tags),
        "custom classes": frozenset(trace.custom_classes),
        "build features": frozenset(trace.build_features),
    }


def _values(trace: Trace) -> dict[str, object]:
    """The parts that are reported as changed, without details."""
    identity = trace.identity
    return {
        "outputs": trace.outputs,
        "root operators": frozenset(trace.root_operators),
        "calls": trace.called_operators,
        "kernel calls": trace.kernel_tags,
        "multiply-adds": trace.multiply_adds,
        "coverage": trace.coverage,
        "model": identity.model,
        "inputs": identity.inputs,
        "sources": identity.sources,
        "runtime": identity.runtime,
        "backends": identity.backends,
        "tracer": identity.tracer,
    }


def _listed(sign: str, names: Iterable[str]) -> Iterable[str]:
    listed = [f"{sign}{name}" for name in names]
    more = len(listed) - _MOST_LISTED
    return [*listed[:_MOST_LISTED], f"and {sign}{more} more"] if more > 0 else listed
