"""The index of a library's units for one processor: which of them a set of symbols needs, before
anything is compiled.

It is a runtime index without operators: nodes are linker sections, edges are relocations. It is
shipped as data, tied to the digests of the pinned trees and to how the units are compiled.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from orchestrator.errors import OrchestratorError
from orchestrator.index.model import IndexUnreadableError, RuntimeIndex, load_index
from orchestrator.libraries.declared import DATA
from orchestrator.values.config.toolchain import Processor


class LibraryUnlinkableError(OrchestratorError):
    """A symbol is wanted that no unit of the library defines: a bug in our data."""


@dataclass(frozen=True)
class LibraryNeeds:
    """Closure of a set of symbols in a library: its units by name, sorted, and the bytes of the
    sections that are reached, by the index."""

    units: tuple[str, ...]
    bytes: int


@dataclass(frozen=True)
class LibraryIndex:
    """An index, and the walk over it."""

    index: RuntimeIndex

    @cached_property
    def symbols(self) -> frozenset[str]:
        """Symbols that the library defines for other objects."""
        return frozenset(self._nodes)

    @cached_property
    def _nodes(self) -> dict[str, int]:
        names = (name.split("@", 1)[0] for name in self.index.names)
        return {name: node for node, name in enumerate(names) if not name.startswith("#")}

    def needs(
        self, symbols: Collection[str], without: Collection[str] = frozenset()
    ) -> LibraryNeeds:
        """Closure of `symbols` in a library without some of its units. Raises
        LibraryUnlinkableError."""
        unknown = sorted(set(symbols) - self.symbols)
        if unknown:
            raise LibraryUnlinkableError(
                f"{self.index.pytorch} does not define {unknown[0]}",
                details="\n".join(unknown),
                hint="run: ./orchestrate library kernels",
            )
        excluded = {i for i, unit in enumerate(self.index.units) if unit.path in without}
        reached = self.reached((self._nodes[symbol] for symbol in symbols), excluded)
        owners = {self.index.owners[node] for node in reached}
        units = sorted(self.index.units[owner].path for owner in owners if owner >= 0)
        return LibraryNeeds(tuple(units), sum(self.index.sizes[node] for node in reached))

    def reached(
        self, nodes: Iterable[int], without: Collection[int] = frozenset()
    ) -> frozenset[int]:
        """The nodes that `nodes` lead to, themselves among them; none of the units `without`."""
        waiting, seen = list(nodes), set[int]()
        while waiting:
            node = waiting.pop()
            if node not in seen and self.index.owners[node] not in without:
                seen.add(node)
                waiting.extend(self.index.targets(node))
        return frozenset(seen)


def library_index_path(library: str, processor: Processor) -> Path:
    """Path of the shipped index of a library for a processor."""
    return DATA / f"{library}.{processor}.index.zst"


def load_library_index(library: str, processor: Processor, identity: str) -> LibraryIndex:
    """The shipped index. Raises IndexUnreadableError where it was made of anything else."""
    path = library_index_path(library, processor)
    index = load_index(path)
    if index.tree != identity:
        raise IndexUnreadableError(
            f"the index {path.name} was made from other sources, or by other rules",
            expected=identity,
            seen=index.tree,
            hint=f"run: ./orchestrate library index --processor {processor}",
        )
    return LibraryIndex(index)
