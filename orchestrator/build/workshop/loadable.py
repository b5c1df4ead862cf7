"""Checks that a runtime loads a model."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from orchestrator.export.lowering_table import lowered_for
from orchestrator.models.checks import (
    check_classes,
    check_lapack,
    check_operators,
    check_own_classes,
    check_packings,
    require_no_enums,
    require_no_named_tuples,
    require_types,
)
from orchestrator.models.coverage import unreachable_operators
from orchestrator.models.info import ModelInfo
from orchestrator.models.listing import Listing, read_listings
from orchestrator.models.offers import Offer
from orchestrator.pytorch.versions import VersionData
from orchestrator.select.backends import upgraded
from orchestrator.select.closure import Registry
from orchestrator.values.operators import OperatorName
from orchestrator.values.own_sources import OwnClass


def require_loadable(
    info: ModelInfo,
    kernels: Registry,
    version: VersionData,
    others: Iterable[Offer],
    declared: str,
    own_classes: Mapping[str, OwnClass] = MappingProxyType({}),
    canonical: bool = False,
    *,
    to_be_canonical: bool = False,
    declarable: Collection[OperatorName] = (),
    command: str | None = None,
    path: Path | None = None,
) -> frozenset[OperatorName]:
    """The operators that the model names, the runtime does not have, and no input reaches.

    Raises what orchestrator.models raises of a model that the runtime does not load.

    path: the model's file, which tells what no input reaches; None: every operator must be there
    others, declared, command: as in `check_operators`
    own_classes: as in `check_own_classes`
    canonical: whether no canonical model can be made of it, which it may be itself
    to_be_canonical: whether its canonical model is what the runtime will load
    declarable: operators that the app can have by what its app.yaml says
    """
    require_no_enums(info)
    require_no_named_tuples(info)
    require_types(info)
    known = {*kernels.by_operator, *declarable}
    lowered = frozenset() if canonical else lowered_for(version.version)
    if to_be_canonical:
        known |= {OperatorName.parse(name) for name in lowered}
    left_out = check_operators(
        info,
        known,
        version.version,
        others,
        declared,
        lowered,
        command,
        tuple if path is None else lambda: unreachable_in(info, version, read_listings(path)),
    )
    check_lapack(info, version.lapack, version.version)
    check_own_classes(info, own_classes, declared)
    check_classes(info, {*version.custom_classes, *own_classes}, version.version)
    check_packings(info, version.packings, version.version)
    return left_out


def unreachable_in(
    info: ModelInfo, version: VersionData, listings: Sequence[Listing]
) -> frozenset[OperatorName]:
    """The operators that a model names only in calls that no input can reach.

    None of them where the loader puts code of an earlier PyTorch's into the model: that may call
    any.
    """
    if upgraded(version, info.root_operators, info.archive_version):
        return frozenset()
    return frozenset(map(OperatorName.known, unreachable_operators(listings)))
