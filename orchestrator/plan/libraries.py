"""How units of third-party libraries are compiled. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

from orchestrator.libraries.declared import LibraryData
from orchestrator.libraries.units import LibraryUnit
from orchestrator.plan.variant import VariantSpec
from orchestrator.values.action import Compile
from orchestrator.values.fingerprint import fingerprint

# Seconds of a processor: 87 for the 640 units of XNNPACK for x86-64.
_COST = 0.15


@dataclass(frozen=True)
class LibraryFacts:
    """What planning needs to know of a library.

    name, version  as its data says
    digest         of its pinned trees, and of our headers that its units read
    include        flags that put its folders on the include path
    common, c, cxx  flags of all its units, and of those in one language
    """

    name: str
    version: str
    digest: str
    include: tuple[str, ...]
    common: tuple[str, ...]
    c: tuple[str, ...]
    cxx: tuple[str, ...]

    @property
    def options(self) -> tuple[str, ...]:
        """What its headers must be told, whoever reads them."""
        return tuple(flag for flag in self.common if flag.startswith(("-DXNN_", "-DPTHREADPOOL_")))


def library_facts(data: LibraryData, digest: str) -> LibraryFacts:
    """The facts of a library, whose trees have the digest."""
    include = tuple(f"-I{folder}" for folder in data.include)
    return LibraryFacts(data.library, data.version, digest, include, data.flags, data.c, data.cxx)


def library_compiles(
    facts: LibraryFacts, spec: VariantSpec, units: Iterable[LibraryUnit]
) -> tuple[Compile, ...]:
    """The compilations of a library's units: of the toolchain alone, not of PyTorch."""
    small = "-Oz" if spec.optimize == "size" else "-Os"
    before = spec.flags_before("none")
    return tuple(_compile(facts, spec.abi, spec.toolchain, before, small, unit) for unit in units)


@cache
def _compile(
    facts: LibraryFacts,
    abi: str,
    toolchain: str,
    before: tuple[str, ...],
    small: str,
    unit: LibraryUnit,
) -> Compile:
    flags = (
        *before,
        "-O2" if unit.kernel else small,
        *facts.common,
        *(facts.c if unit.language == "c" else facts.cxx),
        *facts.include,
        *unit.flags,
    )
    if unit.header is not None:
        flags = (*flags, "-include", f"$native/{unit.header}")
    of = {"unit": unit.name, "library": facts.digest, "toolchain": toolchain, "flags": flags}
    return Compile(
        unit=unit.name,
        source=unit.source,
        language=unit.language,
        abi=abi,
        flags=flags,
        projection=None,
        fingerprint=fingerprint(of),
        cost=_COST,
    )
