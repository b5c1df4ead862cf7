"""The units of a library for one processor, found in its trees by the library's data. Pure but for
reading the trees' lists and names."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from orchestrator.libraries.declared import LibraryData
from orchestrator.source.tree import TreeRules, tree_files
from orchestrator.values.action import Language
from orchestrator.values.config.app import CpuLevel
from orchestrator.values.config.toolchain import Processor

# CMake: SET(PROD_SSE_MICROKERNEL_SRCS <newline> src/... <newline> src/...)
_LIST = r"^SET\(PROD_{}_MICROKERNEL_SRCS\s+([^)]*)\)"


@dataclass(frozen=True)
class LibraryUnit:
    """One translation unit of a library.

    tree    the pin that it is of
    path    relative to that tree
    kernel  whether its time counts, and not its size
    flags   those of its instructions
    level   the CPU level that it is for; None: that of every processor
    header  a header of ours that it reads before its own text, under native/
    """

    tree: str
    path: str
    kernel: bool = False
    flags: tuple[str, ...] = ()
    level: CpuLevel | None = None
    header: str | None = None

    @property
    def name(self) -> str:
        """Its name for people and in an index: `xnnpack/src/init.c`."""
        return f"{self.tree}/{self.path}"

    @property
    def source(self) -> str:
        """Its file, with ninja's variable in front."""
        return f"$library_{self.tree}/{self.path}"

    @property
    def language(self) -> Language:
        return "c" if self.path.endswith(".c") else "c++"


def library_units(
    data: LibraryData, processor: Processor, trees: Mapping[str, Path]
) -> tuple[LibraryUnit, ...]:
    """The library's units for a processor, by name; `trees` are the folders of its pins."""
    found: dict[str, LibraryUnit] = {}
    for unit in (*_kernels(data, processor, trees[data.library]), *_rest(data, trees)):
        found.setdefault(unit.name, unit)
    return tuple(found[name] for name in sorted(found))


def _kernels(data: LibraryData, processor: Processor, tree: Path) -> Iterator[LibraryUnit]:
    for kernels in data.kernels[processor]:
        rules = TreeRules(kernels.only or ("**",))
        for name in kernels.lists:
            for path in filter(rules.counts, kernel_list(tree, name)):
                yield LibraryUnit(
                    data.library, path, True, kernels.flags, kernels.level, kernels.header
                )


def kernel_list(tree: Path, name: str) -> tuple[str, ...]:
    """The kernels that a production build of XNNPACK takes of the list `name`, such as `sse2`."""
    text = (tree / f"cmake/gen/{name}_microkernels.cmake").read_text("utf-8")
    found = re.search(_LIST.format(name.upper()), text, re.MULTILINE)
    assert found, f"cmake/gen/{name}_microkernels.cmake has no such list"
    return tuple(found[1].split())


def _rest(data: LibraryData, trees: Mapping[str, Path]) -> Iterator[LibraryUnit]:
    for units in data.rest:
        rules = TreeRules(units.globs, units.without)
        for path in tree_files(trees[units.tree], rules):
            yield LibraryUnit(units.tree, path, header=units.header)
