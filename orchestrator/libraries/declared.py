"""The facts about each third-party library: data, read as strictly as that of PyTorch's versions.

One file per library, `data/<library>.yaml`. The files are ours, so an error in one is our bug and
raises pydantic's own error.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Final

import yaml
from pydantic import BaseModel, ConfigDict, Strict

from orchestrator.source.tree import TreeRules
from orchestrator.values.config.app import CpuLevel
from orchestrator.values.config.toolchain import Processor, System

Strings = Annotated[tuple[str, ...], Strict(False)]

DATA: Final = Path(__file__).parent / "data"
XNNPACK: Final = "xnnpack"


class _Data(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True, extra="forbid")


class PinnedTree(_Data):
    """Globs of the files of a tree that count; whether Debian's archive of it has no top folder."""

    flat: bool
    include: Strings
    exclude: Strings

    @property
    def rules(self) -> TreeRules:
        return TreeRules(self.include, self.exclude, self.flat)


class UnitSet(_Data):
    """Units of a tree that are no kernels, and the header of ours that they read first."""

    tree: str
    globs: Strings
    without: Strings = ()
    header: str | None = None


class KernelSet(_Data):
    """Lists of kernels of the library's own, and the flags of their instructions.

    only    globs of those that count; without: all
    level   the CPU level that they are for, where not every processor runs them
    header  a header of ours that they read first
    """

    lists: Strings
    flags: Strings
    only: Strings = ()
    level: CpuLevel | None = None
    header: str | None = None


class CpuLevelData(_Data):
    """A CPU level of a processor above its baseline; the YAML file's comments explain each key."""

    name: CpuLevel
    needs: Annotated[tuple[CpuLevel, ...], Strict(False)] = ()
    systems: Annotated[tuple[System, ...], Strict(False)] | None = None
    uses: Strings | None = None
    multiply_adds: int = 0
    fixed: bool = False
    macros: Mapping[str, Strings] = {}
    without: str | None = None
    own: str | None = None


class LibraryLicence(_Data):
    """A component's licence: variants have it that link one of `units`."""

    component: str
    version: str
    tree: str
    licence: str
    units: Strings
    text: str


class LibraryData(_Data):
    """The facts about one library; the YAML file's comments explain each."""

    library: str
    version: str
    debian_suites: Strings
    trees: Mapping[str, PinnedTree]
    include: Strings
    headers: Strings
    flags: Strings
    c: Strings
    cxx: Strings
    rest: Annotated[tuple[UnitSet, ...], Strict(False)]
    kernels: Mapping[Processor, Annotated[tuple[KernelSet, ...], Strict(False)]]
    indexed: Mapping[Processor, str]
    levels: Mapping[Processor, Annotated[tuple[CpuLevelData, ...], Strict(False)]]
    licences: Annotated[tuple[LibraryLicence, ...], Strict(False)]


@cache
def load_library(name: str = XNNPACK, folder: Path = DATA) -> LibraryData:
    """The facts about a library."""
    data = LibraryData.model_validate(yaml.safe_load((folder / f"{name}.yaml").read_text("utf-8")))
    assert data.library == name, f"{name}.yaml says {data.library}"
    return data
