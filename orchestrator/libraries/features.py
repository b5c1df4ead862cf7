"""Our kernels that call a library: which of them a variant has, and the symbols they reference.

These symbols are shipped as data, since planning comes before compiling; a test compiles the
sources and compares.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated

import yaml
from pydantic import BaseModel, ConfigDict, Strict

from orchestrator.libraries.declared import DATA, Strings
from orchestrator.pytorch.dialect import Dialect
from orchestrator.values.config.app import CpuLevel


class Feature(BaseModel):
    """One source of ours, and what asks for it; the YAML file's comments explain each."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid")

    name: str
    source: str
    part: str | None = None
    operators: Strings = ()
    called: Strings = ()
    beside: Strings = ()
    unit: str | None = None
    header: str | None = None
    fast: bool = False
    level: CpuLevel | None = None
    registers: Strings = ()

    @property
    def named(self) -> str:
        """Name of the feature in `kernels: [...]`."""
        return self.part or self.name


class _Features(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True, extra="forbid")

    features: Annotated[tuple[Feature, ...], Strict(False)]


@dataclass(frozen=True)
class FeatureEntry:
    """Symbols that a feature's object leaves undefined: the library's, and PyTorch's."""

    library: frozenset[str]
    runtime: frozenset[str]


@cache
def load_features(folder: Path = DATA) -> tuple[Feature, ...]:
    """All features."""
    text = (folder / "kernels.yaml").read_text("utf-8")
    return _Features.model_validate(yaml.safe_load(text)).features


def asked_by_operators(
    operators: Collection[str], called: Collection[str], parts: Collection[str]
) -> frozenset[str]:
    """The features of these parts for models with these root operators, which called these others
    in their traces; with the features that they imply."""
    found = {
        one.name
        for one in load_features()
        if one.named in parts
        and not (set(one.operators).isdisjoint(operators) and set(one.called).isdisjoint(called))
    }
    return with_beside(found)


def with_beside(features: Collection[str]) -> frozenset[str]:
    """The features, and those that they imply; those imply others in turn."""
    found = frozenset(features)
    beside = {one.name for one in load_features() if not found.isdisjoint(one.beside)}
    return found if beside <= found else with_beside(found | beside)


def at_levels(features: Collection[str], levels: Collection[CpuLevel]) -> frozenset[str]:
    """Features out of `features` that a library with these CPU levels has."""
    without = {one.name for one in load_features() if one.level and one.level not in levels}
    return frozenset(features) - without


def asked_by_units(parts: Collection[str] | None = None) -> Mapping[str, str]:
    """Unit -> the feature of every plan that has it. parts: without it, of all."""
    return {
        one.unit: one.name
        for one in load_features()
        if one.unit and not one.operators and (parts is None or one.named in parts)
    }


def units_calling(features: Collection[str]) -> frozenset[str]:
    """The units that read a header of ours where these features are in."""
    return frozenset(one.unit for one in load_features() if one.unit and one.name in features)


def headers_of_units() -> Mapping[str, str]:
    """Unit -> the header of ours that calls a feature: the unit reads it where that is in."""
    return {one.unit: one.header for one in load_features() if one.unit and one.header}


def fast_sources() -> frozenset[str]:
    """The sources whose own loops take time."""
    return frozenset(one.source for one in load_features() if one.fast)


def sources_of(features: Collection[str]) -> tuple[str, ...]:
    """The features' sources, relative to native/, in the order of the data."""
    return tuple(one.source for one in load_features() if one.name in features)


@dataclass(frozen=True)
class OwnUnit:
    """A source of ours that registers operators, as a unit of PyTorch's does.

    source     relative to native/
    operators  that it registers
    symbols    of PyTorch's, that it leaves undefined
    """

    source: str
    operators: tuple[str, ...]
    symbols: frozenset[str]


def own_units(dialect: Dialect) -> tuple[OwnUnit, ...]:
    """The sources that register operators, in the order of the data; none for a version without
    shipped symbols."""
    entries = load_entries(dialect)
    return tuple(
        OwnUnit(one.source, one.registers, entries[one.name].runtime)
        for one in load_features()
        if one.registers and one.name in entries
    )


@cache
def load_entries(dialect: Dialect) -> Mapping[str, FeatureEntry]:
    """The shipped symbols, by feature; none for a version that has no file."""
    shipped = dialect.kernels.is_file()
    data = json.loads(dialect.kernels.read_text("utf-8")) if shipped else {}
    return {
        name: FeatureEntry(frozenset(of["library"]), frozenset(of["runtime"]))
        for name, of in data.items()
    }


def entries_text(entries: Mapping[str, FeatureEntry]) -> str:
    """The file's text; equal values give equal bytes."""
    data = {
        name: {"library": sorted(of.library), "runtime": sorted(of.runtime)}
        for name, of in sorted(entries.items())
    }
    return json.dumps(data, indent=1) + "\n"


def library_symbols(entries: Iterable[FeatureEntry]) -> frozenset[str]:
    """Symbols of the library that features refer to."""
    return frozenset(symbol for entry in entries for symbol in entry.library)


@cache
def runtime_symbols(dialect: Dialect, features: frozenset[str]) -> frozenset[str]:
    """Symbols of PyTorch that features refer to."""
    entries = load_entries(dialect)
    return frozenset(symbol for name in features for symbol in entries[name].runtime)
