"""The libraries that a workspace pins, ready to plan and compile with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from orchestrator.build.workshop.fetch import FetchedRuntime
from orchestrator.build.workshop.native import own_native_files
from orchestrator.libraries.declared import LibraryData, load_library
from orchestrator.libraries.index import LibraryIndex, library_index_path, load_library_index
from orchestrator.libraries.units import LibraryUnit, library_units
from orchestrator.plan.libraries import LibraryFacts, library_facts
from orchestrator.values.config.toolchain import Processor
from orchestrator.values.config.workspace import RuntimePin
from orchestrator.values.fingerprint import fingerprint

# Of a library's data, what no unit's code depends on.
_BESIDE = {"debian_suites", "indexed", "kernels", "levels", "licences"}
# Of a level's, what says how units are compiled for an index: with all of them.
_OF_LEVELS = {"macros"}


@dataclass
class PreparedLibrary:
    """A library on this machine.

    trees   folders of its pinned trees
    pinned  digests of the same: with the data, what an index must have been made of
    """

    data: LibraryData
    facts: LibraryFacts
    trees: Mapping[str, Path]
    pinned: Mapping[str, str]
    _indices: dict[Processor, LibraryIndex | None] = field(default_factory=dict)
    _units: dict[Processor, Mapping[str, LibraryUnit]] = field(default_factory=dict)

    def identity(self, processor: Processor) -> str:
        """A digest of all that the library's shipped index for a processor depends on: the pinned
        trees, and the library's data of that processor. An index with another identity is refused
        as stale."""
        data = self.data.model_dump(mode="json", exclude=_BESIDE)
        kernels = [one.model_dump(mode="json") for one in self.data.kernels[processor]]
        levels = [
            one.model_dump(mode="json", include=_OF_LEVELS)
            for one in self.data.levels.get(processor, ())
        ]
        return fingerprint(
            {"trees": dict(self.pinned), "data": data, "kernels": kernels, "levels": levels}
        )

    def index(self, processor: Processor) -> LibraryIndex | None:
        """The shipped index for a processor, where there is one. Raises IndexUnreadableError."""
        if processor not in self._indices:
            name = self.data.library
            shipped = library_index_path(name, processor).is_file()
            self._indices[processor] = (
                load_library_index(name, processor, self.identity(processor)) if shipped else None
            )
        return self._indices[processor]

    def units(self, processor: Processor) -> Mapping[str, LibraryUnit]:
        """The library's translation units for a processor: name -> unit. The first call reads the
        tree."""
        if processor not in self._units:
            units = library_units(self.data, processor, self.trees)
            self._units[processor] = {unit.name: unit for unit in units}
        return self._units[processor]


def prepare_library(pin: RuntimePin, fetched: FetchedRuntime) -> PreparedLibrary | None:
    """The library of which every tree is pinned with a runtime; None where it is not."""
    data = load_library()
    if not set(data.trees) <= set(pin.libraries):
        return None
    pinned = {name: pin.libraries[name].tree for name in sorted(data.trees)}
    trees = {name: fetched.libraries[name] for name in pinned}
    native = own_native_files()
    headers = {name: native.digest_of(name) for name in data.headers}
    digest = fingerprint({"trees": pinned, "headers": headers})
    return PreparedLibrary(data, library_facts(data, digest), trees, pinned)
