"""The operators that the supported PyTorch versions offer to models, from the shipped indices."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from orchestrator.build.workshop.runtime_index import with_ours
from orchestrator.index.model import IndexUnreadableError, load_index
from orchestrator.load.declared import Workspace
from orchestrator.models.offers import Offer, sorted_offers
from orchestrator.pytorch.dialect import Dialect
from orchestrator.pytorch.dialects import DIALECTS
from orchestrator.select.closure import registry
from orchestrator.values.config.workspace import RuntimePin


def offers(
    pins: Mapping[str, RuntimePin],
    backends: Collection[str],
    dialects: Mapping[str, Dialect] = DIALECTS,
    without: str = "",
) -> Iterator[Offer]:
    """The supported versions, oldest first; none is read before it is asked for.

    A version whose index is missing or damaged offers nothing, nor does one that WORKSPACE pins by
    another tree alone than its index was made of.
    without: a version that is left out
    """
    versions = [Offer(version, (), frozenset()) for version in dialects if version != without]
    for one in sorted_offers(versions):
        found = _offer(pins, backends, dialects[one.version])
        if found is not None:
            yield found


def other_offers(workspace: Workspace, version: str) -> Iterator[Offer]:
    """The operators of every supported version but `version`, for hints about models that it
    cannot run."""
    config = workspace.config
    return offers(config.pins, config.defaults.backends, without=version)


def _offer(
    pins: Mapping[str, RuntimePin], backends: Collection[str], dialect: Dialect
) -> Offer | None:
    try:
        index = load_index(dialect.index)
    except IndexUnreadableError:  # reported to whoever plans with it
        return None
    its = {name: pin.tree for name, pin in pins.items() if pin.pytorch == dialect.version}
    names = tuple(sorted(name for name, tree in its.items() if tree == index.tree))
    if its and not names:
        return None
    kernels = registry(with_ours(index, dialect), backends, dialect.keys)
    lapack = frozenset(dialect.facts.lapack)
    operators = frozenset(one for one in kernels.by_operator if one.qualified not in lapack)
    return Offer(dialect.version, names, operators)
