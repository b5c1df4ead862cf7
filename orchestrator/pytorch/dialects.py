"""The supported PyTorch versions, registered by hand: another one takes a folder and a line
here."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from orchestrator.errors import OrchestratorError
from orchestrator.pytorch.dialect import Dialect
from orchestrator.pytorch.v1_13 import dialect as v1_13
from orchestrator.pytorch.v2_6 import dialect as v2_6
from orchestrator.pytorch.versions import VersionData

DIALECTS: Final[Mapping[str, Dialect]] = MappingProxyType(
    {dialect.version: dialect for dialect in (v1_13.DIALECT, v2_6.DIALECT)}
)


class RuntimeUnsupportedError(OrchestratorError):
    """WORKSPACE pins an unsupported PyTorch version."""


def dialect_of(version: str, dialects: Mapping[str, Dialect] = DIALECTS) -> Dialect:
    """The dialect of PyTorch `version`. Raises `RuntimeUnsupportedError`."""
    if version not in dialects:
        raise RuntimeUnsupportedError(
            f"PyTorch {version} is not a supported runtime",
            expected="one of " + ", ".join(sorted(dialects)),
            seen=version,
            hint="change its `pytorch:` in WORKSPACE",
        )
    return dialects[version]


def load_version(version: str, dialects: Mapping[str, Dialect] = DIALECTS) -> VersionData:
    """The facts about PyTorch `version`. Raises `RuntimeUnsupportedError`."""
    return dialect_of(version, dialects).facts
